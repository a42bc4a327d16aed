"""The most important numbers of a design, for the top of its report."""

from __future__ import annotations

from typing import NamedTuple

from ..report.numbers import counted, number, percent
from ..report.plan import resource_rows
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


def summary_of(subject: Subject) -> tuple[Fact, ...]:
    """Speed, size, and how full the board is."""
    plan, clock = subject.plan, subject.clock
    mhz = clock.mhz if clock.routed else clock.expected_mhz
    how = "the clock of the routed design" if clock.routed else "expected; not routed yet"
    interval = plan.interval_at(mhz)
    fullest = max(resource_rows(plan, subject.board), key=lambda row: row[1] / row[2] if row[2] else 0.0)
    name, need, have = fullest
    latency = max(plan.latency)
    return (
        Fact("frames a second", number(round(mhz * 1e6 / interval)), f"at {mhz:.6g} MHz, {how}"),
        Fact("initiation interval", f"{number(plan.interval)} cycles", "from frame to frame"),
        Fact("latency", f"{latency / mhz:,.1f} µs", f"{number(latency)} cycles to the first result"),
        Fact("multipliers", number(plan.multipliers), f"{percent(plan.multiplier_use)} of their cycles are useful"),
        Fact("fullest resource", f"{name} {percent(need / have if have else 0.0, 0)}",
             f"{number(need)} of {number(have)}, planned"))
