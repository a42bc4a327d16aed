"""The element types that kernels compute in: sums of narrow floats are wrong in their own type."""

from __future__ import annotations

from typing import Any

import numpy as np

from hwflow.onnx.dtypes import ELEMENT_TYPES, element_type
from hwflow.onnx.ops.base import Call

__all__ = ["float_attribute", "is_float", "working_type"]


_NARROW = frozenset(
    entry.dtype for entry in ELEMENT_TYPES if entry.dtype.kind == "V" and "float" in entry.dtype.name
)


def is_float(dtype: np.dtype[Any]) -> bool:
    """True for float types of any width; those of `ml_dtypes` have a kind of their own in numpy."""
    if dtype.kind == "f":
        return True
    return dtype in _NARROW


def working_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """float32 for narrower floats; other types stay."""
    return np.dtype(np.float32) if is_float(dtype) and dtype.itemsize < 4 else dtype


def float_attribute(call: Call, name: str, default: np.dtype[Any]) -> np.dtype[Any]:
    """The float type that an attribute gives as a number of `TensorProto.DataType`; `default` for 0 or none."""
    code = call.integer(name, 0)
    if not code:
        return default
    dtype = element_type(code, f"'{name}' of {call.node.label}").dtype
    if not is_float(dtype) or dtype.itemsize < 2:
        raise call.error(f"'{name}' must be a float type of 16 bits or more, not {dtype.name}; export the model again")
    return dtype
