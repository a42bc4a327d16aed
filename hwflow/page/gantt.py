"""A schedule: a row for each thing that works, with what it does in each span of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from .axis import Axis
from .bars import axes
from .chart import Rule, figure, legend, path, picture
from .svg import attributes, class_of, element, label, text_width

__all__ = ["Lane", "Profile", "Span", "gantt"]

#: Sizes in pixels.
BAR, GAP, TOP, BOTTOM, RIGHT, FONT = 14.0, 5.0, 20.0, 40.0, 14.0, 12.0
#: Heights that are told apart in a row.
LEVELS = 28
#: Characters of a name.
LONGEST = 28


@dataclass(frozen=True)
class Span:
    """From `start` to `end`, in units of the axis; `tone` is a class of chart.css."""

    start: float
    end: float
    tone: str
    hint: str


@dataclass(frozen=True)
class Profile:
    """From `start` to `end`, in equal parts: of each part the share of the row's height that is filled, 0 to 1."""

    start: float
    end: float
    shares: Sequence[float]
    tone: str
    hint: str


@dataclass(frozen=True)
class Lane:
    """A row; that of `marked` ones is set off.  `link` is where the name leads, `data` has attributes for scripts."""

    name: str
    spans: Sequence[Span | Profile]
    link: str | None = None
    marked: bool = False
    data: Mapping[str, str] = field(default_factory=dict)


def gantt(title: str, text: str, lanes: Sequence[Lane], axis: Axis, *, names: Mapping[str, str],
          rules: Sequence[Rule] = (), through: Sequence[tuple[int, float]] = (), width: float = 680,
          note: str | None = None) -> Markup:
    """A figure.  `text` says in words what it shows; `names` are those of tones for the legend; `rules` have an `x`.

    `through` joins points, each the number of a lane and a place on the axis.
    """
    left = 14 + max((text_width(lane.name[:LONGEST], FONT) for lane in lanes), default=0.0)
    scale = width - left - RIGHT
    bottom = TOP + len(lanes) * (BAR + GAP)
    made = [drawn(lane, TOP + k * (BAR + GAP), left, scale, axis) for k, lane in enumerate(lanes)]
    across = [rule(each, left + axis.share(each.x or 0.0) * scale, bottom, left + 0.6 * scale) for each in rules]
    if through:
        points = [(left + axis.share(x) * scale, TOP + k * (BAR + GAP) + BAR / 2) for k, x in through]
        across.append(element("path", d=path(points), class_="line through"))
    inside = picture(text, width, bottom + BOTTOM, axes(axis, left, scale, bottom), *made, *across,
                     links=any(lane.link for lane in lanes))
    return figure(title, inside, legend([(name, tone, "square") for tone, name in names.items()]), note)


def drawn(lane: Lane, y: float, left: float, scale: float, axis: Axis) -> Markup:
    name = label(lane.name, LONGEST, x=left - 6, y=y + 11, text_anchor="end", class_="name")
    parts = [element("a", name, href=lane.link) if lane.link else name]
    if lane.marked:
        parts.insert(0, element("rect", x=0.0, y=y - 2, width=left + scale, height=BAR + 4, class_="marked"))
    for span in lane.spans:
        start, end = (left + axis.share(each) * scale for each in (span.start, span.end))
        if isinstance(span, Profile):
            parts.append(element("path", element("title", span.hint), d=outline(span.shares, start, end, y),
                                 class_=span.tone))
            continue
        parts.append(element("rect", element("title", span.hint), x=start, y=y, width=max(end - start, 0.7),
                             height=BAR, class_=span.tone))
    return element("g", *parts, class_="lane", **attributes(lane.data))


def outline(shares: Sequence[float], start: float, end: float, y: float) -> str:
    """A filled outline above the lower edge of a row; neighbours of about the same height are one step."""
    part, words, now = (end - start) / len(shares), [f"M{start:.1f},{y + BAR:.1f}"], -1.0
    for k, share in enumerate(shares):
        level = round(min(1.0, max(0.0, share)) * LEVELS) / LEVELS
        if level != now:
            words.append(f"H{start + k * part:.1f}V{y + BAR * (1 - level):.1f}")
            now = level
    return f"{''.join(words)}H{end:.1f}V{y + BAR:.1f}Z"


def rule(mark: Rule, x: float, bottom: float, turn: float) -> Markup:
    """A line from top to bottom, whose name is on the side with more room."""
    before = x > turn
    text = label(mark.name, LONGEST, x=x - 4 if before else x + 4, y=TOP - 8, text_anchor="end" if before else None)
    return element("g", element("path", d=path([(x, TOP - 14), (x, bottom)])), text, class_=class_of("rule", mark.tone))
