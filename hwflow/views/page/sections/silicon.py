"""The section on the routed design: its clocks, longest paths and floorplan."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from hwflow_base.printable import number, rate_text
from markupsafe import Markup

from hwflow.facts.plan import routed_design
from hwflow.host.rate import rate_of
from hwflow.synth.design_parts import LINKS, place_of
from hwflow.synth.families import FAMILIES
from hwflow.synth.paths import Clock, TimingPath
from hwflow.synth.placement import Die, Group, Placement, saved_placement
from hwflow.synth.report import SynthesisReport, saved_report
from hwflow.synth.seeds import Attempt

from ..bars import Piece, Row, bars
from ..chart import TONES, Axis, Rule, figure, path, picture
from ..markup import (
    Cell,
    Given,
    attributes,
    class_of,
    command_block,
    element,
    folded,
    measure,
    note,
    stage_anchor,
    table,
    tiles,
    verdict,
)
from ..subject import Section, Subject

# The die of a routed design as a picture: every tile in the colours of the stages whose cells are in it.
#
# A large device has more than ten thousand tiles. Equal tiles beside each other are one run, and all runs of a stage
# are one path, so that the picture of a full LFE5U-85F takes some hundred kilobytes and can still be pointed at.


#: Levels up to which a tile is filled, and the size of a tile inside of paths.
LEVELS = 8
#: Pixels: the picture's width, where tiles are small enough, and the sides of the smallest and the largest tile.
WIDTH, SMALLEST, LARGEST = 700.0, 3.0, 16.0
#: Pixels between the numbers of two stages, and how often another place near the first one is tried for one.
ROOM, TURNS = 15.0, ((0, 0), (0, -1), (0, 1), (-1, 0), (1, 0), (-1, -1), (1, 1), (-1, 1), (1, -1))


@dataclass(frozen=True)
class Kind:
    """The kinds of parts of the design in the picture.

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
    commands: dict[str, list[str]] = defaultdict(list)
    for (part, y, height), columns in sorted(runs.items()):
        for first, count in neighbours(sorted(columns)):
            wide = count * LEVELS
            commands[part].append(f"M{first * LEVELS} {y}h{wide}v{height}h-{wide}z")
    return {part: "".join(words) for part, words in commands.items()}


def levels(parts: Mapping[str, int], room: int) -> dict[str, int]:
    """How many of `LEVELS` each part of a tile takes, of `room` cells; the largest give way where it is too little."""
    heights = {part: max(1, round(LEVELS * count / room)) for part, count in sorted(parts.items())}
    while sum(heights.values()) > LEVELS:
        widest = max(heights, key=lambda part: heights[part])
        heights[widest] -= 1
    return {part: height for part, height in heights.items() if height}


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
    texts = []
    for part in sorted(cells, key=lambda name: -sum(count for _, _, count in cells[name])):
        x, y = (side * (0.5 + middle([(place[axis], place[2]) for place in cells[part]])) for axis in (0, 1))
        y = placement.die.rows * side - y if placement.die.upwards else y
        free = [(x + a * ROOM, y + b * ROOM) for a, b in TURNS
                if all(max(abs(x + a * ROOM - u), abs(y + b * ROOM - v)) >= ROOM * 0.9 for u, v in taken)]
        if marks[part] and free:
            taken.append(free[0])
            texts.append(element("text", marks[part], x=free[0][0], y=free[0][1] + 4, text_anchor="middle",
                                 class_="mark", aria_hidden="true"))
    return texts


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


#: The cells without a name.
UNNAMED = "what nextpnr added"
#: The tones of stages; the last of all is grey, as what is between the stages.
COLOURS = TONES[:-1]
#: Seeds that are worth a try where one was routed.
MORE_SEEDS = 4


