"""Pooling over windows and over whole planes: the largest element, the mean, the p-norm."""

from __future__ import annotations

import math

import numpy as np

from hwflow.onnx.model import DType
from hwflow.onnx.ops.base import Arr, Call, Formula, Kernel, Known, Operator, ShapeRule, Table
from hwflow.onnx.ops.precision import is_float, widened
from hwflow.onnx.ops.windows import Windows, windows_of


def pool_windows(call: Call, x: Arr | Known) -> Windows:
    """The windows over x [n, c, *sizes] that the attributes of a pool describe."""
    kernel = call.integers("kernel_shape")
    if x.ndim < 3 or x.ndim != len(kernel) + 2 or min(kernel) < 1:
        raise call.error(f"'kernel_shape' must be {max(1, x.ndim - 2)} numbers of 1 or more, not {list(kernel)}")
    return windows_of(call, x.shape[2:], kernel)


def _prepared(call: Call, x: Arr) -> Windows:
    """The windows over x, when the output and the work are within the limits."""
    windows = pool_windows(call, x)
    shape = (*x.shape[:2], *windows.outputs)
    call.check_size(shape, x.dtype)
    # A step over few elements costs as much as about a hundred thousand multiplications.
    call.work(max(math.prod(shape), 100_000) * math.prod(map(len, windows.meeting)))
    return windows


def window_sums(call: Call, x: Arr) -> tuple[Arr, Windows]:
    """The sum of each window, in the order of its elements: quantized networks tell other orders of rounding apart."""
    windows = _prepared(call, x)
    padded = windows.pad(call, x, 0)
    if math.prod(windows.outputs) == 1 and math.prod(windows.kernel) <= x.size:  # sums that keep the order, in one step
        elements = windows.gather(padded).reshape(*x.shape[:2], -1)
        return np.add.accumulate(elements, axis=2)[..., -1].reshape(*x.shape[:2], *windows.outputs), windows
    taps = windows.taps(padded, windows.meeting)
    total = next(taps).copy()
    for plane in taps:
        total += plane
    return total, windows


def _lowest(dtype: DType) -> float:
    return -np.inf if is_float(dtype) else np.iinfo(dtype.name).min


def _max_pool(call: Call, x: Arr) -> Arr | tuple[Arr, Arr]:
    windows = _prepared(call, x)
    if call.wants(1):
        return _max_with_indices(call, windows, x)
    return windows.reduce(np.maximum, windows.pad(call, x, _lowest(x.dtype)))


def _max_with_indices(call: Call, windows: Windows, x: Arr) -> tuple[Arr, Arr]:
    """The largest elements and where in the flattened input they stand; of equal ones the first."""
    order = "F" if call.integer("storage_order", 0) else "C"
    inside = np.arange(math.prod(windows.sizes), dtype=np.int64).reshape(windows.sizes, order=order)  # type: ignore[call-overload]
    values = windows.taps(windows.pad(call, x, _lowest(x.dtype)), windows.meeting)
    places = windows.taps(windows.pad(call, inside, -1), windows.meeting)
    best, found = next(values).copy(), np.broadcast_to(next(places), (*x.shape[:2], *windows.outputs)).copy()
    for value, place in zip(values, places, strict=True):
        # Padding (place -1) never wins, not even against the lowest value.
        better = ((value > best) | (found < 0)) & (place >= 0)
        best = np.where(better, value, best)
        found = np.where(better, place, found)
    planes = np.arange(x.shape[0] * x.shape[1], dtype=np.int64).reshape(*x.shape[:2], *(1,) * len(windows.sizes))
    return best, found + planes * inside.size


def _max_shapes(call: Call, x: Known) -> tuple[Known, Known]:
    pooled = _pool_shapes(call, x)
    return pooled, Known(np.dtype(np.int64), pooled.shape)


def _average(call: Call, x: Arr) -> Arr:
    """The mean of each window of x, in the type of x.

    The padding counts in the divisor only with count_include_pad; what ceil_mode adds never does.
    """
    total, windows = window_sums(call, widened(x))
    counts = windows.counts(padding=bool(call.integer("count_include_pad", 0)))
    return np.asarray(total / counts.astype(total.dtype)).astype(x.dtype, copy=False)


def _lp_pool(call: Call, x: Arr) -> Arr:
    """The p-norm of each window."""
    if not call.has("kernel_shape"):  # opset 1 states no default and does not require it
        raise call.error("attribute 'kernel_shape' must be given, not left out", "export the model again")
    powers, p = _powers(call, x)
    total, _ = window_sums(call, powers)
    return np.asarray(total ** (1 / p)).astype(x.dtype, copy=False)


def _powers(call: Call, x: Arr) -> tuple[Arr, float]:
    """The absolute values of x to the power p, and p: a number in operator set 1, an integer from 2 on."""
    p = call.number("p") if call.opset < 2 else call.integer("p")
    if not p > 0:
        raise call.error(f"'p' must be more than 0, not {p}", "export the model again")
    wide = np.abs(widened(x))
    return np.square(wide) if p == 2 else wide**p, p


def _pool_shapes(call: Call, x: Known) -> Known:
    return Known(x.dtype, (*x.shape[:2], *pool_windows(call, x).outputs))


def _global(function: Formula) -> tuple[Kernel, ShapeRule]:
    def kernel(call: Call, x: Arr) -> Arr:
        wide = widened(x)
        return np.asarray(function(wide, axis=_spatial(call, x), keepdims=True)).astype(x.dtype, copy=False)

    return kernel, _global_shapes


def _global_lp(call: Call, x: Arr) -> Arr:
    powers, p = _powers(call, x)
    total = np.sum(powers, axis=_spatial(call, x), keepdims=True)
    return np.asarray(total ** (1 / p)).astype(x.dtype, copy=False)


def _spatial(call: Call, x: Arr | Known) -> tuple[int, ...]:
    if x.ndim < 3 or not math.prod(x.shape[2:]):
        raise call.error(f"the input must have spatial axes with elements, not the shape {list(x.shape)}")
    return tuple(range(2, x.ndim))


def _global_shapes(call: Call, x: Known) -> Known:
    return Known(x.dtype, (*x.shape[:2], *(1 for _ in _spatial(call, x))))


OPERATORS: Table = {
    ("", "MaxPool"): (Operator(1, _max_pool, _max_shapes),),
    ("", "AveragePool"): (Operator(1, _average, _pool_shapes),),
    ("", "LpPool"): (Operator(1, _lp_pool, _pool_shapes),),
    ("", "GlobalAveragePool"): (Operator(1, *_global(np.mean)),),
    ("", "GlobalMaxPool"): (Operator(1, *_global(np.max)),),
    ("", "GlobalLpPool"): (Operator(1, _global_lp, _global_shapes),),
}
