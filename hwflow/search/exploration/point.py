"""The points of the design space: one design that was asked for, and what came of it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from hwflow.stages.partition import Execution

from ...host.rate import Rate
from ...options import HardwareOptions


@dataclass(frozen=True)
class Widths:
    """A value of the axis of bits: `bits` of weights and activations, a file of `settings`, or the default."""

    bits: tuple[int, int] | None = None
    settings: Path | None = None

    def __str__(self) -> str:
        """The words of --bits or --settings; nothing for the default."""
        if self.settings is not None:
            return str(self.settings)
        return "" if self.bits is None else ",".join(map(str, self.bits))


@dataclass(frozen=True)
class Question:
    """A design that is asked for: a board (its name, or the path of its file), `widths` as `str(Widths)`, the
    `execution`, whether stages may multiply in logic and weights be outside of the FPGA, and the most cycles of a frame
    (`asked`; None: as few as possible).  `transport` is the way to the host, "" for the first one of the board."""

    board: str
    widths: str
    execution: str
    logic_multipliers: bool
    stream_weights: bool
    asked: int | None
    transport: str = ""


@dataclass(frozen=True)
class Estimate:
    """The plan that answers a question: `refused` is the reason where there is none, and `lacks` the resources that are
    short, where some are; then everything after it is as by default.

    `design` is the identity in hexadecimal digits, equal for equal designs.  `made_as` is dataflow, shared or mixed.
    `interval` and `latency` count cycles of the estimated clock of `mhz`; `mhz_error` is the mean relative error of
    such estimates.  `memory_cycles` are those in which the memory beside the FPGA gives the weights of a frame, 0 where
    none are there.  `link` is the number of frames a second that the board's line to the host carries.
    """

    refused: str | None = None
    lacks: str = ""
    design: str = ""
    made_as: str = ""
    interval: int = 0
    latency: int = 0
    mhz: float = 0.0
    mhz_error: float = 0.0
    memory_cycles: int = 0
    link: float = 0.0


@dataclass(frozen=True)
class CoreUse:
    """Resources of the core; `filled` is the largest share of a resource of the board."""

    lut: int = 0
    ff: int = 0
    dsp: int = 0
    ram: int = 0
    spram: int = 0
    filled: float = 0.0


@dataclass(frozen=True)
class Judgement:
    """`accuracy` is the `metric` of the integer model on the data, `reference` that of the float model; None without
    data."""

    accuracy: float | None = None
    reference: float | None = None
    metric: str = ""


@dataclass(frozen=True)
class Point(Judgement, CoreUse, Estimate, Question):
    """One design: what was asked for, and what came of it."""

    @property
    def fits(self) -> bool:
        """Whether there is such a design."""
        return self.refused is None

    @property
    def rate(self) -> Rate:
        """Frames a second at the estimated clock, of a point that fits."""
        return Rate(self.mhz, self.interval, self.memory_cycles, self.link)

    @property
    def frames_per_second(self) -> float:
        """Frames a second of the FPGA alone at the estimated clock, without the line to the host; 0 if none."""
        return self.rate.core if self.fits else 0.0

    @property
    def arriving_per_second(self) -> float:
        """Frames a second that arrive at the host; 0 where there is no design."""
        return self.rate.frames_per_second if self.fits else 0.0

    @property
    def latency_seconds(self) -> float:
        """From the first element of a frame into the idle design to the first result."""
        return self.latency / (self.mhz * 1e6) if self.fits else 0.0

    @property
    def hardware(self) -> HardwareOptions:
        """The options of the commands that make this very design."""
        return HardwareOptions(
            board=self.board, transport=self.transport or None, interval=self.asked,
            logic_multipliers=self.logic_multipliers,
            stream_weights=self.stream_weights, execution=Execution(self.execution))

    def facts(self) -> dict[str, object]:
        """Plain data: the fields, and what follows from them."""
        return {**asdict(self), "frames_per_second": self.frames_per_second,
                "arriving_per_second": self.arriving_per_second,
                "limit": self.rate.limit.value if self.fits else "", "latency_seconds": self.latency_seconds}


def point_of(facts: Mapping[str, Any]) -> Point:
    """The point with these values; what is left out is as by default.  TypeError where something asked is left out."""
    known = {field.name: facts[field.name] for field in fields(Point) if field.name in facts}
    flags = {name: bool(known[name]) for name in ("logic_multipliers", "stream_weights")}  # SQL has no booleans
    return Point(**{**known, **flags})


# The frontier of a set of points: those that no other one beats in all objectives.


class Objective(enum.Enum):
    """A reason why a design is better than another one; the value is the name on the command line."""

    FRAMES = "frames"
    LATENCY = "latency"
    ACCURACY = "accuracy"
    LUT = "lut"
    FF = "ff"
    DSP = "dsp"
    RAM = "ram"
    FILLED = "filled"

    @property
    def title(self) -> str:
        """The measure, for people."""
        return TITLES[self]

    def loss(self, point: Point) -> float:
        """The less, the better.  A design whose accuracy is not known is as bad as can be."""
        return LOSSES[self](point)


TITLES = {
    Objective.FRAMES: "frames/s of the FPGA alone at the estimated clock, the more the better",
    Objective.LATENCY: "latency at the estimated clock, the shorter the better",
    Objective.ACCURACY: "accuracy on the data, the higher the better",
    Objective.LUT: "logic cells of the core, the fewer the better",
    Objective.FF: "flip-flops of the core, the fewer the better",
    Objective.DSP: "multiplier blocks of the core, the fewer the better",
    Objective.RAM: "RAM blocks of the core, the fewer the better",
    Objective.FILLED: "the largest share of a resource of the board, the smaller the better",
}
LOSSES: Mapping[Objective, Callable[[Point], float]] = {
    Objective.FRAMES: lambda point: -point.frames_per_second,
    Objective.LATENCY: lambda point: point.latency_seconds,
    Objective.ACCURACY: lambda point: np.inf if point.accuracy is None else -point.accuracy,
    Objective.LUT: lambda point: point.lut,
    Objective.FF: lambda point: point.ff,
    Objective.DSP: lambda point: point.dsp,
    Objective.RAM: lambda point: point.ram,
    Objective.FILLED: lambda point: point.filled,
}


def frontier_of(points: Sequence[Point], objectives: Sequence[Objective]) -> list[bool]:
    """For each point whether it is on the frontier: it fits, and no other one is at least as good in all objectives and
    better in one.  Points that are equal in all objectives are on it together.
    """
    fitting = [k for k, point in enumerate(points) if point.fits]
    losses = np.array([[objective.loss(points[k]) for objective in objectives] for k in fitting], np.float64)
    on_it = [False] * len(points)
    for k, own in zip(fitting, losses, strict=True):
        no_worse, better = (losses <= own).all(axis=1), (losses < own).any(axis=1)
        on_it[k] = not bool((no_worse & better).any())
    return on_it
