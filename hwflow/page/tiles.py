"""A row of the numbers that matter most."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from .svg import element

__all__ = ["tiles"]


def tiles(numbers: Sequence[tuple[str, str] | tuple[str, str, str]]) -> Markup:
    """What each is, the number, and small print if there is any."""
    return element("dl", *(tile(*each) for each in numbers), class_="tiles")


def tile(what: str, value: str, note: str = "") -> Markup:
    return element("div", element("dt", what), element("dd", value, element("small", note) if note else None))
