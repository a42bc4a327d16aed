"""Facts as JSON and back, by the annotations of their dataclasses.

In: a frozen dataclass of numbers, texts, tuples, mappings, paths and other such dataclasses.  Out: plain data for JSON;
and the dataclass again of a JSON text, every field checked.  Fields that are missing take their default, and names that
are unknown are passed over, so that an older file is read where it says enough.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def plain(facts: object) -> Any:
    """Mappings, lists, texts and numbers; a path or a fraction is its text, a number that JSON has not is None."""
    return msgspec.json.decode(msgspec.json.encode(facts, enc_hook=str))


def read_facts(text: bytes | str, kind: type[T]) -> T:
    """The facts in a JSON text.  ValueError where it is none of them: damaged, another file, or a number that is none.
    """
    try:
        return msgspec.json.decode(text, type=kind, dec_hook=of_text)
    except RecursionError:
        raise ValueError("nested too deep") from None


def of_plain(facts: object, kind: type[T], *, edited: bool = False) -> T:
    """The facts in plain data, as `plain` made it or JSON has it.  ValueError as `read_facts`.

    Of an `edited` file 4.0 is the whole number 4.
    """
    return msgspec.convert(facts, kind, dec_hook=of_text, strict=not edited)


def of_text(kind: type[T], value: object) -> T:
    """A path or a fraction of its text; they are the kinds of fields that JSON has no form for."""
    if not (issubclass(kind, Path | Fraction) and isinstance(value, str)):
        raise ValueError(f"{value!r:.60} is no {kind.__name__}")
    return kind(value)
