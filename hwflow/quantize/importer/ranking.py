"""ArgMax, ArgMin and TopK at the end of a model as a layer, where the user wants them in hardware.

What changes no order between the last layer and such a node (DequantizeLinear, Softmax, changes of layout) is left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hwflow.layers import IntFormat, Tensor, TopK
from hwflow.layers.formats import IntArray
from hwflow.onnx.model import Graph, Node
from hwflow.onnx.operators import ORDERLY
from hwflow.quantize.graphs import as_ints, attribute, label_of, producers
from hwflow.quantize.importer.importer import Importer
from hwflow.quantize.importer.layer_anchors import Matrix, TensorAnchor, raw_layer
from hwflow.quantize.importer.states import Held, Rounded, Unrounded, Unsupported

#: Real numbers at least this far apart, in a range at most this wide, stay different after exp() and a division in
#: float32.
_LEAST_STEP, _WIDEST = 2.0**-20, 87.0

#: Sums of up to this number of bits, times a scale, stay different in float32.
_SUM_BITS = 22

_REMEDY = "leave it to the host (without --hardware-argmax), or put it directly after the last layer"


@dataclass(frozen=True)
class Ranked:
    """The tensor that the layer makes, the index of the node's result in it, and whether it holds values."""

    tensor: Tensor
    index: IntArray
    values: bool


def ranked(importer: Importer, node: Node, output: str, name: str) -> Ranked:
    """`output` of `node` as a layer that is added to the importer; the layer's tensor is called `name`.

    Unsupported where something between the last layer and the node changes the order, or may.
    """
    source, orderly = _source(importer, node)
    held, x = _integers(importer, node, source, f"{name}.sums")
    rank = held.index.ndim
    axis = attribute(node, "axis", -1 if node.op_type == "TopK" else 0) % rank
    values = node.op_type == "TopK" and output == node.outputs[0]
    k, largest = _choice(node, importer.graph)
    for other in orderly:
        stated = attribute(other, "axis", -1) % rank
        if stated != axis:
            raise Unsupported(f"looks along axis {axis}, and {other.label} before it along {stated}", _REMEDY)
        if values:
            raise Unsupported(f"gives the values that {other.label} makes on the host", _REMEDY)
        _check_apart(x, x.frame.channels, orderly=other, top=largest and k == 1)
    try:
        pixels = _pixels(held.index, axis, x.frame.channels)
    except Unsupported:
        held = importer.movement.in_place(held, source)
        x = importer.tensors[held.tensor]
        pixels = _pixels(held.index, axis, x.frame.channels)
    format = x.format if values else IntFormat.covering(0, x.frame.channels - 1)
    layer = TopK(
        importer.building.name_of(node), (x.name,), name, x.format, k, largest, not values,
        bool(attribute(node, "select_last_index", 0)))  # fmt: skip
    result = Tensor(name, layer.output_frame(x.frame), format, *((x.scale, x.zero_point) if values else (1.0, 0)))
    importer.building.add(layer, result)
    index = np.moveaxis(pixels[..., None] * k + np.arange(k), -1, axis)
    if node.op_type != "TopK" and not attribute(node, "keepdims", 1):
        index = index.squeeze(axis)
    return Ranked(result, np.ascontiguousarray(index), values)


def _source(importer: Importer, node: Node) -> tuple[str, list[Node]]:
    """The tensor of the hardware that `node` reads, and what the host would compute in between: it keeps the order."""
    makers, name, orderly = producers(importer.graph), node.inputs[0], list[Node]()
    while name not in importer.states or not isinstance(importer.states[name], (Held, Unrounded, Rounded)):
        before = makers.get(name)
        if before is None or before.op_type not in ORDERLY:
            what = f"the result of {before.label}" if before else f"'{name}'"
            raise Unsupported(f"reads {what}, which may change the order of what the hardware gives", _REMEDY)
        orderly.append(before)
        name = before.inputs[0]
    return name, orderly


def _integers(importer: Importer, node: Node, name: str, sums: str) -> tuple[Held, Tensor]:
    """The integers whose order is that of the tensor `name`: quantized ones, or sums of one scale."""
    state, building = importer.states[name], importer.building
    if isinstance(state, Rounded):
        state = building.held(state)
    if isinstance(state, Unrounded) and isinstance(state.anchor, TensorAnchor) and not state.steps:
        state = Held(state.anchor.source.tensor, state.index, real=True)
    if isinstance(state, Held):
        return state, building.tensors[state.tensor]
    if not isinstance(state, Unrounded) or not isinstance(state.anchor, Matrix) or state.steps:
        raise Unsupported(f"reads '{name}', which no QuantizeLinear made integer", "quantize it, or " + _REMEDY)
    anchor = state.anchor
    layer, y, scales = raw_layer(anchor, building.tensors[anchor.source.tensor], building.name_of(anchor.node), sums)
    if np.ptp(scales) != 0 or y.format.bits > _SUM_BITS:
        raise Unsupported(
            f"reads the sums of '{label_of(anchor.node)}', which must have one scale for all channels and at most "
            f"{_SUM_BITS} bits to be compared as integers",
            "put a QuantizeLinear and DequantizeLinear after that layer, or " + _REMEDY,
        )
    y = Tensor(y.name, y.frame, IntFormat(y.format.bits, signed=True), float(scales[0]), 0)
    building.add(layer, y)
    return Held(y.name, state.index, real=True), y


def _choice(node: Node, graph: Graph) -> tuple[int, bool]:
    """k, and whether the largest are wanted."""
    if node.op_type != "TopK":
        return 1, node.op_type == "ArgMax"
    if len(node.inputs) < 2:
        return attribute(node, "k", 1), True
    if node.inputs[1] not in graph.initializers:
        raise Unsupported("its k must be a constant", _REMEDY)
    (k,) = as_ints(graph.initializers[node.inputs[1]])
    return k, bool(attribute(node, "largest", 1))


def _check_apart(x: Tensor, channels: int, *, orderly: Node, top: bool) -> None:
    """Different integers must not become equal in float32, because ties are ordered by channel."""
    spread = (x.format.high - x.format.low) * x.scale
    tight = x.scale < _LEAST_STEP or (orderly.op_type == "LogSoftmax" and x.scale < _LEAST_STEP * spread)
    if tight or not (top or spread + math.log(channels) < _WIDEST or orderly.op_type == "LogSoftmax"):
        raise Unsupported(
            f"reads what {orderly.label} makes of steps of {x.scale:.3g} in a range of {spread:.3g}, some of which "
            "become equal in float32",
            f"take {orderly.op_type} out of the model, which does not change the order, or " + _REMEDY,
        )


def _pixels(index: IntArray, axis: int, channels: int) -> IntArray:
    """The pixel at each place of an ONNX tensor without its `axis`, along which all channels of a pixel must be."""
    rows = np.moveaxis(index, axis, -1)
    pixels = rows[..., 0] // channels
    if rows.shape[-1] != channels or not np.array_equal(rows, pixels[..., None] * channels + np.arange(channels)):
        raise Unsupported(
            f"looks along axis {axis} of {list(index.shape)}, which must be the {channels} channels of a pixel",
            _REMEDY,
        )
    return np.asarray(pixels, np.int64)