def section(subject: Subject) -> Section:
    """The placed and routed design."""
    report = saved_report(subject.synthesis)
    current = routed_design(subject.plan, subject.graph, subject.board, subject.synthesis)
    command = subject.command("synth")
    if report is None or current is None:
        other = report is not None
        said = ("The routed design in the build folder is of another plan, of other weights or of another board."
                if other else "This design was not routed yet.")
        return Section("silicon", "Silicon", element("p", said), command)
    placement = saved_placement(subject.synthesis)
    fits = placement is not None and is_of(placement, report, subject)
    parts = [headline(subject, report)]
    core = next((clock for clock in report.clocks if clock.is_core), None)
    if fits and placement is not None:
        parts.append(die(subject, placement, report, core))
    else:
        parts.append(element("p", "The places of the cells were not kept with this design."))
    parts += [clocks(subject, report), longest(report, placement if fits else None, core), seeds(subject, report),
              tools(report)]
    return Section("silicon", "Silicon", Markup("").join(parts), None if fits else command)


def is_of(placement: Placement, report: SynthesisReport, subject: Subject) -> bool:
    """Whether all cells that the report counts are in the placement, which is a file of its own."""
    counted = FAMILIES[subject.board.family].routed_cells.resources()
    return all(placement.cells(name) == getattr(report, name).used for name, cells in counted.items() if cells)


def headline(subject: Subject, report: SynthesisReport) -> Markup:
    """The numbers that people look for first, and whether the design may run at its clock."""
    rate = rate_of(subject.plan, report.clock_mhz, subject.board.transport.bytes_per_second)
    facts = [("clock of the stages", f"{report.clock_mhz:.4g} MHz"),
             ("frames/s that arrive", rate_text(rate.frames_per_second)),
             ("frames/s of the FPGA alone", rate_text(rate.core))]
    if report.routed_mhz is not None:
        facts.insert(1, ("allowed by all paths", f"{report.routed_mhz:.1f} MHz"))
    seconds = round(report.seconds.get("place and route", 0.0))
    facts += [("seed", str(report.seed)), ("place and route", f"{number(seconds)} s"), ("device", report.device)]
    words = "All clocks are slow enough for the routed design." if report.meets_clock else (
        "A clock is faster than the routed design allows: it must not run like this.")
    return tiles(facts) + verdict(words, "good" if report.meets_clock else "bad")


def kind_of(subject: Subject, part: str) -> Kind:
    """A part of the design on the die."""
    names = {f"stage{k}": (k, stage.name) for k, stage in enumerate(subject.plan.stages)}
    if part not in names:
        return Kind(part or UNNAMED, "between")
    number, name = names[part]
    turn, tone = divmod(number, len(COLOURS))
    return Kind(f"{number}: {name}", COLOURS[tone] + (" pale" if turn % 2 else ""), str(number),
                f"#{stage_anchor(name)}", {"stage": name}, number)


def die(subject: Subject, placement: Placement, report: SynthesisReport, core: Clock | None) -> Markup:
    family = FAMILIES[subject.board.family]
    used = ", ".join(f"{getattr(report, name)} {name.upper()}" for name in ("lut", "ff", "dsp", "ram", "spram")
                     if getattr(report, name).available)
    text = (f"Floorplan of {placement.device}, {placement.die.columns} by {placement.die.rows} tiles, with the cells "
            f"of {len(subject.plan.stages)} stages where nextpnr placed them: {used}.")
    wire = None
    if core is not None and core.path is not None:
        tiles = [placement.spots[cell] for step in core.path.steps for cell in (step.cell, step.last)
                 if cell in placement.spots]
        wire = Wire(tiles, f"the longest path: {core.path}") if tiles else None
    said = ("A tile is filled as far as its cells are used, in the colours of the stages that use them; numbers are "
            "those of stages. Squares are memory blocks, diamonds are multiplier blocks; grey is what connects stages "
            "and the host. The line is the longest path, from its ring.")
    return element("h3", "Floorplan") + floorplan(
        f"{placement.device}: where the stages are", text, placement, family.tile,
        lambda part: kind_of(subject, part), wire) + note(said) + by_part(subject, placement)


