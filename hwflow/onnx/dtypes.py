"""ONNX element types and the numpy types they become.

bfloat16, float8, float4, and the integers of 2 and 4 bits are types of the package `ml_dtypes`; in memory each of their
elements takes a whole byte (bfloat16 two), in a file the elements below 8 bits are packed.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import numpy.typing as npt

from hwflow.errors import HwflowError

__all__ = ["ELEMENT_TYPES", "ElementType", "element_type", "element_type_of", "type_name"]


@dataclass(frozen=True)
class ElementType:
    """One element type: its number in `TensorProto.DataType`, and how its elements lie in a file.

    `field` is the typed field of TensorProto that may hold the elements instead of raw_data; `bits` is the size of one
    element in raw_data.
    """

    code: int
    dtype: np.dtype[np.generic]
    bits: int
    field: str


def _entry(code: int, dtype: npt.DTypeLike, field: str, bits: int | None = None) -> ElementType:
    resolved = np.dtype(dtype)
    return ElementType(code, resolved, bits or 8 * resolved.itemsize, field)


#: Every element type that can be read and written.  A string's elements are Python `str` in an object array.
ELEMENT_TYPES: tuple[ElementType, ...] = (
    _entry(1, np.float32, "float_data"),
    _entry(2, np.uint8, "int32_data"),
    _entry(3, np.int8, "int32_data"),
    _entry(4, np.uint16, "int32_data"),
    _entry(5, np.int16, "int32_data"),
    _entry(6, np.int32, "int32_data"),
    _entry(7, np.int64, "int64_data"),
    _entry(8, np.object_, "string_data"),
    _entry(9, np.bool_, "int32_data"),
    _entry(10, np.float16, "int32_data"),
    _entry(11, np.float64, "double_data"),
    _entry(12, np.uint32, "uint64_data"),
    _entry(13, np.uint64, "uint64_data"),
    _entry(14, np.complex64, "float_data"),
    _entry(15, np.complex128, "double_data"),
    _entry(16, ml_dtypes.bfloat16, "int32_data"),
    _entry(17, ml_dtypes.float8_e4m3fn, "int32_data"),
    _entry(18, ml_dtypes.float8_e4m3fnuz, "int32_data"),
    _entry(19, ml_dtypes.float8_e5m2, "int32_data"),
    _entry(20, ml_dtypes.float8_e5m2fnuz, "int32_data"),
    _entry(21, ml_dtypes.uint4, "int32_data", bits=4),
    _entry(22, ml_dtypes.int4, "int32_data", bits=4),
    _entry(23, ml_dtypes.float4_e2m1fn, "int32_data", bits=4),
    _entry(24, ml_dtypes.float8_e8m0fnu, "int32_data"),
    _entry(25, ml_dtypes.uint2, "int32_data", bits=2),
    _entry(26, ml_dtypes.int2, "int32_data", bits=2),
)

_BY_CODE = {entry.code: entry for entry in ELEMENT_TYPES}
_BY_DTYPE = {entry.dtype: entry for entry in ELEMENT_TYPES}


def element_type(code: int, what: str) -> ElementType:
    """The element type of a number in a file; `what` names the tensor or value in the message."""
    entry = _BY_CODE.get(code)
    if entry is None:
        raise HwflowError(
            f"the element type of {what} must be one that hwflow reads, not number {code}; "
            f"convert it to float32 or to an integer type"
        )
    return entry


def element_type_of(dtype: np.dtype[np.generic], what: str) -> ElementType:
    """The element type that a numpy type is written as; `what` names the tensor or value in the message."""
    entry = _BY_DTYPE.get(np.dtype(np.object_) if dtype.kind in "UTO" else dtype)
    if entry is None:
        raise HwflowError(f"the type of {what} must be one that ONNX has, not {dtype}; convert the array first")
    return entry


def type_name(dtype: np.dtype[np.generic]) -> str:
    """How messages name a numpy type: "float32", "int4", "string"."""
    return "string" if dtype.kind in "UTO" else dtype.name
