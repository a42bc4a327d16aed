"""Axes of charts: where a value is, and the ticks with their texts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from markupsafe import Markup

from .markup import attributes, class_of, element, label, short

#: Parts of a decade that are ticks: of a linear axis as its step, of a logarithmic one where few decades are there.
NICE = (1.0, 2.0, 5.0, 10.0)
#: Most ticks of an axis.
MOST = 8


@dataclass(frozen=True)
class Tick:
    """`share` is where it is between both ends of the axis, from 0 to 1."""

    value: float
    share: float
    text: str


@dataclass(frozen=True)
class Axis:
    """From `low` to `high`; `log` where equal distances are equal ratios."""

    label: str
    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"axis '{self.label}' must go from a number to a larger one, not from {self.low} to "
                             f"{self.high}")
        if self.log and self.low <= 0:
            raise ValueError(f"a logarithmic axis '{self.label}' must begin above 0, not at {self.low}")

    @classmethod
    def of(cls, label: str, values: Iterable[float], *, log: bool = False, zero: bool = True) -> Axis:
        """The axis with room for `values` that ends at ticks.

        It has 0 where `zero`, and it is not logarithmic.  ValueError for a value that is not finite, or not above 0 on
        a logarithmic axis.
        """
        known = [float(value) for value in values] or [1.0]
        if not all(map(math.isfinite, known)):
            raise ValueError(f"values of axis '{label}' must be finite")
        low, high = min(known), max(known)
        if log:
            if low <= 0:
                raise ValueError(f"values of a logarithmic axis '{label}' must be above 0, not {low}")
            return cls(label, below(low), above(max(high, low * 1.0001)), log=True)
        if zero:
            low, high = min(low, 0.0), max(high, 0.0)
        if low == high:
            low, high = (low, low + 1.0) if low >= 0 else (low - 1.0, low)
        step = step_of(low, high)
        return cls(label, math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step)

    def share(self, value: float) -> float:
        """Where `value` is: 0 at the low end, 1 at the high one, limited to these."""
        if self.log:
            value = max(value, self.low)
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, share))

    def ticks(self) -> tuple[Tick, ...]:
        """With as many digits as tell them apart."""
        values = self.log_values() if self.log else self.linear_values()
        texts = next(labels for figures in range(3, 17)
                     if len(set(labels := [short(value, figures) for value in values])) == len(values))
        return tuple(Tick(value, self.share(value), text) for value, text in zip(values, texts, strict=True))

    def linear_values(self) -> list[float]:
        step = step_of(self.low, self.high)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(k * step, 12) for k in range(first, last + 1)]

    def log_values(self) -> list[float]:
        """Decades, or each n-th one; where there are one or two, their 1, 2 and 5."""
        first, last = math.floor(math.log10(self.low) + 1e-9), math.ceil(math.log10(self.high) - 1e-9)
        parts = NICE[:3] if last - first <= 2 else NICE[:1]
        skip = 1 + (last - first) // MOST
        candidates = [part * 10.0 ** decade for decade in range(first, last + 1, skip) for part in parts]
        edge = 1e-9
        return [value for value in candidates if self.low * (1 - edge) <= value <= self.high * (1 + edge)]


def step_of(low: float, high: float) -> float:
    """The smallest nice step with which an axis has at most `MOST` ticks."""
    rough = (high - low) / (MOST - 1)
    decade = 10.0 ** math.floor(math.log10(rough))
    return float(next(part * decade for part in NICE if part * decade >= rough * (1 - 1e-9)))


def below(value: float) -> float:
    """The largest 1, 2 or 5 of a decade that is not above `value`."""
    decade = 10.0 ** math.floor(math.log10(value))
    return float(max((part * decade for part in NICE if part * decade <= value * (1 + 1e-9)), default=decade))


def above(value: float) -> float:
    """The smallest 1, 2 or 5 of a decade that is not below `value`."""
    decade = 10.0 ** math.floor(math.log10(value))
    return float(min(part * decade for part in NICE if part * decade >= value * (1 - 1e-9)))


# Charts as inline SVG: points, lines, steps, columns over two axes.
#
# hwflow draws them itself, and no plotting library does, because of what a page needs of them: colours that follow
# the page, so light, dark or for the printer; texts of the page's own font that can be searched and read aloud; a
# hint for each mark without a script; and a few kilobytes for each picture. `files/chart.css` has the looks. A mark
# has a *tone*, the name of a class there: `s1` to `s8` for series, or a word for what it means, as `planned` or
# `waits`. No picture says anything by colour alone: series have marks of their own, and a table stands beside each
# picture.


#: The classes of series, in order.
TONES = tuple(f"s{k}" for k in range(1, 9))
#: Margins around the plotted area, and sizes, in pixels.
LEFT, RIGHT, TOP, BOTTOM = 62.0, 24.0, 12.0, 44.0
RADIUS = 4.0
#: Characters of a text inside of a picture.
LONGEST = 40


@dataclass(frozen=True)
class Dot:
    """A point with a hint.  `link` is where it leads, `data` has attributes for scripts (`data-...`), `strong` ones are
    larger."""

    x: float
    y: float
    hint: str
    link: str | None = None
    data: Mapping[str, str] = field(default_factory=dict)
    strong: bool = False


@dataclass(frozen=True)
class Dots:
    """A series of points.  A line goes through `joined` (x, y); `data` has attributes of the series for scripts."""

    name: str
    points: Sequence[Dot]
    tone: str | None = None
    joined: Sequence[tuple[float, float]] = ()
    data: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Line:
    """A line through points (x, y); with `step` each value is that of its point until the next one comes."""

    name: str
    points: Sequence[tuple[float, float]]
    tone: str | None = None
    step: bool = False
    dashed: bool = False


@dataclass(frozen=True)
class Columns:
    """A histogram: a column of height `values[k]` from `edges[k]` to `edges[k + 1]`, and a hint for each if given."""

    name: str
    edges: Sequence[float]
    values: Sequence[float]
    tone: str | None = None
    hints: Sequence[str] = ()


@dataclass(frozen=True)
class Rule:
    """A line across the picture: upright at `x`, or level at `y`."""

    name: str
    x: float | None = None
    y: float | None = None
    tone: str = "limit"


Mark: TypeAlias = Dots | Line | Columns | Rule


@dataclass(frozen=True)
class Area:
    """Where marks are drawn."""

    x: Axis
    y: Axis
    width: float
    height: float

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Pixels of a value."""
        return LEFT + self.x.share(x) * self.width, TOP + (1 - self.y.share(y)) * self.height


