"""The page of an explored design space: which board does it, the designs in pictures with the frontier, and tables.

Boxes hide designs, and need no script: a rule of style for each box hides what has its number, in pictures and tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files

from hwflow_base.printable import counted, number, percent, rate_text
from markupsafe import Markup

from ...search.exploration.exploration import Exploration
from ...search.exploration.point import Point
from ...search.exploration.routing import Routed, Run
from .chart import Axis, Dot, Dots, Line, plot
from .document import render
from .markup import Cell, command_block, element, folded, measure, note, table, tiles, verdict
from .subject import Section

#: The width that a point has where none was asked for.
DEFAULT_WIDTHS = "8,8"
#: The boxes: attribute of what they hide, and what they choose.
BOXES = {"b": "Boards", "w": "Bits of weights, activations", "e": "Execution"}


@dataclass(frozen=True)
class Design:
    """A design of the page: its number, and whether it is on the frontier."""

    position: int
    point: Point
    best: bool

    @property
    def anchor(self) -> str:
        return f"design-{self.position}"

    @property
    def name(self) -> str:
        return f"{self.position}: {self.point.board}, {widths_of(self.point)} bits, {self.point.made_as}"


class Designs:
    """The designs of an exploration, each once, and what became of those that were `routed`.

    `command(point, name, *options)` is the command `hwflow name` for the design of a point."""

    def __init__(self, exploration: Exploration, command: Callable[..., str],
                 routed: Sequence[Routed] = ()):
        self.exploration, self.command = exploration, command
        self.routed = {key_of(design.point): design for design in routed}
        best = {key_of(point) for point in exploration.frontier}
        once = {key_of(point): point for point in exploration.points if point.fits}
        self.all = [Design(k, point, key in best) for k, (key, point) in enumerate(once.items(), 1)]

    @cached_property
    def numbers(self) -> Mapping[str, Mapping[str, int]]:
        """For each row of boxes the number of each of its values."""
        values = [values_of(design.point) for design in self.all]
        return {box: {value: k for k, value in enumerate(dict.fromkeys(of_design[box] for of_design in values))}
                for box in BOXES}

    def data(self, design: Design) -> dict[str, str]:
        """The attributes by which boxes hide a design."""
        values = values_of(design.point).items()
        return {**{box: str(self.numbers[box][value]) for box, value in values}, "f": str(int(design.best))}


def values_of(point: Point) -> dict[str, str]:
    """The value by which each of `BOXES` chooses a design."""
    return {"b": point.board, "w": widths_of(point), "e": point.made_as}


def key_of(point: Point) -> tuple[str, str, str]:
    """Equal for points that are the same design."""
    return point.board, point.widths, point.design


def widths_of(point: Point) -> str:
    return point.widths or DEFAULT_WIDTHS


def seconds(value: float) -> str:
    """A time in the unit that suits it."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if value * scale >= 1:
            return f"{value * scale:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def exploration_page(designs: Designs) -> str:
    """The whole page."""
    exploration = designs.exploration
    sections = [Section("best", "Best design", cards(designs)), board_section(designs), pictures_section(designs),
                frontier_section(designs), routed_section(designs), table_section(designs), refused_section(designs)]
    points = exploration.points
    lead = (f"{counted(len(points), 'point')} of the design space on {counted(len(exploration.boards), 'board')}: "
            f"{counted(len(designs.all), 'design')} fit, {len(exploration.frontier)} of them on the frontiers of "
            "their boards")
    return render(f"Designs of {exploration.model}", [section for section in sections if section is not None], lead,
                  looks=looks_of(designs))


def looks_of(designs: Designs) -> str:
    """The rules of style: those of the page, and one for each box."""
    own = (files("hwflow.views.page") / "files" / "exploration.css").read_text()
    return own + "".join(f'main:has(#show-{box}{k}:not(:checked)) [data-{box}="{k}"] {{ display: none; }}\n'
                         for box, values in designs.numbers.items() for k in values.values())


