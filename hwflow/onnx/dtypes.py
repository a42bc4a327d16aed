"""ONNX element types and the numpy types they become.

bfloat16, float8, float6, float4, and the integers of 2 and 4 bits are types of the package `ml_dtypes`; in memory each
of their elements takes a whole byte (bfloat16 two), in a file the elements below 8 bits are packed.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import numpy.typing as npt

from hwflow.onnx.errors import InvalidModel
from hwflow.onnx.model import DType


@dataclass(frozen=True)
class ElementType:
    """One element type: its number in `TensorProto.DataType`, and how its elements lie in a file.

    `name` is ONNX's own ("float", "float8e4m3fn").  `field` is the typed field of TensorProto that may hold the
    elements instead of raw_data; `bits` is the size of one element in raw_data; `since` is the IR version that brought
    the type.
    """

    code: int
    name: str
    dtype: DType
    bits: int
    field: str
    since: int

    @property
    def per_entry(self) -> int:
        """Elements in one entry of `field`: several of 2 or 4 bits share a byte, of 6 bits each has its own."""
        return 8 // self.bits if self.bits in (2, 4) else 1


def _entry(
    code: int, name: str, dtype: npt.DTypeLike, field: str, *, bits: int | None = None, since: int = 1
) -> ElementType:
    resolved = np.dtype(dtype)
    return ElementType(code, name, resolved, bits or 8 * resolved.itemsize, field, since)


#: Every element type of ONNX (IR version 14).  A string's elements are Python `str` in an object array.
ELEMENT_TYPES: tuple[ElementType, ...] = (
    _entry(1, "float", np.float32, "float_data"),
    _entry(2, "uint8", np.uint8, "int32_data"),
    _entry(3, "int8", np.int8, "int32_data"),
    _entry(4, "uint16", np.uint16, "int32_data"),
    _entry(5, "int16", np.int16, "int32_data"),
    _entry(6, "int32", np.int32, "int32_data"),
    _entry(7, "int64", np.int64, "int64_data"),
    _entry(8, "string", np.object_, "string_data"),
    _entry(9, "bool", np.bool_, "int32_data"),
    _entry(10, "float16", np.float16, "int32_data"),
    _entry(11, "double", np.float64, "double_data"),
    _entry(12, "uint32", np.uint32, "uint64_data"),
    _entry(13, "uint64", np.uint64, "uint64_data"),
    _entry(14, "complex64", np.complex64, "float_data"),
    _entry(15, "complex128", np.complex128, "double_data"),
    _entry(16, "bfloat16", ml_dtypes.bfloat16, "int32_data", since=4),
    _entry(17, "float8e4m3fn", ml_dtypes.float8_e4m3fn, "int32_data", since=9),
    _entry(18, "float8e4m3fnuz", ml_dtypes.float8_e4m3fnuz, "int32_data", since=9),
    _entry(19, "float8e5m2", ml_dtypes.float8_e5m2, "int32_data", since=9),
    _entry(20, "float8e5m2fnuz", ml_dtypes.float8_e5m2fnuz, "int32_data", since=9),
    _entry(21, "uint4", ml_dtypes.uint4, "int32_data", bits=4, since=10),
    _entry(22, "int4", ml_dtypes.int4, "int32_data", bits=4, since=10),
    _entry(23, "float4e2m1", ml_dtypes.float4_e2m1fn, "int32_data", bits=4, since=11),
    _entry(24, "float8e8m0", ml_dtypes.float8_e8m0fnu, "int32_data", since=12),
    _entry(25, "uint2", ml_dtypes.uint2, "int32_data", bits=2, since=13),
    _entry(26, "int2", ml_dtypes.int2, "int32_data", bits=2, since=13),
    _entry(27, "float6e2m3", ml_dtypes.float6_e2m3fn, "int32_data", bits=6, since=14),
    _entry(28, "float6e3m2", ml_dtypes.float6_e3m2fn, "int32_data", bits=6, since=14),
)

_BY_CODE = {entry.code: entry for entry in ELEMENT_TYPES}
_BY_DTYPE = {entry.dtype: entry for entry in ELEMENT_TYPES}


def find_element_type(code: int) -> ElementType | None:
    """The element type of a number in a file; None for 0 (undefined) and for numbers that ONNX does not have."""
    return _BY_CODE.get(code)


def element_type(code: int, what: str) -> ElementType:
    """The element type of a number in a file; `what` names the tensor or value in the message.  Raises InvalidModel."""
    entry = _BY_CODE.get(code)
    if entry is None:
        raise InvalidModel(
            f"the element type of {what} must be one of ONNX's {len(ELEMENT_TYPES)}, not number {code}",
            "export the model again"
        )
    return entry


def element_type_of(dtype: DType, what: str) -> ElementType:
    """The element type that a numpy type is written as; `what` names the tensor or value in the message."""
    entry = _BY_DTYPE.get(np.dtype(np.object_) if dtype.kind in "UTO" else dtype)
    if entry is None:
        raise InvalidModel(f"the type of {what} must be one that ONNX has, not {dtype}", "convert the array first")
    return entry


def type_name(dtype: DType) -> str:
    """How messages name a numpy type: "float32", "int4", "string"."""
    return "string" if dtype.kind in "UTO" else dtype.name
