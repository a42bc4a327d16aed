"""The section "Time" of a report."""

from __future__ import annotations

from markupsafe import Markup

from ...hls.plan import Plan
from ...hls.schedule import FrameSchedule, schedule_frames
from ...report.numbers import decimal, number, percent, rate_text
from ...report.rates import board_rate, limit_words
from ...steps.recording import SIMULATION
from ..reading import found
from ..roofline import limits_of, limits_picture, limits_table, roofline
from ..schedule import back_to_back, frames_shown, is_drawn, limit_of, not_drawn, one_frame, path_table, stage_table
from ..section import Section
from ..subject import Subject
from ..svg import element
from ..tiles import tiles

__all__ = ["section"]


def simulated(subject: Subject) -> Markup:
    """What a simulation of this very design saw of its interval; nothing where none was run."""
    kept = found(subject.board_folder, SIMULATION, subject.design)
    if kept.usable is None:
        return Markup("")
    with kept.read():
        interval, frames = kept.usable.facts["runs"][0]["interval"], int(kept.usable.facts["frames"])
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
    """What the schedule shows."""
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
