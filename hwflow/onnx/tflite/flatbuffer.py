"""Tables of a flatbuffer, read from bytes that nobody verified.

`root(Source(data, Limits()))` is the outermost table, and `table.number(0, "I", 0)` its field 0, a number of 32 bits.

Every offset, length and count is compared with the file's end before it is used, and what is read is counted: tables
may share parts, so that a small file could stand for a very large one.  Fields have the numbers of their schema.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from hwflow.onnx.errors import FormatError, LimitError
from hwflow.onnx.limits import Limits
from hwflow.onnx.model import Array, DType

#: Elements of numbers that count as one message: they are read at once.
_AT_ONCE = 16


@dataclass
class Source:
    """The bytes of a file, and how many messages have been read of them."""

    data: memoryview
    limits: Limits
    used: int = field(default=0, init=False)

    def count(self, messages: int) -> None:
        """`messages` more are about to be read."""
        self.used += messages
        if self.used > self.limits.messages:
            raise LimitError(
                f"a file must consist of at most {self.limits.messages:,} messages, not of more",
                "if you trust the model, raise it with --limit messages=NUMBER",
            )

    def require(self, start: int, size: int, what: str) -> None:
        """FormatError unless bytes `start` to `start + size` lie within the file."""
        if start < 0 or size < 0 or start + size > len(self.data):
            raise FormatError(
                f"{what} must lie within the file ({len(self.data)} bytes), not at bytes {start} to {start + size}",
                "the file is cut or damaged: copy or export it again",
            )

    def unpack(self, kind: str, at: int, what: str) -> int | float:
        """One number of struct's kind `kind` at byte `at`."""
        form = f"<{kind}"
        self.require(at, struct.calcsize(form), what)
        value: int | float = struct.unpack_from(form, self.data, at)[0]
        return value

    def whole(self, kind: str, at: int, what: str) -> int:
        """One whole number at byte `at`."""
        return int(self.unpack(kind, at, what))

    def follow(self, at: int, what: str) -> int:
        """Where the offset at byte `at` leads; offsets lead forwards."""
        return at + self.whole("I", at, what)


class Table:
    """One table at byte `at`; `what` names it in messages."""

    def __init__(self, source: Source, at: int, what: str) -> None:
        self.source, self.at, self.what = source, at, what
        source.count(1)
        #: Where the list of places of the fields is, how many bytes that has, and how many the table.
        self._fields = at - source.whole("i", at, what)
        self._size, self._inside = (source.whole("H", self._fields + k, what) for k in (0, 2))
        source.require(self._fields, self._size, what)
        source.require(at, self._inside, what)

    def _place(self, number: int) -> int | None:
        """Where the field `number` is; None where the table leaves it out."""
        entry = 4 + 2 * number
        if entry + 2 > self._size:
            return None
        offset = self.source.whole("H", self._fields + entry, self.what)
        if offset >= max(self._inside, 1):
            raise FormatError(
                f"{self.what} must have its field {number} inside of its {self._inside} bytes, not at byte {offset}",
                "the file is damaged: copy or export it again",
            )
        return self.at + offset if offset else None

    def _led(self, number: int) -> int | None:
        place = self._place(number)
        return None if place is None else self.source.follow(place, self.what)

    def number(self, number: int, kind: str, default: float = 0) -> int | float:
        """The number in a field, of struct's kind `kind`."""
        place = self._place(number)
        return default if place is None else self.source.unpack(kind, place, self.what)

    def table(self, number: int, what: str) -> Table | None:
        """The table in a field."""
        place = self._led(number)
        return None if place is None else Table(self.source, place, what)

    def _vector(self, number: int, itemsize: int) -> tuple[int, int]:
        """Where the elements of a vector are, and how many."""
        place = self._led(number)
        if place is None:
            return 0, 0
        count = self.source.whole("I", place, self.what)
        self.source.require(place + 4, count * itemsize, f"a list of {self.what}")
        return place + 4, count

    def tables(self, number: int, what: str) -> Iterator[Table]:
        """The tables of a vector, each called `what` with its number."""
        start, count = self._vector(number, 4)
        for k in range(count):
            yield Table(self.source, self.source.follow(start + 4 * k, self.what), f"{what} {k}")

    def numbers(self, number: int, dtype: DType) -> Array:
        """The numbers of a vector, as a copy; empty where it is left out."""
        start, count = self._vector(number, dtype.itemsize)
        self.source.count(count // _AT_ONCE)
        return np.frombuffer(self.source.data, dtype.newbyteorder("<"), count, start).astype(dtype)

    def data(self, number: int) -> memoryview:
        """The bytes of a vector, where they are in the file."""
        start, count = self._vector(number, 1)
        return self.source.data[start : start + count]

    def text(self, number: int) -> str:
        """The text in a field, empty where it is left out."""
        data = self.data(number)
        self.source.count(len(data) // (4 * _AT_ONCE))
        try:
            return bytes(data).decode("utf-8")
        except UnicodeDecodeError:
            raise FormatError(
                f"{self.what} must have UTF-8 text, not {bytes(data)[:40]!r}",
                "the file is damaged: copy or export it again",
            ) from None


def root(source: Source, what: str) -> Table:
    """The outermost table."""
    return Table(source, source.follow(0, what), what)
