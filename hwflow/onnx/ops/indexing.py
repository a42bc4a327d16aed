"""Elements by their indices: gathered, scattered, compressed, and indices of elements."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table, axis_in
from hwflow.onnx.ops.shapes import as_first, by_running, checked_indices, filled, one_integer, zero_of


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


def _compress(call: Call, x: Arr, condition: Arr) -> Arr:
    """Slices of one axis, or without an axis single elements; those beyond the condition are left out."""
    if condition.ndim != 1 or not x.ndim:
        raise call.error(
            f"the condition must have one axis and the input at least one, "
            f"not be {list(condition.shape)} and {list(x.shape)}"
        )
    axis = axis_in(call, call.integer("axis"), x.ndim) if call.has("axis") else None
    size = x.size if axis is None else x.shape[axis]
    chosen = np.flatnonzero(condition[:size])
    return np.take(x, chosen, axis=axis)


def _compress_shapes(call: Call, x: Known, condition: Known) -> Known:
    assert condition.value is not None  # `constant` of the operator
    if not call.has("axis"):
        return Known(x.dtype, (int(np.count_nonzero(condition.value[: math.prod(x.shape)])),))
    axis = axis_in(call, call.integer("axis"), x.ndim)
    count = int(np.count_nonzero(condition.value[: x.shape[axis]]))
    return Known(x.dtype, (*x.shape[:axis], count, *x.shape[axis + 1 :]))


def _non_zero(call: Call, x: Arr) -> Arr:
    """[rank, n]: where elements other than 0 are, in the order of the elements.  A scalar has no place: [0, n]."""
    count = int(np.count_nonzero(x))
    call.check_size((x.ndim, count), np.dtype(np.int64))
    if not x.ndim:
        return np.empty((0, count), np.int64)
    return np.stack(np.nonzero(x)).astype(np.int64)


def _depth(call: Call, depth: Arr | None) -> int:
    assert depth is not None  # `constant` of the operator
    return one_integer(call, depth, "the depth")


def _one_hot(call: Call, indices: Arr, depth: Arr, values: Arr) -> Arr:
    """A new axis that holds the first value, and the second where the index points to."""
    count = _depth(call, depth)
    axis = axis_in(call, call.integer("axis"), indices.ndim + 1)
    if values.shape != (2,):
        raise call.error(f"the values must be two, off and on, not a tensor of {list(values.shape)}")
    shape = (*indices.shape[:axis], count, *indices.shape[axis:])
    result = filled(call, shape, values.dtype, values[0])
    # Unsigned indices that int64 lacks lie outside every depth.
    wide = np.minimum(indices, np.uint64(2**63 - 1)) if indices.dtype == np.uint64 else indices
    place = wide.astype(np.int64).reshape(math.prod(indices.shape[:axis]), math.prod(indices.shape[axis:]))
    place = np.where(place < 0, place + count, place)
    row, column = np.nonzero((place >= 0) & (place < count))
    if row.size:
        result.reshape(place.shape[0], count, place.shape[1])[row, place[row, column], column] = values[1]
    return result


def _one_hot_shapes(call: Call, indices: Known, depth: Known, values: Known) -> Known:
    axis = axis_in(call, call.integer("axis"), indices.ndim + 1)
    shape = (*indices.shape[:axis], _depth(call, depth.value), *indices.shape[axis:])
    call.check_size(shape, values.dtype)
    return Known(values.dtype, shape)


def _reverse_sequence(call: Call, x: Arr, lengths: Arr) -> Arr:
    """The first elements of each sequence in reversed order, as many as its length says."""
    batch, time = call.integer("batch_axis"), call.integer("time_axis")
    if {batch, time} != {0, 1} or x.ndim < 2:
        raise call.error(
            f"'batch_axis' and 'time_axis' must be 0 and 1 or 1 and 0 of an input with two axes or more, "
            f"not {batch} and {time} of {list(x.shape)}"
        )
    sequences = x.swapaxes(0, 1) if batch else x
    count, longest = sequences.shape[:2]
    if lengths.shape != (count,) or (count and not 0 <= int(lengths.min()) <= int(lengths.max()) <= longest):
        raise call.error(f"the lengths must be {count} numbers from 0 to {longest}, not {lengths.tolist()}")
    place, length = np.arange(longest), lengths.reshape(count, 1)
    source = np.where(place < length, length - 1 - place, place)
    result = sequences[np.arange(count).reshape(count, 1), source]
    return result.swapaxes(0, 1) if batch else result


def _trilu(call: Call, x: Arr, k: Arr | None = None) -> Arr:
    """The elements on one side of diagonal k of the last two axes; the others become 0."""
    if x.ndim < 2:
        raise call.error(f"the input must have two axes or more, not be {list(x.shape)}")
    rows, columns = x.shape[-2:]
    diagonal = 0 if k is None else one_integer(call, k, "k")
    distance = np.arange(columns) - np.arange(rows).reshape(rows, 1)
    diagonal = min(max(diagonal, -rows - 1), columns + 1)
    inside = distance >= diagonal if call.integer("upper") else distance <= diagonal
    result = x.copy()
    result[..., ~inside] = zero_of(x.dtype)
    return result


def _gather(call: Call, x: Arr, indices: Arr) -> Arr:
    """Whole slices of one axis."""
    axis = axis_in(call, call.integer("axis"), x.ndim)
    call.check_size((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)
    # A single element comes without its array, and a text then without its type.
    return np.asarray(np.take(x, checked_indices(call, indices, x.shape[axis]), axis=axis), x.dtype)


def _gather_shapes(call: Call, x: Known, indices: Known) -> Known:
    axis = axis_in(call, call.integer("axis"), x.ndim)
    return Known(x.dtype, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def _elements_axis(call: Call, x: Arr | Known, indices: Arr | Known) -> int:
    axis = axis_in(call, call.integer("axis"), x.ndim)
    fits = indices.ndim == x.ndim and all(
        n <= d for i, (n, d) in enumerate(zip(indices.shape, x.shape, strict=True)) if i != axis
    )
    if not fits:
        raise call.error(
            f"the indices must have the rank of the data and, except in axis {axis}, no larger dims, "
            f"not be {list(indices.shape)} for data of {list(x.shape)}"
        )
    return axis


def _gather_elements(call: Call, x: Arr, indices: Arr) -> Arr:
    """Single elements: their place in one axis is the index, in the others that of the index itself."""
    axis = _elements_axis(call, x, indices)
    call.check_size(indices.shape, np.dtype(np.int64))
    places = checked_indices(call, indices, x.shape[axis])
    part = x[tuple(slice(None) if i == axis else slice(n) for i, n in enumerate(indices.shape))]
    # Three axes are enough, and keep away from numpy's limit on their number.
    before, behind = math.prod(indices.shape[:axis]), math.prod(indices.shape[axis + 1 :])
    if not places.size:
        return np.empty(indices.shape, x.dtype)
    flat = part.reshape(before, x.shape[axis], behind)
    picked = np.take_along_axis(flat, places.reshape(before, indices.shape[axis], behind), axis=1)
    return picked.reshape(indices.shape)


def _gather_elements_shapes(call: Call, x: Known, indices: Known) -> Known:
    _elements_axis(call, x, indices)
    return Known(x.dtype, indices.shape)


def _gather_nd_shapes(call: Call, x: Known, indices: Known) -> Known:
    batch = call.integer("batch_dims", 0)
    depth = indices.shape[-1] if indices.ndim else 0
    if not 0 <= batch < min(x.ndim, indices.ndim) or x.shape[:batch] != indices.shape[:batch]:
        raise call.error(
            f"'batch_dims' must be a number of first dims that data and indices share, "
            f"not {batch} for {list(x.shape)} and {list(indices.shape)}"
        )
    if not 1 <= depth <= x.ndim - batch:
        raise call.error(f"the last dim of the indices must be 1 to {x.ndim - batch}, not {depth}")
    return Known(x.dtype, (*indices.shape[:-1], *x.shape[batch + depth :]))


def _gather_nd(call: Call, x: Arr, indices: Arr) -> Arr:
    """Slices at points, of which each has an index per axis."""
    shape = _gather_nd_shapes(call, Known(x.dtype, x.shape), Known(indices.dtype, indices.shape)).shape
    call.check_size(shape, x.dtype)
    batch, depth = call.integer("batch_dims", 0), indices.shape[-1]
    groups, points = math.prod(x.shape[:batch]), math.prod(indices.shape[batch:-1])
    chosen = x.shape[batch : batch + depth]
    place = np.repeat(np.arange(groups), points)
    for size, column in zip(chosen, indices.reshape(-1, depth).T if indices.size else (), strict=False):
        place = place * size + checked_indices(call, column, size)
    if 0 in shape:
        return np.empty(shape, x.dtype)
    rows = x.reshape(groups * math.prod(chosen), math.prod(x.shape[batch + depth :]))
    return rows[place].reshape(shape)


_REDUCTIONS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _written(call: Call, rows: Arr, place: npt.NDArray[np.int64], updates: Arr) -> Arr:
    """`rows` [n, m] (changed) with `updates` [k, m] written to rows `place` [k], or reduced into them."""
    reduction = call.text("reduction", "none")
    if reduction == "none":
        rows[place] = updates
        return rows
    if reduction not in _REDUCTIONS or rows.dtype.kind == "O":
        raise call.error(
            f"'reduction' must be none, or for numbers one of {', '.join(_REDUCTIONS)}, "
            f"not {reduction!r} for {'texts' if rows.dtype.kind == 'O' else rows.dtype}"
        )
    _REDUCTIONS[reduction].at(rows, place, updates)
    return rows


def _scatter_elements(call: Call, x: Arr, indices: Arr, updates: Arr) -> Arr:
    """Single elements: their place in one axis is the index, in the others that of the index itself."""
    axis = axis_in(call, call.integer("axis"), x.ndim)
    fits = indices.shape == updates.shape and indices.ndim == x.ndim
    if not fits or any(n > d for i, (n, d) in enumerate(zip(indices.shape, x.shape, strict=True)) if i != axis):
        raise call.error(
            f"indices and updates must have one shape that fits into the data except in axis {axis}, "
            f"not be {list(indices.shape)} and {list(updates.shape)} for data of {list(x.shape)}"
        )
    if not indices.size:
        return x
    call.check_size(indices.shape, np.dtype(np.int64))
    place = np.zeros((1,) * x.ndim, np.int64)
    for i, size in enumerate(x.shape):
        along = np.arange(indices.shape[i]).reshape([-1 if j == i else 1 for j in range(x.ndim)])
        place = place * size + (checked_indices(call, indices, size) if i == axis else along)
    rows = _written(call, x.reshape(-1, 1).copy(), place.reshape(-1), updates.reshape(-1, 1))
    return rows.reshape(x.shape)


def _scatter_nd(call: Call, x: Arr, indices: Arr, updates: Arr) -> Arr:
    """Slices at points, of which each has an index per axis."""
    depth = indices.shape[-1] if indices.ndim else 0
    expected = (*indices.shape[:-1], *x.shape[depth:])
    if not 1 <= depth <= x.ndim or updates.shape != expected:
        raise call.error(
            f"the last dim of the indices must be 1 to {x.ndim} and the updates {list(expected)}, "
            f"not indices of {list(indices.shape)} and updates of {list(updates.shape)}"
        )
    if not updates.size:
        return x
    points = indices.reshape(-1, depth)
    place = np.zeros(len(points), np.int64)
    for size, column in zip(x.shape, points.T, strict=False):
        place = place * size + checked_indices(call, column, size)
    rows = x.reshape(math.prod(x.shape[:depth]), -1).copy()
    return _written(call, rows, place, updates.reshape(len(points), -1)).reshape(x.shape)


def _tensor_scatter(call: Call, cache: Arr, update: Arr, starts: Arr | None = None) -> Arr:
    """A run of elements along one axis, from another place on for each sample of the batch."""
    axis = axis_in(call, call.integer("axis"), cache.ndim)
    mode, longest = call.text("mode"), cache.shape[axis]
    expected = (*cache.shape[:axis], *update.shape[axis : axis + 1], *cache.shape[axis + 1 :])
    fits = axis > 0 and update.ndim == cache.ndim and update.shape == expected and update.shape[axis] <= longest
    if not fits or mode not in ("linear", "circular"):
        raise call.error(
            f"the update must have the shape of the cache {list(cache.shape)} with at most {longest} elements in "
            f"axis {axis}, which must not be 0, and mode linear or circular, not {list(update.shape)} and {mode!r}"
        )
    batch, length = cache.shape[0], update.shape[axis]
    first = np.zeros(batch, np.int64) if starts is None else starts.astype(np.int64)
    last = None if mode == "circular" else longest - length
    if first.shape != (batch,) or any(s < 0 or (last is not None and s > last) for s in first.tolist()):
        limit = "0 or more" if last is None else f"from 0 to {last}"
        raise call.error(f"the write indices must be {batch} numbers {limit}, not {first.tolist()}")
    result = cache.copy()
    if not update.size:
        return result
    samples = (batch, math.prod(cache.shape[1:axis]), -1, math.prod(cache.shape[axis + 1 :]))
    place = (first.reshape(batch, 1) + np.arange(length)) % longest
    sample = np.arange(batch).reshape(batch, 1)
    result.reshape(samples)[sample, :, place] = update.reshape(samples).swapaxes(1, 2)
    return result


OPERATORS: Table = {
    ("", "Shape"): (Operator(1, _shape, _shape_shapes),),
    ("", "Size"): (Operator(1, _size, _size_shapes),),
    ("", "Compress"): (Operator(9, _compress, _compress_shapes, constant=(1,)),),
    ("", "NonZero"): (Operator(9, _non_zero, by_running(_non_zero), constant=(0,)),),
    ("", "OneHot"): (Operator(9, _one_hot, _one_hot_shapes, constant=(1,)),),
    ("", "ReverseSequence"): (Operator(10, _reverse_sequence, as_first),),
    ("", "Trilu"): (Operator(14, _trilu, as_first),),
    ("", "Gather"): (Operator(1, _gather, _gather_shapes),),
    ("", "GatherElements"): (Operator(11, _gather_elements, _gather_elements_shapes),),
    ("", "GatherND"): (Operator(11, _gather_nd, _gather_nd_shapes),),
    ("", "Scatter"): (Operator(9, _scatter_elements, as_first),),
    ("", "ScatterElements"): (Operator(11, _scatter_elements, as_first),),
    ("", "ScatterND"): (Operator(11, _scatter_nd, as_first),),
    ("", "TensorScatter"): (Operator(24, _tensor_scatter, as_first),),
}
