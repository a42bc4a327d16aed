"""Bars under names: one or more bars for each name, each a row of pieces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from .chart import Axis, Rule, figure, legend, path, picture
from .markup import attributes, class_of, element, label

#: Sizes in pixels.
WIDTH, BAR, GAP, ROW_GAP, TOP, BOTTOM, LEFT, RIGHT, NAME = 480.0, 14.0, 2.0, 8.0, 6.0, 40.0, 12.0, 96.0, 15.0
#: Characters of a name and of a note.
LONGEST, NOTE = 52, 14


@dataclass(frozen=True)
class Piece:
    """A part of a bar: `tone` is a class of chart.css."""

    value: float
    tone: str
    hint: str


@dataclass(frozen=True)
class Row:
    """A name with bars under each other; each bar is a row of pieces, and `notes` are the texts at their ends.

    `link` is where the name leads, `data` has attributes for scripts (`data-...`).
    """

    name: str
    bars: Sequence[Sequence[Piece]]
    notes: Sequence[str] = ()
    link: str | None = None
    data: Mapping[str, str] = field(default_factory=dict)


def bars(title: str, text: str, rows: Sequence[Row], axis: Axis, *, names: Mapping[str, str] | None = None,
         rules: Sequence[Rule] = ()) -> Markup:
    """A figure.  `text` says in words what it shows; `names` are those of tones for the legend; `rules` have an `x`."""
    left, scale = LEFT, WIDTH - LEFT - RIGHT
    drawn, y = [], TOP + (14.0 if rules else 0.0)
    for row in rows:
        drawn.append(drawn_row(row, y, left, scale, axis))
        y += NAME + len(row.bars) * (BAR + GAP) + ROW_GAP
    across = [rule(mark, left + axis.share(mark.x or 0.0) * scale, y) for mark in rules]
    inside = picture(text, WIDTH, y + BOTTOM, axes(axis, left, scale, y), *drawn, *across,
                     links=any(row.link for row in rows))
    return figure(title, inside, legend([(name, tone, "square") for tone, name in (names or {}).items()])
                  if names else None)


def drawn_row(row: Row, y: float, left: float, scale: float, axis: Axis) -> Markup:
    name = label(row.name, LONGEST, x=left, y=y + 11, class_="name")
    parts = [element("a", name, href=row.link) if row.link else name]
    for k, pieces in enumerate(row.bars):
        top, total = y + NAME + k * (BAR + GAP), 0.0
        for piece in pieces:
            start, total = left + axis.share(total) * scale, total + piece.value
            end = left + axis.share(total) * scale
            if piece.value:
                parts.append(drawn_piece(piece, start, max(end - start, 0.7), top, log=axis.log))
        if k < len(row.notes):
            x = left + axis.share(total) * scale + (12 if axis.log else 5)
            parts.append(label(row.notes[k], NOTE, x=x, y=top + 11, class_="note"))
    return element("g", *parts, class_="bars", **attributes(row.data))


def drawn_piece(piece: Piece, start: float, long: float, top: float, *, log: bool) -> Markup:
    """A rectangle; on a logarithmic axis, where lengths mean nothing, a point at the end of a thin one."""
    hint = element("title", piece.hint)
    if not log:
        return element("rect", hint, x=start, y=top, width=long, height=BAR, class_=piece.tone)
    middle = top + BAR / 2
    return element("g", hint, element("rect", x=start, y=middle - 1, width=long, height=2),
                   element("circle", cx=start + long, cy=middle, r=BAR / 2 - 1), class_=piece.tone)


def rule(mark: Rule, x: float, bottom: float) -> Markup:
    text = label(mark.name, LONGEST, x=x - 4, y=TOP + 6, text_anchor="end")
    return element("g", element("path", d=path([(x, TOP), (x, bottom)])), text, class_=class_of("rule", mark.tone))


def axes(axis: Axis, left: float, scale: float, bottom: float) -> Markup:
    """The axis under the bars."""
    lines = []
    for tick in axis.ticks():
        x = left + tick.share * scale
        lines += [element("path", d=path([(x, TOP), (x, bottom)])),
                  element("text", tick.text, x=x, y=bottom + 14, text_anchor="middle")]
    lines.append(element("text", axis.label, x=left + scale / 2, y=bottom + 32, text_anchor="middle", class_="name"))
    return element("g", *lines, class_="axes")
