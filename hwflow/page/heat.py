"""A matrix of counts, as a confusion matrix: the darker a cell, the larger its share of its row."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from .chart import figure, picture
from .svg import class_of, element, label, short, text_width

__all__ = ["heat_map"]

#: Sizes in pixels: of a cell between both, of the font.
LEAST, MOST, WHOLE, FONT = 9.0, 34.0, 560.0, 11.0
#: The smallest cell with a number in it, and characters of a name.
WITH_NUMBER, LONGEST = 22.0, 16
#: Shares from which on a cell has the class `h1`, `h2`, ... `h9`.
SHADES = tuple(k / 10 for k in range(1, 10))


def heat_map(title: str, text: str, counts: Sequence[Sequence[int]], names: Sequence[str], *, rows: str, columns: str,
             ) -> Markup:
    """A figure of `counts[row][column]`, square: row and column k have `names[k]`; what is on the diagonal is right.

    `rows` and `columns` say what these are, as "label" and "answer"; `text` says in words what the picture shows.
    """
    count = len(names)
    size = min(MOST, max(LEAST, WHOLE / max(count, 1)))
    left = 40 + max((text_width(name[:LONGEST], FONT) for name in names), default=0.0)
    top = left - 10
    made = [element("text", columns, x=left + count * size / 2, y=14.0, text_anchor="middle", class_="name"),
            element("text", rows, x=13.0, y=top + count * size / 2, text_anchor="middle", class_="name",
                    transform=f"rotate(-90 13 {top + count * size / 2:.1f})")]
    for k, name in enumerate(names):
        middle = (k + 0.5) * size
        made += [label(name, LONGEST, x=left - 6, y=top + middle + 4, text_anchor="end"),
                 label(name, LONGEST, x=left + middle + 4, y=top - 6,
                       transform=f"rotate(-90 {left + middle + 4:.1f} {top - 6:.1f})")]
    cells = [cell(value, sum(line), row == column, left + column * size, top + row * size, size,
                  f"{rows} {names[row]}, {columns} {names[column]}: {value} of {sum(line)}")
             for row, line in enumerate(counts) for column, value in enumerate(line)]
    extent = left + count * size + 10, top + count * size + 10
    return figure(title, picture(text, *extent, element("g", *made, class_="axes"),
                                 element("g", *cells, class_="heat")))


def cell(value: int, total: int, right: bool, x: float, y: float, size: float, hint: str) -> Markup:
    share = value / total if total else 0.0
    shade = sum(share >= least for least in SHADES)
    number = None
    if size >= WITH_NUMBER and value:
        number = element("text", short(value), x=x + size / 2, y=y + size / 2 + 4, text_anchor="middle")
    return element("g", element("title", hint), element("rect", x=x, y=y, width=size - 1, height=size - 1), number,
                   class_=class_of("right" if right else "wrong", f"h{shade}" if value else "none"))
