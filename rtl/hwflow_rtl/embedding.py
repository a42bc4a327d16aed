"""A row of a table for each integer of a stream: one ROM, whose words are beats of rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Module, Mux, Shape, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .lookup import queue_depth
from .stream.credit import CreditCounter
from .stream.pipeline import delay
from .stream.queue import Queue
from .stream.streams import link, stream_of
from .stream.times import StageTimes, Times, in_turn, with_room
from .vendor.base import Resources, Technology
from .vendor.fitted import fitted


class EmbeddingStage(wiring.Component):
    """Every integer n becomes row n of the table, `lanes` elements in a beat.

    Parameters
    ----------
    shape_in, shape_out
        Of the integers, unsigned; of the table's elements.
    table
        int64[rows, width]; entries in the range of `shape_out`.  `lanes` divide the width.
    lanes
        Of the output; integers come one in a beat.
    technology, name
        Makes the ROM; the prefix of its name, unique in the design.

    The address is the integer, then the beat of the row; where the beats of a row are no power of two the ROM has words
    that nobody reads.  What comes out of an integer that is no row is undefined.
    Latency `latency`; initiation interval of a row `width / lanes`: a beat in every cycle.  `busy`: a beat is read.
    """

    def __init__(self, *, shape_in: Shape, shape_out: Shape, table: npt.NDArray[np.int64], lanes: int,
                 technology: Technology, name: str):
        self.shape_in = Shape.cast(shape_in)
        self.shape_out = Shape.cast(shape_out)
        self.table = np.asarray(table, dtype=np.int64)
        self.lanes = lanes
        self.technology = technology
        self.name = name
        if self.shape_in.signed:
            raise ValueError(f"integers of embedding '{name}' must be unsigned, not {self.shape_in!r}")
        rows, width = self.table.shape
        if rows > 1 << self.shape_in.width:
            raise ValueError(f"table of embedding '{name}' must have at most {1 << self.shape_in.width} rows, not "
                             f"{rows}")
        if width % lanes:
            raise ValueError(f"lanes of embedding '{name}' must divide the width {width} of its table, not be {lanes}")
        lowest = -1 << (self.shape_out.width - 1) if self.shape_out.signed else 0
        if self.table.min() < lowest or self.table.max() >= lowest + (1 << self.shape_out.width):
            raise ValueError(f"table of embedding '{name}' must have entries in the range of {self.shape_out!r}, not "
                             f"{self.table.min()} to {self.table.max()}")
        super().__init__({"i": In(stream_of(shape_in, 1)), "o": Out(stream_of(shape_out, lanes)), "busy": Out(1)})

    @property
    def beats(self) -> int:
        """Beats of a row."""
        return self.table.shape[1] // self.lanes

    @property
    def latency(self) -> int:
        """Cycles from an integer at the input to the first beat of its row at the output."""
        return self.technology.timing.rom + Queue.latency_of(queue_depth(self.technology))

    @staticmethod
    def times(arrivals: Times, *, beats: int, technology: Technology, left: Times | None = None) -> StageTimes:
        """When integers are taken and beats given, for integers that come as `arrivals` says; `left`: see `with_room`.

        A row is read from the cycle on in which its integer is taken; the next one comes in after its last beat.
        """
        depth = queue_depth(technology)
        read = in_turn(with_room(np.repeat(arrivals, beats), left, depth, back=1))
        return StageTimes((read[::beats],), read + technology.timing.rom + Queue.latency_of(depth))

    @staticmethod
    def cycles(*, numbers: int, width: int, lanes: int) -> int:
        """Cycles from frame to frame of so many integers."""
        return numbers * (width // lanes)

    @staticmethod
    def cost(*, shape_in: Shape, shape_out: Shape, rows: int, width: int, lanes: int,
             technology: Technology) -> Resources:
        """RAM exact, LUT and FF estimated."""
        bits, beats = Shape.cast(shape_out).width * lanes, width // lanes
        depth, counter = queue_depth(technology), (beats - 1).bit_length()
        rom = technology.rom_cost(width=bits, depth=_depth(rows, beats), name="table")
        held = Shape.cast(shape_in).width if counter else 0
        own = fitted("EmbeddingStage", counter_bits=counter, held_bits=held)
        queue, credit = Queue.cost(width=bits, depth=depth), CreditCounter.cost(words=depth)
        return rom + queue + credit + own + Resources(ff=technology.timing.rom + counter + held + bool(counter))

    def model(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Beats at the output, [n, lanes], for integers of any shape."""
        return self.table[np.asarray(frames).reshape(-1)].reshape(-1, self.lanes)

    def contents(self) -> npt.NDArray[np.uint8]:
        """The ROM: [depth, bytes of a beat], its bits one lane after another."""
        rows = len(self.table)
        words = np.zeros((_depth(rows, self.beats), self.lanes), np.int64)
        place = np.arange(rows)[:, None] * _step(self.beats) + np.arange(self.beats)
        words[place.ravel()] = self.table.reshape(-1, self.lanes)
        bits = (words[..., None] >> np.arange(self.shape_out.width)) & 1
        return np.packbits(bits.reshape(len(words), -1).astype(np.uint8), axis=1, bitorder="little")

    def elaborate(self, platform):
        m = Module()
        depth = queue_depth(self.technology)
        m.submodules.queue = queue = Queue(shape=data.ArrayLayout(self.shape_out, self.lanes), depth=depth)
        m.submodules.credit = credit = CreditCounter(words=depth, take=1)
        m.submodules.rom = rom = self.technology.rom(
            width=self.shape_out.width * self.lanes, contents=self.contents(), name=f"{self.name}_table")
        number, read = Value.cast(self.i.payload[0]), Signal(name="read")
        if self.beats == 1:
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
        counter = (self.beats - 1).bit_length()
        held, beat = Signal(self.shape_in, reset_less=True, name="held"), Signal(counter, name="beat")
        inside = Signal(name="inside")
        m.d.comb += [self.i.ready.eq(credit & ~inside), read.eq(credit & (inside | self.i.valid))]
        with m.If(read):
            last = beat == self.beats - 1
            m.d.sync += [beat.eq(Mux(last, 0, beat + 1)), inside.eq(~last)]
        with m.If(~inside):
            m.d.sync += held.eq(number)
        return Cat(beat, Mux(inside, held, number))


def _step(beats: int) -> int:
    """Words of the ROM from row to row."""
    return 1 << (beats - 1).bit_length()


def _depth(rows: int, beats: int) -> int:
    return (rows - 1) * _step(beats) + beats
