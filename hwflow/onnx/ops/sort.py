"""Operators that compare elements: the largest or smallest of an axis, and which elements differ from all others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table, axis_in
from hwflow.onnx.ops.shapes import by_running, one_integer

_INT64 = np.dtype(np.int64)


def _comparable(x: Arr) -> Arr:
    """The same order in a type of which numpy knows where not-a-number stands: last when sorting."""
    return x.astype(np.float32) if x.dtype.kind == "V" else x


def _arg(function: Callable[..., npt.NDArray[np.intp]]) -> Operator:
    def shapes(call: Call, x: Known) -> Known:
        axis = axis_in(call, call.integer("axis"), x.ndim)
        one = (1,) if call.integer("keepdims") else ()
        return Known(_INT64, (*x.shape[:axis], *one, *x.shape[axis + 1 :]))

    def kernel(call: Call, x: Arr) -> Arr:
        axis = axis_in(call, call.integer("axis"), x.ndim)
        size, shape = x.shape[axis], shapes(call, Known(x.dtype, x.shape)).shape
        call.check_size(shape, _INT64)
        x = _comparable(x)
        if not size:
            raise call.error(f"axis {axis} must have 1 element or more, not be that of {list(x.shape)}")
        if call.integer("select_last_index", 0):
            index = size - 1 - function(np.flip(x, axis), axis=axis)
        else:
            index = function(x, axis=axis)
        return np.asarray(index, np.int64).reshape(shape)

    return Operator(1, kernel, shapes)


def _top_k_1(call: Call, x: Arr) -> tuple[Arr, Arr]:
    """The number is an attribute."""
    return _top(call, x, call.integer("k"))


def _top_k(call: Call, x: Arr, k: Arr) -> tuple[Arr, Arr]:
    return _top(call, x, one_integer(call, k, "k"))


def _top_shape(call: Call, x: Arr | Known, count: int) -> tuple[int, ...]:
    axis = axis_in(call, call.integer("axis"), x.ndim)
    if not 0 <= count <= x.shape[axis]:
        raise call.error(f"k must be one number from 0 to {x.shape[axis]}, not {count}")
    return (*x.shape[:axis], count, *x.shape[axis + 1 :])


def _top(call: Call, x: Arr, count: int) -> tuple[Arr, Arr]:
    """The k largest (or smallest) in order; of equal elements the one with the lower index comes first."""
    shape = _top_shape(call, x, count)
    axis = axis_in(call, call.integer("axis"), x.ndim)
    call.check_size(x.shape, _INT64)
    call.work(x.size)
    keys = _comparable(x)
    if call.integer("largest", 1):
        # Backwards, ascending and then turned: what was equal stands in its first order again.
        descending = np.flip(np.argsort(np.flip(keys, axis), axis=axis, kind="stable"), axis)
        order = x.shape[axis] - 1 - descending
    else:
        order = np.argsort(keys, axis=axis, kind="stable")
    chosen = order[(*(slice(None),) * axis, slice(count))]
    if not chosen.size:
        return np.empty(shape, x.dtype), np.empty(shape, np.int64)
    return np.take_along_axis(x, chosen, axis), chosen.astype(np.int64)


def _top_k_1_shapes(call: Call, x: Known) -> tuple[Known, Known]:
    shape = _top_shape(call, x, call.integer("k"))
    return Known(x.dtype, shape), Known(_INT64, shape)


def _top_k_shapes(call: Call, x: Known, k: Known) -> tuple[Known, Known]:
    assert k.value is not None  # `constant` of the operator
    shape = _top_shape(call, x, one_integer(call, k.value, "k"))
    return Known(x.dtype, shape), Known(_INT64, shape)


def _unique(call: Call, x: Arr) -> tuple[Arr, ...]:
    """The different elements (or slices of an axis), where each is first, which one each input is, and counts."""
    axis = axis_in(call, call.integer("axis"), x.ndim) if call.has("axis") else None
    call.check_size(x.shape, _INT64)
    call.work(x.size)
    keys = _ranks(x.reshape(-1))
    if axis is not None:
        keys = _row_keys(np.moveaxis(keys.reshape(x.shape), axis, 0))
    _, first, inverse, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    inverse = inverse.reshape(-1)
    if not call.integer("sorted"):
        order = np.argsort(first)
        first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
    chosen = np.take(x, first, axis=axis)
    return chosen, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)


def _ranks(elements: Arr) -> npt.NDArray[np.int64]:
    """Numbers that compare as the elements do."""
    inverse: npt.NDArray[np.int64] = np.unique(_comparable(elements), return_inverse=True)[1].reshape(-1)
    return inverse.astype(np.int64)


def _row_keys(ranks: npt.NDArray[np.int64]) -> Arr:
    """One key per slice: bytes whose order is that of the numbers, the first of them first."""
    rows = np.ascontiguousarray(ranks.reshape(ranks.shape[0], -1) if ranks.size else np.zeros((len(ranks), 1)), ">u8")
    return rows.view(f"V{8 * rows.shape[1]}").reshape(-1)


OPERATORS: Table = {
    ("", "ArgMax"): (_arg(np.argmax),),
    ("", "ArgMin"): (_arg(np.argmin),),
    ("", "TopK"): (
        Operator(1, _top_k_1, _top_k_1_shapes),
        Operator(10, _top_k, _top_k_shapes, constant=(1,)),
    ),
    ("", "Unique"): (Operator(11, _unique, by_running(_unique), constant=(0,)),),
}
