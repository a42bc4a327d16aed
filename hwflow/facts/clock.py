"""The clock at which seconds and frames a second of a plan are counted: the routed design's, else an estimate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hwflow_base.errors import HwflowError
from hwflow_base.printable import decimal

from hwflow.hls.plan.plan import Plan

from ..host.identity import DesignFacts, hardware_identity_of
from ..layers.base import LayerGraph
from ..synth.boards import Board
from ..synth.expected_clock import estimated_clock


@dataclass(frozen=True)
class CoreClock:
    """`mhz` drives the stages; `what` says which clock that is.  `routed`: it is that of a routed design."""

    mhz: float
    what: str
    routed: bool

    def time(self, cycles: int) -> str:
        """The time of `cycles` cycles, as a text."""
        return f"{decimal(cycles / self.mhz, 2)} µs"

    def __str__(self) -> str:
        return f"{self.mhz:.4g} MHz ({self.what})"


def clock_of(plan: Plan, graph: LayerGraph, board: Board, folder: Path) -> CoreClock:
    """The clock of the routed design in `folder`, if it is that of this plan; else the one that place and route is
    expected to reach."""
    facts = routed_design(plan, graph, board, folder)
    if facts is not None:
        return CoreClock(facts.clock_mhz, f"the clock of the routed design in '{folder}'", True)
    found = estimated_clock(plan, board)
    return CoreClock(found.mhz, found.how, False)


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
