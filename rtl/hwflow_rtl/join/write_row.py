"""Replaces one row of the rows that pass: the row whose number comes before them.

    position ─▶ counter ─┐
    row ─▶ held ─────────┤
      ▲      │           ▼
      └──────┘    x ─▶ choose ─▶ o
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Module, Mux, Shape, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..stream.pipeline import Nest, adder_luts
from ..stream.queue import Pair, Queue
from ..stream.streams import link, payload_of, stream_of
from ..stream.times import StageTimes, Times, in_turn, with_room
from ..stream.unit import UnitShape
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class WriteRowShape(UnitShape):
    """Frames of `blocks` times `rows` rows of `words` beats; a beat has `lanes` elements of the shape `element`.

    `position` is the shape of the number of the row that is replaced, unsigned.
    """

    element: Shape
    lanes: int
    blocks: int
    rows: int
    words: int
    position: Shape

    def __post_init__(self) -> None:
        if min(self.blocks, self.rows, self.words, self.lanes) < 1:
            raise ValueError(f"blocks, rows, words and lanes of {self.called('row writer')} must be one or more, not "
                             f"{self.blocks}, {self.rows}, {self.words} and {self.lanes}")
        if self.position.signed:
            raise ValueError(f"position of {self.called('row writer')} must be unsigned, not {self.position!r}")

    @property
    def lanes_in(self) -> tuple[int, ...]:
        return (self.lanes, self.lanes, 1)

    @property
    def cycles(self) -> int:
        """One for the position, and in each block one for each beat of the new row and of the old ones."""
        return 1 + self.work

    @property
    def work(self) -> int:
        return self.blocks * (self.rows + 1) * self.words

    @property
    def held(self) -> int:
        """The depth of the queue of the new row: a word leaves and comes back in one cycle."""
        return self.words + 1

    @property
    def until(self) -> Shape:
        """The shape of how many rows come before the one that is replaced, counted down."""
        return Shape(max(self.position.width, (self.rows - 1).bit_length()) + 1, signed=True)

    def times(self, technology: Technology, *arrivals: Times, left: Times | None = None) -> StageTimes:
        x, row, position = arrivals
        frames, blocks = len(position), len(position) * self.blocks
        earliest = with_room(x, left, Pair.DEPTH, back=1)
        steps = np.concatenate([row.reshape(blocks, -1), earliest.reshape(blocks, -1)], axis=1)
        steps = np.concatenate([position.reshape(frames, 1), steps.reshape(frames, -1)], axis=1)
        taken = in_turn(steps.reshape(-1)).reshape(frames, -1)
        own = taken[:, 1:].reshape(blocks, -1)
        old = own[:, self.words:].reshape(-1)
        return StageTimes((old, own[:, :self.words].reshape(-1), taken[:, 0]), old + 1)

    def cost(self, technology: Technology) -> Resources:
        """LUT and FF estimated; RAM exact where the queue of the row is in blocks."""
        width, until = self.lanes * self.element.width, self.until.width
        bits = Nest.bits((self.words, self.rows + 1, self.blocks))
        return (Pair.cost(width=width) + Queue.cost(width=width, depth=self.held, technology=technology)
                + fitted("WriteRowStage", counter_bits=bits)
                + Resources(lut=2 * width + adder_luts(until, technology), ff=until + self.position.width))

    def build(self, technology: Technology, name: str) -> WriteRowStage:
        return WriteRowStage(shape=self, technology=technology)


class WriteRowStage(wiring.Component):
    """The rows of `i0`, one of them replaced.

    Ports
    -----
    i0, i1, i2
        The old rows; the new row of each block; its number, one for a frame.
    o, busy
        The output; a beat of a row, old or new, goes in.

    A frame takes its number first; then each block its new row, and then the old ones.  Latency of an old row 1,
    initiation interval `WriteRowShape.cycles`.  Every `ready` is a conjunction of registers.  The new row goes round
    in its queue with each old one, and leaves it with the last.
    """

    def __init__(self, *, shape: WriteRowShape, technology: Technology):
        self.shape = shape
        self.technology = technology
        beats = stream_of(shape.element, shape.lanes)
        super().__init__({"i0": In(beats), "i1": In(beats), "i2": In(stream_of(shape.position, 1)), "o": Out(beats),
                          "busy": Out(1)})

    def model(self, x: IntArray, row: IntArray, position: IntArray) -> IntArray:
        """Elements of whole frames, in the order of the streams, to beats [beats, lanes] of the output."""
        shape, made = self.shape, np.array(x, np.int64).reshape(-1, self.shape.lanes)
        numbers, new = np.asarray(position).reshape(-1), np.asarray(row).reshape(-1, shape.words, shape.lanes)
        for k, beats in enumerate(new):
            number = int(numbers[k // shape.blocks])
            if number < shape.rows:
                begin = (k * shape.rows + number) * shape.words
                made[begin:begin + shape.words] = beats
        return made

    def elaborate(self, platform):
        m = Module()
        shape = self.shape
        m.submodules.queue = queue = Pair(shape=payload_of(self.o))
        m.submodules.held = held = Queue(shape=payload_of(self.o), depth=shape.held, technology=self.technology)
        nest = Nest(m, (shape.words, shape.rows + 1, shape.blocks), name="loop")
        waits, loads = Signal(init=1), Signal(init=1)  # for the position; for the new row
        passes, step = Signal(), Signal()
        m.d.comb += [
            self.i2.ready.eq(waits), self.i1.ready.eq(~waits & loads),
            self.i0.ready.eq(~waits & ~loads & queue.i.ready),
            queue.i.valid.eq(~waits & ~loads & self.i0.valid), passes.eq(self.i0.valid & self.i0.ready),
            step.eq(passes | (self.i1.valid & self.i1.ready)), self.busy.eq(step),
        ]
        nest.advance(step)
        ends = Signal()
        m.d.comb += ends.eq(step & nest.last[0])
        with m.If(ends):
            m.d.sync += loads.eq(nest.last[1])
        with m.If(waits):
            m.d.sync += waits.eq(~self.i2.valid)
        with m.Elif(ends & nest.last[1] & nest.last[2]):
            m.d.sync += waits.eq(1)
        replaced = self.chosen(m, waits, loads, ends)
        m.d.comb += [
            held.i.valid.eq(Mux(loads, self.i1.valid & ~waits, passes & ~nest.last[1])), held.o.ready.eq(passes),
            Value.cast(held.i.payload).eq(Mux(loads, Value.cast(self.i1.payload), Value.cast(held.o.payload))),
            Value.cast(queue.i.payload).eq(Mux(replaced, Value.cast(held.o.payload), Value.cast(self.i0.payload))),
        ]
        link(m, queue.o, wiring.flipped(self.o))
        return m

    def chosen(self, m: Module, waits: Value, loads: Value, ends: Value) -> Signal:
        """Whether the row that passes is the one that is replaced: a register."""
        shape = self.shape
        number, until, replaced = Signal(shape.position), Signal(shape.until), Signal()
        with m.If(waits):
            m.d.sync += number.eq(Value.cast(self.i2.payload[0]))
        with m.If(loads):
            m.d.sync += [replaced.eq(number == 0), until.eq(number - 1)]
        with m.Elif(ends):
            m.d.sync += [replaced.eq(until == 0), until.eq(until - 1)]
        return replaced
