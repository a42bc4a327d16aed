"""Operators that write elements into a copy of a tensor: Scatter, ScatterElements, ScatterND, TensorScatter."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hwflow.onnx.ops.base import Arr, Call, Operator, Table, axis_in
from hwflow.onnx.ops.elements import checked_indices
from hwflow.onnx.ops.shapes import as_first

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
    ("", "Scatter"): (Operator(9, _scatter_elements, as_first),),
    ("", "ScatterElements"): (Operator(11, _scatter_elements, as_first),),
    ("", "ScatterND"): (Operator(11, _scatter_nd, as_first),),
    ("", "TensorScatter"): (Operator(24, _tensor_scatter, as_first),),
}
