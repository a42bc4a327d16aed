"""The frontier of a set of points: those that no other one beats in all objectives."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from .point import Point


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
    losses = np.array([[each.loss(points[k]) for each in objectives] for k in fitting], np.float64)
    found = [False] * len(points)
    for k, own in zip(fitting, losses, strict=True):
        no_worse, better = (losses <= own).all(axis=1), (losses < own).any(axis=1)
        found[k] = not bool((no_worse & better).any())
    return found
