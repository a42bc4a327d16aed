"""Floats of 16 bits or fewer go through float32 and are rounded once, at the end."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from hwflow.onnx.dtypes import ELEMENT_TYPES
from hwflow.onnx.ops.base import Arr
from hwflow.onnx.ops.precision import is_float

__all__ = ["SMALL_FLOATS", "SMALL_INTEGERS", "in_float32", "is_integer", "widened"]

#: Floats that numpy computes slowly or not at all.
SMALL_FLOATS = frozenset(e.dtype for e in ELEMENT_TYPES if is_float(e.dtype) and e.dtype.itemsize < 4)

#: Integers below a byte, one to a byte in memory.
SMALL_INTEGERS = frozenset(e.dtype for e in ELEMENT_TYPES if e.bits < 8 and e.dtype not in SMALL_FLOATS)


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
