"""Damaged models: edits of the bytes, of the fields they consist of, and of the messages they stand for.

Everything is drawn from one `random.Random`, so that an input can be made again from its number.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.tflite.schema import IDENTIFIER

#: Numbers at the edges of what code expects.
INTEGERS = (
    0, 1, -1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 64, 65, 127, 128, 255, 256, 1000, 65535, 65536, 1 << 20, (1 << 31) - 1,
    1 << 31, -(1 << 31), 1 << 32, 1 << 33, 1 << 40, 1 << 61, 1 << 62, (1 << 63) - 1, -(1 << 63), -2, -3, -8, -1000,
)  # fmt: skip
FLOATS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    1e-45,
    1e-38,
    1e38,
    -1e38,
    float("inf"),
    float("-inf"),
    float("nan"),
    3.0,
    1e9,
)
TEXTS = ("", "x", "y", "a/b", "\x00", "é", "NOTSET", "SAME_UPPER", "linear", "cubic", "none", "reverse", "ai.onnx", "*")

_LARGEST = 1 << 20


def mutate(data: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """One to four edits of a model; `others` are pieces to splice in."""
    family = rng.choices((_messages, _wire, _bytes), (6, 3, 2))[0]
    if data[4:8] == IDENTIFIER:
        family = rng.choices((_words, _bytes), (5, 2))[0]
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        data = family(data, others, rng)[:_LARGEST]
    return data


# Words of a flatbuffer: offsets, lengths, numbers.


def _words(data: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """One word of 1, 2, 4 or 8 bytes gets another number, or is the offset of another place."""
    edited, size = bytearray(data), rng.choice((1, 2, 4, 4, 4, 8))
    if len(data) < 16 + size:
        return _bytes(data, others, rng)
    at = rng.randrange(8, len(data) - size) // size * size
    old = int.from_bytes(data[at : at + size], "little")
    place = rng.randrange(len(data) - size)
    new = rng.choice((
        rng.choice(INTEGERS), old + rng.choice((-4, -2, -1, 1, 2, 4, 8)), old ^ 1 << rng.randrange(8 * size),
        place - at, at - place, int.from_bytes(data[place : place + size], "little"), rng.randrange(256),
        len(data) - at,
    ))  # fmt: skip
    edited[at : at + size] = (new % (1 << 8 * size)).to_bytes(size, "little")
    return bytes(edited)


# Bytes.


def _bytes(data: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    if not data:
        return bytes(rng.randrange(256) for _ in range(8))
    at = rng.randrange(len(data))
    size = rng.choice((1, 1, 2, 4, 8, 32))
    match rng.randrange(7):
        case 0:
            return data[:at] + bytes((data[at] ^ 1 << rng.randrange(8),)) + data[at + 1 :]
        case 1:
            return data[:at]
        case 2:
            return data[:at] + data[at + size :]
        case 3:
            return data[:at] + data[at : at + size] + data[at:]
        case 4:
            return data[:at] + rng.randbytes(size) + data[at + size :]
        case 5:
            return data[:at] + bytes((rng.choice((0, 1, 127, 128, 255)),)) * size + data[at + size :]
    other = rng.choice(others) or b"\0"
    start = rng.randrange(len(other))
    return data[:at] + other[start : start + rng.randrange(1, 200)] + data[at:]


# Fields.


def _varint(data: bytes, at: int) -> tuple[int, int] | None:
    value = shift = 0
    while at < len(data) and shift < 70:
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value, at
        shift += 7
    return None


def _coded(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def _split(data: bytes) -> list[tuple[int, int, bytes]] | None:
    """Number, wire type and content of each field; None where the bytes are no message."""
    fields, at = [], 0
    while at < len(data):
        key = _varint(data, at)
        if key is None or key[0] >> 3 == 0:
            return None
        wire, start = key[0] & 7, key[1]
        if wire == 0:
            found = _varint(data, start)
            end = found[1] if found else -1
        elif wire == 2:
            found = _varint(data, start)
            start, end = (found[1], found[1] + found[0]) if found else (0, -1)
        else:
            end = start + {1: 8, 5: 4}.get(wire, 1 << 62)
        if not start <= end <= len(data):
            return None
        fields.append((key[0] >> 3, wire, data[start:end]))
        at = end
    return fields


def _joined(fields: Sequence[tuple[int, int, bytes]]) -> bytes:
    return b"".join(_coded(n << 3 | w) + (_coded(len(c)) if w == 2 else b"") + c for n, w, c in fields)


def _wire(data: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """An edit of one field somewhere; the lengths around it are right again, except where an edit is to break them."""
    fields = _split(data)
    if not fields:
        return _bytes(data, others, rng)
    at = rng.randrange(len(fields))
    number, wire, content = fields[at]
    if wire == 2 and rng.random() < 0.75 and _split(content):
        fields[at] = number, wire, _wire(content, others, rng)
        return _joined(fields)
    match rng.randrange(8):
        case 0:
            del fields[at]
        case 1:
            fields.insert(rng.randrange(len(fields) + 1), fields[at])
        case 2:
            other = rng.randrange(len(fields))
            fields[at], fields[other] = fields[other], fields[at]
        case 3:
            fields[at] = rng.choice((number + 1, number - 1, rng.randrange(1, 32))) or 1, wire, content
        case 4 if wire == 0:
            fields[at] = number, wire, _coded(rng.choice(INTEGERS))
        case 5:
            fields[at] = number, rng.choice((0, 1, 2, 5)), content
        case 6 if wire == 2:
            wrong = _coded(number << 3 | 2) + _coded(max(0, len(content) + rng.choice((-1, 1, 7, 1 << 20)))) + content
            return _joined(fields[:at]) + wrong + _joined(fields[at + 1 :])
        case _:
            fields[at] = number, wire, _bytes(content, others, rng) if wire == 2 else content
    return _joined(fields)


# Messages.


def _walk(message: Any) -> Iterator[Any]:
    waiting = [message]
    while waiting:
        found = waiting.pop()
        yield found
        for field, value in found.ListFields():
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                waiting.extend(value if field.is_repeated else [value])


def _messages(data: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """An edit of the parsed message: values at the edges, exchanged names, other kinds, pieces of other models."""
    proto = pb.ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError:
        return _wire(data, others, rng)
    kinds: dict[str, list[Any]] = {}
    for message in _walk(proto):
        kinds.setdefault(message.DESCRIPTOR.name, []).append(message)
    kind = rng.choice(sorted(kinds))
    if rng.random() < 0.4:  # where most of the meaning is
        kind = rng.choice(
            [k for k in ("NodeProto", "AttributeProto", "TensorProto", "Dimension") if k in kinds] or [kind]
        )
    message = rng.choice(kinds[kind])
    special = _SPECIAL.get(kind)
    if special is not None and rng.random() < 0.5:
        special(message, proto, rng)
    else:
        _edit(message, proto, others, rng)
    return proto.SerializeToString()


def _edit(message: Any, proto: pb.ModelProto, others: Sequence[bytes], rng: random.Random) -> None:
    fields = message.DESCRIPTOR.fields
    present = [field for field, _ in message.ListFields()]
    field = rng.choice(present if present and rng.random() < 0.7 else fields)
    name = field.name
    if rng.random() < 0.15:
        message.ClearField(name)
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        _edit_message(message, field, others, rng)
    elif not field.is_repeated:
        setattr(message, name, _scalar(field, getattr(message, name), proto, rng))
    else:
        _edit_list(getattr(message, name), field, proto, rng)


def _edit_list(values: Any, field: FieldDescriptor, proto: pb.ModelProto, rng: random.Random) -> None:
    at = rng.randrange(len(values) + 1)
    if at < len(values) and rng.random() < 0.6:
        values[at] = _scalar(field, values[at], proto, rng)
    elif at < len(values) and rng.random() < 0.5:
        del values[at]
    else:
        values.insert(at, _scalar(field, None, proto, rng))


def _edit_message(message: Any, field: FieldDescriptor, others: Sequence[bytes], rng: random.Random) -> None:
    if not field.is_repeated:
        getattr(message, field.name).SetInParent()
        return
    values = getattr(message, field.name)
    donor = pb.ModelProto()
    try:
        donor.ParseFromString(rng.choice(others))
    except DecodeError:
        donor = pb.ModelProto()
    strangers = [m for m in _walk(donor) if m.DESCRIPTOR is field.message_type]
    match rng.randrange(4):
        case 0 if len(values):
            del values[rng.randrange(len(values))]
        case 1 if len(values):
            values.add().CopyFrom(values[rng.randrange(len(values))])
        case 2 if len(values) > 1:
            first, second = rng.sample(range(len(values)), 2)
            kept = type(values[first])()
            kept.CopyFrom(values[first])
            values[first].CopyFrom(values[second])
            values[second].CopyFrom(kept)
        case _:
            values.add()
            if strangers:
                values[-1].CopyFrom(rng.choice(strangers))


def _scalar(field: FieldDescriptor, old: Any, proto: pb.ModelProto, rng: random.Random) -> Any:
    if field.type == FieldDescriptor.TYPE_STRING:
        names = [name for node in proto.graph.node for name in (*node.input, *node.output, node.op_type)]
        return rng.choice((*names, *TEXTS))
    if field.type == FieldDescriptor.TYPE_BYTES:
        text = old or b""
        return rng.choice((text[:-1], text + b"\0", rng.randbytes(len(text)), b"", *(t.encode() for t in TEXTS)))
    if field.type == FieldDescriptor.TYPE_ENUM:
        return rng.choice(field.enum_type.values).number
    if field.type in (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE):
        return rng.choice(FLOATS)
    value = rng.choice((*INTEGERS, *range(30), (old or 0) + 1, (old or 0) - 1))
    low, high = {
        FieldDescriptor.TYPE_INT32: (-(1 << 31), (1 << 31) - 1),
        FieldDescriptor.TYPE_UINT64: (0, (1 << 64) - 1),
    }.get(field.type, (-(1 << 63), (1 << 63) - 1))
    return min(max(value, low), high)


def _tensor(tensor: pb.TensorProto, proto: pb.ModelProto, rng: random.Random) -> None:
    """Another element, other dims of as many elements, or another type of as many bytes."""
    size = {pb.TensorProto.INT64: 8, pb.TensorProto.INT32: 4}.get(tensor.data_type)
    raw = tensor.raw_data
    if size and len(raw) >= size and rng.random() < 0.7:
        at = rng.randrange(len(raw) // size) * size
        new = (rng.choice(INTEGERS) % (1 << 8 * size)).to_bytes(size, "little")
        tensor.raw_data = raw[:at] + new + raw[at + size :]
    elif size and rng.random() < 0.6:
        values = tensor.int64_data if size == 8 else tensor.int32_data
        if len(values):
            values[rng.randrange(len(values))] = max(
                -(1 << 8 * size - 1), min(rng.choice(INTEGERS), (1 << 8 * size - 1) - 1)
            )
    elif rng.random() < 0.5:
        tensor.dims.insert(rng.randrange(len(tensor.dims) + 1), 1)
    elif len(tensor.dims) > 1:
        tensor.dims[:] = rng.sample(list(tensor.dims), len(tensor.dims))
    else:
        tensor.data_type = rng.randrange(1, 29)


def _attribute(attribute: pb.AttributeProto, proto: pb.ModelProto, rng: random.Random) -> None:
    """Another kind of value, with the type that belongs to it."""
    name = attribute.name
    attribute.Clear()
    attribute.name = name
    match rng.randrange(6):
        case 0:
            attribute.type, attribute.i = pb.AttributeProto.INT, rng.choice(INTEGERS)
        case 1:
            attribute.type, attribute.f = pb.AttributeProto.FLOAT, rng.choice(FLOATS)
        case 2:
            attribute.type, attribute.s = pb.AttributeProto.STRING, rng.choice(TEXTS).encode()
        case 3:
            attribute.type = pb.AttributeProto.INTS
            attribute.ints.extend(rng.choice(INTEGERS) for _ in range(rng.randrange(5)))
        case 4:
            attribute.type = pb.AttributeProto.FLOATS
            attribute.floats.extend(rng.choice(FLOATS) for _ in range(rng.randrange(5)))
        case _:
            attribute.type = pb.AttributeProto.STRINGS
            attribute.strings.extend(rng.choice(TEXTS).encode() for _ in range(rng.randrange(5)))


def _operator_set(entry: pb.OperatorSetIdProto, proto: pb.ModelProto, rng: random.Random) -> None:
    entry.version = rng.randrange(1, 29)


def _kind(kind: pb.TypeProto.Tensor, proto: pb.ModelProto, rng: random.Random) -> None:
    kind.elem_type = rng.randrange(1, 29)


def _node(node: pb.NodeProto, proto: pb.ModelProto, rng: random.Random) -> None:
    """Operands left out, exchanged or taken from elsewhere; the operator of another node."""
    names = [name for other in proto.graph.node for name in (*other.input, *other.output)] or ["x"]
    match rng.randrange(4):
        case 0 if node.input:
            node.input[rng.randrange(len(node.input))] = ""
        case 1 if node.input:
            node.input[rng.randrange(len(node.input))] = rng.choice(names)
        case 2:
            node.input[:] = rng.sample(list(node.input), len(node.input))
        case _:
            node.op_type = rng.choice(proto.graph.node or [node]).op_type


def _dimension(dim: pb.TensorShapeProto.Dimension, proto: pb.ModelProto, rng: random.Random) -> None:
    dim.dim_value = rng.choice((0, 1, 2, 3, 5, 8, 100, 1 << 20, 1 << 40, -1))


_SPECIAL: dict[str, Callable[[Any, pb.ModelProto, random.Random], None]] = {
    "AttributeProto": _attribute,
    "Dimension": _dimension,
    "NodeProto": _node,
    "OperatorSetIdProto": _operator_set,
    "Tensor": _kind,
    "TensorProto": _tensor,
}
