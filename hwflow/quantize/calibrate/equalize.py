"""Cross-layer equalization: weights of like size in all channels, by factors that cancel between two layers.

What stands between the layers (Relu, pooling, layout) is positively homogeneous: f(s * x) = s * f(x) for s > 0.  So
output channel i of the first layer can be divided by s[i] and what the second one multiplies it with can be multiplied
by it.  s[i] = sqrt(r1[i] / r2[i]), with the largest weights r1 and r2 on both sides, makes both as large (Nagel et al.,
"Data-Free Quantization Through Weight Equalization and Bias Correction", 2019, section 4.1).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hwflow.layers.formats import IntArray
from hwflow.onnx import infer
from hwflow.onnx.model import Array, Model, Node
from hwflow.onnx.operators import LAYOUT, UNARY, named
from hwflow.onnx.rewrite.renaming import renamed
from hwflow.onnx.traits import Trait
from hwflow.quantize.calibrate.streams import Floats, runner
from hwflow.quantize.graphs import Names, attribute, consumers, dynamic_inputs, is_layer, shape_of, with_graph

_HOMOGENEOUS = named(Trait.HOMOGENEOUS)

#: Rounds over all pairs; chains of layers come to rest after a few, when no factor is further from 1 than that.
_ROUNDS = 40
_REST = 1e-3

#: Factors stay within this of 1, so that no weight or bias leaves the range of float32.
_LARGEST = 2.0**20


@dataclass(frozen=True)
class _Pair:
    """Output channel i of `first` reaches the elements k of a row of `second`'s input with channels[k] == i.

    For a Conv, k are its input channels.  `between` are the tensors from one to the other.
    """

    first: Node
    second: Node
    channels: IntArray
    between: tuple[str, ...]


def equalize(model: Model) -> Model:
    """`model`, which computes the same in real numbers, with like weights on both sides of every pair of layers.

    It must have static shapes, and weights and biases that are constants (as FLOAT_PASSES leave it).  Layers whose
    result more than one node reads, or that is an output, are left as they are on that side.  Tensors between a pair
    get new names with their new values.
    """
    model = infer(model)  # passes leave new tensors without a shape
    graph = model.graph
    read, outputs = consumers(graph), {value.name for value in graph.outputs}
    layers = [node for node in graph.nodes if is_layer(node, graph.initializers)]
    pairs = [pair for node in layers if (pair := _pair(node, model, read, outputs)) is not None]
    if not pairs:
        return model
    values = {id(n): [np.asarray(graph.initializers[name], np.float64) for name in n.inputs[1:3]]
              for pair in pairs for n in (pair.first, pair.second)}  # fmt: skip
    for _ in range(_ROUNDS):
        if max(_balance(pair, values[id(pair.first)], values[id(pair.second)]) for pair in pairs) < _REST:
            break
    names, extra, nodes = Names(graph), dict[str, Array](), list[Node]()
    scaled = {name: names.new(f"{name}_equalized") for pair in pairs for name in pair.between}
    for node in graph.nodes:
        if id(node) in values:
            inputs = [names.new(f"{name}_equalized") for name in node.inputs[1:3]]
            extra.update({name: array.astype(np.float32) for name, array in zip(inputs, values[id(node)], strict=True)})
            node = replace(node, inputs=(node.inputs[0], *inputs, *node.inputs[3:]))
        nodes.append(renamed(node, scaled))
    types = {scaled.get(name, name): kind for name, kind in graph.types.items()}
    return with_graph(replace(model, graph=replace(graph, types=types)), nodes, extra)


def _pair(first: Node, model: Model, read: dict[str, list[Node]], outputs: set[str]) -> _Pair | None:
    """Follow the result of `first` through homogeneous functions to the one layer that reads it."""
    graph, name = model.graph, first.outputs[0]
    shape = shape_of(graph, name)
    if shape is None:
        return None
    channel_axis = len(shape) - 1 if first.op_type == "Gemm" else 1
    sizes = [size if axis == channel_axis else 1 for axis, size in enumerate(shape)]
    channels = np.broadcast_to(np.arange(shape[channel_axis], dtype=np.int64).reshape(sizes), shape)
    between = [name]
    while name not in outputs and len(read.get(name, [])) == 1:
        node = read[name][0]
        if dynamic_inputs(node, graph) != (name,):
            return None
        if is_layer(node, graph.initializers):
            channels_read = _of_input(node, channels)
            return None if channels_read is None else _Pair(first, node, channels_read, tuple(between))
        behind = _behind(node, model, name, channels)
        if behind is None:
            return None
        name, channels = node.outputs[0], behind
        between.append(name)
    return None


def _behind(node: Node, model: Model, source: str, channels: IntArray) -> IntArray | None:
    """Which channel each element of the node's result comes from; None where the node is not homogeneous."""
    if node.op_type in _HOMOGENEOUS & UNARY:
        return channels
    if node.op_type in LAYOUT:
        run = runner(node, model.opsets, model.graph.initializers)
        moved = run({source: channels.astype(np.float32)})[node.outputs[0]]
        return moved.astype(np.int64)
    if node.op_type not in _HOMOGENEOUS:
        return None
    shape, of_axis = shape_of(model.graph, node.outputs[0]), _per_axis_1(channels)
    if shape is None or of_axis is None:
        return None
    return np.broadcast_to(of_axis.reshape(1, -1, *[1] * (len(shape) - 2)), shape)


def _per_axis_1(channels: IntArray) -> IntArray | None:
    """The channel of each entry of axis 1, where that alone decides."""
    if channels.ndim < 2 or not channels.size:
        return None
    first = np.moveaxis(channels, 1, 0).reshape(channels.shape[1], -1)
    return first[:, 0] if (first == first[:, :1]).all() else None


def _of_input(layer: Node, channels: IntArray) -> IntArray | None:
    if layer.op_type == "Conv":
        return _per_axis_1(channels)
    rows = channels.reshape(-1, channels.shape[-1])
    return rows[0] if (rows == rows[:1]).all() else None


def _balance(pair: _Pair, first: list[Floats], second: list[Floats]) -> float:
    """Move factors from one layer's weights to the other's, in place; how far they are from 1, at most (log)."""
    groups = attribute(pair.second, "group", 1) if pair.second.op_type == "Conv" else 1
    weights = second[0].reshape(groups, len(second[0]) // groups, second[0].shape[1], -1)
    largest = np.zeros(len(first[0]))
    np.maximum.at(largest, pair.channels, np.abs(weights).max(axis=(1, 3)).ravel())
    own = np.abs(first[0].reshape(len(first[0]), -1)).max(axis=1)
    usable = (own > 0) & (largest > 0)
    factors = np.sqrt(np.where(usable, own, 1.0) / np.where(usable, largest, 1.0))
    factors = np.clip(factors, 1 / _LARGEST, _LARGEST)
    first[0] = first[0] / factors.reshape(-1, *[1] * (first[0].ndim - 1))
    first[1] = first[1] / factors
    second[0] = (weights * _spread(factors, pair.channels, groups)).reshape(second[0].shape)
    return float(np.abs(np.log(factors)).max())


def _spread(factors: Floats, channels: IntArray, groups: int) -> npt.NDArray[np.float64]:
    """The factor of each input of the second layer, [groups, 1, inputs of a group, 1]."""
    return factors[channels].reshape(groups, 1, -1, 1)
