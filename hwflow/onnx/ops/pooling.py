"""Pooling over windows and over whole planes."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from hwflow.onnx.ops.base import INT, INTS, STRING, Arr, Call, Kernel, Known, Operator, ShapeRule, Table
from hwflow.onnx.ops.windows import Windows, windows_of

__all__ = ["OPERATORS"]


def _windows(call: Call, x: Arr | Known) -> Windows:
    kernel = call.integers("kernel_shape")
    if x.ndim != len(kernel) + 2 or min(kernel, default=1) < 1:
        raise call.error(f"'kernel_shape' must be {x.ndim - 2} numbers of 1 or more, not {list(kernel)}")
    return windows_of(call, x.shape[2:], kernel)


def _lowest(dtype: np.dtype[Any]) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _max_pool(call: Call, x: Arr) -> Arr:
    windows = _windows(call, x)
    return functools.reduce(np.maximum, windows.taps(windows.pad(x, _lowest(x.dtype))))


def _average_pool(call: Call, x: Arr) -> Arr:
    """The padding counts in the divisor only with count_include_pad; what ceil_mode adds never does."""
    windows = _windows(call, x)
    total = functools.reduce(np.add, windows.taps(windows.pad(x, 0)))
    if call.integer("count_include_pad", 0):
        inside = np.ones([n + sum(p) for n, p in zip(windows.sizes, windows.pads, strict=True)], x.dtype)
        inside = np.pad(inside, [(0, extra) for extra in windows.extra])
    else:
        inside = windows.pad(np.ones(windows.sizes, x.dtype), 0)
    return np.asarray(total / functools.reduce(np.add, windows.taps(inside)))


def _pool_shapes(call: Call, x: Known) -> Known:
    return Known(x.dtype, (*x.shape[:2], *_windows(call, x).outputs))


def _global(function: Any) -> tuple[Kernel, ShapeRule]:
    def kernel(call: Call, x: Arr) -> Arr:
        return np.asarray(function(x, axis=_spatial(call, x), keepdims=True)).astype(x.dtype)

    return kernel, _global_shapes


def _spatial(call: Call, x: Arr | Known) -> tuple[int, ...]:
    if x.ndim < 3 or not math.prod(x.shape[2:]):
        raise call.error(f"the input must have spatial axes with elements, not the shape {list(x.shape)}")
    return tuple(range(2, x.ndim))


def _global_shapes(call: Call, x: Known) -> Known:
    return Known(x.dtype, (*x.shape[:2], *(1 for _ in _spatial(call, x))))


_POOL = {"auto_pad": STRING, "kernel_shape": INTS, "pads": INTS, "strides": INTS}
_MAX = {**_POOL, "storage_order": INT}  # concerns the output Indices alone, which is not supported
_KERNEL = ("kernel_shape",)

OPERATORS: Table = {
    ("", "MaxPool"): (
        Operator(1, _max_pool, _pool_shapes, attributes=_POOL, required=_KERNEL),
        Operator(8, _max_pool, _pool_shapes, attributes=_MAX, required=_KERNEL),
        Operator(
            10, _max_pool, _pool_shapes, attributes={**_MAX, "ceil_mode": INT, "dilations": INTS}, required=_KERNEL
        ),
    ),
    ("", "AveragePool"): (
        Operator(7, _average_pool, _pool_shapes, attributes={**_POOL, "count_include_pad": INT}, required=_KERNEL),
        Operator(
            10,
            _average_pool,
            _pool_shapes,
            attributes={**_POOL, "count_include_pad": INT, "ceil_mode": INT},
            required=_KERNEL,
        ),
        Operator(
            19,
            _average_pool,
            _pool_shapes,
            attributes={**_POOL, "count_include_pad": INT, "ceil_mode": INT, "dilations": INTS},
            required=_KERNEL,
        ),
    ),
    ("", "GlobalAveragePool"): (Operator(1, *_global(np.mean)),),
    ("", "GlobalMaxPool"): (Operator(1, *_global(np.max)),),
}