def plot(title: str, text: str, x: Axis, y: Axis, marks: Sequence[Mark], *, size: tuple[float, float] = (480, 320)
         ) -> Markup:
    """A figure with `marks` over the axes `x` and `y`, of this width and height in pixels.

    `text` says in words what the picture shows, for those who do not see it.  Values outside of an axis are drawn at
    its end.
    """
    width, height = size
    area = Area(x, y, width - LEFT - RIGHT, height - TOP - BOTTOM)
    toned = tones_of(marks)
    drawn = [drawing(mark, tone, k, area) for k, (mark, tone) in enumerate(zip(marks, toned, strict=True))]
    links = any(dot.link for mark in marks if isinstance(mark, Dots) for dot in mark.points)
    names = [(mark.name, tone, shape_of(mark, k)) for k, (mark, tone) in enumerate(zip(marks, toned, strict=True))
             if mark.name and not isinstance(mark, Rule)]
    inside = picture(text, width, height, grid(area), Markup("").join(drawn), links=links)
    return figure(title, inside, legend(names) if len(names) > 1 else None)


def tones_of(marks: Sequence[Mark]) -> list[str]:
    """Their own, else the next of the series."""
    free = (tone for _ in range(len(marks)) for tone in TONES)
    return [mark.tone or next(free) for mark in marks]


def shape_of(mark: Mark, position: int) -> str:
    """The name of the mark in a legend."""
    if isinstance(mark, Dots):
        return SHAPES[position % len(SHAPES)]
    return ("dashed" if mark.dashed else "line") if isinstance(mark, Line) else "square"


def drawing(mark: Mark, tone: str, position: int, area: Area) -> Markup:
    if isinstance(mark, Dots):
        return dots(mark, tone, SHAPES[position % len(SHAPES)], area)
    if isinstance(mark, Line):
        return line(mark, tone, area)
    return columns(mark, tone, area) if isinstance(mark, Columns) else rule(mark, area)


#: Marks of points by series.
SHAPES = ("circle", "square", "diamond", "triangle", "cross", "down")


def shape(name: str, x: float, y: float, radius: float, *children: Markup, **attributes: object) -> Markup:
    """A mark around a point."""
    r = radius
    if name == "circle":
        return element("circle", *children, cx=x, cy=y, r=r, **attributes)
    corners = {
        "square": ((-r, -r), (r, -r), (r, r), (-r, r)), "diamond": ((0, -1.3 * r), (1.3 * r, 0), (0, 1.3 * r),
                                                                   (-1.3 * r, 0)),
        "triangle": ((0, -1.2 * r), (1.1 * r, 0.9 * r), (-1.1 * r, 0.9 * r)),
        "down": ((0, 1.2 * r), (1.1 * r, -0.9 * r), (-1.1 * r, -0.9 * r)),
        "cross": ((-r, -0.4 * r), (-0.4 * r, -0.4 * r), (-0.4 * r, -r), (0.4 * r, -r), (0.4 * r, -0.4 * r),
                  (r, -0.4 * r), (r, 0.4 * r), (0.4 * r, 0.4 * r), (0.4 * r, r), (-0.4 * r, r), (-0.4 * r, 0.4 * r),
                  (-r, 0.4 * r))}[name]
    return element("path", *children, d=f"{path((x + a, y + b) for a, b in corners)}Z", **attributes)


def path(points: Iterable[tuple[float, float]]) -> str:
    """The attribute `d` of straight lines through points."""
    return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)


