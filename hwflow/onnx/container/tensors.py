"""TensorProto to numpy array and back, and sparse tensors.

The size of the data is compared with the dims before any array exists, so that a file of a few bytes cannot ask for
memory.  Arrays are read-only; large ones in raw_data or an external file are views of it, and need not be aligned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.dtypes import ElementType, element_type_of, find_element_type, type_name
from hwflow.onnx.errors import LimitError, TensorDataError
from hwflow.onnx.model import Array, SparseTensor

#: The fields of TensorProto that may hold the elements.
DATA_FIELDS = ("raw_data", "float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")

#: What numpy can index: bytes of one array, and axes.
_MAX_BYTES, _MAX_RANK = (1 << 63) - 1, 64

#: numpy is slower on data at odd addresses: below this size one copy is cheaper than that at each use.
_COPIED_BYTES = 1 << 18

_NOWHERE = Document(pb.ModelProto())


def decode_tensor(tensor: pb.TensorProto, what: str, document: Document = _NOWHERE) -> Array:
    """The array of a tensor of `document`, which knows large weights and external data.

    `what` names the tensor in messages, as "initializer 'conv1.weight'".  Raises TensorDataError for an element type
    that ONNX does not have, dims that are negative, and data that is not exactly what type and dims say; LimitError for
    more than `document.limits` allow or numpy can hold; SecurityError for external data outside of the model's folder.
    """
    element = find_element_type(tensor.data_type)
    if element is None:
        raise TensorDataError(
            f"the element type of {what} must be one that ONNX has, not number {tensor.data_type}",
            "export the model again"
        )
    if len(tensor.dims) > _MAX_RANK:  # before anything multiplies the dims
        why = f"{what} must have at most {_MAX_RANK} dims, not {len(tensor.dims)}"
        raise LimitError(why, "this file cannot be trusted")
    dims = tuple(tensor.dims)
    if any(d < 0 for d in dims):
        raise TensorDataError(
            f"the dims of {what} must not be negative, not {list(dims)[:8]}", "export the model again"
        )
    if tensor.HasField("segment"):
        raise TensorDataError(f"{what} must be in one piece, not in segments", "export the model again")
    array = _decode(tensor, element, dims, what, document)
    if not array.flags.aligned and array.nbytes <= _COPIED_BYTES:
        array = array.copy()
    array.flags.writeable = False
    return array.reshape(dims)


def _decode(
    tensor: pb.TensorProto, element: ElementType, dims: tuple[int, ...], what: str, document: Document
) -> Array:
    """The elements in a row."""
    count = math.prod(dims)
    used = [name for name in DATA_FIELDS if len(getattr(tensor, name))]
    if tensor.data_location == pb.TensorProto.EXTERNAL:
        if used:
            raise TensorDataError(f"{what} must not hold data as well as external data", "export the model again")
        _refuse_strings(element, what)
        mapped = document.files.view(tensor, what, (count * element.bits + 7) // 8)
        _check_limits(element, dims, what, document)
        return _from_raw(mapped, element, count, what)
    if len(used) > 1:
        fields = " and ".join(used)
        raise TensorDataError(f"the data of {what} must be in one field, not in {fields}", "export the model again")
    if used == ["raw_data"] or (not used and tensor.HasField("raw_data")):
        _refuse_strings(element, what)
        raw, need = document.raw_data(tensor), (count * element.bits + 7) // 8
        if len(raw) != need:
            raise _size_error(what, dims, element, need, len(raw), "bytes")
        _check_limits(element, dims, what, document)
        return _from_raw(raw, element, count, what)
    field = used[0] if used else element.field
    if field != element.field:
        raise TensorDataError(
            f"the data of {what} must be in {element.field} or raw_data for {type_name(element.dtype)}, "
            f"not in {field}", "export the model again"
        )
    values = getattr(tensor, field)
    need = -(-count // element.per_entry) * (2 if element.dtype.kind == "c" else 1)
    if len(values) != need:
        raise _size_error(what, dims, element, need, len(values), f"entries of {field}")
    _check_limits(element, dims, what, document)
    return _from_entries(values, element, count, what)


def _check_limits(element: ElementType, dims: tuple[int, ...], what: str, document: Document) -> None:
    """Zero elements still need axes that numpy can hold; several small elements share a byte in the file only."""
    if math.prod(d for d in dims if d) * element.dtype.itemsize > _MAX_BYTES:
        raise LimitError(f"the dims of {what} must be at most {_MAX_BYTES} bytes, not {list(dims)}")
    size, allowed = math.prod(dims) * element.dtype.itemsize, document.limits.tensor_bytes
    if size > allowed:
        raise LimitError(
            f"{what}: tensor_bytes must be at most {allowed:,}, not {size:,}",
            "if you trust the model, raise it with --limit tensor_bytes=NUMBER"
        )


def _refuse_strings(element: ElementType, what: str) -> None:
    if element.dtype.kind == "O":
        raise TensorDataError(
            f"{what} must keep its strings in string_data, not in raw bytes", "export the model again"
        )


def _size_error(
    what: str, dims: tuple[int, ...], element: ElementType, need: int, have: int, unit: str
) -> TensorDataError:
    shown = [*dims[:8], "..."] if len(dims) > 8 else list(dims)
    return TensorDataError(
        f"{what} must hold {need} {unit} for {type_name(element.dtype)}{shown}, not {have}",
        "the file is damaged, export the model again"
    )


def _from_raw(raw: bytes | memoryview, element: ElementType, count: int, what: str) -> Array:
    if element.bits < 8:
        return _unpack(np.frombuffer(raw, np.uint8), element, count)
    if element.dtype.kind == "b":  # numpy computes with the byte as it is
        stored = np.frombuffer(raw, np.uint8)
        _check_range(stored, 0, 1, element, what)
    return np.frombuffer(raw, element.dtype.newbyteorder("<")).astype(element.dtype, copy=False)


def _from_entries(values: Any, element: ElementType, count: int, what: str) -> Array:
    """Elements from the typed field, each in the range of its type."""
    dtype = element.dtype
    if dtype.kind == "O":
        return _strings(values, what)
    if element.field != "int32_data":
        part = {"c": dtype.type(0).real.dtype, "u": np.dtype(np.uint64)}.get(dtype.kind, dtype)
        entries = np.fromiter(values, part, len(values))
        if dtype.kind == "u":
            _check_range(entries, 0, np.iinfo(dtype.name).max, element, what)
        return entries.view(dtype) if dtype.kind == "c" else entries.astype(dtype, copy=False)
    entries = np.fromiter(values, np.int32, len(values))
    if element.bits in (2, 4):  # a byte of several elements; some writers sign-extend it
        _check_range(entries, -128, 255, element, what)
        return _unpack(entries.astype(np.uint8), element, count)
    if dtype.kind in "iu":
        info = np.iinfo(dtype.name)
        _check_range(entries, info.min, info.max, element, what)
        return entries.astype(dtype)
    _check_range(entries, 0, 1 if dtype.kind == "b" else (1 << element.bits) - 1, element, what)
    return entries.astype(f"u{dtype.itemsize}").view(dtype)  # the bit pattern of a small float


def _check_range(entries: npt.NDArray[np.integer], low: int, high: int, element: ElementType, what: str) -> None:
    if entries.size and (entries.min() < low or entries.max() > high):
        wrong = entries[(entries < low) | (entries > high)][0]
        raise TensorDataError(
            f"the stored elements of {what} must be {low} to {high} for {type_name(element.dtype)}, not {wrong}",
            "export the model again"
        )


def _strings(values: Sequence[bytes], what: str) -> Array:
    array = np.empty(len(values), np.object_)
    try:
        array[:] = [value.decode("utf-8") for value in values]
    except UnicodeDecodeError as error:
        why = f"the strings of {what} must be UTF-8, not {error.object[:80]!r}"
        raise TensorDataError(why, "export the model again") from None
    return array


def _unpack(raw: npt.NDArray[np.uint8], element: ElementType, count: int) -> Array:
    """Elements of 2, 4 or 6 bits, the first in the low bits of the first byte, one after the other."""
    if element.bits == 6:  # four elements in three bytes
        groups = np.zeros((-(-raw.size // 3), 4), np.uint8)
        flat = np.zeros(groups.shape[0] * 3, np.uint8)
        flat[: raw.size] = raw
        groups[:, :3] = flat.reshape(-1, 3)
        words = groups.view("<u4")
    else:
        words = raw[:, None]
    per_word = 4 if element.bits == 6 else 8 // element.bits
    shifts = np.arange(per_word, dtype=words.dtype) * words.dtype.type(element.bits)
    mask = words.dtype.type((1 << element.bits) - 1)
    fields: Array = ((words >> shifts) & mask).astype(np.uint8, copy=False).reshape(-1)[:count]
    if element.name.startswith("int"):  # sign extension, because ml_dtypes keeps signed elements as whole bytes
        top = np.int8(1 << (element.bits - 1))
        fields = (fields.view(np.int8) ^ top) - top
    elements: Array = fields.view(element.dtype) if element.name.startswith("float") else fields.astype(element.dtype)
    return elements


def encode_tensor(array: Array, name: str, what: str) -> pb.TensorProto:
    """A TensorProto with the array's elements in raw_data (strings in string_data)."""
    tensor = pb.TensorProto(name=name or None)
    fill_tensor(tensor, array, what)
    return tensor


