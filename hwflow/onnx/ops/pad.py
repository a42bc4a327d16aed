"""Operators that put elements around a tensor, or cut them off."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.shapes import checked_axes, filled, integers

#: How many elements an axis gets before its first and behind its last; negative numbers cut off.
_Widths: TypeAlias = list[tuple[int, int]]


def _pad_1(call: Call, x: Arr) -> Arr:
    return _padded(call, x, _widths_1(call, x), call.number("value", 0.0))


def _pad_2(call: Call, x: Arr) -> Arr:
    return _padded(call, x, _widths_2(call, x), call.number("value", 0.0))


def _pad(call: Call, x: Arr, pads: Arr, value: Arr | None = None, axes: Arr | None = None) -> Arr:
    fill = None if value is None or not value.size else value.reshape(-1)[0]
    return _padded(call, x, _widths(call, x, pads, axes), fill)


def _widths_1(call: Call, x: Arr | Known) -> _Widths:
    return _paired(call, x, call.integers("paddings"), tuple(range(x.ndim)))


def _widths_2(call: Call, x: Arr | Known) -> _Widths:
    return _paired(call, x, call.integers("pads"), tuple(range(x.ndim)))


def _widths(call: Call, x: Arr | Known, pads: Arr | None, axes: Arr | None) -> _Widths:
    assert pads is not None  # `constant` of the operator
    return _paired(call, x, integers(pads), tuple(range(x.ndim)) if axes is None else integers(axes))


def _paired(call: Call, x: Arr | Known, pads: tuple[int, ...], axes: tuple[int, ...]) -> _Widths:
    if len(pads) != 2 * len(axes):
        raise call.error(f"pads must be {2 * len(axes)} numbers, a begin and an end per axis, not {list(pads)}")
    widths = [(0, 0)] * x.ndim
    for i, axis in enumerate(checked_axes(call, axes, x.ndim)):
        widths[axis] = (pads[i], pads[i + len(axes)])
    return widths


def _padded_shape(call: Call, x: Arr | Known, widths: _Widths) -> tuple[int, ...]:
    shape = tuple(d + begin + end for d, (begin, end) in zip(x.shape, widths, strict=True))
    call.check_size(shape, x.dtype)
    return shape


def _padded(call: Call, x: Arr, widths: _Widths, value: npt.ArrayLike | None) -> Arr:
    shape = _padded_shape(call, x, widths)
    mode = call.text("mode")
    if mode == "constant":
        return _surrounded(call, x, shape, widths, value)
    if mode not in ("reflect", "edge", "wrap"):
        raise call.error(f"'mode' must be constant, reflect, edge or wrap, not {mode!r}")
    for axis, (begin, end) in enumerate(widths):
        if begin or end:
            x = np.take(x, _sources(call, x.shape[axis], begin, end, mode), axis=axis)
    return x


def _surrounded(call: Call, x: Arr, shape: tuple[int, ...], widths: _Widths, value: npt.ArrayLike | None = None) -> Arr:
    """The elements in the middle of a tensor of one value."""
    result = filled(call, shape, x.dtype, value)
    inside = [(max(0, -begin), min(d, d + end)) for d, (begin, end) in zip(x.shape, widths, strict=True)]
    if all(first < last for first, last in inside):
        places = [slice(first + begin, last + begin) for (first, last), (begin, _) in zip(inside, widths, strict=True)]
        result[tuple(places)] = x[tuple(slice(*k) for k in inside)]
    return result


def _sources(call: Call, size: int, begin: int, end: int, mode: str) -> npt.NDArray[np.int64]:
    """Which elements of an axis the result has.  Negative pads are cut off first, then what is left is continued."""
    cut, left = max(0, -begin), size - max(0, -begin) - max(0, -end)
    place = np.arange(-max(0, begin), left + max(0, end))
    if left <= 0:
        if place.size and (begin > 0 or end > 0):
            raise call.error(f"an axis must have elements to be continued by mode {mode!r}, not {max(left, 0)}")
        return place[:0]
    if mode == "edge":
        place = np.clip(place, 0, left - 1)
    elif mode == "wrap" or left == 1:
        place = place % left
    else:
        place = left - 1 - np.abs(left - 1 - place % (2 * left - 2))
    return place + cut


def _pad_1_shapes(call: Call, x: Known) -> Known:
    return Known(x.dtype, _padded_shape(call, x, _widths_1(call, x)))


def _pad_2_shapes(call: Call, x: Known) -> Known:
    return Known(x.dtype, _padded_shape(call, x, _widths_2(call, x)))


def _pad_shapes(call: Call, x: Known, pads: Known, value: Known | None = None, axes: Known | None = None) -> Known:
    return Known(x.dtype, _padded_shape(call, x, _widths(call, x, pads.value, None if axes is None else axes.value)))


def _centered(call: Call, x: Arr | Known, shape: Arr | None) -> _Widths:
    """Half of what lacks or is too much goes before the first element, rounded down."""
    assert shape is not None  # `constant` of the operator
    axes = checked_axes(call, call.integers("axes", tuple(range(x.ndim))), x.ndim)
    sizes = integers(shape)
    if len(sizes) != len(axes):
        raise call.error(f"the shape must be {len(axes)} numbers, one per axis, not {list(sizes)}")
    widths = [(0, 0)] * x.ndim
    for axis, size in zip(axes, sizes, strict=True):
        lacking = size - x.shape[axis]
        begin = lacking // 2 if lacking >= 0 else -(-lacking // 2)
        widths[axis] = (begin, lacking - begin)
    return widths


def _center_crop_pad(call: Call, x: Arr, shape: Arr) -> Arr:
    widths = _centered(call, x, shape)
    return _surrounded(call, x, _padded_shape(call, x, widths), widths)


def _center_crop_pad_shapes(call: Call, x: Known, shape: Known) -> Known:
    return Known(x.dtype, _padded_shape(call, x, _centered(call, x, shape.value)))


OPERATORS: Table = {
    ("", "Pad"): (
        Operator(1, _pad_1, _pad_1_shapes),
        Operator(2, _pad_2, _pad_2_shapes),
        Operator(11, _pad, _pad_shapes, constant=(1, 3)),
    ),
    ("", "CenterCropPad"): (Operator(18, _center_crop_pad, _center_crop_pad_shapes, constant=(1,)),),
}
