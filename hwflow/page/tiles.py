"""A row of the numbers that matter most."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from .svg import element

__all__ = ["tiles"]


def tiles(numbers: Sequence[tuple[str, str]]) -> Markup:
    """What each is, and the number."""
    return element("dl", *(element("div", element("dt", what), element("dd", value)) for what, value in numbers),
                   class_="tiles")
