"""`CreditCounter` lets a unit that cannot stall start only if its output FIFO has room for all results."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Shape, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..vendor.base import Resources
from ..vendor.fitted import fitted


class CreditCounter(wiring.Component):
    """Gives a credit for a block of `take` words if a FIFO of `words` words will have room for it.

    `taken`: a block starts in this cycle.  `given`: the number of words, up to `give`, that leave the FIFO in this
    cycle or will not enter it.  `credit` is a register: it is set if `1 + slack` more blocks may start, with everything
    counted up to the cycle before.  A starter that reads `credit` s cycles before it raises `taken` may start up to s
    blocks on an old value, so it needs `slack` = s.

    A small count that changes by one is a unary register, filled from one end, without a carry chain.
    """

    #: Up to this many words, a counter without a carry chain takes no more logic cells than one with it.
    FEW = 10

    def __init__(self, *, words: int, take: int, slack: int = 0, give: int = 1):
        if words < take * (1 + slack):
            raise ValueError(f"words of a CreditCounter must be at least take * (1 + slack) = {take * (1 + slack)}, "
                             f"not {words}")
        self.words = words
        self.take = take
        self.slack = slack
        self.give = give
        super().__init__({"taken": In(1), "given": In(range(give + 1)), "credit": Out(1)})

    @staticmethod
    def cost(*, words: int, take: int = 1, give: int = 1) -> Resources:
        """LUT and FF estimated."""
        if take == give == 1 and words <= CreditCounter.FEW:
            return fitted("CreditCounter in one-hot bits", words=words)
        return fitted("CreditCounter", bits=words.bit_length() + 1)

    def elaborate(self, platform):
        if self.take == self.give == 1 and self.words <= self.FEW:
            return self.filled()
        m = Module()
        spare = self.words - self.take * (1 + self.slack)
        low = -self.take * (1 + self.slack)
        # The sign bit is the answer.
        count = Signal(Shape.cast(range(low, max(spare, 0) + 1)), init=spare)
        m.d.comb += self.credit.eq(~count[-1])
        step = Signal(Shape.cast(range(-self.take, self.give + 1)))
        with m.If(self.taken):
            m.d.comb += step.eq(self.given - self.take)
        with m.Else():
            m.d.comb += step.eq(self.given)
        m.d.sync += count.eq(count + step)
        return m

    def filled(self) -> Module:
        """Bit k is set if there is room for more than k words."""
        m = Module()
        room = Signal(self.words, init=-1)
        m.d.comb += self.credit.eq(room[self.slack])
        with m.If(self.taken ^ self.given):
            m.d.sync += room.eq(Mux(self.given, Cat(1, room[:-1]), room[1:]))
        return m
