"""Slice: every n-th element of some axes, forwards or backwards."""

from __future__ import annotations

from types import EllipsisType

from hwflow.onnx.ops.base import Arr, Call, Operator, Table
from hwflow.onnx.ops.elements import checked_axes, integers
from hwflow.onnx.ops.shapes import by_running


def _slice_1(call: Call, x: Arr) -> Arr:
    starts, ends = call.integers("starts"), call.integers("ends")
    axes = call.integers("axes", tuple(range(len(starts))))
    return _sliced(call, x, starts, ends, axes, (1,) * len(starts))


def _slice(call: Call, x: Arr, starts: Arr, ends: Arr, axes: Arr | None = None, steps: Arr | None = None) -> Arr:
    first = integers(starts)
    over = tuple(range(len(first))) if axes is None else integers(axes)
    by = (1,) * len(first) if steps is None else integers(steps)
    return _sliced(call, x, first, integers(ends), over, by)


def _sliced(
    call: Call, x: Arr, starts: tuple[int, ...], ends: tuple[int, ...], axes: tuple[int, ...], steps: tuple[int, ...]
) -> Arr:
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise call.error(
            f"starts, ends, axes and steps must be of equal number with steps other than 0, "
            f"not {list(starts)}, {list(ends)}, {list(axes)}, {list(steps)}"
        )
    index: list[slice | EllipsisType] = [*[slice(None)] * x.ndim, ...]  # with the dots even a scalar stays an array
    for start, end, axis, step in zip(starts, ends, checked_axes(call, axes, x.ndim), steps, strict=True):
        index[axis] = _python_slice(start, end, step, x.shape[axis])
    result: Arr = x[tuple(index)]
    return result


def _python_slice(start: int, end: int, step: int, size: int) -> slice:
    """ONNX clamps to the axis first; walking backwards the end may lie before the front, which Python writes None."""
    begin = start + size if start < 0 else start
    stop = end + size if end < 0 else end
    if step > 0:
        return slice(min(max(begin, 0), size), min(max(stop, 0), size), step)
    begin, stop = min(max(begin, 0), size - 1), min(max(stop, -1), size - 1)
    return slice(max(begin, 0), None if stop < 0 else stop, step)


OPERATORS: Table = {
    ("", "Slice"): (
        Operator(1, _slice_1, by_running(_slice_1)),
        Operator(10, _slice, by_running(_slice), constant=(1, 2, 3, 4)),
    ),
}
