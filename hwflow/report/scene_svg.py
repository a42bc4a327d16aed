"""A scene as SVG.  Colours are attributes, which a page overrules with its style sheet by the classes."""

from __future__ import annotations

import itertools
from xml.sax.saxutils import escape, quoteattr

from hwflow_base.printable import clean

from .scene import LINE, NARROW, PAD, WIDE, Arrow, Box, Point, Scene

__all__ = ["FONT", "scene_parts", "xml"]

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
