"""`BurstRing`: which places of a memory have the bursts of one stream, and which one is read next."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..stream.credit import CreditCounter
from ..stream.queue import Queue
from ..vendor.base import Resources, Technology
from .ring_shape import RingShape

__all__ = ["BurstRing"]


class BurstRing(wiring.Component):
    """A ring of places for a burst each, in a memory that other rings share.

    A burst is written from the beginning of its place, and read when all of it is there.

    Parameters
    ----------
    shape
        Where it is, and how long bursts are.

    Attributes
    ----------
    room : Out(1)
        There is a place for another burst; counts every `asked` of the cycles before.
    asked : In(1)
        A burst was asked for; its place is taken.
    write_addr : Out
        Where the burst that comes begins.
    came, short : In(1)
        The last piece of a burst is written; it was the last burst of the image.
    there : Out(1)
        A piece can be read, at `read_addr`; from registers.
    step : In(1)
        It is read.  Only with `there`.
    """

    def __init__(self, *, shape: RingShape):
        self.shape = shape
        bits = ceil_log2(shape.end)
        super().__init__({"room": Out(1), "asked": In(1), "write_addr": Out(bits), "came": In(1), "short": In(1),
                          "there": Out(1), "read_addr": Out(bits), "step": In(1)})

    @staticmethod
    def cost(shape: RingShape, technology: Technology | None = None) -> Resources:
        """LUT and FF estimated: two places of the ring, the place in a burst, and what counts bursts."""
        place, inside = ceil_log2(shape.end) - shape.bits, shape.bits
        counters = 2 * place + inside
        return (CreditCounter.cost(words=shape.places) + Queue.cost(width=1, depth=shape.places, technology=technology)
                + Resources(lut=counters + 2 * place + inside // 2 + 2, ff=counters))

    def elaborate(self, platform):
        m = Module()
        shape = self.shape
        # Of each burst that is there, whether it is the last one of the image.
        m.submodules.bursts = bursts = Queue(shape=1, depth=shape.places)
        m.submodules.credit = credit = CreditCounter(words=shape.places, take=1)
        inside, last = Signal(shape.bits), Signal()
        write, read = (self.place(m, name) for name in ("write", "read"))
        is_short = shape.short != shape.burst
        m.d.comb += [
            self.room.eq(credit.credit), credit.taken.eq(self.asked), credit.given.eq(bursts.o.ready),
            bursts.i.valid.eq(self.came), bursts.i.payload.eq(self.short & is_short),
            self.there.eq(bursts.o.valid), bursts.o.ready.eq(self.step & last),
            last.eq(inside == Mux(bursts.o.payload, shape.short - 1, shape.burst - 1)),
            self.write_addr.eq(Cat(inside & 0, write)), self.read_addr.eq(Cat(inside, read))]
        with m.If(self.step):
            m.d.sync += inside.eq(Mux(last, 0, inside + 1))
        self.moved(m, write, self.came)
        self.moved(m, read, bursts.o.ready)
        return m

    def place(self, m: Module, name: str) -> Signal:
        """The number of a place, counted from the beginning of the memory."""
        return Signal(range(self.shape.end >> self.shape.bits), init=self.shape.first, name=name)

    def moved(self, m: Module, place: Signal, step: Signal) -> None:
        with m.If(step):
            m.d.sync += place.eq(Mux(place == self.shape.first + self.shape.places - 1, self.shape.first, place + 1))
