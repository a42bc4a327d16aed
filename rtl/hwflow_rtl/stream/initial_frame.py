"""`InitialFrame` begins a stream with one frame of constants: what a state is before anything has been written."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Const, Module, Mux, Shape, ShapeLike, Signal, Value
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..vendor.base import Resources
from .streams import stream_of


class InitialFrame(wiring.Component):
    """Gives the beats `values`, int64[beats, lanes], once after a reset; from then on what comes in.

    The content of a RAM comes back with the bitstream alone, a register with every reset.  So the first frame of a
    state is constant, and the queue before it, which is empty then, has the later ones.

    A frame begins when the core is offered one (`offered`: the first beat of a frame is valid at its input; `entered`:
    it is taken in this cycle), so that nothing is computed of a frame before it is there, and no result comes first.
    That the beat is offered is enough: it may be taken only after the state.

    Latency 0: after the constants it is wires, with a table for each between the queue and the readers.
    """

    #: Bits that count the frames which have entered and not begun here: far more than a core has room for.
    AHEAD = 16

    def __init__(self, *, shape: ShapeLike, values: npt.NDArray[np.int64]):
        self.shape = shape
        self.values = values
        signature = stream_of(shape, values.shape[1])
        super().__init__({"i": In(signature), "o": Out(signature), "offered": In(1), "entered": In(1)})

    @property
    def is_constant(self) -> bool:
        """Whether all beats are the same."""
        return bool((self.values == self.values[:1]).all())

    @staticmethod
    def cost(*, width: int, beats: int, varies: bool = False) -> Resources:
        """The cost for `beats` of `width` bits: a counter of beats, a choice for each bit, and where beats differ
        (`varies`) a table."""
        count = ceil_log2(beats)
        table = -(-beats // 16) * width * 3 // 2 if varies else 0
        return Resources(lut=width + 2 * count + 4 + table + InitialFrame.AHEAD * 3 // 2,
                         ff=count + 1 + InitialFrame.AHEAD)

    def elaborate(self, platform):
        m = Module()
        beats = len(self.values)
        initial, taken, begins = Signal(init=1, name="initial"), Signal(name="taken"), Signal(name="begins")
        place, first = Signal(range(max(beats, 2)), name="place"), Signal(init=1, name="first")
        ahead, open_ = Signal(self.AHEAD, init=1, name="ahead"), Signal(name="open")  # one more than those ahead
        width = Shape.cast(self.shape).width
        words = [sum((int(element) & (1 << width) - 1) << width * k for k, element in enumerate(beat))
                 for beat in self.values]
        word = Signal(width * self.values.shape[1], name="word")
        if self.is_constant:
            m.d.comb += word.eq(Const(words[0], len(word)))
        else:
            m.submodules.table = table = memory.Memory(shape=len(word), depth=beats, init=words,
                                                       attrs={"ram_style": "distributed"})
            read = table.read_port(domain="comb")
            m.d.comb += [read.addr.eq(place), word.eq(read.data)]
        m.d.comb += [
            open_.eq(~first | ahead[1:].any() | (ahead[0] & self.offered)),
            self.o.valid.eq((initial | self.i.valid) & open_), self.i.ready.eq(~initial & self.o.ready & open_),
            Value.cast(self.o.payload).eq(Mux(initial, word, Value.cast(self.i.payload))),
            taken.eq(self.o.valid & self.o.ready), begins.eq(taken & first),
        ]
        m.d.sync += ahead.eq(ahead + self.entered - begins)
        with m.If(taken):
            last = place == beats - 1
            m.d.sync += [place.eq(Mux(last, 0, place + 1)), first.eq(last), initial.eq(initial & ~last)]
        return m
