"""Boxes and arrows at their places, and the same as SVG."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from hwflow_base.printable import clean

from .layout import BEND, Drawing, draw, first_rows

#: Pixels: an em of the two fonts wide, lines, inside of a box.
WIDE, NARROW, LINE, PAD = 7.8, 6.4, 14.0, 8.0
#: Pixels: between rows, around the picture, between arrows side by side in a gutter, from a column to its gutter.
ROW_GAP, MARGIN, LANE, GUTTER = 30.0, 20.0, 9.0, 22.0


@dataclass(frozen=True)
class Box:
    """A box: `lines` in it with the width of an em, `labels` under it.

    `css` is its class; `fill` and `border` are its colours where no style sheet says others.  `hint` is what a pointer
    that rests on it shows, `href` where it leads.  `stage` names the stage that it belongs to, `tag` is a word in its
    upper corner, `load` the share of a bar at its foot that is full, None for no bar.
    """

    css: str
    identifier: str
    lines: tuple[tuple[str, float], ...]
    labels: tuple[str, ...] = ()
    hint: str = ""
    fill: str = "white"
    border: str = "black"
    href: str = ""
    stage: str = ""
    tag: str = ""
    load: float | None = None

    @property
    def width(self) -> float:
        texts = [len(text) * em for text, em in self.lines] + [len(label) * NARROW for label in self.labels]
        if self.tag and self.lines:
            texts[0] += (len(self.tag) + 2) * NARROW
        return max(texts, default=0.0) + 2 * PAD

    @property
    def height(self) -> float:
        """The height of the box itself."""
        return len(self.lines) * LINE + PAD + (5.0 if self.load is not None else 0.0)

    @property
    def depth(self) -> float:
        """The height of the box with the labels under it."""
        return self.height + len(self.labels) * LINE


@dataclass(frozen=True)
class Arrow:
    """From box `source` to box `sink`, a higher number; `label` is a short text on it, `hint` a longer one."""

    source: int
    sink: int
    label: str = ""
    hint: str = ""
    css: str = "edge"


@dataclass(frozen=True)
class Point:
    """A place that an arrow passes downwards, in a column."""

    x: float
    y: float
    column: int


@dataclass(frozen=True)
class Scene:
    """Boxes by their middle and top, arrows by the points that they pass, labels by their middle and foot.

    `detours` has for an arrow that leaves the foot of a column the places of its way to the head of the next: the
    lowest y, the x in the gutter, and the highest y.
    """

    boxes: tuple[tuple[Box, float, float], ...]
    arrows: tuple[tuple[Arrow, tuple[Point, ...]], ...]
    labels: Mapping[tuple[int, int], tuple[float, float]]
    detours: Mapping[tuple[int, int, int], tuple[float, float, float]]
    width: float
    height: float


@dataclass(frozen=True)
class _Grid:
    """Columns of rows: of each row its column, top and height; of each column what is added to x, and its right end.

    `cuts` has the number of arrows that go on from each column to the next.
    """

    column: tuple[int, ...]
    top: tuple[float, ...]
    height: tuple[float, ...]
    shift: tuple[float, ...]
    right: tuple[float, ...]
    cuts: tuple[int, ...]

    @property
    def foot(self) -> float:
        return max((top + height for top, height in zip(self.top, self.height, strict=True)), default=0.0)

    def point(self, x: float, row: int, down: float = 0.0) -> Point:
        column = self.column[row]
        return Point(x + self.shift[column], self.top[row] + down, column)


def arrange(boxes: Sequence[Box], arrows: Sequence[Arrow], columns: int = 1, head: float = 0.0) -> Scene:
    """The places of everything, in about `columns` columns, with `head` pixels left free above.

    Of several arrows between two boxes the first is drawn.
    """
    chosen = {(arrow.source, arrow.sink): arrow for arrow in reversed(arrows)}
    pairs = sorted(chosen)
    texts = {pair: len(chosen[pair].label) * NARROW + 6 for pair in pairs if chosen[pair].label}
    drawing = draw([box.width for box in boxes], pairs, texts)
    grid = _grid(boxes, drawing, texts, columns, head)
    passed = {pair: _points(boxes, drawing, grid, pair) for pair in pairs}
    labels = {}
    for pair in texts:
        row = drawing.row[pair[1]] - 1
        place = grid.point(drawing.bends[pair][-1] if drawing.bends[pair] else drawing.x[pair[1]], row, LINE - 3)
        labels[pair] = place.x, place.y
    placed = [(box, grid.point(x, row)) for box, x, row in zip(boxes, drawing.x, drawing.row, strict=True)]
    return Scene(
        tuple((box, point.x, point.y) for box, point in placed), tuple((chosen[pair], passed[pair]) for pair in pairs),
        labels, _detours(passed, grid), max(grid.right, default=0.0) + MARGIN,
        grid.foot + max((count * LANE + GUTTER for count in grid.cuts), default=0.0) + MARGIN)  # fmt: skip


def _grid(
    boxes: Sequence[Box], drawing: Drawing, texts: Mapping[tuple[int, int], float], columns: int, head: float
) -> _Grid:
    rows = max(drawing.row, default=-1) + 1
    heights, crossing = [0.0] * rows, [0] * rows
    for box, row in zip(boxes, drawing.row, strict=True):
        heights[row] = max(heights[row], box.depth)
    for _, sink in texts:
        heights[drawing.row[sink] - 1] = LINE
    for a, b in drawing.bends:
        for row in range(drawing.row[a], drawing.row[b]):
            crossing[row] += 1
    if texts:  # a label stays with the box under it
        crossing[1::2] = [0] * len(crossing[1::2])
    gap = ROW_GAP / 2 if texts else ROW_GAP
    firsts = first_rows([height + gap for height in heights], crossing, columns)
    cuts = tuple(crossing[first - 1] for first in firsts[1:])
    top = MARGIN + head + (max(cuts) * LANE + GUTTER / 2 if cuts else 0.0)
    column, tops, y = [], [], top
    for row, height in enumerate(heights):
        y = top if row in firsts else y
        column.append(sum(first <= row for first in firsts) - 1)
        tops.append(y)
        y += height + gap
    return _Grid(tuple(column), tuple(tops), tuple(heights), *_beside(boxes, drawing, column, cuts), cuts)


def _beside(
    boxes: Sequence[Box], drawing: Drawing, column: Sequence[int], cuts: Sequence[int]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The number that is added to x in each column, so that columns are beside each other, and their right ends after
    that."""
    spans: list[list[float]] = [[] for _ in range(max(column, default=-1) + 1)]
    for box, x, row in zip(boxes, drawing.x, drawing.row, strict=True):
        spans[column[row]] += [x - box.width / 2, x + box.width / 2]
    for (a, _), bends in drawing.bends.items():
        for row, x in enumerate(bends, drawing.row[a] + 1):
            spans[column[row]] += [x - BEND, x + BEND]
    shift, right, left = [], [], MARGIN
    for number, span in enumerate(spans):
        shift.append(left - min(span, default=0.0))
        right.append(left + max(span, default=0.0) - min(span, default=0.0))
        left = right[-1] + (2 * GUTTER + cuts[number] * LANE if number < len(cuts) else 0.0)
    return tuple(shift), tuple(right)


