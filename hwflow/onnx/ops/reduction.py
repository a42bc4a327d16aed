"""Reductions over axes, and running sums and products along one."""

from __future__ import annotations

import numpy as np

from hwflow.onnx.model import DType
from hwflow.onnx.ops.base import Arr, Call, Formula, Kernel, Known, Operator, ShapeRule, Table, axis_in
from hwflow.onnx.ops.element_types import in_float32, widened
from hwflow.onnx.ops.shapes import as_first


def _axes(call: Call, rank: int, operand: Arr | None) -> tuple[int, ...]:
    """The axes to reduce, from the attribute (older operator sets) or the second input."""
    listed = call.integers("axes", ()) if operand is None else tuple(int(a) for a in operand.reshape(-1))
    if not listed:
        return () if call.integer("noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(sorted({axis_in(call, axis, rank) for axis in listed}))


def _reduced(shape: tuple[int, ...], axes: tuple[int, ...], keep: bool) -> tuple[int, ...]:
    return tuple(1 if i in axes else d for i, d in enumerate(shape) if keep or i not in axes)


def _reduce(function: Formula) -> tuple[Kernel, ShapeRule]:
    """`function` of an array, `axis` (a tuple, () leaves the elements apart) and `keepdims`."""
    compute = in_float32(function)

    def shapes(call: Call, x: Known, axes: Known | None = None) -> Known:
        over = _axes(call, x.ndim, None if axes is None else axes.value)
        return Known(x.dtype, _reduced(x.shape, over, bool(call.integer("keepdims"))))

    def kernel(call: Call, x: Arr, axes: Arr | None = None) -> Arr:
        over, keep = _axes(call, x.ndim, axes), bool(call.integer("keepdims"))
        call.check_size(_reduced(x.shape, over, keep), x.dtype)  # reducing an axis of size 0 makes elements
        return compute(x, axis=over, keepdims=keep).astype(x.dtype, copy=False)

    return kernel, shapes


def _versions(function: Formula, axes_as_input: int = 18) -> tuple[Operator, ...]:
    kernel, shapes = _reduce(function)
    return (
        Operator(1, kernel, shapes),
        Operator(axes_as_input, kernel, shapes, constant=(1,)),
    )


def _lowest(dtype: DType) -> float:
    """The maximum of no elements."""
    if dtype.kind == "b":
        return False
    return np.iinfo(dtype.name).min if dtype.kind in "iu" else -np.inf


def _highest(dtype: DType) -> float:
    """The minimum of no elements."""
    if dtype.kind == "b":
        return True
    return np.iinfo(dtype.name).max if dtype.kind in "iu" else np.inf


def _max(x: Arr, axis: tuple[int, ...], keepdims: bool) -> Arr:
    return np.asarray(np.max(x, initial=_lowest(x.dtype), axis=axis, keepdims=keepdims))


def _min(x: Arr, axis: tuple[int, ...], keepdims: bool) -> Arr:
    return np.asarray(np.min(x, initial=_highest(x.dtype), axis=axis, keepdims=keepdims))


def _l1(x: Arr, axis: tuple[int, ...], keepdims: bool) -> Arr:
    return np.asarray(np.sum(np.abs(x), axis=axis, keepdims=keepdims))


def _l2(x: Arr, axis: tuple[int, ...], keepdims: bool) -> Arr:
    return np.asarray(np.sqrt(_square_sum(x, axis=axis, keepdims=keepdims)))


def _square_sum(x: Arr, axis: tuple[int, ...], keepdims: bool) -> Arr:
    return np.asarray(np.sum(x * x, axis=axis, keepdims=keepdims))


def _log_sum(x: Arr, axis: tuple[int, ...], keepdims: bool) -> Arr:
    return np.asarray(np.log(np.sum(x, axis=axis, keepdims=keepdims)))


def _log_sum_exp(x: Arr, axis: tuple[int, ...], keepdims: bool) -> Arr:
    """log(sum(exp(x))); the largest element is taken out first, so that exp does not overflow."""
    x = x if x.dtype.kind == "f" else x.astype(np.float64)
    top = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0)
    logarithm = np.asarray(np.log(np.sum(np.exp(x - top), axis=axis, keepdims=keepdims)))
    return logarithm + top.reshape(logarithm.shape)


def _running(function: np.ufunc) -> Kernel:
    """A sum or product of all elements up to each one: with `exclusive` without itself, with `reverse` from the end."""

    def kernel(call: Call, x: Arr, axis: Arr) -> Arr:
        if axis.size != 1:
            raise call.error(f"the axis must be one number, not have the shape {list(axis.shape)}")
        along = axis_in(call, int(axis.reshape(())), x.ndim)
        w = np.moveaxis(widened(x), along, 0)
        w = w[::-1] if call.integer("reverse") else w
        y = np.asarray(function.accumulate(w, axis=0, dtype=w.dtype))
        if call.integer("exclusive"):
            first = np.full((1, *w.shape[1:]), function.identity, w.dtype)
            y = np.concatenate((first, y[:-1]))[: len(w)]
        y = y[::-1] if call.integer("reverse") else y
        return np.moveaxis(y, 0, along).astype(x.dtype)

    return kernel


OPERATORS: Table = {
    ("", "ReduceSum"): _versions(np.sum, 13),
    ("", "ReduceMean"): _versions(np.mean),
    ("", "ReduceMax"): _versions(_max),
    ("", "ReduceMin"): _versions(_min),
    ("", "ReduceProd"): _versions(np.prod),
    ("", "ReduceSumSquare"): _versions(_square_sum),
    ("", "ReduceL1"): _versions(_l1),
    ("", "ReduceL2"): _versions(_l2),
    ("", "ReduceLogSum"): _versions(_log_sum),
    ("", "ReduceLogSumExp"): _versions(_log_sum_exp),
    ("", "CumSum"): (Operator(11, _running(np.add), as_first),),
    ("", "CumProd"): (Operator(26, _running(np.multiply), as_first),),
}
