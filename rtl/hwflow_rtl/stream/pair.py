"""A FIFO of two words whose `o.ready` may have a long path."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, ShapeLike, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..vendor.base import Resources
from ..vendor.fitted import fitted
from .queue import used_places

__all__ = ["Pair"]


class Pair(wiring.Component):
    """A FIFO of two words that are written and read in turns.  Latency 1; a word in every cycle.

    An incoming word is written to either place without a multiplexer, so synthesis does not duplicate the logic before
    it, as it does before a shift register.  An outgoing word passes one multiplexer.  `o.ready` drives a few registers
    and no word.
    """

    DEPTH = 2

    def __init__(self, *, shape: ShapeLike):
        self.shape = shape
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    @staticmethod
    def cost(*, width: int) -> Resources:
        """Of words of `width` bits, estimated."""
        return fitted("Pair", word_bits=width)

    def elaborate(self, platform):
        m = Module()
        words = [Signal(self.shape, name=f"word{k}", reset_less=True) for k in range(self.DEPTH)]
        used, written, read = Signal(self.DEPTH, name="used"), Signal(name="written"), Signal(name="read")
        push = Signal()
        m.d.comb += [
            self.i.ready.eq(~used[1]), self.o.valid.eq(used[0]), push.eq(self.i.valid & self.i.ready),
            Value.cast(self.o.payload).eq(Mux(read, Value.cast(words[1]), Value.cast(words[0]))),
        ]
        pop = used_places(m, used, push, self.o.ready)
        m.d.sync += [written.eq(written ^ push), read.eq(read ^ pop)]
        for k, word in enumerate(words):
            with m.If(push & (written == k)):
                m.d.sync += word.eq(self.i.payload)
        return m