def _points(boxes: Sequence[Box], drawing: Drawing, grid: _Grid, pair: tuple[int, int]) -> tuple[Point, ...]:
    """From under the labels of a box to the top of another, straight down through every row between."""
    a, b = pair
    points = [grid.point(drawing.x[a], drawing.row[a], boxes[a].depth + (3 if boxes[a].labels else 0))]
    for row, x in enumerate(drawing.bends[pair], drawing.row[a] + 1):
        points.append(grid.point(x, row))
        if grid.height[row]:
            points.append(grid.point(x, row, grid.height[row]))
    return (*points, grid.point(drawing.x[b], drawing.row[b]))


def _detours(
    passed: Mapping[tuple[int, int], tuple[Point, ...]], grid: _Grid
) -> dict[tuple[int, int, int], tuple[float, float, float]]:
    """The ways from column to column.  The arrow furthest left goes lowest and turns last, so that none cross."""
    leaving: dict[int, list[tuple[float, tuple[int, int]]]] = {}
    for pair, points in passed.items():
        for point, after in itertools.pairwise(points):
            if after.column != point.column:
                leaving.setdefault(point.column, []).append((point.x, pair))
    detours, head = {}, min(grid.top, default=0.0)
    for column, across in leaving.items():
        rows = [row for row, own in enumerate(grid.column) if own == column]
        foot = max(grid.top[row] + grid.height[row] for row in rows)
        for turn, (_, (a, b)) in enumerate(sorted(across, reverse=True)):
            up = head - GUTTER / 2 - (len(across) - 1 - turn) * LANE
            detours[a, b, column] = foot + GUTTER / 2 + turn * LANE, grid.right[column] + GUTTER + turn * LANE, up
    return detours


# A scene as SVG.  Colours are attributes, which a page overrules with its style sheet by the classes.


FONT = "DejaVu Sans Mono, Consolas, monospace"
_EDGE, _QUIET = "#8a8a8a", "#555555"
#: Pixels: the radius of a turn on the way to another column, half of an arrow head.
_TURN, _HEAD = 7.0, 3.5


def xml(text: str) -> str:
    """Text of a file as the content of an element."""
    return escape(clean(text))


def scene_parts(scene: Scene, prefix: str = "") -> list[str]:
    """The elements of the picture, arrows first; `prefix` begins the identifiers of the boxes."""
    return [
        *(_arrow(arrow, points, scene) for arrow, points in scene.arrows),
        *(_label(arrow.label, *scene.labels[arrow.source, arrow.sink]) for arrow, _ in scene.arrows if arrow.label),
        *(_box(box, x, top, prefix) for box, x, top in scene.boxes),
    ]


