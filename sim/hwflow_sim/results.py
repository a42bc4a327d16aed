"""What goes into a simulation besides the core, and what comes out of it: plain frozen data, no simulator needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from hwflow.errors import HwflowError

__all__ = ["Boundary", "Deadlock", "Difference", "Element", "ElementShape", "RunResult", "StageResult", "StallPattern",
           "Waiting"]

HIGHEST_STALL = 0.98  # beyond it a run is hardly more than waiting


class Element(Protocol):
    """The shape of one element, for instance an `amaranth.hdl.Shape`: two's complement where `signed`."""

    @property
    def width(self) -> int: ...

    @property
    def signed(self) -> bool: ...


@dataclass(frozen=True)
class ElementShape:
    """An `Element` that needs no Amaranth."""

    width: int
    signed: bool


@dataclass(frozen=True)
class Boundary:
    """The stream at the output of one stage: `lanes` elements of `shape` a beat, lane 0 first.

    `name` is what messages call the stage.  A frame has `elements_per_frame` elements, a whole number of beats.
    """

    name: str
    lanes: int
    shape: Element
    elements_per_frame: int

    def __post_init__(self) -> None:
        if self.lanes < 1 or self.elements_per_frame < 1 or self.elements_per_frame % self.lanes:
            raise HwflowError(
                f"elements per frame of '{self.name}' must be a whole number of beats of {self.lanes} lanes, not "
                f"{self.elements_per_frame}; choose a number of lanes that divides it")
        if not 1 <= self.shape.width <= 64:
            raise HwflowError(f"element width of '{self.name}' must be 1 to 64 bits, not {self.shape.width}")

    @property
    def beats_per_frame(self) -> int:
        return self.elements_per_frame // self.lanes

    @property
    def width(self) -> int:
        """Bits of a beat."""
        return self.lanes * self.shape.width


@dataclass(frozen=True)
class StallPattern:
    """How likely it is in a cycle that the source has no next beat, and that the sink is not ready; 0 to 0.98."""

    source: float
    sink: float
    seed: int

    def __post_init__(self) -> None:
        for name, value in (("source", self.source), ("sink", self.sink)):
            if not 0 <= value <= HIGHEST_STALL:
                raise HwflowError(f"stall probability of the {name} must be 0 to {HIGHEST_STALL}, not {value}")


@dataclass(frozen=True)
class Difference:
    """The first element of a stage that is not as expected.

    `index` counts the elements of the frame from 0; `got` is None where the element never came.
    """

    frame: int
    index: int
    expected: int
    got: int | None

    def position(self, frame_shape: Sequence[int]) -> tuple[int, ...]:
        """(row, column, channel) of the element, for a frame of shape [height, width, channels]."""
        return tuple(int(n) for n in np.unravel_index(self.index, tuple(frame_shape)))


@dataclass(frozen=True)
class StageResult:
    """One stage: whether its output was equal, and what it did.

    `beats` came where `expected_beats` were due.  `busy_cycles` are the cycles in which the stage worked,
    `stall_cycles` those in which its output waited for the next stage.  Cycle numbers count from the first cycle
    without reset: `first_cycles` and `done_cycles` are those of the first and the last beat of each frame.
    `last_cycle` is the last beat of all, None where none came.
    """

    name: str
    equal: bool
    beats: int
    expected_beats: int
    busy_cycles: int
    stall_cycles: int
    first_difference: Difference | None
    first_cycles: tuple[int, ...]
    done_cycles: tuple[int, ...]
    last_cycle: int | None


@dataclass(frozen=True)
class Waiting:
    """One stream at the moment of a deadlock: `stalled` means valid without ready, otherwise there was no beat."""

    name: str
    beats: int
    expected_beats: int
    last_cycle: int | None
    stalled: bool
    busy: bool


