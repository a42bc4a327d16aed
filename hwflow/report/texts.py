"""Short forms of texts of a file, for people."""

from __future__ import annotations

from hwflow_base.printable import clean

from ..onnx.inference.claims import type_words
from ..onnx.model import ValueType

__all__ = ["NAME_WIDTH", "shortened", "type_text"]

#: The width of a layer's name in a table of one line for each layer, in a terminal of 80 columns.
NAME_WIDTH = 28


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