def boxes(designs: Designs) -> Markup:
    """A box for each board, width and execution, and one for the frontier."""
    rows = []
    for box, title in BOXES.items():
        labels = [element("label", element("input", type="checkbox", id=f"show-{box}{k}", checked=True), value)
                  for value, k in designs.numbers[box].items()]
        rows.append(element("fieldset", element("legend", title), *labels))
    only = element("label", element("input", type="checkbox", id="only-frontier"), "on the frontier alone")
    return element("div", *rows, element("fieldset", element("legend", "Designs"), only), class_="boxes")


def cards(designs: Designs) -> Markup:
    """The numbers that people look for first: of the design that was asked for, else of the fastest one."""
    exploration = designs.exploration
    smallest = exploration.answer and exploration.answer.smallest
    best = smallest.design if smallest else next(iter(exploration.frontier), None)
    if best is None:
        return Markup("")
    fitting = {point.board for point in exploration.points if point.fits}
    accuracy = "not measured" if best.accuracy is None else f"{best.accuracy:.4g}"
    return tiles([("frames a second", rate_text(best.arriving_per_second),
                   f"on {best.board}, limited by the {best.rate.limit.value}"),
                  (f"accuracy, {best.metric}" if best.metric else "accuracy", accuracy,
                   "" if best.reference is None else f"float model: {best.reference:.4g}"),
                  ("fits", f"{len(fitting)} of {counted(len(exploration.boards), 'board')}",
                   f"{percent(best.filled, 0)} of {best.board} filled"),
                  ("of the FPGA alone", rate_text(best.frames_per_second), f"at an estimated {best.mhz:.0f} MHz")])


def board_section(designs: Designs) -> Section | None:
    """Which board does it, where a rate was asked for."""
    answer = designs.exploration.answer
    if answer is None:
        return None
    smallest = answer.smallest
    if smallest is None:
        text, tone = f"No board of these does {rate_text(answer.rate)} frames/s.", "bad"
    else:
        text, tone = f"The smallest board that does {rate_text(answer.rate)} frames/s is {smallest.board}.", "good"
    rows: list[list[Cell | str]] = []
    for judged in answer.verdicts:
        design = judged.design
        rows.append([judged.board, "yes" if judged.enough else "no",
                     "" if design is None else Cell(rate_text(design.arriving_per_second), design.arriving_per_second),
                     "" if design is None else Cell(percent(design.filled, 0), design.filled), judged.lacks])
    head = ("board, the smallest first", "does it", "frames/s", "filled", "what it lacks")
    close = [verdict("The estimate of the clock is not exact enough to be sure: route the design.", "warn")
             ] if answer.is_close else []
    body = Markup("").join([verdict(text, tone), *close, table(head, rows)])
    return Section("boards", "Which board", body)


def pictures_section(designs: Designs) -> Section:
    """Scatter plots: what a frame rate costs."""
    if not designs.all:
        return Section("designs", "Designs", element("p", "No design fits any of these boards."))
    error = designs.all[0].point.mhz_error
    objectives = " and ".join(objective.value for objective in designs.exploration.objectives)
    said = note(f"Frames a second are those of the FPGA alone at an estimated clock, which is off by "
                f"{percent(error, 0)} on average. Larger marks are on the frontier of their board: no other design "
                f"of it is at least as good in {objectives}, and better in one of them. A line for each board joins "
                "its designs that no other one beats in what the picture shows. A mark leads to its row below, with "
                "the command that makes the design.")
    shown = element("div", *pictures(designs), class_="pictures")
    return Section("designs", "Designs", Markup("").join([boxes(designs), said, shown]))


