"""The element types that kernels compute in: floats of fewer than 32 bits in float32, rounded once at the end."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from hwflow.onnx.dtypes import ELEMENT_TYPES, element_type
from hwflow.onnx.model import DType
from hwflow.onnx.ops.base import Arr, Call, Formula, Working

#: Floats that numpy computes slowly or not at all; those of `ml_dtypes` have a kind of their own in numpy.
SMALL_FLOATS = frozenset(
    e.dtype
    for e in ELEMENT_TYPES
    if e.dtype.itemsize < 4 and (e.dtype.kind == "f" or (e.dtype.kind == "V" and "float" in e.dtype.name))
)

#: Integers below a byte, one to a byte in memory.
SMALL_INTEGERS = frozenset(e.dtype for e in ELEMENT_TYPES if e.bits < 8 and e.dtype not in SMALL_FLOATS)


def is_float(dtype: DType) -> bool:
    """True for float types of any width."""
    return dtype.kind == "f" or dtype in SMALL_FLOATS


def is_integer(dtype: DType) -> bool:
    """True for integers of any size, bool not among them."""
    return dtype.kind in "iu" or dtype in SMALL_INTEGERS


def working_type(dtype: DType) -> Working:
    """float32 for narrower floats; other types stay."""
    return np.dtype(np.float32) if dtype in SMALL_FLOATS else dtype


def widened(x: Arr) -> Arr:
    """The same values in the working type: the array itself where that is its own."""
    return x.astype(working_type(x.dtype), copy=False)


def in_float32(function: Formula) -> Callable[..., Arr]:
    """`function` of arrays, computed in float32 for smaller floats; a float result gets the small type back."""

    @functools.wraps(function)
    def computed(*operands: Arr, **how: object) -> Arr:
        small = next((x.dtype for x in operands if x.dtype in SMALL_FLOATS), None)
        if small is None:
            return np.asarray(function(*operands, **how))
        result = np.asarray(function(*(widened(x) for x in operands), **how))
        return result.astype(small) if result.dtype == np.float32 else result

    return computed


def float_attribute(call: Call, name: str, default: DType) -> DType:
    """The float type that an attribute gives as a number of `TensorProto.DataType`; `default` for 0 or none."""
    code = call.integer(name, 0)
    if not code:
        return default
    dtype = element_type(code, f"'{name}' of {call.node.label}").dtype
    if not is_float(dtype) or dtype.itemsize < 2:
        raise call.error(
            f"'{name}' must be a float type of 16 bits or more, not {dtype.name}", "export the model again"
        )
    return dtype