def dots(mark: Dots, tone: str, name: str, area: Area) -> Markup:
    shapes = [element("path", d=path(area.at(*place) for place in mark.joined), class_="line")] if mark.joined else []
    for dot in mark.points:
        x, y = area.at(dot.x, dot.y)
        one = shape(name, x, y, 1.7 * RADIUS if dot.strong else RADIUS, element("title", dot.hint),
                    **attributes(dot.data))
        shapes.append(element("a", one, href=dot.link) if dot.link else one)
    return element("g", *shapes, class_=class_of("dots", tone), **attributes(mark.data))


def line(mark: Line, tone: str, area: Area) -> Markup:
    places = [area.at(*point) for point in mark.points]
    if mark.step:
        corners = [(x, before[1]) for before, (x, _) in pairwise(places)]
        places = [point for pair in zip(places, [*corners, places[-1]], strict=True) for point in pair]
    title = element("title", mark.name) if mark.name else None
    return element("path", title, d=path(places), class_=class_of("line", tone, "dashed" if mark.dashed else None))


def columns(mark: Columns, tone: str, area: Area) -> Markup:
    _, floor = area.at(area.x.low, area.y.low)
    bars = []
    for k, value in enumerate(mark.values):
        if not value:
            continue
        (left, top), (right, _) = area.at(mark.edges[k], value), area.at(mark.edges[k + 1], value)
        hint = element("title", mark.hints[k]) if mark.hints else None
        bars.append(element("rect", hint, x=left, y=top, width=max(right - left, 0.5), height=max(floor - top, 0.5)))
    return element("g", *bars, class_=class_of("columns", tone))


def rule(mark: Rule, area: Area) -> Markup:
    """The line, with its name at the end."""
    if mark.x is not None:
        x, _ = area.at(mark.x, area.y.low)
        near_end = x > LEFT + area.width * 0.7
        drawn = element("path", d=path([(x, TOP), (x, TOP + area.height)]))
        text = label(mark.name, LONGEST, x=x + (-4 if near_end else 4), y=TOP + 11,
                     text_anchor="end" if near_end else None)
    else:
        _, y = area.at(area.x.low, area.y.low if mark.y is None else mark.y)
        drawn = element("path", d=path([(LEFT, y), (LEFT + area.width, y)]))
        text = label(mark.name, LONGEST, x=LEFT + area.width - 4, y=y - 4 if y > TOP + 16 else y + 13,
                     text_anchor="end")
    return element("g", drawn, text, class_=class_of("rule", mark.tone))


def grid(area: Area) -> Markup:
    """Both axes with their ticks, lines across at these, and labels."""
    lines = []
    for tick in area.y.ticks():
        y = TOP + (1 - tick.share) * area.height
        lines += [element("path", d=path([(LEFT, y), (LEFT + area.width, y)])),
                  element("text", tick.text, x=LEFT - 6, y=y + 4, text_anchor="end")]
    floor = TOP + area.height
    for tick in area.x.ticks():
        x = LEFT + tick.share * area.width
        lines += [element("path", d=path([(x, TOP), (x, floor)])),
                  element("text", tick.text, x=x, y=floor + 15, text_anchor="middle")]
    middle = TOP + area.height / 2
    lines += [element("text", area.x.label, x=LEFT + area.width / 2, y=floor + 34, text_anchor="middle",
                      class_="name"),
              element("text", area.y.label, x=13.0, y=middle, text_anchor="middle", class_="name",
                      transform=f"rotate(-90 13 {middle:.1f})")]
    return element("g", *lines, class_="axes")


def picture(text: str, width: float, height: float, *children: Markup, links: bool = False) -> Markup:
    """An `<svg>` of this size whose meaning is `text`.  With `links` its elements are read one by one."""
    return element("svg", element("title", text), *children, width=width, height=height,
                   viewBox=f"0 0 {width:.0f} {height:.0f}", role="graphics-document" if links else "img")


def legend(names: Sequence[tuple[str, str, str]]) -> Markup:
    """A list of series: name, tone, and the shape of their marks (one of `SHAPES`, `line` or `dashed`)."""
    rows = []
    for name, tone, mark in names:
        drawn = (element("path", d="M1,7L15,7", class_=class_of("line", "dashed" if mark == "dashed" else None))
                 if mark in ("line", "dashed") else shape(mark, 8.0, 7.0, 5.0))
        rows.append(element("li", element("svg", drawn, width=16, height=14, class_=tone, aria_hidden="true"), name))
    return element("ul", *rows, class_="legend")


def figure(title: str, inside: Markup, names: Markup | None = None, note: str | None = None) -> Markup:
    """A picture with its title and legend, which scrolls where the page is narrower than the picture."""
    said = element("p", note, class_="note") if note else None
    scrolled = element("div", inside, class_="scroll", tabindex=0, role="group", aria_label=f"{title} (picture)")
    return element("figure", element("figcaption", title), names, scrolled, said, class_="chart")