def _arrow(arrow: Arrow, points: tuple[Point, ...], scene: Scene) -> str:
    """A smooth line through the points; to another column around the foot of the one and the head of the other."""
    path = f"M{points[0].x:.1f},{points[0].y:.1f}"
    for a, b in itertools.pairwise(points):
        if a.column != b.column:
            path += _detour(b, *scene.detours[arrow.source, arrow.sink, a.column])
        elif abs(a.x - b.x) < 0.05:
            path += f"V{b.y:.1f}"
        else:
            half = (a.y + b.y) / 2
            path += f"C{a.x:.1f},{half:.1f} {b.x:.1f},{half:.1f} {b.x:.1f},{b.y:.1f}"
    end = points[-1]
    path += f"m{-_HEAD},{-2 * _HEAD}L{end.x:.1f},{end.y:.1f}l{_HEAD},{-2 * _HEAD}"
    hint = f"<title>{xml(arrow.hint)}</title>" if arrow.hint else ""
    names = " ".join(f"{way}={quoteattr(stage)}" for way, stage in _stages(arrow, scene) if stage)
    return (f'<path class="{arrow.css}" d="{path}" fill="none" stroke="{_EDGE}"{" " if names else ""}{names}'
            f'{f">{hint}</path>" if hint else "/>"}')  # fmt: skip


def _stages(arrow: Arrow, scene: Scene) -> tuple[tuple[str, str], ...]:
    return ("data-from", scene.boxes[arrow.source][0].stage), ("data-to", scene.boxes[arrow.sink][0].stage)


def _detour(end: Point, low: float, beside: float, high: float) -> str:
    """Down, right, up beside the column, right or left above the next one, and down."""
    turn = _TURN if end.x >= beside else -_TURN
    return (
        f"V{low - _TURN:.1f}q0,{_TURN} {_TURN},{_TURN}H{beside - _TURN:.1f}q{_TURN},0 {_TURN},{-_TURN}"
        f"V{high + _TURN:.1f}q0,{-_TURN} {turn},{-_TURN}H{end.x - turn:.1f}q{turn},0 {turn},{_TURN}V{end.y:.1f}"
    )  # fmt: skip


def _box(box: Box, x: float, top: float, prefix: str) -> str:
    left = x - box.width / 2
    stage = f" data-stage={quoteattr(box.stage)}" if box.stage else ""
    parts = [
        f'<g class="{box.css}" id="{prefix}{box.identifier}"{stage}><title>{xml(box.hint)}</title>'
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="5" '
        f'fill="{box.fill}" stroke="{box.border}"/>'
    ]
    if box.load is not None:
        parts.append(_bar(left, top + box.height, box.width, box.load, box.border))
    first = x if not box.tag else left + PAD + len(box.lines[0][0]) * box.lines[0][1] / 2
    y = top + PAD / 2 - 3
    for number, (text, em) in enumerate(box.lines):
        y += LINE
        parts.append(_text(text, x if number else first, y, em, "black"))
    if box.tag:
        right = left + box.width - PAD - len(box.tag) * NARROW / 2
        parts.append(_text(box.tag, right, top + PAD / 2 - 3 + LINE, NARROW, box.border, "tag"))
    y = top + box.height
    for label in box.labels:
        y += LINE
        parts.append(_text(label, x, y - 2, NARROW, _QUIET))
    body = "".join(parts) + "</g>"
    return f"<a href={quoteattr(box.href)}>{body}</a>" if box.href else body


def _bar(left: float, foot: float, width: float, share: float, colour: str) -> str:
    """The share of a stage's time in which it works, at the foot of its box."""
    inner = width - 2 * PAD
    place = f'x="{left + PAD:.1f}" y="{foot - 7:.1f}" height="3"'
    return (f'<rect class="idle" {place} width="{inner:.1f}" fill="#dddddd"/>'
            f'<rect class="load" {place} width="{inner * min(share, 1.0):.1f}" fill="{colour}"/>')  # fmt: skip


def _label(text: str, x: float, y: float) -> str:
    """The text of an arrow, on a ground that hides the arrow."""
    width = len(text) * NARROW + 6
    place = f'x="{x - width / 2:.1f}" y="{y - 10:.1f}" width="{width:.1f}" height="13"'
    return f'<rect class="ground" {place} fill="white"/>' + _text(text, x, y, NARROW, _QUIET, "label")


def _text(text: str, x: float, y: float, em: float, colour: str, css: str = "") -> str:
    """The width is stated, so that no font makes texts wider than their place."""
    size = 13 if em == WIDE else 10.5
    named = f' class="{css}"' if css else ""
    return (
        f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="middle" font-size="{size}" fill="{colour}" '
        f'textLength="{len(text) * em:.1f}" lengthAdjust="spacingAndGlyphs">{xml(text)}</text>'
    )