def fill_tensor(tensor: pb.TensorProto, array: Array, what: str) -> None:
    """Put an array into an empty TensorProto.  `what` names it in messages."""
    element = element_type_of(array.dtype, what)
    tensor.dims.extend(array.shape)
    tensor.data_type = element.code
    if element.dtype.kind == "O":
        tensor.string_data.extend(_string_bytes(value) for value in array.reshape(-1).tolist())
    else:
        tensor.raw_data = raw_bytes(array, element).tobytes()


def _string_bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8")


def raw_bytes(array: Array, element: ElementType) -> Array:
    """The elements as they lie in raw_data: an array whose bytes they are, a view of `array` where that is possible."""
    if element.bits < 8:
        return _pack(array, element)
    return np.ascontiguousarray(array).astype(element.dtype.newbyteorder("<"), copy=False)


def _pack(array: Array, element: ElementType) -> npt.NDArray[np.uint8]:
    """The reverse of `_unpack`; what is left of the last byte is zero."""
    fields = np.ascontiguousarray(array).reshape(-1).view(np.uint8) & np.uint8((1 << element.bits) - 1)
    per_word = 4 if element.bits == 6 else 8 // element.bits
    padded = np.zeros(-(-fields.size // per_word) * per_word, np.uint32 if element.bits == 6 else np.uint8)
    padded[: fields.size] = fields
    shifts = np.arange(per_word, dtype=padded.dtype) * padded.dtype.type(element.bits)
    words = np.bitwise_or.reduce(padded.reshape(-1, per_word) << shifts, axis=1)
    packed: npt.NDArray[np.uint8] = words.astype(np.uint8)
    if element.bits == 6:
        packed = words.astype("<u4").view(np.uint8).reshape(-1, 4)[:, :3].reshape(-1)[: (fields.size * 6 + 7) // 8]
    return packed


def decode_sparse(sparse: pb.SparseTensorProto, what: str, document: Document = _NOWHERE) -> SparseTensor:
    """A sparse tensor; its indices must be in range and ascend.  Raises as `decode_tensor`."""
    values = decode_tensor(sparse.values, f"the values of {what}", document)
    indices: npt.NDArray[Any] = decode_tensor(sparse.indices, f"the indices of {what}", document)
    dims = tuple(sparse.dims)
    if not 0 < len(dims) <= _MAX_RANK or any(d <= 0 for d in dims) or math.prod(dims) > _MAX_BYTES:
        raise TensorDataError(
            f"the dims of {what} must be 1 to {_MAX_RANK} numbers, each above 0 and with a product below 2^63, "
            f"not {list(dims)[:8]}", "export the model again"
        )
    if values.ndim != 1 or indices.dtype != np.int64 or indices.shape not in ((len(values),), (len(values), len(dims))):
        raise TensorDataError(
            f"{what} must have values [n] and int64 indices [n] or [n, {len(dims)}], "
            f"not {list(values.shape)} and {type_name(indices.dtype)}{list(indices.shape)}", "export the model again"
        )
    limits = np.array(dims) if indices.ndim == 2 else np.array(math.prod(dims))
    if indices.size and ((indices < 0).any() or (indices >= limits).any()):
        raise TensorDataError(f"the indices of {what} must lie within {list(dims)[:8]}", "export the model again")
    flat = np.ravel_multi_index(tuple(indices.T), dims) if indices.ndim == 2 and len(indices) else indices.reshape(-1)
    if (np.diff(flat) <= 0).any():
        raise TensorDataError(f"the indices of {what} must ascend, each there once", "export the model again")
    return SparseTensor(values, indices, dims)


def encode_sparse(sparse: SparseTensor, name: str, what: str) -> pb.SparseTensorProto:
    """The SparseTensorProto; its name is that of its values."""
    return pb.SparseTensorProto(
        values=encode_tensor(sparse.values, name, f"the values of {what}"),
        indices=encode_tensor(sparse.indices, "", f"the indices of {what}"),
        dims=sparse.shape,
    )
