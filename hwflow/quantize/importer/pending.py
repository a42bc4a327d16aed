"""How each computing ONNX node becomes a pending result, and what may join it before its QuantizeLinear.

ValueErrors carry the reason in words for the user; the importer adds the node and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hwflow.layers.formats import Frame, IntArray
from hwflow.layers.window import Window
from hwflow.onnx.model import Graph, Node
from hwflow.quantize.constants import Quantity
from hwflow.quantize.graphs import as_ints, attribute
from hwflow.quantize.importer.geometry import pads_count, window_of
from hwflow.quantize.importer.states import Average, Held, Matrix, image_index
from hwflow.quantize.passes.normalise import reduced_axes

__all__ = ["average", "clamp_ends", "matrix", "with_bias"]


def matrix(node: Node, held: Held, frame: Frame | None, constants: Mapping[str, Quantity]) -> Matrix:
    """A Conv over `frame`, or (frame None) a Gemm or MatMul over all elements of `held`."""
    if not held.real:
        raise ValueError("its input must be dequantized first (DequantizeLinear)")
    if node.inputs[1] not in constants:
        raise ValueError("its weights must be the second input, and constant")
    weights = constants[node.inputs[1]]
    if not weights.is_quantized:
        raise ValueError(f"its weights '{node.inputs[1]}' must be integers behind a DequantizeLinear, as the rest is")
    pending = _conv(node, held, frame, weights) if frame is not None else _dense(node, held, weights)
    if len(node.inputs) < 3 or not node.inputs[2]:
        return pending
    bias = constants[node.inputs[2]]
    biased = with_bias(replace(pending, index=_channels_last(pending)), bias, flat=True)
    if biased is None:
        raise ValueError(f"its bias '{node.inputs[2]}' must have one entry per output channel")
    return replace(biased, index=pending.index)


def _channels_last(pending: Matrix) -> IntArray:
    return np.arange(pending.frame.channels, dtype=np.int64)


def _scales(weights: Quantity, axis: int) -> npt.NDArray[np.float64]:
    """One scale per output channel, which stands at `axis`."""
    rows = np.moveaxis(weights.scale, axis, 0).reshape(weights.scale.shape[axis], -1)
    if not np.all(rows == rows[:, :1]):
        raise ValueError("its weights must have one scale per tensor or per output channel, not per input or per block")
    return rows[:, 0].copy()


def _conv(node: Node, held: Held, frame: Frame, weights: Quantity) -> Matrix:
    rank = held.index.ndim
    integers = weights.integers.reshape(*weights.integers.shape[:2], *(1,) * (4 - rank), *weights.integers.shape[2:])
    cout, depth = integers.shape[:2]
    groups = attribute(node, "group", 1)
    if weights.integers.ndim != rank or depth * groups != frame.channels or cout % groups:
        raise ValueError(
            f"weights {list(weights.integers.shape)} with group {groups} must fit an input of {frame.channels} channels"
        )
    window = window_of(node, weights.integers.shape[2:], frame)
    made = Frame(*window.positions(frame), cout)
    return Matrix(
        node,
        held,
        made,
        image_index(made, rank),
        weights=np.ascontiguousarray(np.transpose(integers, (0, 2, 3, 1))),
        scales=_scales(weights, 0),
        bits=weights.bits,
        window=window,
        groups=groups,
    )


def _dense(node: Node, held: Held, weights: Quantity) -> Matrix:
    if weights.integers.ndim != 2:
        raise ValueError(f"its weights must be a matrix, not {list(weights.integers.shape)}")
    if attribute(node, "alpha", 1.0) != 1 or attribute(node, "beta", 1.0) != 1 or attribute(node, "transA", 0):
        raise ValueError("alpha and beta must be 1 and transA 0")
    out_axis = 0 if attribute(node, "transB", 0) else 1
    rows = weights.integers if out_axis == 0 else weights.integers.T
    cout, cin = rows.shape
    shape = held.index.shape
    if held.index.size != cin or shape[-1] != cin:
        raise ValueError(f"its input must be one row of {cin} elements, not {list(shape)}")
    permuted = np.empty_like(rows)
    permuted[:, held.index.ravel()] = rows
    index = np.arange(cout, dtype=np.int64).reshape(*shape[:-1], cout)
    return Matrix(
        node,
        held,
        Frame(1, 1, cout),
        index,
        weights=permuted,
        scales=_scales(weights, out_axis),
        bits=weights.bits,
        window=None,
        groups=1,
    )


def with_bias(pending: Matrix, bias: Quantity, flat: bool = False) -> Matrix | None:
    """`pending` plus a constant; None where it has no single value per channel, or comes behind a Relu or Clip.

    The constant is broadcast to the ONNX shape of the result (`flat`: to [channels], the bias input of a node).
    """
    if pending.low != -np.inf or pending.high != np.inf:
        return None
    shape, channels = pending.index.shape, pending.frame.channels
    channel = pending.index.ravel() % channels

    def per_channel(values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic] | None:
        full = np.broadcast_to(values.reshape(-1) if flat else values, shape).ravel()
        result = np.zeros(channels, values.dtype)
        result[channel] = full
        return result if np.array_equal(result[channel], full) else None

    try:
        real = per_channel(bias.real)
        integers, scale = (per_channel(v) if bias.is_quantized else v for v in (bias.integers, bias.scale))
    except ValueError:
        return None
    if real is None or integers is None or scale is None:
        return None
    term = Quantity(real.astype(np.float64), integers.astype(np.int64), scale.astype(np.float64), bias.bits)
    return replace(pending, biases=(*pending.biases, term))


def clamp_ends(node: Node, constants: Mapping[str, Quantity]) -> tuple[float, float]:
    """Lower and upper limit of a Relu or Clip."""
    if node.op_type == "Relu":
        return 0.0, np.inf
    names = (*node.inputs[1:], "", "")[:2]
    low, high = (
        float(constants[name].real.reshape(())) if name else default
        for name, default in zip(names, (-np.inf, np.inf), strict=True)
    )
    return low, high


def average(node: Node, held: Held, frame: Frame, graph: Graph) -> Average:
    """An AveragePool, GlobalAveragePool, or ReduceMean over height and width, of `held`."""
    if not held.real:
        raise ValueError("its input must be dequantized first (DequantizeLinear)")
    if node.op_type == "AveragePool":
        window = window_of(node, as_ints(node.attributes["kernel_shape"]), frame)
        _check_average(node, window, frame)
        made = Frame(*window.positions(frame), frame.channels)
        return Average(node, held, made, image_index(made, held.index.ndim), window)
    if node.op_type == "GlobalAveragePool":
        index = np.arange(frame.channels, dtype=np.int64).reshape(1, frame.channels, *(1,) * (held.index.ndim - 2))
    else:
        index = _mean_index(node, held, frame, graph)
    whole = Window((frame.height, frame.width))
    return Average(node, held, Frame(1, 1, frame.channels), index, whole)


def _check_average(node: Node, window: Window, frame: Frame) -> None:
    if window.dilations != (1, 1):
        raise ValueError("an average over a dilated window has no hardware")
    if attribute(node, "ceil_mode", 0):
        floor = replace(node, attributes={**node.attributes, "ceil_mode": 0})
        if window_of(floor, as_ints(node.attributes["kernel_shape"]), frame) != window:
            raise ValueError("with ceil_mode its last windows average fewer elements than the others; use ceil_mode 0")
    if not attribute(node, "count_include_pad", 0) and pads_count(window, frame):
        raise ValueError(
            "windows at the edges average fewer elements than the others (count_include_pad 0 with padding); "
            "use count_include_pad 1, or no padding"
        )


def _mean_index(node: Node, held: Held, frame: Frame, graph: Graph) -> IntArray:
    """The index of a ReduceMean's result: each entry must be the mean of one whole channel."""
    axes = reduced_axes(node, graph, held.index.ndim)
    kept = tuple(k for k in range(held.index.ndim) if k not in axes)
    rows = np.transpose(held.index, (*kept, *axes)).reshape(*(held.index.shape[k] for k in kept), -1)
    channel = rows[..., 0] % frame.channels
    if rows.shape[-1] != frame.height * frame.width or not np.all(rows % frame.channels == channel[..., None]):
        raise ValueError("a mean must be over height and width, all of them, and not over channels")
    if attribute(node, "keepdims", 1):
        shape = [1 if k in axes else size for k, size in enumerate(held.index.shape)]
        return np.asarray(channel, np.int64).reshape(shape)
    return np.asarray(channel, np.int64)
