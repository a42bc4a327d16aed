"""Large weights stay in the file: what protobuf parses is the message without them.

The walk knows ModelProto down to its graph and GraphProto down to its initializers, and skips everything else by its
length.  Where the encoding is in any way unusual (a field twice that should be there once, groups, overlong numbers)
nothing is lifted at that place, and protobuf decides alone what it means.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator

from hwflow.onnx.container.document import Lifted

#: Weights of at most as many bytes are copied; the rest is not worth the bookkeeping.
_SMALL = 4096

#: Field numbers on the way.
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9

#: More fields than any real message of the kind has: give up before the walk takes longer than the parse would.
_MOST_FIELDS, _MOST_TENSOR_FIELDS = 4_000_000, 128

#: Number, start of the key, start and end of the value (for a number of variable size: its end).
_Field = tuple[int, int, int, int]


class _Unusual(Exception):
    """Leave this message to protobuf."""


def lift(data: memoryview) -> tuple[bytes, Lifted]:
    """The message without the weights of large initializers, for protobuf to parse, and those as views of `data`."""
    try:
        graphs = [f for f in _fields(data, 0, len(data), _MOST_FIELDS) if f[0] == _GRAPH]
        if len(graphs) != 1:
            raise _Unusual
        _, key, start, end = graphs[0]
        weights = list(_weights(data, start, end))
    except _Unusual:
        return bytes(data), Lifted()
    if not weights:
        return bytes(data), Lifted()
    token = secrets.token_bytes(16)
    graph = _replace(data, start, end, weights, token)
    size = sum(map(len, graph))
    message = b"".join((data[:key], _length_field(_GRAPH, size), *graph, data[end:]))
    return message, Lifted(token, tuple(data[raw[2] : raw[3]] for _, raw in weights))


def _weights(data: memoryview, start: int, end: int) -> Iterator[tuple[_Field, _Field]]:
    """Each large initializer of a graph with its raw data."""
    for tensor in _fields(data, start, end, _MOST_FIELDS):
        if tensor[0] == _INITIALIZER and tensor[3] - tensor[2] > _SMALL:
            try:
                raw_fields = [f for f in _fields(data, tensor[2], tensor[3], _MOST_TENSOR_FIELDS) if f[0] == _RAW_DATA]
            except _Unusual:
                continue
            if len(raw_fields) == 1 and raw_fields[0][3] - raw_fields[0][2] > _SMALL:
                yield tensor, raw_fields[0]


def _replace(
    data: memoryview, start: int, end: int, weights: list[tuple[_Field, _Field]], token: bytes
) -> list[bytes | memoryview]:
    """The pieces of the graph with a token and a number instead of each weight."""
    pieces: list[bytes | memoryview] = []
    position = start
    for index, (tensor, raw) in enumerate(weights):
        stand_in = token + index.to_bytes(8, "big")
        inside = (data[tensor[2] : raw[1]], _length_field(_RAW_DATA, len(stand_in)), stand_in, data[raw[3] : tensor[3]])
        pieces += (data[position : tensor[1]], _length_field(_INITIALIZER, sum(map(len, inside))), *inside)
        position = tensor[3]
    pieces.append(data[position:end])
    return pieces


def _fields(data: memoryview, start: int, end: int, most: int) -> Iterator[_Field]:
    """The fields of a message, each within it."""
    position = start
    for _ in range(most):
        if position >= end:
            return
        key = position
        tag, position = _varint(data, position, end)
        number, wire_type = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise _Unusual
        if wire_type not in (0, 1, 2, 5):
            raise _Unusual
        length = {1: 8, 5: 4}.get(wire_type, 0)
        if wire_type in (0, 2):
            value, position = _varint(data, position, end)
            length = value if wire_type == 2 else 0
        start, position = position, position + length
        if position > end:
            raise _Unusual
        yield number, key, start, position
    raise _Unusual


def _varint(data: memoryview, position: int, end: int) -> tuple[int, int]:
    """A number of up to 64 bits in as few bytes as it needs, and where it ends."""
    value = shift = 0
    while position < end and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if (byte == 0 and shift) or value >= 1 << 64:
                raise _Unusual
            return value, position
        shift += 7
    raise _Unusual


def _length_field(number: int, length: int) -> bytes:
    """Key and length of a field with a length."""
    encoded = bytearray((number << 3 | 2,))
    while length > 0x7F:
        encoded.append(length & 0x7F | 0x80)
        length >>= 7
    encoded.append(length)
    return bytes(encoded)
