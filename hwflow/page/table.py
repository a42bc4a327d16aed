"""Tables of a page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from markupsafe import Markup

from ..report.numbers import number
from .svg import attributes, class_of, element

__all__ = ["STEPS", "Cell", "Given", "table"]

#: Widths in rem: where there is less room than the step of a table, each of its rows becomes a list of its cells.
STEPS = (20, 28, 36, 44, 52, 60, 68, 76, 84)
#: Rem of a character, and of the space between columns.
CHARACTER, SPACE = 0.53, 0.75
#: Characters of a word in a cell and of a row's name, longer ones are broken; of a title what a script adds to it.
LONGEST_WORD, LONGEST_NAME, SORTED = 18, 32, 2


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

    `anchors` are the names of rows in links, `data` their attributes for scripts (`data-...`).  Where there is no room
    for its columns, a row is a list of cells with the titles of their columns.
    """
    widths = widths_of(head, rows)
    above = element("caption", caption) if caption else None
    titles = element("tr", *(element("th", text, scope="col") for text in head))
    body = []
    for position, row in enumerate(rows):
        given = attributes(data[position]) if data else {}
        cells = (cell(each, None if k == 0 else head[k]) for k, each in enumerate(row))
        body.append(element("tr", *cells, id=anchors[position] if anchors else None, **given))
    made = element("table", above, element("thead", titles), element("tbody", *body),
                   class_=f"sortable stack-{step_of(widths)}", style=f"--name: {widths[0]:.3g}rem")
    return element("div", made, class_="wide", tabindex=0, role="group", aria_label=f"{caption or head[0]} (table)")


def widths_of(head: Sequence[str], rows: Sequence[Sequence[Given]]) -> list[float]:
    """About how many rem each column has where texts are broken between words."""
    longest = [SORTED + longest_word(title, LONGEST_WORD) for title in head]
    for row in rows:
        longest = [max(most, longest_word(each, LONGEST_WORD if k else LONGEST_NAME))
                   for k, (most, each) in enumerate(zip(longest, row, strict=False))]
    return [CHARACTER * most for most in longest]


def step_of(widths: Sequence[float]) -> int:
    """The first step with room for columns of these widths."""
    needed = sum(widths) + SPACE * len(widths)
    return next((step for step in STEPS if step >= needed), STEPS[-1])


def longest_word(given: Given, most: int) -> int:
    """Characters of what is not broken: a number, or a word of a text, `most` of it; commands are folded away."""
    held = given if isinstance(given, Cell) else Cell(number(given), given) if isinstance(given, int) else Cell(
        given or "")
    if held.value is not None:
        return len(Markup(held.text).striptags())
    shown = Markup(re.sub(r"<pre.*?</pre>", "", str(held.text), flags=re.DOTALL)).striptags()
    return min(most, max(map(len, shown.split()), default=0))


def cell(given: Given, label: str | None) -> Markup:
    """`label` is the title of its column; None for the cell that names the row."""
    if isinstance(given, bool):
        given = "yes" if given else "no"
    if isinstance(given, int):
        given = Cell(number(given), given)
    if not isinstance(given, Cell):
        given = Cell("" if given is None else given)
    known = {"class_": class_of("n" if given.value is not None else None, given.tone),
             "data_value": None if given.value is None else f"{given.value:.12g}"}
    if label is None:
        return element("th", given.text, scope="row", **known)
    return element("td", given.text, data_label=label or None, **known)