def pictures(designs: Designs) -> Iterator[Markup]:
    points = [design.point for design in designs.all]
    frames = Axis.of("frames/s of the FPGA alone, estimated", [point.frames_per_second for point in points], log=True)
    yield scatter("Logic cells and frames a second", designs, frames, Axis.of(
        "logic cells of the core", [point.lut for point in points], log=True), lambda point: point.lut)
    yield scatter("Latency and frames a second", designs, frames, Axis.of(
        "latency, ms", [1e3 * point.latency_seconds for point in points], log=True),
        lambda point: 1e3 * point.latency_seconds)
    measured = [point.accuracy for point in points if point.accuracy is not None]
    if len(set(measured)) > 1:
        yield scatter("Accuracy and frames a second", designs, frames, Axis.of(
            points[0].metric or "accuracy", measured, zero=False), lambda point: point.accuracy, more=True)


def scatter(title: str, designs: Designs, x: Axis, y: Axis, value: Callable[[Point], float | None], *,
            more: bool = False) -> Markup:
    """Designs by frames a second and `value`, a series for each board, joined by what no other one of it beats.

    The less of `value` the better, or the more, where `more`.
    """
    marks: list[Dots] = []
    shown = [design for design in designs.all if value(design.point) is not None]
    for board, number_of in designs.numbers["b"].items():
        dots = [Dot(design.point.frames_per_second, value(design.point) or 0.0, hint(design), f"#{design.anchor}",
                    designs.data(design), design.best) for design in shown if design.point.board == board]
        best = stairs([(dot.x, dot.y) for dot in dots], more=more)
        marks.append(Dots(board, dots, joined=best, data={"b": str(number_of)}))
    text = f"{title}: {counted(len(shown), 'design')} on {counted(len(marks), 'board')}"
    return plot(title, text, x, y, marks, size=(480, 380))


def stairs(points: Sequence[tuple[float, float]], *, more: bool) -> list[tuple[float, float]]:
    """The points that no other one beats in both: the first number the more the better, the second the less, or more.
    """
    best: list[tuple[float, float]] = []
    for x, y in sorted(points, key=lambda point: (-point[0], -point[1] if more else point[1])):
        if not best or (y > best[-1][1] if more else y < best[-1][1]):
            best.append((x, y))
    return best[::-1]


def hint(design: Design) -> str:
    """The text of a mark about its design."""
    point = design.point
    lines = [design.name, f"{rate_text(point.arriving_per_second)} frames/s arrive, limited by the {point.rate.limit}",
             f"the FPGA alone: {rate_text(point.frames_per_second)} at {point.mhz:.0f} MHz, {number(point.interval)} "
             "cycles", f"latency {seconds(point.latency_seconds)}", f"{number(point.lut)} logic cells, {point.dsp} "
             f"multiplier blocks, {point.ram} RAM blocks: {percent(point.filled, 0)} of the board"]
    if point.accuracy is not None:
        lines.append(f"{point.metric} {point.accuracy:.4g}")
    return "\n".join([*lines, *(["on the frontier"] if design.best else [])])


HEAD = ("design", "frames/s", "limit", "accuracy", "filled", "FPGA alone", "line carries", "MHz", "cycles", "latency",
        "logic cells", "flip-flops", "DSP", "RAM", "command")


def cells(designs: Designs, design: Design, *, link: bool) -> list[Cell | Markup | str | int]:
    """A row of a table; with `link` its name leads to the table of all designs."""
    point = design.point
    name = element("a", design.name, href=f"#{design.anchor}") if link else Markup(element("span", design.name))
    return [Cell(name), Cell(rate_text(point.arriving_per_second), point.arriving_per_second), point.rate.limit.value,
            "" if point.accuracy is None else measure(point.accuracy, ".4g"),
            Cell(percent(point.filled, 0), point.filled),
            Cell(rate_text(point.frames_per_second), point.frames_per_second), Cell(rate_text(point.link), point.link),
            measure(point.mhz, ".0f"), point.interval,
            Cell(seconds(point.latency_seconds), point.latency_seconds), point.lut, point.ff, point.dsp, point.ram,
            folded("command", command_block(designs.command(point, "build"), tabindex=0))]


