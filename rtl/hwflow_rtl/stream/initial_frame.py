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

    Latency 0: after the constants it is wires, with one table each between the queue and the readers.
    """

    def __init__(self, *, shape: ShapeLike, values: npt.NDArray[np.int64]):
        self.shape = shape
        self.values = values
        signature = stream_of(shape, values.shape[1])
        super().__init__({"i": In(signature), "o": Out(signature)})

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
        return Resources(lut=width + 2 * count + 2 + table, ff=count + 1)

    def elaborate(self, platform):
        m = Module()
        beats = len(self.values)
        initial, taken = Signal(init=1, name="initial"), Signal(name="taken")
        place = Signal(range(max(beats, 2)), name="place")
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
            self.o.valid.eq(initial | self.i.valid), self.i.ready.eq(~initial & self.o.ready),
            Value.cast(self.o.payload).eq(Mux(initial, word, Value.cast(self.i.payload))),
            taken.eq(initial & self.o.ready),
        ]
        with m.If(taken):
            m.d.sync += [place.eq(place + 1), initial.eq(place != beats - 1)]
        return m
