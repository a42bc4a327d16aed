"""Inputs of a simulation besides the core, and its results: plain frozen data, no simulator needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from hwflow_base.by_value import ByValue
from hwflow_base.errors import HwflowError
from hwflow_base.short_repr import drawn_html, fields_repr, screen

from .diagnosis import Deadlock, LinkState

Values = npt.NDArray[np.integer[Any]]
HIGHEST_STALL = 0.98  # beyond it a run is hardly more than waiting


@runtime_checkable
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


@dataclass(frozen=True, eq=False)
class MemoryOrder:
    """How a tensor is written into a memory: in another order than that of its frame, with lanes that hold nothing.

    `places`, int64[beats * lanes], has for each element of a frame's beats its place in the frame, each place once; -1
    for what belongs nowhere and is not compared.  An element of the tensor is one of the memory, of `shape`, plus
    `offset`.
    """

    places: npt.NDArray[np.int64]
    shape: Element
    offset: int = 0

    def check(self, elements: int) -> None:
        """ValueError unless each of the frame's `elements` has one place."""
        used = np.sort(self.places[self.places >= 0])
        if not np.array_equal(used, np.arange(elements)):
            raise ValueError(f"places of a MemoryOrder must have each of the frame's {elements} elements once, not "
                             f"{len(used)} places")


@dataclass(frozen=True)
class Boundary:
    """The stream of one tensor that leaves a stage: `lanes` elements of `shape` a beat, lane 0 first.

    `tensor` is its key.  `name` is what messages call the stage.  A frame has `elements_per_frame` elements, a whole
    number of beats; with `order` its beats are words of a memory.
    """

    tensor: str
    name: str
    lanes: int
    shape: Element
    elements_per_frame: int
    order: MemoryOrder | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.order is not None:
            self.order.check(self.elements_per_frame)
        elements = self.elements_per_frame if self.order is None else len(self.order.places)
        if self.lanes < 1 or self.elements_per_frame < 1 or elements % self.lanes:
            raise HwflowError(
                f"elements per frame of '{self.name}' must be a whole number of beats of {self.lanes} lanes, not "
                f"{self.elements_per_frame}",
                "choose a number of lanes that divides it",
            )
        if not 1 <= self.shape.width <= 64:
            raise HwflowError(f"element width of '{self.name}' must be 1 to 64 bits, not {self.shape.width}")

    @property
    def beats_per_frame(self) -> int:
        elements = self.elements_per_frame if self.order is None else len(self.order.places)
        return elements // self.lanes

    @property
    def carried(self) -> Element:
        """The shape of an element of a beat."""
        return self.shape if self.order is None else self.order.shape

    @property
    def width(self) -> int:
        """Bits of a beat."""
        return self.lanes * self.carried.width


