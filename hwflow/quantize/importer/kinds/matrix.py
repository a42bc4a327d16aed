"""Products with constant weights: Conv, Gemm, MatMul."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hwflow.layers.formats import Frame, IntArray
from hwflow.layers.window import Window
from hwflow.onnx.model import Array, Node
from hwflow.quantize.constants import Quantity
from hwflow.quantize.graphs import as_ints, attribute
from hwflow.quantize.importer.element_places import channel_order, ordered_weights, pixel_places, window_of
from hwflow.quantize.importer.layer_anchors import Average, Matrix
from hwflow.quantize.importer.node_context import NodeContext
from hwflow.quantize.importer.states import Held, Lacking, TensorState, Unrounded, image_index


def conv(context: NodeContext, node: Node, dynamic: list[str]) -> TensorState:
    """A Conv over an image or a signal; of single pixels these may stand in any order."""
    held = context.held(dynamic[0], real=False)
    frame = context.tensors[held.tensor].frame
    if not is_pointwise(node, context.constants) or pixel_places(frame, held.index) is None:
        held = context.movement.image(held, dynamic[0])
    return padded(context, node, matrix(node, held, context.tensors[held.tensor].frame, context.constants))


def dense(context: NodeContext, node: Node, dynamic: list[str]) -> TensorState:
    """A Gemm or MatMul of one row."""
    return matrix(node, context.flat(dynamic[0]), None, context.constants)


def padded(context: NodeContext, node: Node, unrounded: Unrounded) -> Unrounded:
    """A Conv or mean of `node` whose input has the zero that its window pads with."""
    anchor = unrounded.anchor
    if not isinstance(anchor, (Matrix, Average)) or anchor.window is None or not any(anchor.window.pads):
        return unrounded
    return replace(unrounded, anchor=replace(anchor, sources=(context.building.holding_zero(anchor.source, node),)))


def matrix(node: Node, held: Held, frame: Frame | None, constants: Mapping[str, Quantity]) -> Unrounded:
    """A Conv over `frame`, or (frame None) a Gemm or MatMul over all elements of `held`."""
    if not held.real:
        raise ValueError("its input must be dequantized first (DequantizeLinear)")
    if node.inputs[1] not in constants:
        raise ValueError("its weights must be the second input, and constant")
    weights = constants[node.inputs[1]]
    if frame is None:
        _require_row(node, held, weights)
    if not weights.is_quantized:
        raise Lacking(
            f"its weights '{node.inputs[1]}' must be integers with a DequantizeLinear, as the rest is", node.inputs[1:2]
        )
    anchor, index = _conv(node, held, frame, weights) if frame is not None else _dense(node, held, weights)
    places = index.reshape(anchor.frame.channels, -1)[:, 0] % anchor.frame.channels
    if node.input(2):
        bias = constants[node.inputs[2]]
        if bias.real.size not in (1, anchor.frame.channels):
            raise ValueError(f"its bias '{node.inputs[2]}' must have one entry per output channel")

        def in_place(array: Array) -> Array:
            moved = np.empty(len(places), array.dtype)
            moved[places] = array.reshape(-1)
            return moved

        anchor = replace(anchor, bias=bias.moved(in_place))
    return Unrounded.of(anchor, index)


def _scales(weights: Quantity, axis: int) -> npt.NDArray[np.float64]:
    """One scale for each output channel; `axis` is the axis of these channels."""
    rows = np.moveaxis(weights.scale, axis, 0).reshape(weights.scale.shape[axis], -1)
    if not np.all(rows == rows[:, :1]):
        raise ValueError("its weights must have one scale per tensor or per output channel, not per input or per block")
    return rows[:, 0].copy()


def _conv(node: Node, held: Held, frame: Frame, weights: Quantity) -> tuple[Matrix, IntArray]:
    rank = held.index.ndim
    integers = weights.integers.reshape(*weights.integers.shape[:2], *(1,) * (4 - rank), *weights.integers.shape[2:])
    cout, depth = integers.shape[:2]
    groups = attribute(node, "group", 1)
    if weights.integers.ndim != rank or depth * groups != frame.channels or cout % groups:
        raise ValueError(
            f"weights {list(weights.integers.shape)} with group {groups} must fit an input of {frame.channels} channels"
        )
    window = window_of(node, weights.integers.shape[2:], frame)
    result = Frame(*window.positions(frame), cout)
    channels_last = np.ascontiguousarray(np.transpose(integers, (0, 2, 3, 1)))
    in_place = pixel_places(frame, held.index) if window == Window((1, 1)) else None
    order, pixels = in_place or (channel_order(frame, held.index), None)
    moved, groups, places = ordered_weights(channels_last, groups, order)
    scales = np.empty(cout)
    scales[places] = _scales(weights, 0)
    anchor = Matrix(node, node.outputs[0], result, (held,), moved, scales, window, groups)
    if pixels is None:
        return anchor, image_index(result, rank)[:, places]
    return anchor, (places[:, None] + pixels * cout).reshape(1, cout, *held.index.shape[2:])


def is_pointwise(node: Node, constants: Mapping[str, Quantity]) -> bool:
    """True for a Conv of single pixels, each of which gives one."""
    weights = constants.get(node.inputs[1])
    return (
        weights is not None
        and all(size == 1 for size in weights.real.shape[2:])
        and all(step == 1 for step in as_ints(node.attributes.get("strides", ())))
        and not any(as_ints(node.attributes.get("pads", ())))
    )


def _require_row(node: Node, held: Held, weights: Quantity) -> None:
    """A Gemm or MatMul has one row as its input; of more, a float model's weights have stayed floats."""
    if weights.real.ndim != 2:
        raise ValueError(f"its weights must be a matrix, not {list(weights.real.shape)}")
    cin, shape = weights.real.shape[1 if attribute(node, "transB", 0) else 0], held.index.shape
    if held.index.size != cin or shape[-1] != cin:
        raise ValueError(f"its input must be one row of {cin} elements, not {list(shape)}")


def _dense(node: Node, held: Held, weights: Quantity) -> tuple[Matrix, IntArray]:
    if attribute(node, "alpha", 1.0) != 1 or attribute(node, "beta", 1.0) != 1 or attribute(node, "transA", 0):
        raise ValueError("alpha and beta must be 1 and transA 0")
    out_axis = 0 if attribute(node, "transB", 0) else 1
    rows = weights.integers if out_axis == 0 else weights.integers.T
    cout = len(rows)
    shape = held.index.shape
    permuted = np.empty_like(rows)
    permuted[:, held.index.ravel()] = rows
    index = np.arange(cout, dtype=np.int64).reshape(*shape[:-1], cout)
    frame = Frame(1, 1, cout)
    return Matrix(node, node.outputs[0], frame, (held,), permuted, _scales(weights, out_axis), None, 1), index
