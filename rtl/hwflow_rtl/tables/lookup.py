"""Any function of a narrow integer, as a table: one ROM for each lane."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Module, Shape, Value
from amaranth.lib import data, wiring

from ..rescale.ranges import shape_range
from ..stream.credit import CreditCounter
from ..stream.pipeline import delay
from ..stream.queue import Queue
from ..stream.streams import link, stream_of
from ..stream.times import StageTimes, Times, in_turn, with_room
from ..stream.unit import LanesShape, ShapedUnit
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted

IntArray = npt.NDArray[np.int64]


def octets_of(words: IntArray, width: int) -> npt.NDArray[np.uint8]:
    """The contents of a ROM: the lowest `width` bits of each word."""
    octets = words.astype("<i8").view(np.uint8).reshape(len(words), 8)[:, :-(-width // 8)].copy()
    if width % 8:
        octets[:, -1] &= (1 << width % 8) - 1
    return octets


@dataclass(frozen=True, kw_only=True, eq=False)
class FunctionShape(LanesShape):
    """Functions of elements in a pipeline that never stalls, a beat in a cycle, and the queue after it.

    element, output
        Shapes of the integers that come, and of the results.
    lanes
        Elements of a beat that leaves.
    """

    output: Shape
    #: What such a unit is called in messages.
    kind: ClassVar[str]

    @property
    def what(self) -> str:
        """The unit in messages."""
        return self.called(self.kind)

    @property
    def words_out(self) -> Any:
        return stream_of(self.output, self.lanes)

    @property
    def width(self) -> int:
        """Bits of a beat that leaves."""
        return self.lanes * self.output.width

    @abstractmethod
    def inner(self, technology: Technology) -> int:
        """Cycles of the pipeline."""

    def queue_depth(self, technology: Technology) -> int:
        """Words for a beat in every cycle: the pipeline, the queue, and the cycle in which the credit comes back."""
        return next(depth for depth in range(2, 64)
                    if depth >= self.inner(technology) + Queue.latency_of(depth) + 1)

    def latency(self, technology: Technology) -> int:
        """Cycles from an integer at the input to its result, or the first of its beats, at the output."""
        return self.inner(technology) + Queue.latency_of(self.queue_depth(technology))

    def reads(self, technology: Technology, arrivals: Times, left: Times | None) -> Times:
        """When the beats are read whose integers come at `arrivals`."""
        return in_turn(with_room(arrivals, left, self.queue_depth(technology), back=1))

    def queue_cost(self, technology: Technology) -> Resources:
        depth = self.queue_depth(technology)
        return Queue.cost(width=self.width, depth=depth) + CreditCounter.cost(words=depth)


@dataclass(frozen=True, kw_only=True, eq=False)
class TableShape(FunctionShape):
    """A table, int64, that is read a beat in a cycle."""

    table: IntArray

    def inner(self, technology: Technology) -> int:
        """The ROM."""
        return technology.timing.rom

    def check_entries(self) -> None:
        (low, high), least, most = shape_range(self.output), int(self.table.min()), int(self.table.max())
        if least < low or most > high:
            raise ValueError(f"table of {self.what} must have entries in the range of {self.output!r}, not "
                             f"{least} to {most}")


def hand_over(unit: ShapedUnit, m: Module, words: Sequence[Value], *, of_family: bool = False) -> None:
    """The handshakes of a `FunctionShape`'s unit: `words` are the results of what comes, at the end of the pipeline.

    `of_family`: the queue is where the family has one of its depth.
    """
    shape, technology = unit.shape, unit.technology
    depth = shape.queue_depth(technology)
    m.submodules.queue = queue = Queue(
        shape=data.ArrayLayout(shape.output, shape.lanes), depth=depth, technology=technology if of_family else None)
    m.submodules.credit = credit = CreditCounter(words=depth, take=1)
    taken = unit.i.valid & credit.credit
    m.d.comb += [
        unit.i.ready.eq(credit.credit), unit.busy.eq(taken), credit.taken.eq(taken),
        credit.given.eq(queue.o.valid & queue.o.ready),
        queue.i.valid.eq(delay(m, taken, shape.inner(technology), "valid", reset_less=False)),
        Value.cast(queue.i.payload).eq(Cat(*words)),
    ]
    link(m, queue.o, wiring.flipped(unit.o))


@dataclass(frozen=True, kw_only=True, eq=False)
class LookupShape(TableShape):
    """Every element x of a beat becomes table[x - lowest x]; `beats` of a frame.

    The table has an entry for each value of an element, from the lowest to the highest.
    """

    beats: int
    kind: ClassVar[str] = "lookup"

    def __post_init__(self) -> None:
        if self.table.shape != (1 << self.element.width,):
            raise ValueError(f"table of {self.what} must have one entry for each of the {1 << self.element.width} "
                             f"values of {self.element!r}, not the shape {self.table.shape}")
        self.check_entries()

    @property
    def cycles(self) -> int:
        return self.beats

    def times(self, technology: Technology, *arrivals: Times, left: Times | None = None) -> StageTimes:
        taken = self.reads(technology, arrivals[0], left)
        return StageTimes((taken,), taken + self.latency(technology))

    def cost(self, technology: Technology) -> Resources:
        """RAM exact, LUT and FF estimated."""
        rom = technology.rom_cost(width=self.output.width, depth=len(self.table), name="table")
        return (rom.copies(self.lanes) + self.queue_cost(technology) + fitted("LookupStage")
                + Resources(ff=technology.timing.rom))

    def build(self, technology: Technology, name: str) -> LookupStage:
        return LookupStage(shape=self, technology=technology, name=name)


class LookupStage(ShapedUnit):
    """The table of `shape` for each lane.

    Latency `LookupShape.latency`; initiation interval 1.  `busy` says that a beat goes in.  `name` begins the names of
    the ROMs.
    """

    def model(self, beats: IntArray) -> IntArray:
        """[beats, lanes] to [beats, lanes]."""
        table = self.shape.table
        return table[np.asarray(beats) + (len(table) // 2 if self.shape.element.signed else 0)]

    def contents(self) -> npt.NDArray[np.uint8]:
        """The ROM: its address is the input's bits, so that negative inputs come behind the positive ones."""
        table, width = self.shape.table, self.shape.output.width
        words = np.roll(table, -len(table) // 2) if self.shape.element.signed else table
        return octets_of(words, width)

    def elaborate(self, platform):
        m = Module()
        contents, words = self.contents(), []
        for lane in range(self.shape.lanes):
            m.submodules[f"rom{lane}"] = rom = self.technology.rom(
                width=self.shape.output.width, contents=contents, name=f"{self.name}_table{lane}")
            m.d.comb += rom.addr.eq(Value.cast(self.i.payload[lane]))
            words.append(rom.data)
        hand_over(self, m, words)
        return m
