"""Frames a second of a design: the least of what its core, the memory for its weights and its line to the host do."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hwflow.host.identity import DesignFacts, frame_bytes
from hwflow.layers.base import LayerGraph

if TYPE_CHECKING:
    from hwflow.hls.plan.plan import Plan


class Limit(enum.StrEnum):
    """The part that sets the pace of frames: the core, the memory beside the FPGA that gives its weights, or the line
    to the host."""

    CORE = "core"
    MEMORY = "memory"
    LINE = "line"


@dataclass(frozen=True)
class Rate:
    """The pace of a design whose core has a clock of `mhz` and takes a new frame every `cycles` of it.

    `memory_cycles` are those in which the memory beside the FPGA gives the weights of a frame, 0 where none are there.
    `line` is the number of frames a second whose bytes the line to the host carries; it is infinite where frames do not
    come from a host.
    """

    mhz: float
    cycles: int
    memory_cycles: int = 0
    line: float = math.inf

    @property
    def interval(self) -> int:
        """Cycles from frame to frame, the memory included."""
        return max(self.cycles, self.memory_cycles)

    @property
    def core(self) -> float:
        """Frames a second of the core, with the memory for its weights, wherever frames come from."""
        return self.mhz * 1e6 / self.interval

    def seconds(self, frames: int) -> float:
        """The seconds that core and memory take for so many frames."""
        return frames * self.interval / (self.mhz * 1e6)

    @property
    def frames_per_second(self) -> float:
        """The frames that arrive at the host."""
        return min(self.core, self.line)

    @property
    def limit(self) -> Limit:
        """The part that sets the pace."""
        if self.line < self.core:
            return Limit.LINE
        return Limit.MEMORY if self.memory_cycles and self.memory_cycles >= self.cycles else Limit.CORE

    def facts(self) -> dict[str, object]:
        """Plain data for JSON."""
        return {"frames_per_second": self.frames_per_second, "limit": self.limit.value, "core": self.core,
                "line": None if math.isinf(self.line) else self.line, "mhz": self.mhz, "interval": self.interval}


def carried(bytes_per_second: float, graph: LayerGraph) -> float:
    """Frames a second whose bytes fit through a line, by the longer of both directions."""
    return bytes_per_second / max(frame_bytes(graph, graph.inputs), frame_bytes(graph, graph.outputs))


def cycles_for(frames_per_second: float, mhz: float) -> int:
    """The most cycles of a clock of `mhz` from frame to frame for this rate."""
    return int(mhz * 1e6 / frames_per_second)


def rate_of(plan: Plan, mhz: float, bytes_per_second: float = math.inf, cycles: int | None = None) -> Rate:
    """The rate of `plan` at a clock of `mhz` behind a line; `cycles` is another interval than that of the plan, as a
    simulation has it."""
    return Rate(mhz, plan.interval if cycles is None else cycles, plan.memory_cycles(mhz),
                carried(bytes_per_second, plan.graph))


def rate_of_design(facts: DesignFacts, bytes_per_second: float) -> Rate:
    """The rate of a routed design behind a line; its interval is that of its clock, with the memory."""
    return Rate(facts.clock_mhz, facts.interval, 0, bytes_per_second / max(facts.bytes_in, facts.bytes_out))
