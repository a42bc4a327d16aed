"""The clock at which a page counts seconds and frames a second."""

from __future__ import annotations

from dataclasses import dataclass

from ..synth.estimated_clock import estimated_clock
from .subject import Subject

__all__ = ["PageClock", "clock_of_page"]


@dataclass(frozen=True)
class PageClock:
    """`mhz`, and in a few words which clock that is; `note` is a sentence about it."""

    mhz: float
    words: str
    note: str


def clock_of_page(subject: Subject) -> PageClock:
    """That of the routed design where it is the one of the page, else what to expect."""
    clock = subject.clock
    if clock.routed:
        return PageClock(clock.mhz, "of the routed design",
                         f"Seconds are counted at {clock.mhz:.6g} MHz, the clock of the routed design.")
    found = estimated_clock(subject.plan, subject.board)
    return PageClock(found.mhz, "estimated", (
        f"Seconds are counted at {found.mhz:.4g} MHz, an estimate: it was off by {100 * found.error:.0f} % on average "
        f"and {100 * found.worst:.0f} % at worst for designs that were routed."))
