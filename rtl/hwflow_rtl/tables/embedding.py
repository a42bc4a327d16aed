"""A row of a table for each integer of a stream: one ROM, whose words are beats of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring

from ..stream.credit import CreditCounter
from ..stream.pipeline import delay
from ..stream.queue import Queue
from ..stream.streams import link
from ..stream.times import StageTimes, Times
from ..stream.unit import ShapedUnit
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from .lookup import TableShape

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class EmbeddingShape(TableShape):
    """Every integer n becomes row n of the table, int64[rows, width], `lanes` elements in a beat.

    `numbers`, unsigned, come in a frame, one in a beat; `lanes` divide the width.  The address is the integer, then the
    beat of the row; where the beats of a row are no power of two the ROM has words that nobody reads.
    """

    numbers: int
    kind: ClassVar[str] = "embedding"

    def __post_init__(self) -> None:
        if self.element.signed:
            raise ValueError(f"integers of {self.what} must be unsigned, not {self.element!r}")
        rows, width = self.table.shape
        if rows > 1 << self.element.width:
            raise ValueError(f"table of {self.what} must have at most {1 << self.element.width} rows, not {rows}")
        if width % self.lanes:
            raise ValueError(f"lanes of {self.what} must divide the width {width} of its table, not be {self.lanes}")
        self.check_entries()

    @property
    def lanes_in(self) -> tuple[int, ...]:
        return (1,)

    @property
    def beats(self) -> int:
        """Beats of a row."""
        return self.table.shape[1] // self.lanes

    @property
    def cycles(self) -> int:
        return self.numbers * self.beats

    @property
    def step(self) -> int:
        """Words of the ROM from row to row."""
        return 1 << self.counter_bits

    @property
    def counter_bits(self) -> int:
        return (self.beats - 1).bit_length()

    @property
    def depth(self) -> int:
        """Words of the ROM."""
        return (len(self.table) - 1) * self.step + self.beats

    def times(self, technology: Technology, *arrivals: Times, left: Times | None = None) -> StageTimes:
        """A row is read from the cycle on in which its integer is taken; the next one comes in after its last beat."""
        read = self.reads(technology, np.repeat(arrivals[0], self.beats), left)
        return StageTimes((read[::self.beats],), read + self.latency(technology))

    def cost(self, technology: Technology) -> Resources:
        """RAM exact, LUT and FF estimated."""
        counter = self.counter_bits
        rom = technology.rom_cost(width=self.width, depth=self.depth, name="table")
        held = self.element.width if counter else 0
        own = fitted("EmbeddingStage", counter_bits=counter, held_bits=held)
        return rom + self.queue_cost(technology) + own + Resources(
            ff=technology.timing.rom + counter + held + bool(counter))

    def build(self, technology: Technology, name: str) -> EmbeddingStage:
        return EmbeddingStage(shape=self, technology=technology, name=name)


class EmbeddingStage(ShapedUnit):
    """The table of `shape`; `name` begins the name of its ROM.

    What comes out of an integer that is no row is undefined.  Latency `EmbeddingShape.latency`; initiation interval of
    a row: its beats, one in every cycle.  `busy`: a beat is read.
    """

    def model(self, frames: IntArray) -> IntArray:
        """Beats at the output, [n, lanes], for integers of any shape."""
        return self.shape.table[np.asarray(frames).reshape(-1)].reshape(-1, self.shape.lanes)

    def contents(self) -> npt.NDArray[np.uint8]:
        """The ROM: [depth, bytes of a beat], its bits one lane after another."""
        shape = self.shape
        words = np.zeros((shape.depth, shape.lanes), np.int64)
        place = np.arange(len(shape.table))[:, None] * shape.step + np.arange(shape.beats)
        words[place.ravel()] = shape.table.reshape(-1, shape.lanes)
        bits = (words[..., None] >> np.arange(shape.output.width)) & 1
        return np.packbits(bits.reshape(len(words), -1).astype(np.uint8), axis=1, bitorder="little")

    def elaborate(self, platform):
        m = Module()
        shape = self.shape
        depth = shape.queue_depth(self.technology)
        m.submodules.queue = queue = Queue(shape=data.ArrayLayout(shape.output, shape.lanes), depth=depth)
        m.submodules.credit = credit = CreditCounter(words=depth, take=1)
        m.submodules.rom = rom = self.technology.rom(
            width=shape.width, contents=self.contents(), name=f"{self.name}_table")
        number, read = Value.cast(self.i.payload[0]), Signal(name="read")
        if shape.beats == 1:
            m.d.comb += [self.i.ready.eq(credit.credit), read.eq(self.i.valid & credit.credit)]
            address = number
        else:
            address = self.rows(m, number, credit.credit, read)
        m.d.comb += [
            self.busy.eq(read), credit.taken.eq(read), credit.given.eq(queue.o.valid & queue.o.ready),
            rom.addr.eq(address), Value.cast(queue.i.payload).eq(rom.data),
            queue.i.valid.eq(delay(m, read, self.technology.timing.rom, "valid", reset_less=False)),
        ]
        link(m, queue.o, wiring.flipped(self.o))
        return m

    def rows(self, m: Module, number: Value, credit: Value, read: Signal) -> Value:
        """The address of the next beat, where a row has several: the first while its integer comes in."""
        shape = self.shape
        held, beat = Signal(shape.element, reset_less=True, name="held"), Signal(shape.counter_bits, name="beat")
        inside = Signal(name="inside")
        m.d.comb += [self.i.ready.eq(credit & ~inside), read.eq(credit & (inside | self.i.valid))]
        with m.If(read):
            last = beat == shape.beats - 1
            m.d.sync += [beat.eq(Mux(last, 0, beat + 1)), inside.eq(~last)]
        with m.If(~inside):
            m.d.sync += held.eq(number)
        return Cat(beat, Mux(inside, held, number))
