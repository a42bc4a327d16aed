"""The most important numbers of a design, for the top of its report."""

from __future__ import annotations

from typing import NamedTuple

from ..report.numbers import counted, number, percent
from ..report.plan import resource_rows
from ..synth.estimated_clock import estimated_clock
from .subject import Subject

__all__ = ["Fact", "lead_of", "summary_of"]


class Fact(NamedTuple):
    """A number with its name; `note` is small print."""

    name: str
    text: str
    note: str = ""


def lead_of(subject: Subject) -> str:
    """What the page is about, in a sentence."""
    board = subject.board
    return (f"{counted(len(subject.graph.layers), 'integer layer')} of {subject.project.model.name} in "
            f"{counted(len(subject.plan.stages), 'stage')} for the FPGA {board.device} of {board.name}")


def time_text(microseconds: float) -> str:
    return f"{microseconds:.1f} µs" if microseconds < 1000 else f"{microseconds / 1000:.2f} ms"


def summary_of(subject: Subject) -> tuple[Fact, ...]:
    """Speed, size, and how full the board is."""
    plan, clock = subject.plan, subject.clock
    estimate = None if clock.routed else estimated_clock(plan, subject.board)
    mhz = clock.mhz if estimate is None else estimate.mhz
    how = f"at {mhz:.6g} MHz, the clock of the routed design" if estimate is None else f"at {estimate}"
    interval = plan.interval_at(mhz)
    fullest = max(resource_rows(plan, subject.board), key=lambda row: row[1] / row[2] if row[2] else 0.0)
    name, need, have = fullest
    latency = max(plan.latency)
    return (
        Fact("frames a second", number(round(mhz * 1e6 / interval)), how),
        Fact("initiation interval", f"{number(plan.interval)} cycles", "from frame to frame"),
        Fact("latency", time_text(latency / mhz), f"{number(latency)} cycles to the first result"),
        Fact("multipliers", number(plan.multipliers), f"{percent(plan.multiplier_use)} of their cycles are useful"),
        Fact("fullest resource", f"{name} {percent(need / have if have else 0.0, 0)}",
             f"{number(need)} of {number(have)}, planned"))
