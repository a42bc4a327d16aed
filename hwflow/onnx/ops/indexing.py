"""Operators that pick elements by position or put others around them."""

from __future__ import annotations

import numpy as np

from hwflow.onnx.ops.base import FLOAT, INT, INTS, STRING, Arr, Call, Known, Operator, Table, axis_in
from hwflow.onnx.ops.shapes import by_running

__all__ = ["OPERATORS"]


def _gather(call: Call, x: Arr, indices: Arr) -> Arr:
    axis = axis_in(call, call.integer("axis", 0), x.ndim)
    size = x.shape[axis]
    if indices.size and not (-size <= int(indices.min()) and int(indices.max()) < size):
        raise call.error(f"the indices must be {-size} to {size - 1}, not {indices.min()} to {indices.max()}")
    return np.asarray(np.take(x, indices, axis=axis))


def _gather_shapes(call: Call, x: Known, indices: Known) -> Known:
    axis = axis_in(call, call.integer("axis", 0), x.ndim)
    return Known(x.dtype, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def _slice_1(call: Call, x: Arr) -> Arr:
    starts, ends = call.integers("starts"), call.integers("ends")
    axes = call.integers("axes", tuple(range(len(starts))))
    return _sliced(call, x, starts, ends, axes, (1,) * len(starts))


def _slice(call: Call, x: Arr, starts: Arr, ends: Arr, axes: Arr | None = None, steps: Arr | None = None) -> Arr:
    first, last = (tuple(a.reshape(-1).tolist()) for a in (starts, ends))
    over = tuple(range(len(first))) if axes is None else tuple(axes.reshape(-1).tolist())
    by = (1,) * len(first) if steps is None else tuple(steps.reshape(-1).tolist())
    return _sliced(call, x, first, last, over, by)


def _sliced(
    call: Call, x: Arr, starts: tuple[int, ...], ends: tuple[int, ...], axes: tuple[int, ...], steps: tuple[int, ...]
) -> Arr:
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise call.error(
            f"starts, ends, axes and steps must be of equal number with steps other than 0, "
            f"not {list(starts)}, {list(ends)}, {list(axes)}, {list(steps)}"
        )
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        place = axis_in(call, axis, x.ndim)
        index[place] = _python_slice(start, end, step, x.shape[place])
    return x[tuple(index)]


def _python_slice(start: int, end: int, step: int, size: int) -> slice:
    """ONNX clamps to the axis first; walking backwards the end may lie before the front, which Python writes None."""
    begin = start + size if start < 0 else start
    stop = end + size if end < 0 else end
    if step > 0:
        return slice(min(max(begin, 0), size), min(max(stop, 0), size), step)
    begin, stop = min(max(begin, 0), size - 1), min(max(stop, -1), size - 1)
    return slice(begin, None if stop < 0 else stop, step)


def _pad_2(call: Call, x: Arr) -> Arr:
    return _padded(call, x, call.integers("pads"), call.number("value", 0.0), tuple(range(x.ndim)))


def _pad(call: Call, x: Arr, pads: Arr, value: Arr | None = None, axes: Arr | None = None) -> Arr:
    fill = 0 if value is None or not value.size else value.reshape(-1)[0]
    over = tuple(range(x.ndim)) if axes is None else tuple(axes.reshape(-1).tolist())
    return _padded(call, x, tuple(pads.reshape(-1).tolist()), fill, over)


def _widths(call: Call, x: Arr | Known, pads: tuple[int, ...], axes: tuple[int, ...]) -> list[tuple[int, int]]:
    if len(pads) != 2 * len(axes):
        raise call.error(f"pads must be {2 * len(axes)} numbers, a begin and an end per axis, not {list(pads)}")
    widths = [(0, 0)] * x.ndim
    for i, axis in enumerate(axes):
        widths[axis_in(call, axis, x.ndim)] = (pads[i], pads[i + len(axes)])
    return widths


def _padded(call: Call, x: Arr, pads: tuple[int, ...], value: object, axes: tuple[int, ...]) -> Arr:
    """Negative pads cut elements off."""
    widths = _widths(call, x, pads, axes)
    call.check_size([d + sum(w) for d, w in zip(x.shape, widths, strict=True)], x.dtype)
    cut = x[tuple(slice(max(0, -b), d - max(0, -e)) for d, (b, e) in zip(x.shape, widths, strict=True))]
    grown = [(max(0, b), max(0, e)) for b, e in widths]
    mode = call.text("mode", "constant")
    if mode == "constant":
        return np.pad(cut, grown, constant_values=value)  # type: ignore[call-overload,no-any-return]
    if mode not in ("reflect", "edge", "wrap"):
        raise call.error(f"'mode' must be constant, reflect, edge or wrap, not {mode!r}")
    return np.pad(cut, grown, mode=mode)  # type: ignore[call-overload,no-any-return]


def _pad_2_shapes(call: Call, x: Known) -> Known:
    widths = _widths(call, x, call.integers("pads"), tuple(range(x.ndim)))
    return Known(x.dtype, tuple(d + sum(w) for d, w in zip(x.shape, widths, strict=True)))


def _pad_shapes(call: Call, x: Known, pads: Known, value: Known | None = None, axes: Known | None = None) -> Known:
    assert pads.value is not None  # `constant` of the operator
    over = tuple(range(x.ndim)) if axes is None or axes.value is None else tuple(axes.value.reshape(-1).tolist())
    widths = _widths(call, x, tuple(pads.value.reshape(-1).tolist()), over)
    shape = tuple(d + sum(w) for d, w in zip(x.shape, widths, strict=True))
    call.check_size(shape, x.dtype)
    return Known(x.dtype, shape)


def _shape(call: Call, x: Arr | Known) -> Arr:
    """`start` and `end` (operator set 15) choose axes as a Python slice does."""
    end = call.integer("end") if call.has("end") else None
    return np.array(x.shape[call.integer("start", 0) : end], np.int64)


def _shape_shapes(call: Call, x: Known) -> Known:
    value = _shape(call, x)
    return Known(value.dtype, value.shape, value)


def _size(call: Call, x: Arr | Known) -> Arr:
    return np.array(np.prod(x.shape, dtype=np.int64))


def _size_shapes(call: Call, x: Known) -> Known:
    value = _size(call, x)
    return Known(value.dtype, value.shape, value)


_SLICE = {"starts": INTS, "ends": INTS, "axes": INTS}
_MODE = {"mode": STRING}

OPERATORS: Table = {
    ("", "Gather"): (Operator(1, _gather, _gather_shapes, (2, 2), {"axis": INT}),),
    ("", "Slice"): (
        Operator(1, _slice_1, by_running(_slice_1), attributes=_SLICE, required=("starts", "ends")),
        Operator(10, _slice, by_running(_slice), (3, 5), constant=(1, 2, 3, 4)),
    ),
    ("", "Pad"): (
        Operator(2, _pad_2, _pad_2_shapes, attributes={**_MODE, "pads": INTS, "value": FLOAT}, required=("pads",)),
        Operator(11, _pad, _pad_shapes, (2, 3), _MODE, constant=(1,)),
        Operator(18, _pad, _pad_shapes, (2, 4), _MODE, constant=(1, 3)),
    ),
    ("", "Shape"): (
        Operator(1, _shape, _shape_shapes),
        Operator(15, _shape, _shape_shapes, attributes={"start": INT, "end": INT}),
    ),
    ("", "Size"): (Operator(1, _size, _size_shapes),),
}
