"""Where an integer graph comes from: the model in reals behind its tensors, the user's nodes behind its layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

import ml_dtypes
import numpy as np

from hwflow.layers import Rearrange
from hwflow.layers.base import Layer, LayerGraph, Origin
from hwflow.layers.formats import IntArray
from hwflow.onnx.model import Array, Graph, Model, Node, TensorType, ValueType
from hwflow.onnx.operators import BEST, JOINS, LAYOUT, MAX_POOLS, MOVES
from hwflow.quantize.graphs import Names, attribute, dynamic_inputs, moves, shape_of
from hwflow.quantize.quantized import View

#: Tensor of the layer graph to the ONNX tensor behind it, and its index as in a `View`.
Places: TypeAlias = Mapping[str, tuple[str, IntArray]]


def twin(model: Model) -> tuple[Model, dict[str, str]]:
    """The QDQ `model` without the rounding of its activations; and, for each of its tensors that is an activation,
    integer or real, the tensor of the twin with the same meaning.

    A QuantizeLinear becomes a Clip to the reals that its integers can be, because quantizers leave out a Relu where
    the lowest integer does its work.  Weights stay integers behind a DequantizeLinear.  A QuantizeLinear stays where
    its integers are an output, or where the DequantizeLinear behind it has another scale.
    """
    walk = _Walk(model.graph)
    for node in model.graph.nodes:
        walk.node(node)
    constants = {**model.graph.initializers, **walk.limits}
    graph = replace(model.graph, nodes=walk.live(), initializers=constants, types={**model.graph.types, **walk.types})
    return replace(model, graph=graph), walk.sources()


class _Walk:
    """One pass over a graph; `nodes` are the twin's, with some that nobody reads any more."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.names = graph, Names(graph)
        self.outputs = {value.name for value in graph.outputs}
        self.constant = set(graph.initializers)
        self.nodes: list[Node] = []
        self.types: dict[str, ValueType] = {}
        self.limits: dict[str, Array] = {}
        #: Integer tensor to the twin's reals, and the scale and zero point that made it.
        self.reals: dict[str, str] = {}
        self.parameters: dict[str, tuple[bytes, ...]] = {}
        #: Integer tensor that no QuantizeLinear made, to what dequantizes it.
        self.entered: dict[str, str] = {}
        #: Real tensor of the model to the twin's.
        self.renamed: dict[str, str] = {}

    def node(self, node: Node) -> None:
        if all(name in self.constant for name in node.inputs if name):
            self.constant.update(node.outputs)
        node = replace(node, inputs=tuple(self.renamed.get(name, name) for name in node.inputs))
        dynamic = [name for name in dynamic_inputs(node, self.graph) if name not in self.constant]
        integer = bool(dynamic) and all(name in self.reals for name in dynamic)
        result = node.outputs[0]
        if node.op_type == "QuantizeLinear" and dynamic:
            self.parameters[result] = self._parameters(node)
            known = self.graph.tensor_type(result)
            if known is not None and len(self.parameters[result][0]) == 8:
                info = ml_dtypes.iinfo(known.dtype)  # type: ignore[no-untyped-call]
                self._limit(result, node.inputs[0], int(info.min), int(info.max))
        elif node.op_type == "Clip" and integer:
            ends = [self.graph.initializers.get(name) for name in (*node.inputs[1:], "", "")[:2]]
            self.parameters[result] = self.parameters[dynamic[0]]
            self._limit(result, self.reals[dynamic[0]], *(None if e is None else int(e.reshape(())) for e in ends))
        elif integer and (node.op_type in LAYOUT | MAX_POOLS | BEST | JOINS or moves(node, self.graph)):
            self._copy(node, dynamic[0])
        elif node.op_type == "DequantizeLinear" and integer and self.parameters[dynamic[0]] == self._parameters(node):
            real = self.reals[dynamic[0]]
            if result not in self.outputs:
                self.renamed[result] = real
                return
            node = Node("Identity", (real,), (result,), name=node.name)
        elif node.op_type == "DequantizeLinear" and dynamic:
            self.entered.setdefault(dynamic[0], result)
        self.nodes.append(node)

    def _limit(self, result: str, source: str, low: int | None, high: int | None) -> None:
        """The reals `source` inside what the integers from `low` to `high` of the tensor `result` mean."""
        scale, zero_point = (np.frombuffer(value, np.float64)[0] for value in self.parameters[result])
        name = self.names.new(f"{result}.real")
        ends = []
        for end, wish in ((low, f"{name}.low"), (high, f"{name}.high")):
            ends.append("" if end is None else self.names.new(wish))
            if end is not None:
                self.limits[ends[-1]] = np.array((end - zero_point) * scale, np.float32)
        self.nodes.append(Node("Clip", (source, *ends), (name,), name=name))
        self.reals[result] = name
        shape = shape_of(self.graph, result)
        if shape is not None:
            self.types[name] = TensorType(np.dtype(np.float32), shape)

    def _parameters(self, node: Node) -> tuple[bytes, ...]:
        """Scale and zero point as values; a zero point that is left out is 0."""
        values = [self.graph.initializers[name] for name in node.inputs[1:] if name in self.graph.initializers]
        wide: list[Array] = [np.asarray(value, np.float64) for value in values]
        if len(wide) == 1:
            wide.append(np.zeros(wide[0].shape))
        return tuple(value.ravel().tobytes() for value in wide)

    def _copy(self, node: Node, source: str) -> None:
        """`node` again, on reals."""
        node = self._padded_with_reals(node, source)
        names = {name: self.names.new(f"{name}.real") for name in node.outputs if name}
        inputs = tuple(self.reals.get(name, name) for name in node.inputs)
        copy_name = self.names.new(f"{node.name}.real") if node.name else ""
        outputs = tuple(names.get(name, "") for name in node.outputs)
        self.nodes.append(replace(node, inputs=inputs, outputs=outputs, name=copy_name))
        for name, real in names.items():
            self.reals[name], self.parameters[name] = real, self.parameters[source]
            shape = shape_of(self.graph, name)
            if shape is not None:
                self.types[real] = TensorType(np.dtype(np.float32), shape)

    def _padded_with_reals(self, node: Node, source: str) -> Node:
        """A Pad with what its integer means."""
        if node.op_type != "Pad" or attribute(node, "mode", "constant") != "constant":
            return node
        scale, zero_point = (np.frombuffer(value, np.float64)[0] for value in self.parameters[source])
        inputs = (*node.inputs, "", "")
        fill = self.graph.initializers.get(inputs[2])
        value = self.names.new(f"{node.outputs[0]}.padding")
        integer = 0.0 if fill is None or not fill.size else float(fill.reshape(-1)[0])
        self.limits[value] = np.array((integer - zero_point) * scale, np.float32)
        return replace(node, inputs=(*inputs[:2], value, *node.inputs[3:]))

    def live(self) -> tuple[Node, ...]:
        """The nodes that an output or the reals of a tensor depend on."""
        needed = self.outputs | set(self.reals.values())
        nodes = []
        for node in reversed(self.nodes):
            if needed.intersection(node.outputs):
                nodes.append(node)
                needed.update(node.inputs)
        return tuple(reversed(nodes))

    def sources(self) -> dict[str, str]:
        tensors = {name for node in self.live() for name in node.outputs} | {value.name for value in self.graph.inputs}
        return {**{name: name for name in tensors if name}, **self.entered, **self.renamed, **self.reals}


