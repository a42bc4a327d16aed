"""The pass that writes nodes that pick channels or pixels between layers with operators that hardware has.

ShuffleNet V2 and its kin split the channels; shortcuts of the first residual networks take every other pixel.
"""

from __future__ import annotations

import numpy as np

from hwflow.layers.formats import IntArray
from hwflow.onnx import evaluate, infer, simplify
from hwflow.onnx.model import Array, Graph, Model, Node, TensorType, Value
from hwflow.quantize.graphs import Names, dynamic_inputs, host_prefix, host_suffix, producers, with_graph
from hwflow.quantize.operators import HOST_AFTER
from hwflow.quantize.passes.normalise import shape_of

__all__ = ["selections_to_layers"]

_SELECTING = frozenset({"Gather", "Slice", "Split"})


def selections_to_layers(model: Model) -> Model:
    """Slice, Split and Gather of whole channels become a Conv (MatMul of a row) with weights 0 and 1; a Slice of every
    n-th row or column a MaxPool with a kernel of 1x1.

    What stands in front of the first layer or behind the last stays for the host, and so does what selects otherwise.
    """
    graph = model.graph
    if not any(node.op_type in _SELECTING for node in graph.nodes):
        return model
    work, host = _Selections(model), host_prefix(graph) | host_suffix(graph, HOST_AFTER)
    for node in graph.nodes:
        single = node.op_type in _SELECTING and dynamic_inputs(node, graph) == node.inputs[:1]
        made = None if not single or node.domain or host.intersection(node.outputs) else work.layers(node)
        work.nodes += [node] if made is None else made
    return simplify(infer(with_graph(model, work.nodes, work.extra)))


class _Selections:
    """One walk; `nodes` and `extra` are what has been made so far."""

    def __init__(self, model: Model) -> None:
        self.model, self.graph = model, model.graph
        self.names, self.made = Names(model.graph), producers(model.graph)
        self.nodes: list[Node] = []
        self.extra: dict[str, Array] = {}

    def layers(self, node: Node) -> list[Node] | None:
        """Layers instead of `node`, one for each result; None where one of them is no selection of hardware's."""
        shape, kind = shape_of(self.graph, node.inputs[0]), self.graph.tensor_type(node.inputs[0])
        if shape is None or not 2 <= len(shape) <= 4 or shape[0] != 1 or kind is None or kind.dtype.kind != "f":
            return None
        places = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
        found = list[Node]()
        for result, index in self._results(node, places).items():
            strides, order = _strides(index, places), _channels(index, places)
            if strides is not None:
                pool = {"kernel_shape": (1,) * len(strides), "strides": strides}
                found.append(Node("MaxPool", node.inputs[:1], (result,), pool, f"{node.name}.{result}"))
            elif order is not None:
                found += self._picked(node, result, order, len(shape))
            else:
                return None
        return found

    def _results(self, node: Node, places: IntArray) -> dict[str, IntArray]:
        """For each result of `node` the places of its elements in the input."""
        given = {name: self.graph.initializers[name] for name in node.inputs[1:] if name}
        source = Value(node.inputs[0], TensorType(places.dtype, places.shape))
        results = tuple(Value(name, None) for name in node.outputs if name)
        graph = Graph("one node", (node,), (source,), results, given)
        return dict(evaluate(Model(graph, 10, self.model.opsets), {node.inputs[0]: places}))

    def _picked(self, node: Node, result: str, order: IntArray, rank: int) -> list[Node]:
        """A product with 0 and 1; between quantizers, where the node reads what a DequantizeLinear gives."""
        source, base = node.inputs[0], f"{node.name}.{result}"
        channels = (shape_of(self.graph, source) or ())[1]
        weights = np.eye(channels, dtype=np.int8)[order]
        weights = weights.T if rank == 2 else weights.reshape(*weights.shape, *[1] * (rank - 2))
        op, before = "MatMul" if rank == 2 else "Conv", self.made.get(source)
        kernel = self.names.new(f"{base}.kernel")
        if before is None or before.op_type != "DequantizeLinear":
            self.extra[kernel] = np.ascontiguousarray(weights, np.float32)
            return [Node(op, (source, kernel), (result,), name=base)]
        stored, scale = self.names.new(f"{kernel}.integers"), self.names.new(f"{kernel}.scale")
        self.extra[stored], self.extra[scale] = np.ascontiguousarray(weights), np.array(1, np.float32)
        real, integers = self.names.new(f"{base}.real"), self.names.new(f"{base}.integers")
        return [
            Node("DequantizeLinear", (stored, scale), (kernel,), name=kernel),
            Node(op, (source, kernel), (real,), name=base),
            Node("QuantizeLinear", (real, *before.inputs[1:]), (integers,), name=integers),
            Node("DequantizeLinear", (integers, *before.inputs[1:]), (result,), name=f"{integers}.real"),
        ]


def _strides(index: IntArray, places: IntArray) -> tuple[int, ...] | None:
    """Steps over height and width (or width alone) that give the elements of `index`, from the first one on."""
    if index.ndim != places.ndim or index.ndim < 3 or index.shape[:2] != places.shape[:2] or not index.size:
        return None
    steps = tuple(-(-size // count) for size, count in zip(places.shape[2:], index.shape[2:], strict=True))
    taken = places[(slice(None), slice(None), *(slice(None, None, step) for step in steps))]
    return steps if np.array_equal(index, taken) else None


def _channels(index: IntArray, places: IntArray) -> IntArray | None:
    """Which channels of `places` stand, whole, in `index`."""
    if index.ndim != places.ndim or not index.size or index.shape[2:] != places.shape[2:]:
        return None
    order: IntArray = index.reshape(index.shape[1], -1)[:, 0] // int(np.prod(places.shape[2:]))
    return order if np.array_equal(index, places[:, order]) else None