@dataclass(frozen=True)
class StallPattern:
    """How likely it is in a cycle that the source has no next beat, and that the sink is not ready; 0 to 0.98."""

    source: float
    sink: float
    seed: int

    def __post_init__(self) -> None:
        for name, value in (("source", self.source), ("sink", self.sink)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= HIGHEST_STALL:
                raise HwflowError(f"stall probability of the {name} must be 0 to {HIGHEST_STALL}, not {value!r:.60}")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise HwflowError(f"the seed of the stalls must be a whole number, not {self.seed!r:.60}")


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
class BoundaryResult:
    """One tensor of a stage: whether it was equal, and what the stage did.  `name` is that of the stage.

    `beats` came where `expected_beats` were due.  `busy_cycles` are the cycles in which the stage worked,
    `stall_cycles` those in which its output waited for the next stage.  Cycle numbers count from the first cycle
    without reset: `first_cycles` and `done_cycles` are those of the first and the last beat of each frame.
    `last_cycle` is the last beat of all, None where none came.  `values` are the elements on the stream, [n, elements]
    in the narrowest type that holds them; frames that did not come complete are missing.
    """

    tensor: str
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
    values: Values = field(compare=False, default_factory=lambda: np.zeros((0, 0), np.int8))

    __repr__ = fields_repr


@dataclass(frozen=True, eq=False)
class OutputResult(ByValue):
    """One output of the core, the tensor `tensor` of a stage or an input, as its sink received it.

    `values` is int64[n, elements]; frames that did not come complete are missing.  `first_cycle` is None if nothing
    came; `done_cycles` holds the cycle of the last beat of every frame.  `violations` counts the cycles in which the
    output took back `valid` or changed the payload before the transfer, the first in `first_violation_cycle`.
    """

    name: str
    tensor: str
    equal: bool
    beats: int
    expected_beats: int
    values: npt.NDArray[np.int64]
    first_difference: Difference | None
    first_cycle: int | None
    done_cycles: tuple[int, ...]
    violations: int
    first_violation_cycle: int | None

    __repr__ = fields_repr


@dataclass(frozen=True, eq=False)
class RunResult(ByValue):
    """One run of the simulation.

    `boundaries` are by the names of their tensors, in the order of the data; `outputs` and `input_stall_cycles` in that
    of the core's ports.
    Cycle 0 is the first one without reset, in which the sources offer their first beats.  `cycles` counts up to the
    last output beat and includes it.  `links` is how every link stood when the run ended.  `simulated_cycles` and
    `seconds` are what the simulator spent in its clock loop.  `values` is what the simulation gave, the inputs' frames
    and every stage's, by the names of their tensors: [n, height, width, channels] in the narrowest type that holds the
    tensor's format.  Frames that did not come complete are missing.
    """

    cycles: int
    boundaries: Mapping[str, BoundaryResult]
    outputs: tuple[OutputResult, ...]
    input_stall_cycles: tuple[int, ...]
    links: tuple[LinkState, ...]
    deadlock: Deadlock | None
    simulated_cycles: int
    seconds: float
    waves: Path | None
    values: Mapping[str, Values] = field(default_factory=dict, compare=False)

    _repr_html_ = drawn_html

    def __repr__(self) -> str:
        lines = [f"stage '{stage.name}': {'equal' if stage.equal else 'NOT EQUAL'}, {stage.beats} of "
                 f"{stage.expected_beats} beats, busy {stage.busy_cycles}, stalled {stage.stall_cycles} cycles"
                 for stage in self.boundaries.values()]
        pace = "" if self.interval is None else f", one every {self.interval}"
        return screen(f"RunResult: {'equal' if self.equal else 'NOT EQUAL'}, {len(self.frame_done_cycles)} frames in "
                      f"{self.cycles} cycles{pace}", [*self.failures(), *lines])

    @property
    def equal(self) -> bool:
        """Everything was as expected: all stages and outputs equal, no deadlock, no broken rule of a stream."""
        compared = (*self.boundaries.values(), *self.outputs)
        return all(part.equal for part in compared) and not self.deadlock and not self.violations

    @property
    def output(self) -> npt.NDArray[np.int64]:
        """The only output, int64[n, elements].  ValueError of a core with several: they are in `outputs`."""
        (only,) = self.outputs
        return only.values

    @property
    def violations(self) -> int:
        """The violations of all outputs."""
        return sum(output.violations for output in self.outputs)

    @property
    def first_output_cycle(self) -> int | None:
        """The cycle by which every output has given its first beat; None if one gave nothing."""
        firsts = [output.first_cycle for output in self.outputs if output.first_cycle is not None]
        return max(firsts) if len(firsts) == len(self.outputs) else None

    @property
    def frame_done_cycles(self) -> tuple[int, ...]:
        """For every frame, the cycle by which all outputs have given their last beat of it."""
        return tuple(max(cycles) for cycles in zip(*(output.done_cycles for output in self.outputs), strict=False))

    @property
    def intervals(self) -> tuple[int, ...]:
        """Cycles from the end of each frame to the end of the next."""
        return tuple(after - before for before, after in pairwise(self.frame_done_cycles))

    @property
    def interval(self) -> int | None:
        """The steady interval between frames, that of the last two; None for a single frame.

        Of several outputs that of the slowest: the one whose frames took longest from the first to the last.  Others
        may run ahead, and their frames then come at odd times.
        """
        ends = [output.done_cycles for output in self.outputs]
        if len(self.frame_done_cycles) < 2:
            return None
        slowest = max(ends, key=lambda cycles: (cycles[-1] - cycles[0], cycles[-1] - cycles[-2]))
        return slowest[-1] - slowest[-2]

    @property
    def first_different(self) -> BoundaryResult | None:
        """The first boundary, in the order of the data, that was not equal."""
        return next((stage for stage in self.boundaries.values() if not stage.equal), None)

    def failures(self) -> tuple[str, ...]:
        """The lines about what was not as expected (a deadlock has several); empty if the run is `equal`."""
        lines = [line for stage in self.boundaries.values() for line in describe(f"stage '{stage.name}'", stage)]
        for output in self.outputs:
            source = self.boundaries.get(output.tensor)
            if source is None or source.equal:  # else it has been said
                lines += describe(output.name, output)
            if output.violations:
                lines.append(f"{output.name} changed before its transfer, {output.violations} times, first in cycle "
                             f"{output.first_violation_cycle}; valid and payload must hold until ready")
        if self.deadlock:
            lines.append(f"deadlock: {self.deadlock}")
        return tuple(lines)


def describe(name: str, result: BoundaryResult | OutputResult) -> list[str]:
    """The difference from what is expected at one stage or output."""
    lines = []
    first = result.first_difference
    if first is not None:
        got = "nothing" if first.got is None else str(first.got)
        lines.append(f"{name}: frame {first.frame}, element {first.index}: expected {first.expected}, got {got}")
    if result.beats != result.expected_beats:
        kind = "too many" if result.beats > result.expected_beats else "missing"
        lines.append(f"{name}: {abs(result.beats - result.expected_beats)} beats {kind}: "
                     f"{result.beats} instead of {result.expected_beats}")
    return lines
