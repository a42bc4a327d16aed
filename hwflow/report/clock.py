"""The clock of a plan: the clock of its routed design if there is one, else an upper limit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hwflow_base.errors import HwflowError
from hwflow_rtl.multiply.style import MultiplierStyle

from ..hls.plan import Plan
from ..host.identity import DesignFacts, hardware_identity_of
from ..layers.base import LayerGraph
from ..synth.boards import Board
from ..synth.families import FAMILIES
from ..synth.outside import expected_mhz

__all__ = ["CoreClock", "clock_of", "routed_design"]


@dataclass(frozen=True)
class CoreClock:
    """`mhz` drives the stages; `what` says which clock that is.  `routed` is False for one that is only an upper limit:
    then designs on the board reach `expected_mhz` at least, by experience.
    """

    mhz: float
    what: str
    routed: bool
    board_mhz: float
    expected_mhz: float

    def rate(self, plan: Plan, interval: int | None = None) -> str:
        """Frames a second, as a text, of frames that are `interval` cycles apart; None: those of the plan."""
        def rate(mhz: float) -> str:
            return f"{mhz * 1e6 / max(interval or plan.interval, plan.memory_cycles(mhz)):,.0f}"

        most = "" if self.routed else "at most "
        other = "" if self.routed else (
            f"; {rate(self.expected_mhz)} at the {self.expected_mhz:g} MHz that designs on the board reach at least, "
            f"{rate(self.board_mhz)} with the oscillator's {self.board_mhz:g} MHz")
        return f"{most}{rate(self.mhz)} frames/s at {self}{other}"

    def time(self, cycles: int) -> str:
        """The time of `cycles` cycles, as a text."""
        return f"{'' if self.routed else 'at least '}{cycles / self.mhz:,.2f} µs at {self.mhz:.6g} MHz"

    def __str__(self) -> str:
        return f"{self.mhz:.6g} MHz, {self.what}"


def clock_of(plan: Plan, graph: LayerGraph, board: Board, folder: Path) -> CoreClock:
    """The clock of the routed design in `folder`, if it is that of this plan; else the target of place and route.

    The target is within the limits of the device's data sheet, rounded to a clock that the PLL can make.  A design that
    reads weights from a flash has the flash's clock.
    """
    expected = expected_mhz(board)
    facts = routed_design(plan, graph, board, folder)
    if facts is not None:
        return CoreClock(facts.clock_mhz, f"the clock of the routed design in '{folder}'", True, board.clock_mhz,
                         expected)
    used = plan.resources
    sums = sum(stage.folding.style is MultiplierStyle.MACS for stage in plan.stages)
    family = FAMILIES[board.family]
    limit = family.binding_limit(dsp=used.dsp, ram=used.ram, spram=used.spram, alu=sums).mhz
    if plan.outside is not None and plan.streams and plan.outside.domain == "sync":
        limit = min(limit, plan.outside.part.clock_mhz)
    settings = board.technology().pll_settings(board.clock_mhz, min(family.goal_mhz, limit))
    if settings is None:
        return CoreClock(board.clock_mhz, f"the oscillator of {board.name}", True, board.clock_mhz, expected)
    what = "the target of place and route; `hwflow synth` gives the clock that it reaches"
    mhz = float(settings.output_mhz)
    return CoreClock(mhz, what, False, board.clock_mhz, min(mhz, expected))


def routed_design(plan: Plan, graph: LayerGraph, board: Board, folder: Path) -> DesignFacts | None:
    """The routed design in `folder`, if it is that of this plan with these weights; else None."""
    try:
        facts = DesignFacts.read(folder)
    except HwflowError:  # nothing is routed, or the file is damaged
        return None
    foldings = [stage.folding for stage in plan.stages]
    same = (facts.board == board.name
            and facts.identity == hardware_identity_of(graph, foldings, plan.partition, facts.sums))
    return facts if same else None
