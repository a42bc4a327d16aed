"""The texts of a file are UTF-8.  The protobuf runtime hands others out as bytes, which no rule could compare."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from functools import cache
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from hwflow.onnx.container.document import Document
from hwflow.onnx.rules.finding import Finding, error


class _Kind(enum.Enum):
    """What the value of a field is made of."""

    TEXT = enum.auto()
    MESSAGE = enum.auto()
    OTHER = enum.auto()


@cache
def _kind(field: FieldDescriptor) -> tuple[_Kind, bool]:
    """And whether it is a list of that."""
    kinds = {FieldDescriptor.TYPE_STRING: _Kind.TEXT, FieldDescriptor.TYPE_MESSAGE: _Kind.MESSAGE}
    is_list = field.is_repeated  # a property that types-protobuf does not know
    return kinds.get(field.type, _Kind.OTHER), bool(is_list)


def texts_readable(document: Document) -> Iterator[Finding]:
    """TY-03: each name and description is UTF-8 text."""
    waiting: list[Any] = [document.proto]
    while waiting:
        message = waiting.pop()
        for field, value in message.ListFields():
            kind, is_list = _kind(field)
            if kind is _Kind.TEXT:
                for text in value if is_list else (value,):
                    if type(text) is bytes:
                        yield _finding(message, field.name, text)
            elif kind is _Kind.MESSAGE:
                waiting.extend(value if is_list else (value,))


def _finding(message: Any, name: str, value: bytes) -> Finding:
    text = f"names must be UTF-8 text, not {value[:40]!r}"
    return error("TY-03", f"{message.DESCRIPTOR.name}.{name}", text, "the file is damaged, export the model again")
