"""Operators that select elements by a condition or by where they stand, and those that say where elements are."""

from __future__ import annotations

import math

import numpy as np

from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table, axis_in
from hwflow.onnx.ops.elements import filled, one_integer, zero_of
from hwflow.onnx.ops.shapes import as_first, by_running


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
    kept = distance >= diagonal if call.integer("upper") else distance <= diagonal
    result = x.copy()
    result[..., ~kept] = zero_of(x.dtype)
    return result


OPERATORS: Table = {
    ("", "Shape"): (Operator(1, _shape, _shape_shapes),),
    ("", "Size"): (Operator(1, _size, _size_shapes),),
    ("", "Compress"): (Operator(9, _compress, _compress_shapes, constant=(1,)),),
    ("", "NonZero"): (Operator(9, _non_zero, by_running(_non_zero), constant=(0,)),),
    ("", "OneHot"): (Operator(9, _one_hot, _one_hot_shapes, constant=(1,)),),
    ("", "ReverseSequence"): (Operator(10, _reverse_sequence, as_first),),
    ("", "Trilu"): (Operator(14, _trilu, as_first),),
}