def by_part(subject: Subject, placement: Placement) -> Markup:
    """The cells of the picture in numbers."""
    names = list(dict.fromkeys(group.resource for group in placement.groups))
    names = [name for name in ("lut", "ff", "dsp", "ram", "spram") if name in names]
    cells: dict[str, dict[str, int]] = {}
    tiles: dict[str, set[tuple[int, int]]] = {}
    for group in placement.groups:
        cells.setdefault(group.part, {})[group.resource] = group.cells
        tiles.setdefault(group.part, set()).update((x, y) for x, y, _ in group.tiles)
    kinds = {part: kind_of(subject, part) for part in cells}
    order = sorted(cells, key=lambda part: kinds[part].order)
    rows: list[list[Given]] = [
        [element("a", kinds[part].title, href=kinds[part].link) if kinds[part].link else kinds[part].title,
         *(cells[part].get(name, 0) for name in names), len(tiles[part])] for part in order]
    return folded("The cells of each part", table(
        ("part", *(name.upper() for name in names), "tiles"), rows, caption="Placed cells by part of the design",
        data=[kinds[part].data for part in order]))


def clocks(subject: Subject, report: SynthesisReport) -> Markup:
    """The longest path into each part against the time that the clock leaves for it."""
    if not report.part_delays:
        return Markup("")
    stages = {f"stage {k} '{stage.name}'": stage.name for k, stage in enumerate(subject.plan.stages)}
    period = 1e3 / report.clock_mhz
    rows = []
    for delay in report.part_delays:
        name = stages.get(delay.part)
        tone = "used" if name or delay.part == LINKS else "planned"
        rows.append(Row(delay.part, [[Piece(delay.ns, tone, f"{delay.ns:.2f} ns into {delay.end}, from "
                                            f"{delay.before}")]], [f"{1e3 / delay.ns:.0f} MHz"],
                        f"#{stage_anchor(name)}" if name else None, {"stage": name} if name else {}))
    axis = Axis.of("ns", [period, *(delay.ns for delay in report.part_delays)])
    picture = bars("Longest path into each part", "The longest path into each part of the design, the slowest first; "
                   f"the clock of the stages leaves {period:.2f} ns.", rows, axis,
                   names={"used": "on the clock of the stages", "planned": "around them, where clocks may be slower"},
                   rules=[Rule(f"{report.clock_mhz:.4g} MHz", x=period)])
    lines: list[list[Given]] = [
        [delay.part, measure(delay.ns, ".2f"), measure(1e3 / delay.ns, ".1f"), delay.end, delay.before]
        for delay in report.part_delays]
    numbers = table(("part", "ns", "MHz", "into", "from"), lines, caption="Longest path into each part")
    return element("h3", "Clock by stage") + picture + folded("In numbers", numbers) + others(report)


def others(report: SynthesisReport) -> Markup:
    """The clocks besides that of the stages, and the limit of the device."""
    rows: list[list[Given]] = [
        [clock.title, measure(clock.routed_mhz, ".1f"), f"{report.source_mhz(clock):g}",
         "too slow" if clock in report.slow_clocks else "enough"]
        for clock in report.clocks if not clock.is_core]
    limit = note(f"The data sheet allows {report.limit.mhz:g} MHz for '{report.limit.what}' ({report.limit.source}).")
    clocks = table(("clock", "reached, MHz", "runs at, MHz", "verdict"), rows, caption="Other clocks") if rows \
        else Markup("")
    return clocks + limit + left_out(report)


def left_out(report: SynthesisReport) -> Markup:
    """What nextpnr does not time, and whether it is in the clocks all the same."""
    if not report.untimed:
        return Markup("")
    rows: list[list[Given]] = [
        [pins.kind, pins.lacks, Cell(number(pins.ends), pins.ends), Cell(number(pins.starts), pins.starts),
         "by a figure of hwflow's" if pins.bounded else "no"] for pins in report.untimed]
    core = next((clock for clock in report.clocks if clock.is_core), None)
    said = "" if core is None or core.nextpnr_mhz is None else (
        f" nextpnr alone says {core.nextpnr_mhz:.1f} MHz of the clock of the stages.")
    return note(f"nextpnr leaves out paths through cells that it does not time.{said} The clocks here have them, "
                "by nextpnr's delays of wires and cautious figures of hwflow's own for the cells.") + table(
        ("cells", "nextpnr has", "ends of paths", "starts of paths", "in the clocks"), rows,
        caption="What nextpnr does not time")