def renamed_sources(model: Model, sources: Mapping[str, str]) -> dict[str, str]:
    """`sources` with the tensors that the passes between it and `model` have made of its tensors."""
    renamed = dict(sources)
    for node in model.graph.nodes:
        names = [name for name in (node.inputs[0], node.outputs[0]) if name]
        if node.op_type in ("QuantizeLinear", "DequantizeLinear", "Clip"):
            known = next((renamed[name] for name in names if name in renamed), None)
            for name in names if known is not None else ():
                renamed.setdefault(name, known or "")
    return renamed


def views(tensors: Places, sources: Mapping[str, str], twin: Model) -> dict[str, View]:
    """A view for each tensor of the layer graph; `tensors` gives the ONNX tensor behind it and its index.

    A tensor has no view where the twin has no such reals: sums that leave the hardware as they are, and parts of a
    Concat in front of the function that follows it.
    """
    views_of = {}
    for name, (behind, index) in tensors.items():
        source = sources.get(behind)
        shape = None if source is None else shape_of(twin.graph, source)
        if source is not None and shape in (None, index.shape):
            views_of[name] = View(source, index)
    return views_of


def originals(tensors: Places, sources: Mapping[str, str], qdq: Model, original: Model) -> dict[str, View]:
    """A view for each tensor of the layer graph that `original` has, too, as reals or as the very integers.

    `tensors` and `sources` are those of `views`; `qdq` is the model that was imported.
    """
    there = {name for node in original.graph.nodes for name in node.outputs} | {v.name for v in original.graph.inputs}
    scores = {node.outputs[0]: node.inputs[0] for node in original.graph.nodes if node.op_type == "ZipMap"}
    read = {node.inputs[0]: node.outputs[0] for node in qdq.graph.nodes if node.op_type == "DequantizeLinear"}
    views_of = {}
    for name, (behind, index) in tensors.items():
        whole = name in (behind, f"{behind}.frame")  # a part of a Concat has integers in the scale of the whole
        wishes = (*((behind, read.get(behind)) if whole else ()), sources.get(behind))
        source = next((wish for wish in wishes if wish in there), None)
        if source:
            views_of[name] = View(scores.get(source, source), index)
    return views_of


#: Operators that bring elements into order.
MOVING = LAYOUT | MOVES


def origins(layers: LayerGraph, graph: Graph) -> dict[str, Origin]:
    """Nodes of `graph` by the names of `layers`: of that name, or else of the longest name that one begins with; and
    the origins of states that are known.

    A node without a name, or with one that others have too, is called like its first result.
    """
    named = dict[str, Node]()
    for node in graph.nodes:
        for name in filter(None, (node.name, *node.outputs)):
            named.setdefault(name, node)
    origin_of = {layer.name: _origin(layer, named) for layer in layers.layers}
    return {**layers.origins, **{name: origin for name, origin in origin_of.items() if origin is not None}}


def _origin(layer: Layer, named: Mapping[str, Node]) -> Origin | None:
    name = layer.name
    if name in named:
        node = named[name]
        return Origin(name, node.op_type, not isinstance(layer, Rearrange) or node.op_type in MOVING)
    for end in range(len(name) - 1, 0, -1):
        if not name[end].isalnum() and name[:end] in named:
            return Origin(name[:end], named[name[:end]].op_type, whole=False)
    return None
