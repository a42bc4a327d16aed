"""Passes around functions of one element.

`functions_before_moves` computes functions before their elements move, where a layer is that can take them in: behind
a transposed convolution, an upsampling or a pixel shuffle stand the batch normalization and the activation of the
layer in front.

`prelu_to_relu` writes a PRelu whose slopes differ by channel with Relu and sums:

PRelu(x) = Relu(x) - slope * Relu(-x).  No table for all elements holds one function per channel.  Limits of a product's
sums do, but only of functions that rise: where no slope is negative.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hwflow.layers.formats import IntArray
from hwflow.onnx import infer, simplify
from hwflow.onnx.model import Array, Graph, Model, Node
from hwflow.onnx.operators import AFFINE, HOST_BEFORE, LAYOUT, PADS, UNARY
from hwflow.quantize.graphs import (
    Additions,
    apply,
    consumers,
    dynamic_inputs,
    host_prefix,
    is_layer,
    label_of,
    moves,
    producers,
    shape_of,
    with_graph,
)


def functions_before_moves(model: Model) -> Model:
    """A function of one tensor behind nodes that move its elements becomes the same function in front of them.

    Its constants per channel become those of the channels that the elements come from.
    """
    if not any(node.op_type == "Transpose" or moves(node, model.graph) for node in model.graph.nodes):
        return model
    walk = _Walk(model)
    for node in model.graph.nodes:
        walk.node(node)
    return simplify(infer(with_graph(model, walk.nodes, walk.added.initializers)))


class _Walk:
    """One walk; `nodes` are those of the result so far."""

    def __init__(self, model: Model) -> None:
        self.model, self.graph = model, model.graph
        self.added, self.made, self.read = Additions(model.graph), producers(model.graph), consumers(model.graph)
        self.outputs = {value.name for value in model.graph.outputs}
        self.front = host_prefix(model.graph, HOST_BEFORE)
        self.nodes: list[Node] = []
        #: Results that this walk made, to the tensors of the model that have their shape.
        self.like: dict[str, str] = {}

    def _shape(self, name: str) -> tuple[int, ...] | None:
        return shape_of(self.graph, self.like.get(name, name))

    def node(self, node: Node) -> None:
        sources = set(dynamic_inputs(node, self.graph))
        chain = self._chain(next(iter(sources))) if node.op_type in AFFINE | UNARY and len(sources) == 1 else []
        constants = self._constants(node, chain) if chain else None
        if constants is None:
            self.nodes.append(node)
            return
        gone = {id(other) for other in chain}
        self.nodes = [other for other in self.nodes if id(other) not in gone]
        start, result = chain[0].inputs[0], self.added.new(f"{node.outputs[0]}.unmoved")
        inputs = tuple(start if name in sources else constants.get(name, name) for name in node.inputs)
        self.like[result] = self.like.get(start, start)
        first = replace(node, inputs=inputs, outputs=(result,))
        self.nodes.append(first)
        self.made[result] = first
        for step in chain:  # what they make has new values, and so a new name
            old, source = step.outputs[0], result
            result = node.outputs[0] if step is chain[-1] else self.added.new(f"{old}.computed")
            self.like[result] = self.like.get(old, old)
            step = replace(step, inputs=(source, *step.inputs[1:]), outputs=(result,))
            self.read[source] = [step]
            self.nodes.append(step)
            self.made[result] = step

    def _chain(self, name: str) -> list[Node]:
        """The nodes that move elements in front of the tensor `name`, which nothing else reads, the first one first.

        Nothing where all they do is to change the shape.
        """
        chain = list[Node]()
        while name in self.made and name not in self.outputs and len(self.read.get(name, [])) == 1:
            node = self.made[name]
            movable = node.op_type in LAYOUT or (moves(node, self.graph) and node.op_type not in PADS)
            cropped = node.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
            if not movable or cropped or len(node.outputs) != 1 or node.inputs[0] in self.front:
                break
            chain.insert(0, node)
            name = node.inputs[0]
        while chain and not self._starts(chain[0].inputs[0]):
            chain = chain[1:]
        return chain if any(node.op_type == "Transpose" or node.op_type not in LAYOUT for node in chain) else []

    def _starts(self, name: str) -> bool:
        """True for an image, or a row, whose channels are axis 1."""
        shape = self._shape(name)
        return shape is not None and 2 <= len(shape) <= 4 and shape[0] == 1

    def _constants(self, node: Node, chain: list[Node]) -> dict[str, str] | None:
        """New names for the constants of `node`; None where they differ inside a channel of the unmoved tensor."""
        shape = self._shape(chain[0].inputs[0]) or ()
        index = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
        for step in chain:
            parameters = {name: self.graph.initializers[name] for name in step.inputs[1:] if name}
            index = np.asarray(apply(step, self.model.opsets, {step.inputs[0]: index, **parameters}), np.int64)
        if index.size < np.prod(shape) and len(self.read.get(chain[0].inputs[0], [])) > 1:
            return None  # others read it too, and less is computed behind the choice
        channel = index // int(np.prod(shape[2:])) % shape[1]
        names = dict[str, str]()
        for name in node.inputs:
            value = self.graph.initializers.get(name)
            if value is None or (value.size == 1 and node.op_type != "BatchNormalization"):
                if value is not None and value.ndim > len(shape):  # it would give the tensor another axis
                    names[name] = self.added.constant(f"{label_of(node)}.{name}.unmoved", value.reshape(()))
                continue
            moved = per_channel(node, value, channel, shape)
            if moved is None:
                return None
            names[name] = self.added.constant(f"{label_of(node)}.{name}.unmoved", moved)
        return names


def per_channel(node: Node, value: Array, channel: IntArray, shape: tuple[int, ...]) -> Array | None:
    """`value`, which meets elements of these channels, one entry for each channel of `shape`; None if there is none."""
    norm = node.op_type == "BatchNormalization"
    try:
        full = np.broadcast_to(value.reshape(-1, *[1] * (channel.ndim - 2)) if norm else value, channel.shape).ravel()
    except ValueError:
        return None
    moved = np.full(shape[1], full[0], value.dtype)  # that of channels which nothing reads does not matter
    moved[channel.ravel()] = full
    if not np.array_equal(moved[channel.ravel()], full):
        return None
    return moved if norm else moved.reshape(-1, *[1] * (len(shape) - 2))


Floats = npt.NDArray[np.float64]


def prelu_to_relu(model: Model) -> Model:
    """A Conv or Gemm in front gives x and -x of every channel, a Relu follows, and a layer adds both up again.

    A PRelu with one slope or with slopes by place stays as it is, and so does one behind a Conv or Gemm of its own
    where no slope is negative.
    """
    graph = model.graph
    added = Additions(graph)
    read, makers = consumers(graph), producers(graph)
    outputs = {value.name for value in graph.outputs}
    nodes = {id(node): [node] for node in graph.nodes}

    for node in graph.nodes:
        slopes = _slopes(node, graph) if node.op_type == "PRelu" else None
        if slopes is None:
            continue
        source, base = node.inputs[0], label_of(node)
        before = makers.get(source)
        alone = len(read[source]) == 1 and source not in outputs
        own = before if before is not None and is_layer(before, graph.initializers) and alone else None
        if own is not None and slopes.min() >= 0:
            continue
        both, positive = added.new(f"{base}.both"), added.new(f"{base}.positive")
        if own is not None:
            nodes[id(own)] = [_doubled(own, both, graph, added)]
            first = []
        else:
            first = [_split(source, both, len(slopes), len(shape_of(graph, source) or ()), added)]
        last = _added(positive, slopes, len(shape_of(graph, source) or ()), base, added)
        nodes[id(node)] = [
            *first,
            Node("Relu", (both,), (positive,), name=positive),
            replace(last, outputs=node.outputs, name=base),
        ]
    return with_graph(model, [new for node in graph.nodes for new in nodes[id(node)]], added.initializers)


def _slopes(node: Node, graph: Graph) -> Floats | None:
    """One slope per channel (axis 1); None for other PRelu nodes."""
    shape, slope = shape_of(graph, node.inputs[0]), graph.initializers.get(node.inputs[1])
    if shape is None or len(shape) < 2 or slope is None or slope.size == 1:
        return None
    full = np.moveaxis(np.broadcast_to(np.asarray(slope, np.float64), shape), 1, 0).reshape(shape[1], -1)
    return full[:, 0].copy() if np.all(full == full[:, :1]) else None


def _doubled(node: Node, result: str, graph: Graph, added: Additions) -> Node:
    """`node` with outputs x0, -x0, x1, -x1, ..."""
    weights, bias = (np.asarray(graph.initializers[name], np.float64) for name in node.inputs[1:3])
    signs = np.tile([1.0, -1.0], len(bias))
    signed = np.repeat(weights, 2, axis=0) * signs.reshape(-1, *[1] * (weights.ndim - 1))
    inputs = (
        node.inputs[0],
        added.float32(f"{node.inputs[1]}.both", signed),
        added.float32(f"{node.inputs[2]}.both", np.repeat(bias, 2) * signs),
    )
    return replace(node, inputs=inputs, outputs=(result,))


def _split(source: str, result: str, channels: int, rank: int, added: Additions) -> Node:
    """x0, -x0, x1, -x1, ... of a tensor."""
    signs = np.tile([1.0, -1.0], channels)
    bias = added.float32(f"{result}.bias", np.zeros(2 * channels))
    if rank == 2:
        weights = np.repeat(np.eye(channels), 2, axis=0) * signs[:, None]
        inputs = (source, added.float32(f"{result}.weight", weights), bias)
        return Node("Gemm", inputs, (result,), {"transB": 1}, result)
    inputs = (source, added.float32(f"{result}.weight", signs.reshape(-1, 1, *[1] * (rank - 2))), bias)
    return Node("Conv", inputs, (result,), {"group": channels}, result)


def _added(source: str, slopes: Floats, rank: int, base: str, added: Additions) -> Node:
    """Relu(x) - slope * Relu(-x) of each pair of channels."""
    channels = len(slopes)
    pairs = np.stack([np.ones(channels), -slopes], axis=1)
    bias = added.float32(f"{base}.bias", np.zeros(channels))
    if rank == 2:
        weights = np.zeros((channels, channels, 2))
        weights[np.arange(channels), np.arange(channels)] = pairs
        inputs = (source, added.float32(f"{base}.weight", weights.reshape(channels, -1)), bias)
        return Node("Gemm", inputs, (), {"transB": 1})
    inputs = (source, added.float32(f"{base}.weight", pairs.reshape(channels, 2, *[1] * (rank - 2))), bias)
    return Node("Conv", inputs, (), {"group": channels})
