"""Operators that pick elements by index: Gather, GatherElements, GatherND."""

from __future__ import annotations

import math

import numpy as np

from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table, axis_in
from hwflow.onnx.ops.elements import checked_indices


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


OPERATORS: Table = {
    ("", "Gather"): (Operator(1, _gather, _gather_shapes),),
    ("", "GatherElements"): (Operator(11, _gather_elements, _gather_elements_shapes),),
    ("", "GatherND"): (Operator(11, _gather_nd, _gather_nd_shapes),),
}
