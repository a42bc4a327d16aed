"""Short forms in which Python shows objects: a few lines that fit a screen, whatever the object holds."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

#: Lines and columns of a screen.
LINES, COLUMNS = 25, 120
#: What stands for what is left out.
MORE = "..."


def screen(head: str, lines: Iterable[str]) -> str:
    """`<head`, then the lines, indented, in between `... n more`; never more than fits."""
    body = [f"  {line}" for line in lines]
    if len(body) > LINES - 1:
        left_out = len(body) - (LINES - 2)
        body = [*body[: LINES - 3], f"  {MORE} {left_out} more", body[-1]]
    return "\n".join(cut(line, COLUMNS - 1) for line in (f"<{head}", *body)) + ">"


def fields_repr(self: Any) -> str:
    """The `__repr__` of a dataclass: its fields in one line or one a line, arrays as type and shape."""
    shown = [field.name for field in fields(self) if field.repr]
    name = type(self).__qualname__
    line = f"{name}({', '.join(f'{field}={brief(getattr(self, field), COLUMNS)}' for field in shown)})"
    if len(line) <= COLUMNS:
        return line
    rows = [f"    {field}={brief(getattr(self, field), COLUMNS - len(field) - 6)}," for field in shown]
    if len(rows) > LINES - 2:
        rows = [*rows[: LINES - 3], f"    {MORE} {len(rows) - (LINES - 3)} more"]
    return "\n".join([f"{name}(", *rows, ")"])


def brief(value: object, room: int) -> str:
    """One line of at most `room` characters."""
    if isinstance(value, np.ndarray):
        return cut(f"{value.dtype}{list(value.shape)}", room)
    if isinstance(value, Mapping):
        return joined("{", [(f"{brief(key, 40)}: ", item) for key, item in value.items()], "}", room)
    if type(value) in (tuple, list):
        items = [("", item) for item in value]  # type: ignore[attr-defined]
        return joined(*("(", items, ")") if isinstance(value, tuple) else ("[", items, "]"), room)
    text = repr(value)
    if is_dataclass(value) and (len(text) > room or "\n" in text):
        named = getattr(value, "name", None)
        return cut(f"{type(value).__qualname__}({f'{named!r}, ' if isinstance(named, str) else ''}{MORE})", room)
    return cut(" ".join(text.split()) if "\n" in text else text, room)


def joined(opening: str, items: list[tuple[str, object]], closing: str, room: int) -> str:
    """Items, as many as fit, and how many there are."""
    parts: list[str] = []
    end = f", {MORE} {len(items)} in all{closing}"
    left = room - len(opening) - len(end)
    for before, item in items[:room]:
        part = before + brief(item, max(left - len(before), 12))
        left -= len(part) + 2
        if left < 0:
            break
        parts.append(part)
    if len(parts) == len(items):
        return f"{opening}{', '.join(parts)}{',' if opening == '(' and len(items) == 1 else ''}{closing}"
    return f"{opening}{', '.join(parts)}{end if parts else end[2:]}"


def cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: max(room - len(MORE), 0)] + MORE


# How results show themselves in a notebook: as HTML that the top of the project draws.  A result does not import what
# draws it, because imports go one way.  So its `_repr_html_` finds the drawing module by its name.


#: The module that has `html_of`.
DRAWS = "hwflow.views.page.notebook"


def drawn_html(self: object) -> str:
    """The `_repr_html_` of a class that `html_of` of the module `DRAWS` knows."""
    html: str = importlib.import_module(DRAWS).html_of(self)
    return html
