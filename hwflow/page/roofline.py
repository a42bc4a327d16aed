"""What limits the frame rate of a design, as a roofline and as bars: multipliers, memory beside the FPGA, host link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from ..hls.plan import Plan
from ..host.rate import rate_of
from ..report.numbers import decimal, number
from ..synth import Board
from .axis import Axis
from .bars import Piece, Row, bars
from .chart import Dot, Dots, Line, Rule, plot
from .svg import short
from .table import Cell, Given, table

__all__ = ["Limit", "limits_of", "limits_picture", "limits_table", "roofline"]


@dataclass(frozen=True)
class Limit:
    """`frames` a second at most, because of `what`; `bytes` of a frame go over it, 0 for what carries none."""

    name: str
    what: str
    frames: float
    bytes: int = 0

    @property
    def bytes_per_second(self) -> float:
        return self.frames * self.bytes


def limits_of(plan: Plan, board: Board, mhz: float) -> tuple[Limit, ...]:
    """Every limit of the rate of `plan` at a clock of `mhz`: if its multipliers were always busy, of its slowest stage,
    of the memory for weights beside the FPGA, and of the line to the host."""
    rate, found = rate_of(plan, mhz, board.transport.bytes_per_second), []
    if plan.multiplications:
        found.append(Limit("multipliers", f"all {plan.multipliers} multipliers do useful work in every cycle",
                           plan.multipliers * mhz * 1e6 / plan.multiplications))
    found.append(Limit("stages", f"the slowest stage or stream takes {number(plan.interval)} cycles",
                       replace(rate, memory_cycles=0).core))
    if plan.outside is not None and plan.streams:
        size = sum(each.bytes for each in plan.streams)
        found.append(Limit("memory", f"{plan.outside.part.name} gives the weights of a frame",
                           replace(rate, cycles=rate.memory_cycles).core, size))
    found.append(Limit("host link", f"{board.transport.title} carries a frame and its result", rate.line,
                       round(board.transport.bytes_per_second / rate.line)))
    return tuple(found)


def core_rate(limits: Sequence[Limit]) -> float:
    """Frames a second of the core, wherever frames come from."""
    return min(each.frames for each in limits if each.name != "host link")


def limits_picture(limits: Sequence[Limit]) -> Markup:
    """A bar for each limit; the shortest decides."""
    least = min(limits, key=lambda each: each.frames)
    rows = [Row(each.name, [[Piece(each.frames, "used" if each is least else "planned",
                                   f"{each.what}: {decimal(each.frames)} frames/s")]], [f"{short(each.frames)}/s"])
            for each in limits]
    axis = Axis.of("frames a second (logarithmic)", [least.frames / 10, *(each.frames for each in limits)], log=True)
    return bars("What limits the frames a second", f"A bar for each of {len(limits)} limits; the shortest one, "
                f"{least.name} with {decimal(least.frames)} frames/s, decides.", rows, axis,
                names={"used": "the limit that decides", "planned": "other limits"})


def roofline(plan: Plan, limits: Sequence[Limit], mhz: float) -> Markup:
    """Multiplications a second over multiplications for each byte that crosses a border of the FPGA.

    Under the level roof all multipliers are busy; under a slope the line or the memory gives bytes as fast as it can.
    The design is a large dot for each border.  Under the slope the border keeps up; above it, a small dot is what the
    border lets through.
    """
    peak, rate = plan.multipliers * mhz * 1e6, core_rate(limits)
    made = plan.multiplications * rate
    borders = [each for each in limits if each.bytes]
    places = [plan.multiplications / each.bytes for each in borders]
    ridges = [peak / each.bytes_per_second for each in borders]
    x = Axis.of("multiplications for each byte that crosses the border", [*places, *ridges], log=True)
    lowest = min(min(made, each.bytes_per_second * x.low) for each in borders)
    y = Axis.of("multiplications a second", [max(lowest, peak / 1e6), peak * 1.5, made], log=True)
    marks: list[Line | Dots | Rule] = [Rule(f"{plan.multipliers} multipliers, all busy: {short(peak)}/s", y=peak)]
    for k, (border, place, ridge) in enumerate(zip(borders, places, ridges, strict=True)):
        low = max(x.low, y.low / border.bytes_per_second)
        tone = f"s{k + 1}"
        dots = [Dot(place, made, (
            f"{border.name}: {number(plan.multiplications)} multiplications for {number(border.bytes)} bytes of a "
            f"frame; {decimal(rate)} frames/s are {short(made)} multiplications a second"), strong=True)]
        if border.frames < rate:
            dots.append(Dot(place, plan.multiplications * border.frames,
                            f"the {border.name} lets {decimal(border.frames)} frames/s through"))
        marks += [Line(f"{border.name}: {short(border.bytes_per_second)}B/s",
                       [(low, low * border.bytes_per_second), (ridge, peak)], tone=tone),
                  Dots(f"the design at the {border.name}", dots, tone=tone)]
    return plot("Roofline", f"The design makes {short(made)} of {short(peak)} multiplications a second. " + " ".join(
        f"The {each.name} allows {decimal(each.frames)} frames/s." for each in borders), x, y, marks)


def limits_table(limits: Sequence[Limit]) -> Markup:
    rows: list[Sequence[Given]] = [
        (each.name, each.what, Cell(decimal(each.frames), each.frames), each.bytes or None,
         Cell(f"{short(each.bytes_per_second)}B/s", each.bytes_per_second) if each.bytes else None) for each in limits]
    return table(("limit", "because", "frames/s at most", "bytes a frame", "bytes a second"), rows,
                 caption="Limits of the frame rate")