@dataclass(frozen=True)
class Deadlock:
    """No boundary moved a beat that was due for `idle_cycles` cycles up to `cycle`.

    `streams` are the input, the output of every stage, and the output of the core as the sink saw it.
    """

    cycle: int
    idle_cycles: int
    streams: tuple[Waiting, ...]

    @property
    def last_moved(self) -> Waiting | None:
        """The stream that moved last, None if none did."""
        moved = [s for s in self.streams if s.last_cycle is not None]
        return max(moved, key=lambda s: s.last_cycle or 0, default=None)

    @property
    def blocked_by(self) -> str | None:
        """The last stage that is offered a beat, does not take it, and offers none itself; None if there is none.

        Without one, every stage waits for a beat that was lost.
        """
        stages = self.streams[:-1]
        for before, stage in reversed(list(pairwise(stages))):
            if before.stalled and not stage.stalled:
                return stage.name
        return None

    def __str__(self) -> str:
        lines = [f"no beat moved in the {self.idle_cycles} cycles up to cycle {self.cycle}"]
        if self.last_moved:
            lines[0] += f"; the last one moved at '{self.last_moved.name}' in cycle {self.last_moved.last_cycle}"
        for s in self.streams:
            if s.stalled:
                state = "valid without ready"
            elif s.beats >= s.expected_beats:
                state = "complete"
            else:
                state = "starves, busy" if s.busy else "starves"
            last = "never moved" if s.last_cycle is None else f"last in cycle {s.last_cycle}"
            lines.append(f"  {s.name}: {s.beats} of {s.expected_beats} beats, {last}: {state}")
        if self.blocked_by:
            lines.append(f"  '{self.blocked_by}' blocks: it is offered a beat, takes none and gives none")
        else:
            lines.append("  no stage blocks: each waits for a beat that did not come")
        return "\n".join(lines)


@dataclass(frozen=True)
class RunResult:
    """One run of the simulation.

    `stages` stand in the order of the boundaries.  `output` is int64[n, elements] as the sink received it (frames that
    did not come complete are missing).  `first_output_cycle` is None if nothing came; `frame_done_cycles` holds the
    cycle of the last output beat of every frame; cycle 0 is the first one without reset, in which the source offers
    its first beat.  `cycles` counts up to the last output beat and includes it.  `violations` counts the cycles in
    which the output took back `valid` or changed the payload before the transfer, the first in
    `first_violation_cycle`.  `simulated_cycles` and `seconds` are what the simulator spent in its clock loop.
    """

    cycles: int
    stages: tuple[StageResult, ...]
    output: npt.NDArray[np.int64]
    first_output_cycle: int | None
    frame_done_cycles: tuple[int, ...]
    input_stall_cycles: int
    deadlock: Deadlock | None
    violations: int
    first_violation_cycle: int | None
    simulated_cycles: int
    seconds: float
    waves: Path | None

    @property
    def equal(self) -> bool:
        """Everything was as expected: all stages equal, no deadlock, no broken rule of the output stream."""
        return all(stage.equal for stage in self.stages) and self.deadlock is None and self.violations == 0

    @property
    def intervals(self) -> tuple[int, ...]:
        """Cycles from the end of each frame to the end of the next."""
        return tuple(after - before for before, after in pairwise(self.frame_done_cycles))

    @property
    def interval(self) -> int | None:
        """The steady interval between frames: that of the last two; None for a single frame."""
        return self.intervals[-1] if self.intervals else None

    @property
    def first_different(self) -> StageResult | None:
        """The first stage, in the order of the data, that was not equal."""
        return next((stage for stage in self.stages if not stage.equal), None)

    def failures(self) -> tuple[str, ...]:
        """What was not as expected, one line each (a deadlock has several); empty if the run is `equal`."""
        lines = [line for stage in self.stages if not stage.equal for line in describe(stage)]
        if self.violations:
            lines.append(f"the output changed before its transfer, {self.violations} times, first in cycle "
                         f"{self.first_violation_cycle}; valid and payload must hold until ready")
        if self.deadlock:
            lines.append(f"deadlock: {self.deadlock}")
        return tuple(lines)


def describe(stage: StageResult) -> list[str]:
    """What is not as expected at one stage."""
    lines = []
    first = stage.first_difference
    if first is not None:
        got = "nothing" if first.got is None else str(first.got)
        lines.append(f"stage '{stage.name}': frame {first.frame}, element {first.index}: expected {first.expected}, "
                     f"got {got}")
    if stage.beats != stage.expected_beats:
        kind = "too many" if stage.beats > stage.expected_beats else "missing"
        lines.append(f"stage '{stage.name}': {abs(stage.beats - stage.expected_beats)} beats {kind}: "
                     f"{stage.beats} instead of {stage.expected_beats}")
    return lines