def longest(report: SynthesisReport, placement: Placement | None, core: Clock | None) -> Markup:
    """The path that limits the clock, step by step."""
    if core is None or core.path is None:
        return Markup("")
    path = core.path
    return element("h3", "Longest path") + element("p", str(path)) + steps(path, placement)


def steps(path: TimingPath, placement: Placement | None) -> Markup:
    """Each cell with the time in it and in the wire to it, and how far that goes."""
    rows: list[list[Given]] = []
    before: tuple[int, int] | None = None
    for step in path.steps:
        spot = placement.spots.get(step.cell) if placement else None
        far = None if spot is None or before is None else abs(spot[0] - before[0]) + abs(spot[1] - before[1])
        before = (placement.spots.get(step.last) if placement else None) or spot
        rows.append([str(place_of(step.cell)), step.kind, measure(step.wire_ns, ".2f"),
                     "" if far is None else Cell(str(far), far), measure(step.logic_ns, ".2f")])
    rows.append([Markup("<strong>in all</strong>"), "", measure(path.wires_ns, ".2f"), "",
                 measure(path.logic_ns, ".2f")])
    return table(("cell", "kind", "wire to it, ns", "tiles", "in it, ns"), rows,
                 caption="The longest path, step by step")


def seeds(subject: Subject, report: SynthesisReport) -> Markup:
    """The result of each seed."""
    if len(report.seeds) < 2:
        more = subject.command("synth", "--seeds", str(MORE_SEEDS))
        said = (f"Seed {report.seed} alone was routed. Placement starts at random: other seeds give clocks that differ "
                "by a tenth and more.")
        return element("h3", "Seeds") + element("p", said) + command_block(more)
    rows = [seed_bar(attempt, taken=attempt.seed == report.seed) for attempt in report.seeds]
    axis = Axis.of("MHz", [attempt.routed_mhz or 0.0 for attempt in report.seeds] or [1.0])
    lines: list[list[Given]] = [
        [str(attempt.seed), measure(attempt.routed_mhz, ".1f"), measure(attempt.seconds, ".0f"),
         "failed" if attempt.failed else "taken" if attempt.seed == report.seed else ""] for attempt in report.seeds]
    text = f"The clock that each of {len(report.seeds)} seeds reached; seed {report.seed} was taken."
    return element("h3", "Seeds") + bars(
        "Clock of each seed", text, rows, axis, names={"used": "taken", "planned": "not taken"}) + table(
        ("seed", "MHz", "seconds", ""), lines, caption="Seeds")


def seed_bar(attempt: Attempt, *, taken: bool) -> Row:
    """The clock that a seed reached."""
    mhz = "no path" if attempt.routed_mhz is None else f"{attempt.routed_mhz:.1f}"
    piece = Piece(attempt.routed_mhz or 0.0, "used" if taken else "planned",
                  attempt.failed or f"{attempt.routed_mhz} MHz in {attempt.seconds:.0f} s")
    return Row(f"seed {attempt.seed}", [[piece]], ["failed" if attempt.failed else mhz])


def tools(report: SynthesisReport) -> Markup:
    """The tools that made the bitstream, and how long that took."""
    rows = [["PLL", report.pll.text]] if report.pll and report.pll.text else []
    rows += [[f"version of {name}", text] for name, text in report.tools.items()]
    rows += [[f"options of {name}", text] for name, text in report.options.items()]
    rows += [[f"time of {step}", f"{seconds:.1f} s"] for step, seconds in report.seconds.items()]
    return folded("Tools, options and times", table(("what", "value"), rows, caption="How the bitstream was made"))
