"""Tensors from pieces and pieces from tensors: joining, splitting, slicing, repeating."""

from __future__ import annotations

import itertools
import math
from types import EllipsisType

import numpy as np

from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table, axis_in
from hwflow.onnx.ops.shapes import by_running, checked_axes, common_shape, integers, one_integer


def _expand(call: Call, x: Arr, shape: Arr) -> Arr:
    sizes = integers(shape)
    try:
        result = common_shape(x.shape, sizes)
    except ValueError:
        raise call.error(f"the shape must be one that {list(x.shape)} broadcasts to, not {list(sizes)}") from None
    call.check_size(result, x.dtype)
    return np.broadcast_to(x, result)


def _concat(call: Call, *parts: Arr) -> Arr:
    joined = _concat_shapes(call, *(Known(p.dtype, p.shape) for p in parts))
    call.check_size(joined.shape, joined.dtype)
    return np.concatenate(parts, axis=_concat_axis(call, parts[0]))


def _concat_axis(call: Call, first: Arr | Known) -> int:
    """Before operator set 4 the axis is 1 by default."""
    return axis_in(call, call.integer("axis", 1 if call.opset < 4 else None), first.ndim)


def _concat_shapes(call: Call, *parts: Known) -> Known:
    first = parts[0]
    axis = _concat_axis(call, first)
    rests = {(*p.shape[:axis], *p.shape[axis + 1 :]) for p in parts}
    if len(rests) != 1 or any(p.ndim != first.ndim for p in parts):
        listed = " and ".join(str(list(p.shape)) for p in parts)
        raise call.error(f"the shapes must be equal except in axis {axis}, not {listed}")
    total = sum(p.shape[axis] for p in parts)
    return Known(first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :]))


def _split(call: Call, x: Arr, sizes: Arr | None = None) -> tuple[Arr, ...]:
    """Into parts of the given sizes (attribute before operator set 13), else into equal ones."""
    axis = axis_in(call, call.integer("axis", 0), x.ndim)
    size, count = x.shape[axis], len(call.node.outputs)
    part_sizes = integers(sizes) if sizes is not None else call.integers("split", ())
    if call.has("num_outputs") and (part_sizes or call.integer("num_outputs") != count):
        raise call.error(f"'num_outputs' must be {count}, the number of outputs, without sizes of the parts")
    if not part_sizes and (sizes is None or size):
        part_sizes = _equal_parts(call, size, count)
    if len(part_sizes) != count or sum(part_sizes) != size or min(part_sizes) < 0:
        raise call.error(f"the parts must be {count} sizes that add up to {size}, not {list(part_sizes)}")
    ends = np.cumsum((0, *part_sizes)).tolist()
    axes_before = (slice(None),) * axis
    return tuple(x[(*axes_before, slice(begin, end))] for begin, end in itertools.pairwise(ends))


def _equal_parts(call: Call, size: int, count: int) -> tuple[int, ...]:
    """From operator set 18 on the last part may be smaller."""
    part = -(-size // count)
    if part * count != size and call.opset < 18:
        raise call.error(f"axis of {size} elements must divide into {count} equal parts", "give the sizes of the parts")
    return (*(part,) * (count - 1), size - part * (count - 1))


def _repeats_1(call: Call, x: Arr | Known, tiles: Arr | None, axis: Arr | None) -> tuple[int, ...]:
    assert tiles is not None  # `constant` of the operator
    assert axis is not None
    repeats, place = [1] * x.ndim, axis_in(call, one_integer(call, axis, "the axis"), x.ndim)
    repeats[place] = one_integer(call, tiles, "the number of tiles")
    return tuple(repeats)


def _tiled_shape(call: Call, x: Arr | Known, repeats: tuple[int, ...]) -> tuple[int, ...]:
    if len(repeats) != x.ndim or min(repeats, default=0) < 0:
        raise call.error(f"the repeats must be {x.ndim} numbers of 0 or more, one per axis, not {list(repeats)}")
    shape = tuple(d * n for d, n in zip(x.shape, repeats, strict=True))
    call.check_size(shape, x.dtype)
    return shape


def _tiled(call: Call, x: Arr, repeats: tuple[int, ...]) -> Arr:
    shape = _tiled_shape(call, x, repeats)
    if 0 in shape:
        return np.empty(shape, x.dtype)
    for axis, count in enumerate(repeats):
        if count != 1:
            x = _repeated(x, axis, count)
    return x


def _repeated(x: Arr, axis: int, count: int) -> Arr:
    """Copies side by side along one axis, by broadcasting over a new axis before it."""
    flat = x.reshape(math.prod(x.shape[:axis]), 1, -1)
    copies = np.broadcast_to(flat, (flat.shape[0], count, flat.shape[2]))
    return copies.reshape(*x.shape[:axis], x.shape[axis] * count, *x.shape[axis + 1 :])


def _tile_1(call: Call, x: Arr, tiles: Arr, axis: Arr) -> Arr:
    """Repeats along one axis; both numbers have the type of the input."""
    return _tiled(call, x, _repeats_1(call, x, tiles, axis))


def _tile(call: Call, x: Arr, repeats: Arr) -> Arr:
    return _tiled(call, x, integers(repeats))


def _tile_1_shapes(call: Call, x: Known, tiles: Known, axis: Known) -> Known:
    return Known(x.dtype, _tiled_shape(call, x, _repeats_1(call, x, tiles.value, axis.value)))


def _tile_shapes(call: Call, x: Known, repeats: Known) -> Known:
    assert repeats.value is not None  # `constant` of the operator
    return Known(x.dtype, _tiled_shape(call, x, integers(repeats.value)))


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
    ("", "Expand"): (Operator(8, _expand, by_running(_expand), constant=(1,)),),
    ("", "Concat"): (Operator(1, _concat, _concat_shapes),),
    ("", "Split"): (Operator(1, _split, by_running(_split), constant=(1,)),),
    ("", "Tile"): (
        Operator(1, _tile_1, _tile_1_shapes, constant=(1, 2)),
        Operator(6, _tile, _tile_shapes, constant=(1,)),
    ),
    ("", "Slice"): (
        Operator(1, _slice_1, by_running(_slice_1)),
        Operator(10, _slice, by_running(_slice), constant=(1, 2, 3, 4)),
    ),
}
