"""The texts of a file are UTF-8.  The protobuf runtime hands others out as bytes, which no rule could compare."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from hwflow.onnx.container.document import Document
from hwflow.onnx.rules.finding import Finding, error

__all__ = ["texts_readable"]


class _Fields(NamedTuple):
    """Names of the fields of a message that are texts or hold some."""

    texts: tuple[str, ...]
    text_lists: tuple[str, ...]
    messages: tuple[str, ...]
    message_lists: tuple[str, ...]


def _is_list(field: FieldDescriptor) -> bool:
    found = field.is_repeated  # a property that types-protobuf does not know
    return bool(found)


@cache
def _fields(message: Descriptor) -> _Fields:
    texts = [f for f in message.fields if f.type == FieldDescriptor.TYPE_STRING]
    messages = [f for f in message.fields if f.type == FieldDescriptor.TYPE_MESSAGE]
    return _Fields(
        tuple(f.name for f in texts if not _is_list(f)),
        tuple(f.name for f in texts if _is_list(f)),
        tuple(f.name for f in messages if not _is_list(f)),
        tuple(f.name for f in messages if _is_list(f)),
    )


def texts_readable(document: Document) -> Iterator[Finding]:
    """TY-03: each name and description is UTF-8 text."""
    waiting: list[Any] = [document.proto]
    while waiting:
        message = waiting.pop()
        fields = _fields(message.DESCRIPTOR)
        for name in fields.texts:
            if type(value := getattr(message, name)) is bytes:
                yield _finding(message, name, value)
        for name in fields.text_lists:
            for value in getattr(message, name):
                if type(value) is bytes:
                    yield _finding(message, name, value)
        waiting.extend(getattr(message, name) for name in fields.messages if message.HasField(name))
        for name in fields.message_lists:
            waiting.extend(getattr(message, name))


def _finding(message: Any, name: str, value: bytes) -> Finding:
    text = f"names must be UTF-8 text, not {value[:40]!r}"
    return error("TY-03", f"{message.DESCRIPTOR.name}.{name}", text, "the file is damaged, export the model again")
