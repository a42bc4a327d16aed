"""The pass that writes nodes that pick channels or pixels between layers with operators that hardware has.

ShuffleNet V2 and its kin split the channels; shortcuts of the first residual networks take every other pixel.
"""

from __future__ import annotations

import numpy as np

from hwflow.layers.formats import IntArray
from hwflow.onnx import evaluate, infer, simplify
from hwflow.onnx.model import Array, Graph, Model, Node, TensorType, Value
from hwflow.quantize.graphs import Names, dynamic_inputs, host_prefix, host_suffix, producers, shape_of, with_graph
from hwflow.quantize.operators import HOST_AFTER, LAYOUT, MAX_POOLS, QUANTIZERS

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
        if shape is None or not 2 <= len(shape) <= 4 or shape[0] != 1 or kind is None:
            return None
        if kind.dtype.kind != "f" and not self._parameters(node.inputs[0]):
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

    def _parameters(self, name: str) -> tuple[str, ...]:
        """Scale and zero point of integers, or of what a DequantizeLinear gives; nothing where no quantizer made it."""
        while name in self.made and self.made[name].op_type in LAYOUT | MAX_POOLS | _SELECTING:
            name = self.made[name].inputs[0]
        before = self.made.get(name)
        return before.inputs[1:] if before is not None and before.op_type in QUANTIZERS else ()

    def _picked(self, node: Node, result: str, order: IntArray, rank: int) -> list[Node]:
        """A product with 0 and 1; between quantizers of its own, where the model has some around it."""
        source, base = node.inputs[0], f"{node.name}.{result}"
        channels = (shape_of(self.graph, source) or ())[1]
        weights = np.eye(channels, dtype=np.int8)[order]
        weights = weights.T if rank == 2 else weights.reshape(*weights.shape, *[1] * (rank - 2))
        op, parameters = "MatMul" if rank == 2 else "Conv", self._parameters(source)
        kernel = self.names.new(f"{base}.kernel")
        if not parameters:
            self.extra[kernel] = np.ascontiguousarray(weights, np.float32)
            return [Node(op, (source, kernel), (result,), name=base)]
        stored, scale = self.names.new(f"{kernel}.integers"), self.names.new(f"{kernel}.scale")
        self.extra[stored], self.extra[scale] = np.ascontiguousarray(weights), np.array(1, np.float32)
        kind = self.graph.tensor_type(source)
        is_integer = kind is not None and kind.dtype.kind != "f"
        real, product = self.names.new(f"{base}.real"), self.names.new(f"{base}.product")
        integers = result if is_integer else self.names.new(f"{base}.integers")
        made = [
            Node("DequantizeLinear", (stored, scale), (kernel,), name=kernel),
            Node(op, (real if is_integer else source, kernel), (product,), name=base),
            Node("QuantizeLinear", (product, *parameters), (integers,), name=f"{base}.quantize"),
        ]
        if is_integer:
            return [Node("DequantizeLinear", (source, *parameters), (real,), name=real), *made]
        return [*made, Node("DequantizeLinear", (integers, *parameters), (result,), name=f"{base}.dequantize")]


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
