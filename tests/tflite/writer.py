"""TensorFlow Lite files made in code: a writer of flatbuffers, and a model of tensors and operators.

    m = Maker()
    x = m.tensor("x", [1, 4], "INT8", scale=0.5)
    y = m.tensor("y", [1, 4], "INT8", scale=0.5)
    m.operator("RELU", [x], [y])
    data = m.file([x], [y])
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hwflow.onnx.model import Array
from hwflow.onnx.tflite.schema import DTYPES, IDENTIFIER, OPERATORS, OPTIONS, TYPES

#: A table by the numbers of its fields: a number with struct's kind, a text, an array, a table, a list of tables.
Fields = dict[int, Any]


class _Bytes:
    """A flatbuffer that grows from its begin; what a table points at comes after it."""

    def __init__(self) -> None:
        self.data = bytearray()

    def align(self, size: int, ahead: int = 0) -> None:
        while (len(self.data) + ahead) % size:
            self.data.append(0)

    def table(self, fields: Fields) -> int:
        """Write a table and all below it; its place."""
        sizes = {k: struct.calcsize(v[0]) if isinstance(v, tuple) else 4 for k, v in fields.items()}
        places, end = {}, 4
        for number, size in sizes.items():
            end += -end % size
            places[number] = end
            end += size
        count = max(fields, default=-1) + 1
        self.align(8, 4 + 2 * count)
        start = len(self.data)
        self.data += struct.pack("<HH", 4 + 2 * count, end)
        self.data += b"".join(struct.pack("<H", places.get(k, 0)) for k in range(count))
        at = len(self.data)
        self.data += struct.pack("<i", at - start) + bytes(end - 4)
        for number, value in fields.items():
            place = at + places[number]
            if isinstance(value, tuple):
                struct.pack_into(f"<{value[0]}", self.data, place, value[1])
            else:
                target = self.child(value)
                struct.pack_into("<I", self.data, place, target - place)
        return at

    def child(self, value: Any) -> int:
        """Write what a field points at; its place."""
        if isinstance(value, dict):
            return self.table(value)
        if isinstance(value, str):
            return self.vector(value.encode() + b"\0", len(value.encode()), 1)
        if isinstance(value, list):
            at = self.vector(bytes(4 * len(value)), len(value), 4)
            for k, inner in enumerate(value):
                place = at + 4 + 4 * k
                target = self.child(inner)
                struct.pack_into("<I", self.data, place, target - place)
            return at
        array = np.ascontiguousarray(value)
        return self.vector(array.tobytes(), array.size, 16 if array.dtype == np.uint8 else array.itemsize)

    def vector(self, data: bytes, count: int, alignment: int) -> int:
        self.align(max(alignment, 4), 4)
        at = len(self.data)
        self.data += struct.pack("<I", count) + data
        return at


def flatbuffer(root: Fields) -> bytes:
    """The file with this outermost table."""
    out = _Bytes()
    out.data += struct.pack("<I", 0) + IDENTIFIER
    struct.pack_into("<I", out.data, 0, out.table(root))
    return bytes(out.data)


@dataclass
class Maker:
    """One subgraph: tensors and operators in order."""

    name: str = "main"
    tensors: list[Fields] = field(default_factory=list)
    operators: list[Fields] = field(default_factory=list)
    #: Shared by the subgraphs of a file.
    codes: list[Fields] = field(default_factory=list)
    buffers: list[Fields] = field(default_factory=lambda: [{}])

    def subgraph(self, name: str) -> Maker:
        """Another subgraph of the same file."""
        return Maker(name, codes=self.codes, buffers=self.buffers)

    def tensor(self, name: str, shape: Sequence[int], type_: str, data: npt.ArrayLike | None = None, *,
               scale: float | Array | None = None, zero: int | Array = 0, axis: int = 0, variable: bool = False,
               signature: Sequence[int] | None = None) -> int:
        """A tensor; with `data` a constant, as the file stores it."""
        fields: Fields = {0: np.array(shape, np.int32), 1: ("b", TYPES.index(type_)), 2: ("I", 0), 3: name}
        if data is not None:
            array = np.asarray(data).astype(DTYPES[type_]) if type_ in DTYPES else np.asarray(data)
            fields[2] = ("I", len(self.buffers))
            self.buffers.append({0: np.frombuffer(array.tobytes(), np.uint8)})
        if scale is not None:
            scales = np.atleast_1d(np.asarray(scale, np.float32))
            zeros = np.broadcast_to(np.asarray(zero, np.int64), scales.shape)
            fields[4] = {2: scales, 3: zeros, 6: ("i", axis)}
        if variable:
            fields[5] = ("?", True)
        if signature is not None:
            fields[7] = np.array(signature, np.int32)
        self.tensors.append(fields)
        return len(self.tensors) - 1

    def operator(self, kind: str, inputs: Sequence[int], outputs: Sequence[int], table: str = "",
                 options: Mapping[str, Any] | None = None, *, version: int = 1, code: int | None = None) -> None:
        """A call of an operator with options by the names of the schema."""
        number = OPERATORS.index(kind) if code is None else code
        entry: Fields = {0: ("b", min(number, 127)), 2: ("i", version), 3: ("i", number)}
        if entry not in self.codes:
            self.codes.append(entry)
        fields: Fields = {0: ("I", self.codes.index(entry)), 1: np.array(inputs, np.int32),
                          2: np.array(outputs, np.int32)}
        if table:
            fields[3] = ("B", OPTIONS[table].number)
            fields[4] = {OPTIONS[table].fields[name].number: _field(OPTIONS[table].fields[name].kind, value)
                         for name, value in (options or {}).items()}
        self.operators.append(fields)

    def fields(self, inputs: Sequence[int], outputs: Sequence[int]) -> Fields:
        """The subgraph's table."""
        return {0: self.tensors, 1: np.array(inputs, np.int32), 2: np.array(outputs, np.int32), 3: self.operators,
                4: self.name}

    def file(self, inputs: Sequence[int], outputs: Sequence[int], *others: Fields) -> bytes:
        """The file; `others` are the tables of subgraphs that the first one calls."""
        return flatbuffer(self.root(inputs, outputs, *others))

    def root(self, inputs: Sequence[int], outputs: Sequence[int], *others: Fields) -> Fields:
        return {0: ("I", 3), 1: self.codes, 2: [self.fields(inputs, outputs), *others], 3: "made by a test",
                4: self.buffers}


def _field(kind: str, value: Any) -> Any:
    if kind == "s":
        return str(value)
    return np.array(value, np.int32) if kind == "x" else (kind, value)
