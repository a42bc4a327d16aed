"""TensorProto to numpy array and back.

The size of the data is compared with the dims before any array exists, so that a file of a few bytes cannot ask for
memory.  Arrays read from raw_data or from an external file are read-only views of it.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hwflow.errors import HwflowError
from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.dtypes import ElementType, element_type, element_type_of, type_name
from hwflow.onnx.external import map_external
from hwflow.onnx.model import Array

__all__ = ["decode_tensor", "encode_tensor"]

_DATA_FIELDS = ("raw_data", "float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")


def decode_tensor(tensor: pb.TensorProto, what: str, folder: Path | None) -> Array:
    """The array of a tensor; `folder` is where external data may lie, None where there is no such place.

    `what` names the tensor in messages, as "initializer 'conv1.weight'".  Raises HwflowError for a type that numpy and
    ml_dtypes lack, dims that are negative, and data that is not exactly as long as the dims say.
    """
    element = element_type(tensor.data_type, what)
    dims = tuple(tensor.dims)
    if any(d < 0 for d in dims):
        raise HwflowError(f"the dims of {what} must not be negative, not {list(dims)}; export the model again")
    if tensor.HasField("segment"):
        raise HwflowError(f"{what} must be in one piece, not in segments; export the model again")
    count = math.prod(dims)
    if tensor.data_location == pb.TensorProto.EXTERNAL:
        raw = map_external(tensor, what, folder, (count * element.bits + 7) // 8)
        return _from_raw(raw, element, dims, count, what)
    used = [name for name in _DATA_FIELDS if len(getattr(tensor, name))]
    if len(used) > 1:
        fields = " and ".join(used)
        raise HwflowError(f"the data of {what} must be in one field, not in {fields}; export the model again")
    if tensor.HasField("raw_data") and (not used or used == ["raw_data"]):
        return _from_raw(tensor.raw_data, element, dims, count, what)
    return _from_field(tensor, used[0] if used else element.field, element, dims, count, what)


def _size_error(what: str, dims: tuple[int, ...], element: ElementType, need: int, have: int, unit: str) -> HwflowError:
    return HwflowError(
        f"{what} must hold {need} {unit} for {type_name(element.dtype)}{list(dims)}, not {have}; "
        f"the file is damaged, export the model again"
    )


def _from_raw(raw: Any, element: ElementType, dims: tuple[int, ...], count: int, what: str) -> Array:
    if element.dtype.kind == "O":
        raise HwflowError(f"{what} must keep its strings in string_data, not in raw_data; export the model again")
    need = (count * element.bits + 7) // 8
    if len(raw) != need:
        raise _size_error(what, dims, element, need, len(raw), "bytes")
    if element.bits < 8:
        return _unpack(np.frombuffer(raw, np.uint8), element, count).reshape(dims)
    return np.frombuffer(raw, element.dtype.newbyteorder("<")).astype(element.dtype, copy=False).reshape(dims)


def _from_field(
    tensor: pb.TensorProto, field: str, element: ElementType, dims: tuple[int, ...], count: int, what: str
) -> Array:
    if field != element.field:
        raise HwflowError(
            f"the data of {what} must be in {element.field} or raw_data for {type_name(element.dtype)}, "
            f"not in {field}; export the model again"
        )
    values = getattr(tensor, field)
    packed = 8 // element.bits if element.bits < 8 else 1
    entries = 2 if element.dtype.kind == "c" else 1
    need = -(-count // packed) * entries
    if len(values) != need:
        raise _size_error(what, dims, element, need, len(values), f"entries of {field}")
    if element.dtype.kind == "O":
        return _strings(values, what).reshape(dims)
    if element.bits < 8:
        return _unpack(np.fromiter(values, np.int32, len(values)).astype(np.uint8), element, count).reshape(dims)
    if field == "int32_data" and element.dtype.kind not in "iub":  # the bit pattern of a small float
        bits = np.fromiter(values, np.int32, len(values)).astype(f"<u{element.dtype.itemsize}")
        return bits.view(element.dtype).reshape(dims)
    if element.dtype.kind == "c":
        part = np.float32 if field == "float_data" else np.float64
        return np.array(values, part).view(element.dtype).reshape(dims)
    return np.array(values).astype(element.dtype).reshape(dims)


def _strings(values: Any, what: str) -> Array:
    array = np.empty(len(values), np.object_)
    try:
        array[:] = [value.decode("utf-8") for value in values]
    except UnicodeDecodeError as error:
        text = f"the strings of {what} must be UTF-8, not {error.object!r}; export the model again"
        raise HwflowError(text) from None
    return array


def _unpack(raw: npt.NDArray[np.uint8], element: ElementType, count: int) -> Array:
    """Elements of 2 or 4 bits, the first in the low bits of a byte."""
    per_byte = 8 // element.bits
    shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(element.bits)
    fields = ((raw[:, None] >> shifts) & np.uint8((1 << element.bits) - 1)).reshape(-1)[:count]
    if element.dtype.name.startswith("int"):  # sign extension, because ml_dtypes keeps signed elements as whole bytes
        top = np.int8(1 << (element.bits - 1))
        return ((fields.astype(np.int8) ^ top) - top).astype(element.dtype)
    return fields.astype(element.dtype) if element.dtype.name.startswith("uint") else fields.view(element.dtype)


def encode_tensor(array: Array, name: str, what: str) -> pb.TensorProto:
    """A TensorProto with the array's elements in raw_data (strings in string_data)."""
    element = element_type_of(array.dtype, what)
    tensor = pb.TensorProto(name=name, dims=array.shape, data_type=element.code)
    if element.dtype.kind == "O":
        tensor.string_data.extend(str(value).encode("utf-8") for value in array.reshape(-1).tolist())
    elif element.bits < 8:
        tensor.raw_data = _pack(array, element).tobytes()
    else:
        tensor.raw_data = np.ascontiguousarray(array).astype(element.dtype.newbyteorder("<"), copy=False).tobytes()
    return tensor


def _pack(array: Array, element: ElementType) -> npt.NDArray[np.uint8]:
    per_byte = 8 // element.bits
    fields = np.ascontiguousarray(array).reshape(-1).view(np.uint8) & np.uint8((1 << element.bits) - 1)
    padded = np.zeros(-(-fields.size // per_byte) * per_byte, np.uint8)
    padded[: fields.size] = fields
    shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(element.bits)
    packed: npt.NDArray[np.uint8] = np.bitwise_or.reduce(padded.reshape(-1, per_byte) << shifts, axis=1)
    return packed
