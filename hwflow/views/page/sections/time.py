"""The section on time: what limits the rate, and a roofline of each stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hwflow_base.printable import decimal, number, percent, rate_text
from markupsafe import Markup

from hwflow.hls.plan.frame_schedule import FrameSchedule, schedule_frames
from hwflow.hls.plan.plan import Plan
from hwflow.host.rate import rate_of
from hwflow.pipeline.records import SIMULATION
from hwflow.synth import Board

from ....facts.plan import board_rate
from ...console.plan import limit_words
from ..bars import Piece, Row, bars
from ..chart import Axis, Dot, Dots, Line, Rule, plot
from ..markup import Cell, Given, element, short, table, tiles
from ..schedule import back_to_back, frames_shown, is_drawn, limit_of, not_drawn, one_frame, path_table, stage_table
from ..subject import Section, Subject, found

# What limits the frame rate of a design, as a roofline and as bars: multipliers, memory beside the FPGA, host link.


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
    rate, limits = rate_of(plan, mhz, board.transport.bytes_per_second), []
    if plan.multiplications:
        limits.append(Limit("multipliers", f"all {plan.multipliers} multipliers do useful work in every cycle",
                            plan.multipliers * mhz * 1e6 / plan.multiplications))
    limits.append(Limit("stages", f"the slowest stage or stream takes {number(plan.interval)} cycles",
                        replace(rate, memory_cycles=0).core))
    if plan.outside is not None and plan.streams:
        size = sum(stream.bytes for stream in plan.streams)
        limits.append(Limit("memory", f"{plan.outside.part.name} gives the weights of a frame",
                            replace(rate, cycles=rate.memory_cycles).core, size))
    limits.append(Limit("host link", f"{board.transport.title} carries a frame and its result", rate.line,
                        round(board.transport.bytes_per_second / rate.line)))
    return tuple(limits)


def core_rate(limits: Sequence[Limit]) -> float:
    """Frames a second of the core, wherever frames come from."""
    return min(limit.frames for limit in limits if limit.name != "host link")


def limits_picture(limits: Sequence[Limit]) -> Markup:
    """A bar for each limit; the shortest decides."""
    least = min(limits, key=lambda limit: limit.frames)
    rows = [Row(limit.name, [[Piece(limit.frames, "used" if limit is least else "planned",
                                    f"{limit.what}: {decimal(limit.frames)} frames/s")]], [f"{short(limit.frames)}/s"])
            for limit in limits]
    axis = Axis.of("frames a second (logarithmic)", [least.frames / 10, *(limit.frames for limit in limits)], log=True)
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
    done = plan.multiplications * rate
    borders = [border for border in limits if border.bytes]
    places = [plan.multiplications / border.bytes for border in borders]
    ridges = [peak / border.bytes_per_second for border in borders]
    x = Axis.of("multiplications for each byte that crosses the border", [*places, *ridges], log=True)
    lowest = min(min(done, border.bytes_per_second * x.low) for border in borders)
    y = Axis.of("multiplications a second", [max(lowest, peak / 1e6), peak * 1.5, done], log=True)
    marks: list[Line | Dots | Rule] = [Rule(f"{plan.multipliers} multipliers, all busy: {short(peak)}/s", y=peak)]
    for k, (border, place, ridge) in enumerate(zip(borders, places, ridges, strict=True)):
        low = max(x.low, y.low / border.bytes_per_second)
        tone = f"s{k + 1}"
        dots = [Dot(place, done, (
            f"{border.name}: {number(plan.multiplications)} multiplications for {number(border.bytes)} bytes of a "
            f"frame; {decimal(rate)} frames/s are {short(done)} multiplications a second"), strong=True)]
        if border.frames < rate:
            dots.append(Dot(place, plan.multiplications * border.frames,
                            f"the {border.name} lets {decimal(border.frames)} frames/s through"))
        marks += [Line(f"{border.name}: {short(border.bytes_per_second)}B/s",
                       [(low, low * border.bytes_per_second), (ridge, peak)], tone=tone),
                  Dots(f"the design at the {border.name}", dots, tone=tone)]
    return plot("Roofline", f"The design makes {short(done)} of {short(peak)} multiplications a second. " + " ".join(
        f"The {border.name} allows {decimal(border.frames)} frames/s." for border in borders), x, y, marks)


def limits_table(limits: Sequence[Limit]) -> Markup:
    rows: list[Sequence[Given]] = [
        (limit.name, limit.what, Cell(decimal(limit.frames), limit.frames), limit.bytes or None,
         Cell(f"{short(limit.bytes_per_second)}B/s", limit.bytes_per_second) if limit.bytes else None)
        for limit in limits]
    return table(("limit", "because", "frames/s at most", "bytes a frame", "bytes a second"), rows,
                 caption="Limits of the frame rate")


def simulated(subject: Subject) -> Markup:
    """The interval that a simulation of this very design saw; nothing where none was run."""
    record = found(subject.board_folder, SIMULATION, subject.design)
    if record.usable is None:
        return Markup("")
    with record.read():
        interval, frames = record.usable.facts["runs"][0]["interval"], int(record.usable.facts["frames"])
        seen = None if interval is None else number(int(interval))
    if seen is None:
        return Markup("")
    return element("p", f"A simulation of {frames} frames at full speed had {seen} cycles from the end of the last but "
                        f"one to the end of the last; the plan has {number(subject.plan.interval)}.")


def whole_frame(schedule: FrameSchedule, mhz: float) -> tuple[str, str, str]:
    """The headline number of the first frame's last result."""
    last = max(frames[0][1] for _, frames in schedule.outputs)
    return "whole frame", f"{decimal(last / mhz)} µs", f"{number(last)} cycles to the last result"


def pictures(plan: Plan, schedule: FrameSchedule, mhz: float) -> Markup:
    """The pictures of the schedule."""
    return Markup("").join([
        element("h3", "Schedule"), one_frame(plan, schedule), back_to_back(plan, schedule), stage_table(plan, schedule),
        element("h3", "Where the time to the first result goes"), path_table(schedule, mhz)])


def section(subject: Subject) -> Section:
    """When each stage works, and what limits the rate."""
    plan, clock = subject.plan, subject.clock
    mhz, rate = clock.mhz, board_rate(plan, subject.board, clock)
    schedule = schedule_frames(plan, frames_shown(plan)) if is_drawn(plan) else None
    limits = limits_of(plan, subject.board, mhz)
    bound = "at most " if plan.is_bound else ""
    first = max(plan.latency)
    parts = [
        tiles([("frames a second", rate_text(rate.frames_per_second),
                limit_words(rate, subject.board.transport.title)),
               ("of the FPGA alone", rate_text(rate.core), "frames a second"),
               ("initiation interval", f"{bound}{number(plan.interval)}", "cycles from frame to frame"),
               ("latency", f"{decimal(first / mhz)} µs", f"{number(first)} cycles to the first result"),
               *([whole_frame(schedule, mhz)] if schedule else []),
               ("multipliers", percent(plan.multiplier_use), "of their cycles are useful work"),
               ("clock", f"{mhz:.4g} MHz", "of the routed design" if clock.routed else "estimated")]),
        element("p", f"{limit_of(plan)[0]} Seconds are counted at {clock}."), simulated(subject),
        pictures(plan, schedule, mhz) if schedule else not_drawn(plan),
        element("h3", "What limits the rate"), limits_picture(limits), limits_table(limits)]
    if plan.multiplications:
        parts.append(roofline(plan, limits, mhz))
    return Section("time", "Time", Markup("").join(parts), None if subject.clock.routed else subject.command("synth"))