def frontier_section(designs: Designs) -> Section:
    """The designs on the frontier of each board, the fastest first; a board opens at a press."""
    said = "; ".join(item.title for item in designs.exploration.objectives)
    parts = [note(f"Objectives: {said}.")]
    for board, number_of in designs.numbers["b"].items():
        best = sorted((item for item in designs.all if item.best and item.point.board == board),
                      key=lambda item: -item.point.arriving_per_second)
        rows = table(HEAD, [cells(designs, item, link=True) for item in best],
                     data=[designs.data(item) for item in best])
        said = f"{board}: {counted(len(best), 'design')}, up to {rate_text(best[0].point.arriving_per_second)} frames/s"
        parts.append(folded(said, rows, data_b=str(number_of), open=number_of == 0))
    return Section("frontier", "Frontier of each board", Markup("").join(parts))


def table_section(designs: Designs) -> Section:
    """Every design, with the command that makes it."""
    rows = [cells(designs, design, link=False) for design in designs.all]
    return Section("table", "All designs", table(
        HEAD, rows, caption=counted(len(rows), "design"), anchors=[design.anchor for design in designs.all],
        data=[designs.data(design) for design in designs.all]))


def routed_section(designs: Designs) -> Section | None:
    """The designs that were placed and routed, run by run."""
    if not designs.routed:
        return None
    known = [(one, designs.routed[key]) for one in designs.all if (key := key_of(one.point)) in designs.routed]
    rows: list[list[Cell | Markup | str | int]] = []
    for design, routed in known:
        for run in routed.runs:
            rate = routed.rate(run)
            rows.append([Cell(element("a", design.name, href=f"#{design.anchor}")), run.seed, run.placer,
                         run.failed if run.mhz is None else measure(run.mhz, ".1f"),
                         "" if run.mhz is None else Cell(f"{design.point.mhz / run.mhz - 1:+.1%}",
                                                         design.point.mhz / run.mhz - 1),
                         "" if rate is None else Cell(rate_text(rate.core), rate.core), run.lut,
                         measure(run.seconds, ".0f"),
                         folded(designs.command(design.point, "synth", *options_of(run)))])
    head = ("design", "seed", "knobs of the placer", "routed MHz", "estimate is off by", "FPGA alone", "logic cells",
            "seconds", "command")
    dots = [Dot(design.point.mhz, run.mhz, f"{design.name}\nseed {run.seed} {run.placer}", f"#{design.anchor}",
                designs.data(design)) for design, routed in known for run in routed.runs if run.mhz is not None]
    if not dots:
        return Section("routed", "Routed", table(head, rows))
    both = Axis.of("estimated MHz", [value for dot in dots for value in (dot.x, dot.y)], zero=False)
    line = Line("equal", [(both.low, both.low), (both.high, both.high)], "limit", dashed=True)
    picture = plot("Estimated and routed clock", f"{counted(len(dots), 'run')} of place and route", both,
                   Axis(label="routed MHz", low=both.low, high=both.high), [line, Dots("runs", dots)])
    return Section("routed", "Routed", picture + table(head, rows))


def options_of(run: Run) -> tuple[str, ...]:
    """The options of `hwflow synth` that make this very run."""
    return ("--seed", str(run.seed), *(("--placer", run.placer) if run.placer else ()))


def refused_section(designs: Designs) -> Section | None:
    """The designs that do not fit, and why."""
    refused = {(point.board, widths_of(point), point.refused): point for point in designs.exploration.points
               if point.refused is not None}
    if not refused:
        return None
    rows = [[board, widths, "" if point.asked is None else point.asked, reason or ""]
            for (board, widths, reason), point in refused.items()]
    return Section("refused", "What does not fit", table(("board", "bits", "cycles asked for", "why"), rows,
                                                         caption=counted(len(rows), "answer")))
