"""Reductions over axes, and what picks elements by their size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hwflow.onnx.ops.base import INT, INTS, Arr, Call, Kernel, Known, Operator, ShapeRule, Table, axis_in

__all__ = ["OPERATORS"]


def _axes(call: Call, rank: int, given: Arr | None) -> tuple[int, ...] | None:
    """The axes to reduce, from the attribute (older operator sets) or the second input; None for "leave x as it is"."""
    listed = call.integers("axes", ()) if given is None else tuple(int(a) for a in given.reshape(-1))
    if not listed:
        return None if call.integer("noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(sorted({axis_in(call, axis, rank) for axis in listed}))


def _reduced(shape: tuple[int, ...], axes: tuple[int, ...], keep: bool) -> tuple[int, ...]:
    return tuple(1 if i in axes else d for i, d in enumerate(shape) if keep or i not in axes)


def _reduce(function: Callable[..., Any]) -> tuple[Kernel, ShapeRule]:
    def kernel(call: Call, x: Arr, axes: Arr | None = None) -> Arr:
        over = _axes(call, x.ndim, axes)
        if over is None:
            return x
        return np.asarray(function(x, axis=over, keepdims=bool(call.integer("keepdims", 1)))).astype(x.dtype)

    def shapes(call: Call, x: Known, axes: Known | None = None) -> Known:
        over = _axes(call, x.ndim, None if axes is None else axes.value)
        return Known(x.dtype, x.shape if over is None else _reduced(x.shape, over, bool(call.integer("keepdims", 1))))

    return kernel, shapes


_BY_ATTRIBUTE = {"axes": INTS, "keepdims": INT}
_BY_INPUT = {"keepdims": INT, "noop_with_empty_axes": INT}


def _versions(function: Callable[..., Any], axes_as_input: int) -> tuple[Operator, ...]:
    return (
        Operator(1, *_reduce(function), attributes=_BY_ATTRIBUTE),
        Operator(axes_as_input, *_reduce(function), inputs=(1, 2), attributes=_BY_INPUT, constant=(1,)),
    )


def _square_sum(x: Arr, **how: Any) -> Arr:
    return np.asarray(np.sum(x * x, **how))


def _arg(function: Callable[..., Any]) -> tuple[Kernel, ShapeRule]:
    def kernel(call: Call, x: Arr) -> Arr:
        axis = axis_in(call, call.integer("axis", 0), x.ndim)
        if call.integer("select_last_index", 0):
            index = x.shape[axis] - 1 - function(np.flip(x, axis), axis=axis)
        else:
            index = function(x, axis=axis)
        index = np.asarray(index, np.int64)
        return np.expand_dims(index, axis) if call.integer("keepdims", 1) else index

    def shapes(call: Call, x: Known) -> Known:
        axis = axis_in(call, call.integer("axis", 0), x.ndim)
        return Known(np.dtype(np.int64), _reduced(x.shape, (axis,), bool(call.integer("keepdims", 1))))

    return kernel, shapes


def _arg_versions(function: Callable[..., Any]) -> tuple[Operator, ...]:
    kernel, shapes = _arg(function)
    return (
        Operator(1, kernel, shapes, attributes={"axis": INT, "keepdims": INT}),
        Operator(12, kernel, shapes, attributes={"axis": INT, "keepdims": INT, "select_last_index": INT}),
    )


def _top_k(call: Call, x: Arr, k: Arr) -> tuple[Arr, Arr]:
    """The k largest (or smallest) in order; of equal elements the one with the lower index comes first."""
    axis = axis_in(call, call.integer("axis", -1), x.ndim)
    largest = bool(call.integer("largest", 1))
    ranks = np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis) if largest else None
    order = x.shape[axis] - 1 - ranks if ranks is not None else np.argsort(x, axis=axis, kind="stable")
    chosen = np.take(order, np.arange(_count(call, k, x.shape[axis])), axis=axis)
    return np.take_along_axis(x, chosen, axis), chosen.astype(np.int64)


def _count(call: Call, k: Arr | None, size: int) -> int:
    if k is None or k.size != 1 or not 0 <= int(k.reshape(-1)[0]) <= size:
        raise call.error(f"k must be one number from 0 to {size}, not {None if k is None else k.tolist()}")
    return int(k.reshape(-1)[0])


def _top_k_shapes(call: Call, x: Known, k: Known) -> tuple[Known, Known]:
    axis = axis_in(call, call.integer("axis", -1), x.ndim)
    shape = (*x.shape[:axis], _count(call, k.value, x.shape[axis]), *x.shape[axis + 1 :])
    return Known(x.dtype, shape), Known(np.dtype(np.int64), shape)


OPERATORS: Table = {
    ("", "ReduceSum"): _versions(np.sum, 13),
    ("", "ReduceMean"): _versions(np.mean, 18),
    ("", "ReduceMax"): _versions(np.max, 18),
    ("", "ReduceMin"): _versions(np.min, 18),
    ("", "ReduceProd"): _versions(np.prod, 18),
    ("", "ReduceSumSquare"): _versions(_square_sum, 18),
    ("", "ArgMax"): _arg_versions(np.argmax),
    ("", "ArgMin"): _arg_versions(np.argmin),
    ("", "TopK"): (
        Operator(10, _top_k, _top_k_shapes, (2, 2), {"axis": INT}, outputs=(2, 2), constant=(1,)),
        Operator(
            11,
            _top_k,
            _top_k_shapes,
            (2, 2),
            {"axis": INT, "largest": INT, "sorted": INT},
            outputs=(2, 2),
            constant=(1,),
        ),
    ),
}
