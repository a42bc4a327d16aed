"""Why bytes do not parse as an ONNX model: another kind of file, cut off, or damaged.

The protobuf runtime only says "error parsing message".  This walks the outermost fields of the message and looks at the
first bytes, which is enough to tell the usual cases apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import TypeAlias

from google.protobuf.descriptor import Descriptor

from hwflow.onnx import onnx_pb2 as pb

Bytes: TypeAlias = bytes | memoryview

#: Messages in messages that the protobuf runtime parses.
_MAX_DEPTH = 100

#: What is said about more of them; a graph in a graph takes three.
TOO_DEEP = f"must be nested at most {_MAX_DEPTH} messages (32 graphs) deep", "simplify the model"

#: Messages that the search for deep nesting looks at before it gives up.
_MOST_MESSAGES = 1_000_000

#: First bytes (at an offset) of what is often mistaken for an ONNX file, and what to do with it.
_KNOWN: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"version https://git-lfs", "a Git LFS pointer", "run `git lfs pull` to get the real file"),
    (0, b"PK\x03\x04", "a zip archive (PyTorch or Keras)", "export the model with torch.onnx.export or tf2onnx"),
    (0, b"\x89HDF", "an HDF5 file (Keras)", "convert it with tf2onnx"),
    (4, b"ORTM", "a file in onnxruntime's own format", "use the .onnx file that it was made from"),
    (0, b"\x93NUMPY", "a numpy array", "pass the model, not the data"),
    (0, b"\x1f\x8b", "compressed with gzip", "decompress it first"),
    (0, b"<", "HTML or XML", "download the file itself, not the page about it"),
    (0, b"ir_version", "a model in text", "name it .textproto"),
    (0, b"{", "JSON", "save the model in ONNX's binary format"),
)

#: Wire types of the fields of ModelProto; a first field outside of this table is not a model's.
_MODEL_FIELDS = {1: 0, 2: 2, 3: 2, 4: 2, 5: 0, 6: 2, 7: 2, 8: 2, 14: 2, 20: 2, 25: 2, 26: 2}


def why_not_onnx(data: Bytes) -> str:
    """The fault in bytes that protobuf refused, as the end of a message: "... must ..., not ...; remedy"."""
    for offset, magic, kind, remedy in _KNOWN:
        if data[offset : offset + len(magic)] == magic:
            return f"must be an ONNX model, not {kind}; {remedy}"
    position, first = 0, True
    while position < len(data):
        key, position = _varint(data, position)
        if key is None:
            return _truncated(len(data))
        number, wire_type = key >> 3, key & 7
        if first and _MODEL_FIELDS.get(number) != wire_type:
            start = bytes(data[:8])
            return f"must be an ONNX model, not a file that starts with {start!r}; export the model to ONNX first"
        first = False
        end = _skip(data, position, wire_type)
        if end is None:
            return f"must be an ONNX model, not damaged at byte {position}; copy or export it again"
        if end > len(data):
            return _truncated(len(data), end)
        position = end
    return "must be an ONNX model, not damaged inside; copy or export it again"


def message_depths(data: Bytes) -> Iterator[int]:
    """How deep each message inside of a ModelProto is nested; iterative, and it ends a message where it is damaged."""
    waiting = [(0, len(data), pb.ModelProto.DESCRIPTOR, 1)]
    while waiting:
        position, end, message, depth = waiting.pop()
        inner = _inner(message)
        while position < end:
            key, start = _varint(data, position)
            after = _skip(data, start, key & 7) if key is not None else None
            if key is None or after is None or after > end:
                break
            kind = inner.get(key)
            if kind is not None:
                yield depth
                length, first = _varint(data, start)
                if length:
                    waiting.append((first, after, kind, depth + 1))
            position = after


@cache
def _inner(message: Descriptor) -> dict[int, Descriptor]:
    """The kind of message in each field that holds one, by the field's key."""
    fields = message.fields_by_number.items()
    return {number << 3 | 2: field.message_type for number, field in fields if field.message_type is not None}


def is_nested_too_deep(data: Bytes) -> bool:
    """True where messages are nested deeper than protobuf parses."""
    return any(depth > _MAX_DEPTH for depth in islice(message_depths(data), _MOST_MESSAGES))


def has_more_messages(data: Bytes, most: int) -> bool:
    """True where a ModelProto consists of more than `most` messages: each takes far more memory than its bytes."""
    return sum(1 for _ in islice(message_depths(data), most + 1)) > most


def _truncated(size: int, expected: int | None = None) -> str:
    needed = f"{expected} bytes" if expected is not None else "more"
    return f"must be a whole ONNX model, not truncated after {size} bytes ({needed} announced); copy or export it again"


def _skip(data: Bytes, position: int, wire_type: int) -> int | None:
    """Where a field's value ends, perhaps behind the end of the data; None for a wire type that does not exist."""
    if wire_type == 0:
        value, end = _varint(data, position)
        return end if value is not None else len(data) + 1
    if wire_type == 1:
        return position + 8
    if wire_type == 5:
        return position + 4
    if wire_type == 2:
        length, start = _varint(data, position)
        return start + length if length is not None else len(data) + 1
    return None


def _varint(data: Bytes, position: int) -> tuple[int | None, int]:
    value = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    return None, position
