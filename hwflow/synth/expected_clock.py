"""The clocks that a design on a board reaches: the least by experience, and an estimate for its plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hwflow_base.errors import HwflowError
from hwflow_base.files.facts import read_facts
from hwflow_rtl.io import BoardTop
from hwflow_rtl.multiply.style import MultiplierStyle

from hwflow.hls.plan.plan import Plan, StagePlan

from ..hls import OutsideMemory
from .boards import Board
from .families import FAMILIES
from .top import ends_of


def expected_mhz(board: Board) -> float:
    """The clock that a design on `board` reaches at least, by experience; the oscillator's where there is no PLL."""
    expected = FAMILIES[board.family].expected_mhz
    settings = board.technology().pll_settings(board.clock_mhz, expected)
    return board.clock_mhz if settings is None else float(settings.output_mhz)


def outside_of(board: Board) -> OutsideMemory | None:
    """The memory of `board` for weights; None where it has none.

    A core beside it runs at `expected_mhz`, but with weights in a flash no faster than this, because it has its clock.
    """
    if not board.memories:
        return None
    part, core_mhz = board.memories[0].part, expected_mhz(board)
    return OutsideMemory(part, core_mhz if part.writable else min(core_mhz, part.clock_mhz))


# The clock that a plan reaches once it is routed: an estimate from few facts, fitted to all designs that were routed.
#
# Wires make most of a long path, and they grow with the share of the device that a design fills. Two more things make
# a path longer: a shared stage or weights from outside of the FPGA, and arithmetic that cannot have a register in its
# middle. Each is a factor of the period; that of an empty device is the family's.
#
# `clocks.json` has the factors, the error, and the designs to which they are fitted; `python -m bench.fit_clocks`
# fits.


FILE = Path(__file__).with_name("clocks.json")
#: Kinds of stages whose next step needs the result of the one before it, or that divide and take roots.
LONG_ARITHMETIC = frozenset({"normalize", "recurrent", "softmax"})
TREES = "trees"


@dataclass(frozen=True)
class ClockEstimate:
    """`mhz` is the clock of the core that place and route is expected to give with one seed, within the limits of the
    device; that of the oscillator where the board's PLL cannot make another one.

    `error` is the mean relative error of the fit, `worst` its largest one: of each routed design, estimated from the
    others.
    """

    mhz: float
    error: float
    worst: float

    @property
    def how(self) -> str:
        """How good the estimate is, in words."""
        return f"estimated, off by {100 * self.error:.0f} % on average"

    def __str__(self) -> str:
        return f"{self.mhz:.0f} MHz ({self.how})"


@dataclass(frozen=True)
class ClockFit:
    """The period is `family_ns` times e to the sum of `weights` times features; errors as of `ClockEstimate`."""

    family_ns: Mapping[str, float]
    weights: Mapping[str, float]
    error: float
    worst: float

    def period(self, family: str, features: Mapping[str, float]) -> float:
        """Nanoseconds."""
        return self.family_ns[family] * math.exp(sum(self.weights[name] * value for name, value in features.items()))


@cache
def clock_fit() -> ClockFit:
    """The fit of `clocks.json`."""
    return read_facts(FILE.read_bytes(), ClockFit)


def features_of(plan: Plan, board: Board, *, linked: bool = True) -> dict[str, float]:
    """The features of a design that the estimate knows, by the names of the weights.

    `filled` is the share of the device's logic cells, those of the host link included if `linked`; `outside` is 1 where
    a stage is shared or weights come from outside of the FPGA, else 0; `arithmetic` is 1 where a stage has long
    arithmetic, else 0.
    """
    used = plan.resources
    if linked:
        technology, line = board.technology(), board.transport
        used += BoardTop.cost(technology, ends_of(plan), transport=line.cost(technology), shape=line.shape)
    return {"filled": used.lut / board.resources.lut,
            "outside": float(bool(plan.partition.shared or plan.streams)),
            "arithmetic": float(any(has_long_arithmetic(stage) for stage in plan.stages))}


def has_long_arithmetic(stage: StagePlan) -> bool:
    """Whether a register cannot be put into its longest path: a loop, a division, or the walk along a tree."""
    return stage.kind in LONG_ARITHMETIC or (stage.kind == TREES and stage.schedule.interval > 1)


def estimated_clock(plan: Plan, board: Board) -> ClockEstimate:
    """The clock that `plan` is expected to reach on `board`.

    HwflowError where `plan` is for the devices of another family.
    """
    if plan.technology != board.technology().name:
        raise HwflowError(f"plan must be for the family of {board.name}, {board.technology().name}, not for "
                          f"{plan.technology}")
    fit, family = clock_fit(), FAMILIES[board.family]
    used = plan.resources
    sums = sum(stage.folding.style is MultiplierStyle.MACS for stage in plan.stages)
    limit = family.binding_limit(dsp=used.dsp, ram=used.ram, spram=used.spram, alu=sums).mhz
    if plan.outside is not None and plan.streams and plan.outside.domain == "sync":
        limit = min(limit, plan.outside.part.clock_mhz)
    mhz = min(1e3 / fit.period(board.family, features_of(plan, board)), limit, family.goal_mhz)
    has_pll = board.technology().pll_settings(board.clock_mhz, family.expected_mhz) is not None
    return ClockEstimate(mhz if has_pll else board.clock_mhz, fit.error, fit.worst)
