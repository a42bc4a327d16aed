"""Tables of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from markupsafe import Markup

from ..report.numbers import number
from .svg import attributes, class_of, element

__all__ = ["Cell", "Given", "table"]


@dataclass(frozen=True)
class Cell:
    """What a cell shows, and the number by which a script sorts it."""

    text: str | Markup
    value: float | None = None
    tone: str | None = None


Given: TypeAlias = Cell | Markup | str | int | None


def table(head: Sequence[str], rows: Sequence[Sequence[Given]], *, caption: str | None = None,
          anchors: Sequence[str | None] = (), data: Sequence[Mapping[str, str]] = ()) -> Markup:
    """A table whose first column names its rows; a whole number is written as one, None as an empty cell.

    `anchors` are the names of rows in links, `data` their attributes for scripts (`data-...`).  Where the page is
    narrower, the table scrolls.
    """
    above = element("caption", caption) if caption else None
    titles = element("tr", *(element("th", text, scope="col") for text in head))
    body = []
    for position, row in enumerate(rows):
        given = attributes(data[position]) if data else {}
        cells = (cell(each, first=k == 0) for k, each in enumerate(row))
        body.append(element("tr", *cells, id=anchors[position] if anchors else None, **given))
    made = element("table", above, element("thead", titles), element("tbody", *body), class_="sortable")
    return element("div", made, class_="wide", tabindex=0, role="group", aria_label=f"{caption or head[0]} (table)")


def cell(given: Given, *, first: bool) -> Markup:
    if isinstance(given, bool):
        given = "yes" if given else "no"
    if isinstance(given, int):
        given = Cell(number(given), given)
    if not isinstance(given, Cell):
        given = Cell("" if given is None else given)
    known = {"class_": class_of("n" if given.value is not None else None, given.tone),
             "data_value": None if given.value is None else f"{given.value:.12g}"}
    return element("th", given.text, scope="row", **known) if first else element("td", given.text, **known)
