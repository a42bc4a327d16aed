"""Texts of a file for people: nothing in them may move the cursor, change colours or turn the direction of writing."""

from __future__ import annotations

from ..onnx.inference.claims import type_words
from ..onnx.model import ValueType

__all__ = ["clean", "shortened", "type_text"]


def clean(text: str) -> str:
    """The text with what is not printable (control characters, lone surrogates, marks of direction) as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in text)


def shortened(text: str, length: int) -> str:
    """At most `length` printable characters; what is cut out in the middle shows as an ellipsis."""
    text = clean(text if len(text) <= 4 * length else f"{text[: 2 * length]}{text[-2 * length :]}")
    if len(text) <= length:
        return text
    tail = length // 2
    return f"{text[: length - tail - 1]}…{text[-tail:]}"


def type_text(type_: ValueType | None) -> str:
    """A type as "float32[batch, 3]"; "?" where it is not known."""
    return "?" if type_ is None else clean(type_words(type_))
