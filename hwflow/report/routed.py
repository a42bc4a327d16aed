"""Designs of an exploration that were placed and routed: a table of their runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..exploration.routing import Routed
from .console import Console
from .numbers import number, rate_text

__all__ = ["show_routed"]


def show_routed(console: Console, routed: Sequence[Routed]) -> None:
    """Every run, and how far off the estimated clocks were."""
    console.table("routed", ("board", "cycles", "seed", "knobs of the placer", "MHz", "FPGA alone", "estimated", "LUT"),
                  [row for each in routed for row in rows(each)], key=2, second=4)
    console.say("  FPGA alone: frames a second without the line to the host; estimated: the clock, in MHz")
    for each in routed:
        for run in each.runs:
            if run.failed:
                console.say(f"  {each.point.board}, seed {run.seed}: {run.failed}")
    errors = [abs(each.error) for each in routed if each.error is not None]
    if errors:
        console.say(f"  the estimates are off by {100 * sum(errors) / len(errors):.0f} % on average, by "
                    f"{100 * max(errors):.0f} % at most, against the runs with nextpnr's own knobs")


def rows(routed: Routed) -> Iterator[tuple[str, ...]]:
    """The cells of each run; a star marks the best."""
    point = routed.point
    for run in routed.runs:
        start = (point.board, number(point.interval), str(run.seed), run.placer or "nextpnr's own")
        rate = routed.rate(run)
        if run.mhz is None or rate is None:
            yield (*start, "failed", "", f"{point.mhz:.0f}", "")
        else:
            best = " *" if run is routed.best else ""
            yield (*start, f"{run.mhz:.1f}{best}", rate_text(rate.core), f"{point.mhz:.0f}",
                   number(run.lut))
