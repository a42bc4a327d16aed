"""`WeightReader`: an image in memory as a stream of words, burst by burst, from front to back, again and again."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, ResetInserter, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..stream.credit import CreditCounter
from ..stream.queue_choice import QueueChoice, make_queue
from ..vendor.base import Resources, Technology
from .part import MemoryPart, request_of

__all__ = ["WeightReader"]


class WeightReader(wiring.Component):
    """Asks for a burst only when its own queue has room for all of it, so what it asked for it takes at once.

    It reads ahead, over ends of frames too.

    Parameters
    ----------
    part
        The memory.
    first, words
        Address and length of the image.
    burst
        Words that it asks for at once; the last burst of an image may be shorter.
    depth
        Words of the queue; with 0 it has none, and takes words as `o` is ready.  Then it must be alone at the memory.
    technology
        Makes the queue.

    Attributes
    ----------
    enable : In(1)
        The image is in the memory; must stay high until `restart`.
    restart : In(1)
        Begins with the first word of the image again; the same signal as the controller's.
    request : Out(stream of `request_of(part)`)
    read, o : streams of words, or of their pieces
        What was asked for; what was read.
    """

    def __init__(self, *, part: MemoryPart, first: int, words: int, burst: int, depth: int = 0,
                 technology: Technology | None = None):
        if depth and part.piece < part.width:
            raise ValueError(f"depth of a WeightReader must be 0 at a memory that gives pieces of words, not {depth}")
        if depth and depth < burst:
            raise ValueError(f"depth of the queue of a WeightReader must be at least {burst}, the words of a burst, "
                             f"not {depth}")
        self.first, self.words, self.burst = first, words, burst
        self.width, self.depth, self.technology = part.piece, depth, technology
        super().__init__({
            "enable": In(1), "restart": In(1), "request": Out(stream.Signature(request_of(part))),
            "read": In(stream.Signature(part.piece)), "o": Out(stream.Signature(part.piece))})

    @property
    def turns(self) -> int:
        """Bursts of the image."""
        return -(-self.words // self.burst)

    @property
    def spared(self) -> int:
        """Words by which the last burst is shorter."""
        return self.turns * self.burst - self.words

    @property
    def capacity(self) -> int:
        """Words that may be in the queue and on their way to it."""
        return self.choice.capacity

    @property
    def choice(self) -> QueueChoice:
        return QueueChoice(width=self.width, depth=self.depth, technology=self.technology)

    @staticmethod
    def cost(*, part: MemoryPart, first: int, words: int, burst: int, depth: int = 0,
             technology: Technology | None = None) -> Resources:
        """LUT and FF estimated, RAM exact: the queue, its credit, two addresses, and the bursts that are left."""
        turns = -(-words // burst)
        walk = 2 * ceil_log2(first + words) + ceil_log2(turns) if turns > 1 else 0
        queue = Resources()
        if depth:
            choice = QueueChoice(width=part.width, depth=depth, technology=technology)
            queue = choice.cost.within("words") + CreditCounter.cost(
                words=choice.capacity, take=burst, give=1 + turns * burst - words)
        return queue + Resources(lut=2 * walk, ff=walk)

    def elaborate(self, platform):
        m = Module()
        last_burst = self.requests(m)
        credit = self.queued(m, last_burst) if self.depth else 1
        if not self.depth:
            wiring.connect(m, wiring.flipped(self.read), wiring.flipped(self.o))
        m.d.comb += self.request.valid.eq(self.enable & ~self.restart & credit)
        return m

    def requests(self, m: Module):
        """Drives the addresses of the next burst; high where it is the last one of the image."""
        end = self.first + self.words - 1
        asked = self.request.payload
        m.d.comb += asked.write.eq(0)
        if self.turns == 1:
            m.d.comb += [asked.first.eq(self.first), asked.last.eq(end)]
            return 1
        begin = Signal.like(asked.first, init=self.first, name="begin")
        stop = Signal.like(asked.last, init=self.first + self.burst - 1, name="stop")
        left = Signal(range(self.turns), init=self.turns - 1)
        m.d.comb += [asked.first.eq(begin), asked.last.eq(stop)]
        with m.If(self.request.valid & self.request.ready):
            m.d.sync += [left.eq(left - 1), begin.eq(begin + self.burst),
                         stop.eq(Mux(left == 1, end, stop + self.burst))]
        with m.If(self.restart | (self.request.valid & self.request.ready & (left == 0))):
            m.d.sync += [left.eq(left.init), begin.eq(begin.init), stop.eq(stop.init)]
        return left == 0

    def queued(self, m: Module, last_burst) -> Signal:
        """A queue between `read` and `o`; high where it has room for a burst besides what is on its way."""
        queue = make_queue(shape=self.width, depth=self.depth, technology=self.technology)
        credit = CreditCounter(words=self.capacity, take=self.burst, give=1 + self.spared)
        m.submodules.queue, m.submodules.credit = (ResetInserter(self.restart)(each) for each in (queue, credit))
        wiring.connect(m, wiring.flipped(self.read), queue.i)
        wiring.connect(m, queue.o, wiring.flipped(self.o))
        taken = self.request.valid & self.request.ready
        m.d.comb += [
            credit.taken.eq(taken),
            credit.given.eq((self.o.valid & self.o.ready) + Mux(taken & last_burst, self.spared, 0))]
        return credit.credit
