"""Tensors of all kinds: initializers, sparse ones and those in attributes, without decoding their elements."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import HwflowError

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.container.external import KEYS
from hwflow.onnx.dtypes import ELEMENT_TYPES, ElementType
from hwflow.onnx.errors import ChecksumError, MissingDataError, SecurityError
from hwflow.onnx.rules.finding import AGAIN, Finding, error, lenient, quoted, warning
from hwflow.onnx.rules.walk import TensorPlace, scopes, tensors, with_attributes

DATA_FIELDS = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")

#: numpy's limit; no operator needs more than some ten axes.
MAX_RANK = 64

_DAMAGED = "the file is damaged, export the model again"


def tensor_data(document: Document) -> Iterator[Finding]:
    """Every tensor has a known type, dims of a size that memory can hold, and just the data that they need."""
    for place in tensors(document):
        yield from _tensor(document, place)


def element_count(dims: Iterable[int]) -> int:
    """The exact number of elements; for at most MAX_RANK dims, so that the integers stay small."""
    return math.prod(dims)


def _tensor(document: Document, place: TensorPlace) -> Iterator[Finding]:
    tensor, path = place.proto, place.path
    element = ELEMENTS.get(tensor.data_type)
    if element is None:
        message = f"data_type must be one of 1 to {max(ELEMENTS)}, not {tensor.data_type}"
        yield error("TD-01", path, message, _DAMAGED)
        return
    if tensor.HasField("segment"):
        yield error("TD-10", path, "the tensor must be in one piece, not a segment of one", "join the segments")
        return
    bad = list(_dims(document, tensor, element, path))
    yield from bad
    if bad:
        return
    if tensor.data_location == pb.TensorProto.EXTERNAL:
        yield from _external(document, tensor, element, path)
        return
    if tensor.external_data:
        message = "external_data must come with data_location EXTERNAL, not with data in the model; it is ignored"
        yield warning("EX-03", "W-external-unused", path, message)
    yield from _inside(document, tensor, element, path)


def _dims(document: Document, tensor: pb.TensorProto, element: ElementType, path: str) -> Iterator[Finding]:
    rank = len(tensor.dims)
    if rank > MAX_RANK:
        yield error("TD-04", path, f"a tensor must have at most {MAX_RANK} dims, not {rank}", _DAMAGED)
        return
    dims = list(tensor.dims)
    if any(d < 0 for d in dims):
        yield error("TD-04", path, f"the dims must be 0 or more, not {dims}", _DAMAGED)
        return
    # An empty array has strides too: numpy refuses it where the other dims overflow.
    size = element_count(filter(None, dims)) * max(element.bits, 8) // 8
    if size >= 1 << 63:
        rule = "TD-05" if 0 in dims else "TD-04"
        yield error(rule, path, f"the dims must make fewer than 2^63 bytes, not {size} for {dims}", _DAMAGED)
    elif 0 not in dims and size > (limit := document.limits.tensor_bytes):
        message = f"tensor_bytes must be at most {limit:,}, not {size:,} for {element.name}{dims}"
        yield error("TD-04", path, message, "if you trust the model, raise it with --limit tensor_bytes=NUMBER")


def _inside(document: Document, tensor: pb.TensorProto, element: ElementType, path: str) -> Iterator[Finding]:
    raw = document.raw_data(tensor) if tensor.HasField("raw_data") else None
    used = [name for name in DATA_FIELDS if getattr(tensor, name)]
    fields = (["raw_data"] if raw is not None and (len(raw) or not used) else []) + used
    count = element_count(tensor.dims)
    if count == 0:
        if used or raw:
            message = f"a tensor of {list(tensor.dims)} must have no data, not some in {' and '.join(fields)}"
            yield error("TD-05", path, message, _DAMAGED)
    elif len(fields) != 1:
        where = f"in {' and '.join(fields)}" if fields else "missing"
        yield error("TD-02", path, f"the data must be in one field, not {where}", _DAMAGED)
    elif fields == ["raw_data"]:
        assert raw is not None
        yield from _raw(raw, count, tensor, element, path)
    elif fields != [element.field]:
        others = "" if element.name == "string" else " or raw_data"
        message = f"the data of a {element.name} tensor must be in {element.field}{others}, not in {fields[0]}"
        yield error("TD-02", path, message)
    else:
        yield from _field(count, tensor, element, path)


def _size_error(need: int, unit: str, have: int, tensor: pb.TensorProto, element: ElementType, path: str) -> Finding:
    message = f"the data must be {need} {unit} for {element.name}{list(tensor.dims)}, not {have}"
    return error("TD-03", path, message, _DAMAGED)


def _raw(
    raw: bytes | memoryview, count: int, tensor: pb.TensorProto, element: ElementType, path: str
) -> Iterator[Finding]:
    if element.name == "string":
        yield error("TD-02", path, "strings must be in string_data, not in raw_data")
        return
    need = (count * element.bits + 7) // 8
    if len(raw) != need:
        yield _size_error(need, "bytes", len(raw), tensor, element, path)
    elif element.name == "bool" and (highest := int(np.frombuffer(raw, np.uint8).max())) > 1:
        yield error("TD-06", path, f"the elements of a bool tensor must be 0 or 1, not {highest}")
    elif (spare := 8 * need - count * element.bits) and raw[-1] >> (8 - spare):
        message = f"the last {spare} bits must be 0 because no element uses them, not {raw[-1] >> (8 - spare)}"
        yield warning("TD-08", "W-pad-bits", path, message)


def _field(count: int, tensor: pb.TensorProto, element: ElementType, path: str) -> Iterator[Finding]:
    values = getattr(tensor, element.field)
    need = -(-count // element.per_entry) * (2 if element.name.startswith("complex") else 1)
    if len(values) != need:
        yield _size_error(need, f"entries of {element.field}", len(values), tensor, element, path)
    elif element.name == "string":
        yield from _strings(values, path)
    elif (allowed := entry_range(element)) is not None:
        low, high = min(values), max(values)
        if low < allowed[0] or high > allowed[1]:
            worst = low if low < allowed[0] else high
            message = f"the entries of {element.field} must be {allowed[0]} to {allowed[1]} for {element.name}"
            yield error("TD-06", path, f"{message}, not {worst}")
        spare = (need * element.per_entry - count) * element.bits if element.per_entry > 1 else 0
        if spare and (extra := values[-1] >> (8 - spare)):
            message = f"the last {spare} bits must be 0 because no element uses them, not {extra}"
            yield warning("TD-08", "W-pad-bits", path, message)


def _strings(values: Iterable[bytes], path: str) -> Iterator[Finding]:
    for index, value in enumerate(values):
        try:
            value.decode("utf-8")
        except UnicodeDecodeError:
            yield error("TD-09", path, f"string_data[{index}] must be UTF-8, not {value[:40]!r}")
            return
        if value.endswith(b"\0") or value.startswith(b"\xef\xbb\xbf"):
            message = f"string_data[{index}] must have no byte order mark and no NUL at its end, not be {value[:40]!r}"
            yield lenient("TD-09", "W-string-mark", path, f"{message}; they count as characters")
            return


def _external(document: Document, tensor: pb.TensorProto, element: ElementType, path: str) -> Iterator[Finding]:
    used = [name for name in ("raw_data", *DATA_FIELDS) if getattr(tensor, name)]
    if used:
        message = f"data in a file of its own must not be in the model as well, not in {' and '.join(used)}"
        yield error("EX-03", path, message)
        return
    bad = list(_entries(tensor, path))
    yield from bad
    if any(finding.code == "" for finding in bad):
        return
    if element.name == "string":
        yield error("TD-02", path, "strings must be in string_data, not in a file of their own")
        return
    entries = {entry.key: entry.value for entry in tensor.external_data}
    need = (element_count(tensor.dims) * element.bits + 7) // 8
    if "length" in entries and int(entries["length"]) != need:
        message = f"'length' must be {need} for {element.name}{list(tensor.dims)}, not {entries['length']}"
        yield error("EX-06", path, message)
        return
    yield from _file(document, tensor, entries, need, path)


def _entries(tensor: pb.TensorProto, path: str) -> Iterator[Finding]:
    counts = Counter(entry.key for entry in tensor.external_data)
    for key, count in counts.items():
        if count > 1:
            yield error("EX-10", path, f"{quoted(key)} of the external data must be given once, not {count} times")
        elif key not in KEYS:
            message = f"the keys of external data must be among {', '.join(KEYS)}, not {quoted(key)}"
            yield warning("EX-10", "W-external-key", path, f"{message}; it is ignored")
    if "location" not in counts:
        yield error("EX-04", path, "'location' of the external data must be given, not missing")
    for entry in tensor.external_data:
        text = entry.value
        # 2^63 has 19 digits; a longer number would take Python a while.
        if entry.key in ("offset", "length") and not (text.isascii() and text.isdigit() and len(text) < 20):
            message = f"'{entry.key}' of the external data must be a number of bytes, not {quoted(text)}"
            yield error("EX-05", path, message)


#: The rules that a data file breaks, by the error of opening it; EX-05 for any other.
_FILE_RULES: dict[type[HwflowError], str] = {SecurityError: "EX-02", ChecksumError: "EX-07", MissingDataError: "EX-04"}


def _file(
    document: Document, tensor: pb.TensorProto, entries: dict[str, str], need: int, path: str
) -> Iterator[Finding]:
    """Open the file as reading does, which compares its size and its checksum; the data itself is not touched."""
    if document.folder is None:
        message = f"data in a file of its own, {quoted(entries['location'])}, must have a folder to lie in, not none"
        yield error("EX-09", path, message, "load the model from its file, not from bytes")
        return
    try:
        document.files.view(tensor, "the tensor", need)
    except HwflowError as problem:
        rule = next((rule for kind, rule in _FILE_RULES.items() if isinstance(problem, kind)), "EX-05")
        yield error(rule, path, problem.why, problem.remedy or AGAIN)


#: By the number in TensorProto.DataType.
ELEMENTS = {element.code: element for element in ELEMENT_TYPES}


def entry_range(element: ElementType) -> tuple[int, int] | None:
    """The smallest and largest entry of the typed field where that is wider than an element, else None.

    Integers stand there as such, small floats and elements of 2 or 4 bits as the bit patterns of 8 or 16 bits.
    """
    if element.name == "bool":
        return 0, 1
    if element.name in ("int8", "int16"):
        return -(1 << (element.bits - 1)), (1 << (element.bits - 1)) - 1
    if element.name == "uint32":
        return 0, (1 << 32) - 1
    if element.field != "int32_data" or element.name == "int32":
        return None
    return 0, (1 << (6 if element.bits == 6 else max(element.bits, 8))) - 1


_INT64 = 7


def sparse_tensors(document: Document) -> Iterator[Finding]:
    """Values of rank 1, and for each an index that is inside of the dims and larger than the one before."""
    for path, sparse in _places(document):
        problem = _problem(document, sparse)
        if problem:
            yield error("SP-01", path, problem)


def _places(document: Document) -> Iterator[tuple[str, pb.SparseTensorProto]]:
    for scope in scopes(document):
        if isinstance(scope.proto, pb.GraphProto):
            for sparse in scope.proto.sparse_initializer:
                yield f"{scope.path}/sparse_initializer {quoted(sparse.values.name)}", sparse
        else:
            for default in scope.proto.attribute_proto:
                yield from _of_attribute(default, f"{scope.path}/attribute_proto {quoted(default.name)}")
    for place in with_attributes(document):
        for attribute in place.proto.attribute:
            if attribute.HasField("sparse_tensor") or attribute.sparse_tensors:
                yield from _of_attribute(attribute, f"{place.path}/attribute {quoted(attribute.name)}")


def _of_attribute(attribute: pb.AttributeProto, path: str) -> Iterator[tuple[str, pb.SparseTensorProto]]:
    if attribute.HasField("sparse_tensor"):
        yield path, attribute.sparse_tensor
    for index, sparse in enumerate(attribute.sparse_tensors):
        yield f"{path}[{index}]", sparse


def _problem(document: Document, sparse: pb.SparseTensorProto) -> str | None:
    """The fault, as a message; None where all is well and where the rules for tensors say it."""
    rank = len(sparse.dims)
    if not 1 <= rank <= MAX_RANK:
        return f"a sparse tensor must have 1 to {MAX_RANK} dims, not {rank}"
    dims = list(sparse.dims)
    if any(d <= 0 for d in dims):
        return f"the dims of a sparse tensor must be 1 or more, not {dims}"
    element = ELEMENTS.get(sparse.values.data_type)
    size = element_count(dims) * max(element.bits if element else 8, 8) // 8
    if size > min(document.limits.tensor_bytes, 1 << 62):
        return f"tensor_bytes must be at most {document.limits.tensor_bytes:,}, not {size:,} for the dims {dims}"
    if len(sparse.values.dims) != 1:
        return f"the values of a sparse tensor must have rank 1, not the dims {list(sparse.values.dims)[:MAX_RANK]}"
    count = sparse.values.dims[0]
    if sparse.indices.data_type != _INT64:
        return f"the indices of a sparse tensor must be int64, not data_type {sparse.indices.data_type}"
    shape = list(sparse.indices.dims)[:MAX_RANK]
    if shape not in ([count], [count, rank]):
        expected = f"[{count}] or [{count}, {rank}]"
        return f"the indices of {count} values in {rank} dims must have the dims {expected}, not {shape}"
    indices = _indices(document, sparse.indices, count * (rank if len(shape) == 2 else 1))
    return None if indices is None else _order(indices.reshape(shape), dims)


def _indices(document: Document, tensor: pb.TensorProto, count: int) -> npt.NDArray[np.int64] | None:
    """The indices where they lie in the model in the right number, else None: then another rule has a finding."""
    if tensor.data_location == pb.TensorProto.EXTERNAL:
        return None
    if tensor.HasField("raw_data"):
        raw = document.raw_data(tensor)
        return np.frombuffer(raw, "<i8").astype(np.int64) if len(raw) == 8 * count else None
    if len(tensor.int64_data) != count:
        return None
    return np.fromiter(tensor.int64_data, np.int64, count)


def _order(indices: npt.NDArray[np.int64], dims: list[int]) -> str | None:
    if indices.ndim == 1:
        linear = indices
        outside = np.asarray((indices < 0) | (indices >= element_count(dims)))
    else:
        outside = np.asarray(((indices < 0) | (indices >= np.array(dims, np.int64))).any(axis=1))
        strides = np.cumprod([1, *dims[:0:-1]], dtype=np.int64)[::-1]
        linear = indices @ strides
    if outside.any():
        at = int(np.argmax(outside))
        return f"the indices of a sparse tensor must lie inside of {dims}, not be {indices[at].tolist()} (number {at})"
    falling = linear[1:] <= linear[:-1]
    if falling.any():
        at = int(np.argmax(falling)) + 1
        what = "a duplicate" if linear[at] == linear[at - 1] else "smaller than the one before"
        return f"the indices of a sparse tensor must be ascending, not {what} at number {at}"
    return None


RULES = (
    tensor_data,
    sparse_tensors,
)
