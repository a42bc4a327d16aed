"""The die of a routed design as a picture: every tile in the colours of the stages whose cells are in it.

A large device has more than ten thousand tiles.  Equal tiles beside each other are one run, and all runs of a stage are
one path, so that the picture of a full LFE5U-85F takes some hundred kilobytes and can still be pointed at.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from markupsafe import Markup

from ..report.numbers import number
from ..synth.placement import Die, Group, Placement
from .chart import figure, path, picture
from .svg import attributes, class_of, element

__all__ = ["Kind", "Wire", "floorplan"]

#: Levels up to which a tile is filled, and the size of a tile inside of paths.
LEVELS = 8
#: Pixels: the picture's width, where tiles are small enough, and the sides of the smallest and the largest tile.
WIDTH, SMALLEST, LARGEST = 700.0, 3.0, 16.0
#: Pixels between the numbers of two stages, and how often another place near the first one is tried for one.
ROOM, TURNS = 15.0, ((0, 0), (0, -1), (0, 1), (-1, 0), (1, 0), (-1, -1), (1, 1), (-1, 1), (1, -1))


@dataclass(frozen=True)
class Kind:
    """What a part of the design is in the picture.

    `mark` is the text on it, none where it has no place of its own; `title` is its name and `link` where that leads;
    `data` has attributes for scripts (`data-...`), `order` is its place in lists.
    """

    title: str
    tone: str
    mark: str = ""
    link: str | None = None
    data: Mapping[str, str] = field(default_factory=dict)
    order: float = math.inf


@dataclass(frozen=True)
class Wire:
    """A path from tile to tile (column, row), with its meaning in words."""

    tiles: Sequence[tuple[int, int]]
    title: str


def floorplan(title: str, text: str, placement: Placement, capacity: Mapping[str, int], kind_of: Callable[[str], Kind],
              wire: Wire | None = None) -> Markup:
    """A figure.  `capacity` is how many cells of each resource a tile of logic holds, `kind_of` takes a part's name."""
    die = placement.die
    side = max(SMALLEST, min(LARGEST, WIDTH / die.columns))
    by_part: dict[str, list[Group]] = defaultdict(list)
    for group in placement.groups:
        by_part[group.part].append(group)
    logic = strips(placement, capacity)
    kinds = {part: kind_of(part) for part in by_part}
    drawn = [drawn_part(kinds[part], groups, logic.get(part, ""), die, capacity) for part, groups in by_part.items()]
    names = [name_of(kind) for kind in sorted(kinds.values(), key=lambda kind: kind.order)]
    inner = element("g", *drawn, transform=f"scale({side / LEVELS:.5g})")
    back = element("rect", width=die.columns * side, height=die.rows * side, class_="die")
    marks = numbers(placement, {part: kind.mark for part, kind in kinds.items()}, side)
    over = [] if wire is None else [drawn_wire(wire, die, side)]
    inside = picture(text, die.columns * side, die.rows * side, back, inner, *marks, *over)
    return element("div", figure(title, inside, element("ul", *names, class_="legend")), class_="floorplan")


def drawn_part(kind: Kind, groups: Iterable[Group], logic: str, die: Die, capacity: Mapping[str, int]) -> Markup:
    """All cells of a part: its logic as runs of strips, a block RAM as a square, a multiplier as a diamond."""
    groups = list(groups)
    counts = ", ".join(f"{number(group.cells)} {group.resource.upper()}" for group in groups)
    paths = [element("path", d=logic)] if logic else []
    for group in groups:
        if group.resource not in capacity:
            shapes = "".join(shape(group.resource, x, top(die, y)) for x, y, _ in group.tiles)
            paths.append(element("path", d=shapes, class_="block"))
    return element("g", element("title", f"{kind.title}: {counts}"), *paths, class_=class_of("part", kind.tone),
                   **attributes(kind.data))


def name_of(kind: Kind) -> Markup:
    """The part in the legend."""
    square = element("svg", element("rect", width=12, height=12, y=1, class_="swatch"), width=14, height=14,
                     class_=kind.tone, aria_hidden="true")
    text = element("a", kind.title, href=kind.link) if kind.link else kind.title
    return element("li", square, text, **attributes(kind.data))


