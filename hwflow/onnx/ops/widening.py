"""Floats of 16 bits or fewer go through float32 and are rounded once, at the end."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from hwflow.onnx.ops.base import Arr

__all__ = ["SMALL_FLOATS", "SMALL_INTEGERS", "in_float32", "is_integer", "widened"]

#: Floats that numpy computes slowly or not at all.
SMALL_FLOATS = frozenset(
    np.dtype(kind)
    for kind in (
        np.float16,
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e5m2fnuz,
        ml_dtypes.float8_e8m0fnu,
        ml_dtypes.float4_e2m1fn,
    )
)

#: Integers below a byte, one to a byte in memory.
SMALL_INTEGERS = frozenset(map(np.dtype, (ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2)))


def is_integer(dtype: np.dtype[Any]) -> bool:
    """True for integers of any size, bool not among them."""
    return dtype.kind in "iu" or dtype in SMALL_INTEGERS


def widened(x: Arr) -> Arr:
    """The same values as float32 where they are smaller floats, else the array itself."""
    return x.astype(np.float32) if x.dtype in SMALL_FLOATS else x


def in_float32(function: Callable[..., Any]) -> Callable[..., Arr]:
    """`function` of arrays, computed in float32 for smaller floats; a float result gets the small type back."""

    @functools.wraps(function)
    def computed(*operands: Arr, **how: Any) -> Arr:
        small = next((x.dtype for x in operands if x.dtype in SMALL_FLOATS), None)
        if small is None:
            return np.asarray(function(*operands, **how))
        result = np.asarray(function(*(widened(x) for x in operands), **how))
        return result.astype(small) if result.dtype == np.float32 else result

    return computed
