"""Deformable convolution: each kernel element reads the input at a learned offset (Dai et al., arXiv:1703.06211)."""

from __future__ import annotations

import itertools
import math

import numpy as np

from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.convolution import check_bias, conv_windows
from hwflow.onnx.ops.precision import working_type
from hwflow.onnx.ops.windows import Windows


def _windows(call: Call, x: Arr | Known, w: Arr | Known, offset: Arr | Known, mask: Arr | Known | None) -> Windows:
    windows, groups = conv_windows(call, x, w), call.integer("offset_group")
    if groups < 1 or x.shape[1] % groups:
        raise call.error(f"'offset_group' must divide the {x.shape[1]} channels, not be {groups}")
    taps = groups * math.prod(windows.kernel)
    for name, given, channels in (("offset", offset, taps * len(windows.kernel)), ("mask", mask, taps)):
        wanted = (x.shape[0], channels, *windows.outputs)
        if given is not None and given.shape != wanted:
            raise call.error(f"the input '{name}' must have the shape {list(wanted)}, not {list(given.shape)}")
    return windows


def _deform_conv(
    call: Call, x: Arr, w: Arr, offset: Arr, b: Arr | None = None, mask: Arr | None = None
) -> Arr:
    """x [n, c, *sizes], w [m, c / groups, *kernel], offset [n, offset groups * taps * axes, *outputs],
    mask [n, offset groups * taps, *outputs] to [n, m, *outputs]."""
    windows, wide = _windows(call, x, w, offset, mask), working_type(x.dtype)
    check_bias(call, b, w.shape[0])
    (n, c), rank, parts = x.shape[:2], len(windows.kernel), call.integer("offset_group")
    taps, pixels = math.prod(windows.kernel), math.prod(windows.outputs)
    call.check_size((n, w.shape[0], pixels), wide)
    call.check_size((c, taps, pixels), np.dtype(np.float64))
    call.work(n * pixels * taps * (math.prod(w.shape[:2]) + (c << rank)))
    rows = w.astype(wide, copy=False).reshape(call.integer("group"), -1, w.shape[1] * taps)
    still = _places(windows)
    y = np.empty((n, w.shape[0], *windows.outputs), wide)
    for sample in range(n):
        moved = offset[sample].reshape(parts, taps, rank, pixels).astype(np.float64)
        weight = np.ones((parts, taps, pixels)) if mask is None else mask[sample].reshape(parts, taps, pixels)
        planes = x[sample].astype(wide, copy=False).reshape(parts, c // parts, -1)
        read = np.stack(
            [_sample(planes[g], windows.sizes, still + moved[g].swapaxes(0, 1), weight[g]) for g in range(parts)]
        )
        columns = read.astype(wide, copy=False).reshape(len(rows), -1, pixels)
        y[sample] = np.matmul(rows, columns).reshape(y.shape[1:])
    if b is not None:
        y += b.astype(wide, copy=False).reshape(-1, *(1,) * rank)
    return y.astype(x.dtype, copy=False)


def _places(windows: Windows) -> Arr:
    """Where each kernel element stands at each output without offsets: [axes, taps, pixels]."""
    rank = len(windows.kernel)
    places = []
    for axis in range(rank):
        tap = np.arange(windows.kernel[axis]) * windows.dilations[axis] - windows.pads[axis][0]
        at = np.arange(windows.outputs[axis]) * windows.strides[axis]
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = len(tap), len(at)
        grid = np.broadcast_to((tap[:, None] + at).reshape(shape), windows.kernel + windows.outputs)
        places.append(grid.reshape(math.prod(windows.kernel), -1))
    return np.stack(places)


def _sample(planes: Arr, sizes: tuple[int, ...], at: Arr, weight: Arr) -> Arr:
    """Linear interpolation of planes [c, elements] at places [axes, taps, pixels], 0 outside, times the weight."""
    low = np.floor(at)
    share = at - low
    total = np.zeros((len(planes), *weight.shape), planes.dtype)
    for corner in itertools.product((0, 1), repeat=len(sizes)):
        index, factor = np.zeros(weight.shape, np.int64), weight
        for axis, (step, size) in enumerate(zip(corner, sizes, strict=True)):
            place = low[axis] + step
            inside = (place >= 0) & (place < size)
            index = index * size + np.where(inside, place, 0).astype(np.int64)
            factor = factor * np.where(inside, share[axis] if step else 1 - share[axis], 0)
        total += planes[:, index] * factor.astype(planes.dtype)
    return total


def _shapes(
    call: Call, x: Known, w: Known, offset: Known, b: Known | None = None, mask: Known | None = None
) -> Known:
    windows = _windows(call, x, w, offset, mask)
    check_bias(call, b, w.shape[0])
    return Known(x.dtype, (x.shape[0], w.shape[0], *windows.outputs))


OPERATORS: Table = {
    ("", "DeformConv"): (Operator(19, _deform_conv, _shapes),),
}