def top(die: Die, row: int) -> int:
    """Rows from the top of the die."""
    return die.rows - 1 - row if die.upwards else row


def shape(resource: str, column: int, row: int) -> str:
    """A block in units of levels: a diamond for multipliers, a square for memories."""
    x, y, half = column * LEVELS, row * LEVELS, LEVELS // 2
    if resource == "dsp":
        return f"M{x + half} {y}l{half} {half}l-{half} {half}l-{half}-{half}z"
    return f"M{x} {y}h{LEVELS}v{LEVELS}h-{LEVELS}z"


def strips(placement: Placement, capacity: Mapping[str, int]) -> dict[str, str]:
    """The logic of each part as the attribute `d` of one path.

    A tile is filled from its bottom, as many of `LEVELS` as its used cells are of its `capacity`; parts lie on each
    other, and each has one level at least.
    """
    die, room = placement.die, sum(capacity.values())
    tiles: dict[tuple[int, int], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for group in placement.groups:
        if group.resource in capacity:
            for x, y, count in group.tiles:
                tiles[x, top(die, y)][group.part] += count
    runs: dict[tuple[str, int, int], list[int]] = defaultdict(list)
    for (x, y), parts in tiles.items():
        floor = (y + 1) * LEVELS
        for part, height in levels(parts, room).items():
            runs[part, floor - height, height].append(x)
            floor -= height
    made: dict[str, list[str]] = defaultdict(list)
    for (part, y, height), columns in sorted(runs.items()):
        for first, count in neighbours(sorted(columns)):
            wide = count * LEVELS
            made[part].append(f"M{first * LEVELS} {y}h{wide}v{height}h-{wide}z")
    return {part: "".join(each) for part, each in made.items()}


def levels(parts: Mapping[str, int], room: int) -> dict[str, int]:
    """How many of `LEVELS` each part of a tile takes, of `room` cells; the largest give way where it is too little."""
    found = {part: max(1, round(LEVELS * count / room)) for part, count in sorted(parts.items())}
    while sum(found.values()) > LEVELS:
        widest = max(found, key=lambda part: found[part])
        found[widest] -= 1
    return {part: height for part, height in found.items() if height}


def neighbours(columns: Sequence[int]) -> Iterable[tuple[int, int]]:
    """Runs of neighbours as (first, how many)."""
    first, count = columns[0], 1
    for before, column in pairwise(columns):
        if column == before + 1:
            count += 1
        else:
            yield first, count
            first, count = column, 1
    yield first, count


def numbers(placement: Placement, marks: Mapping[str, str], side: float) -> list[Markup]:
    """The mark of each part in the middle of its cells; where another one is too near, beside it."""
    cells: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for group in placement.groups:
        cells[group.part] += group.tiles
    taken: list[tuple[float, float]] = []
    made = []
    for part in sorted(cells, key=lambda name: -sum(count for _, _, count in cells[name])):
        x, y = (side * (0.5 + middle([(place[axis], place[2]) for place in cells[part]])) for axis in (0, 1))
        y = placement.die.rows * side - y if placement.die.upwards else y
        free = [(x + a * ROOM, y + b * ROOM) for a, b in TURNS
                if all(max(abs(x + a * ROOM - u), abs(y + b * ROOM - v)) >= ROOM * 0.9 for u, v in taken)]
        if marks[part] and free:
            taken.append(free[0])
            made.append(element("text", marks[part], x=free[0][0], y=free[0][1] + 4, text_anchor="middle",
                                class_="mark", aria_hidden="true"))
    return made


def middle(weighted: Iterable[tuple[int, int]]) -> int:
    """The value with half of the weight on either side."""
    ordered = sorted(weighted)
    half, seen = sum(weight for _, weight in ordered) / 2, 0
    for value, weight in ordered:
        seen += weight
        if seen >= half:
            return value
    return 0


def drawn_wire(wire: Wire, die: Die, side: float) -> Markup:
    """A line through the middles of tiles, with a ring where it begins."""
    points = [(side * (x + 0.5), side * (top(die, y) + 0.5)) for x, y in wire.tiles]
    line = element("path", d=path(points))
    return element("g", element("title", wire.title), line, element("circle", cx=points[0][0], cy=points[0][1], r=5.0),
                   class_="wire")
