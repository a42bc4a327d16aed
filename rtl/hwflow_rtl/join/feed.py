"""The unit after each input of a join: it gives a word for each word of the output.

An operand of as many words as the output has a `Pair` or a `Queue` of two words; one word for a whole frame has a
`Hold`; the words of one pixel for all pixels have a `Replay`.  The small operand of the next frame may arrive while the
one of this frame is in use.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from amaranth.hdl import Module, Mux, Shape, ShapeLike, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..stream.credit import CreditCounter
from ..stream.pipeline import Nest, adder_luts, delay
from ..stream.queue import Pair, Queue
from ..stream.streams import link
from ..stream.times import Times
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted

#: Latency of a queue of two words.
QUEUE = Queue.latency_of(2)
#: Synthesis makes carry chains of wider counters only.
TABLE_BITS = 4
#: Earlier than anything.
ALWAYS = np.iinfo(np.int64).min // 4


@dataclass(frozen=True)
class Feed:
    """The `words` of a frame are given `repeats` times: all of them in order, then all of them again.

    `paired`: a `Pair` instead of a `Queue`, so that taking a word drives fewer registers.
    """

    words: int
    repeats: int
    technology: Technology
    paired: bool = False

    def unit(self, shape: ShapeLike) -> wiring.Component:
        """With the streams `i` and `o`, of payloads of `shape`."""
        if self.repeats == 1:
            return Pair(shape=shape) if self.paired else Queue(shape=shape, depth=2)
        return Hold(feed=self, shape=shape) if self.words == 1 else Replay(feed=self, shape=shape)

    def cost(self, width: int) -> Resources:
        """The cost of words of `width` bits; RAM exact."""
        if self.repeats == 1:
            return Pair.cost(width=width) if self.paired else Queue.cost(width=width, depth=2)
        if self.words == 1:
            bits = (self.repeats - 1).bit_length() + 1
            return Queue.cost(width=width, depth=2) + fitted("Hold", counter_bits=bits)
        return self.replay_cost(width)

    def replay_cost(self, width: int) -> Resources:
        technology = self.technology
        address, level = ceil_log2(2 * self.words), (2 * self.words).bit_length()
        loops = [Nest.bits((count,)) for count in (self.words, self.repeats)]
        # Two pointers, two levels with a chain up and one down, and the loops; short ones are counted in tables.
        chains = 2 * (address > TABLE_BITS) + 4 * (level > TABLE_BITS) + sum(bits > TABLE_BITS + 1 for bits in loops)
        memory = technology.ram_cost(width=width, depth=1 << address, name="replay")
        queue = Queue.cost(width=width, depth=self.replay_depth)
        credit = CreditCounter.cost(words=self.replay_depth)
        control = fitted("Replay", counter_bits=sum(loops), level_bits=level)
        return memory + queue + credit + control + Resources(
            lut=chains * adder_luts(0, technology), ff=technology.timing.ram)

    @property
    def replay_depth(self) -> int:
        """Words of the queue after the memory: enough that a word passes in every cycle while credits return."""
        ram = self.technology.timing.ram
        return next(depth for depth in range(2, 64) if depth > ram + Queue.latency_of(depth))

    @property
    def latency(self) -> int:
        """Cycles from a word's way in to its way out."""
        if self.repeats == 1 or self.words == 1:
            return QUEUE
        return 1 + self.technology.timing.ram + Queue.latency_of(self.replay_depth)  # written, read, queued

    def earliest(self, arrivals: Times) -> Times:
        """When each word that is given could be there, for words that arrive like this; in order they are later."""
        if self.repeats == 1:
            return arrivals + self.latency
        times = np.full((len(arrivals) // self.words, self.repeats, self.words), ALWAYS, np.int64)
        times[:, 0] = (arrivals + self.latency).reshape(-1, self.words)
        return times.reshape(-1)

    def taken(self, arrivals: Times, leaving: Times) -> Times:
        """Tell when each arriving word is taken, if those that are given leave at `leaving`."""
        if self.words > 1 and self.repeats > 1:
            return self.replay_taken(arrivals, leaving)
        gone = leaving[self.repeats - 1::self.repeats]  # one word: it leaves when it is given for the last time
        taken: Times = arrivals.copy()
        taken[2:] = np.maximum(taken[2:], gone[:-2] + 1)
        return taken

    def replay_taken(self, arrivals: Times, leaving: Times) -> Times:
        words, repeats, depth = self.words, self.repeats, self.replay_depth
        credit = np.full(len(leaving), ALWAYS, np.int64)
        credit[depth:] = leaving[:-depth] + 1 if len(leaving) > depth else []
        frames = len(arrivals) // words
        taken = arrivals.reshape(frames, words).copy()
        reads = np.empty((frames, repeats * words), np.int64)
        order = np.arange(repeats * words)
        last = ALWAYS
        for n in range(frames):
            if n >= 2:
                taken[n] = np.maximum(taken[n], reads[n - 2, -words:] + 1)
            taken[n] = np.maximum.accumulate(taken[n] - order[:words]) + order[:words]
            earliest = credit.reshape(frames, -1)[n].copy()
            earliest[:words] = np.maximum(earliest[:words], taken[n] + 1)
            earliest[0] = max(int(earliest[0]), last + 1)
            reads[n] = np.maximum.accumulate(earliest - order) + order
            last = int(reads[n, -1])
        return taken.reshape(-1)


class Hold(wiring.Component):
    """Every word of `i` is given `repeats` times; the next word may wait meanwhile.

    Latency 1; a word in every cycle.
    """

    def __init__(self, *, feed: Feed, shape: ShapeLike):
        self.shape = shape
        self.repeats = feed.repeats
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = Queue(shape=self.shape, depth=2)
        link(m, wiring.flipped(self.i), queue.i)
        repeats = Nest(m, [self.repeats], name="repeats")
        repeats.advance(queue.o.valid & self.o.ready)
        m.d.comb += [
            self.o.valid.eq(queue.o.valid), self.o.payload.eq(queue.o.payload),
            queue.o.ready.eq(self.o.ready & repeats.last[0]),
        ]
        return m


class Replay(wiring.Component):
    """`words` words of `i` are given one after the other, `repeats` times, 2 or more; then the next `words`.

    A ring has room for twice as many; a place is free again when its word is read for the last time.  A word can be
    read as soon as it is there: the first words do not wait for the others.

    `feed.technology` makes the memory.  Latency `Feed.latency`; a word in every cycle.
    """

    def __init__(self, *, feed: Feed, shape: ShapeLike):
        self.shape = shape
        self.words, self.repeats, self.technology = feed.words, feed.repeats, feed.technology
        self.depth = feed.replay_depth
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform):
        m = Module()
        depth, places = self.depth, 1 << ceil_log2(2 * self.words)
        m.submodules.ring = ring = self.technology.ram(
            width=Shape.cast(self.shape).width, depth=places, name="replay")
        m.submodules.queue = queue = Queue(shape=self.shape, depth=depth)
        m.submodules.credit = credit = CreditCounter(words=depth, take=1)
        loops = Nest(m, [self.words, self.repeats], name="replay")
        last_word, last_time = loops.last
        first_time, some = Signal(init=1, name="first_time"), Signal(name="some")
        push, read, fresh_read = Signal(name="push"), Signal(name="read"), Signal(name="fresh_read")
        release = Signal()
        m.d.comb += [
            push.eq(self.i.valid & self.i.ready), read.eq(credit.credit & (some | ~first_time)),
            fresh_read.eq(read & first_time), release.eq(read & last_time),
            ring.write_en.eq(push), ring.write_data.eq(Value.cast(self.i.payload)),
            credit.taken.eq(read), credit.given.eq(queue.o.valid & queue.o.ready),
            queue.i.valid.eq(delay(m, read, self.technology.timing.ram, "read_valid", reset_less=False)),
            Value.cast(queue.i.payload).eq(ring.read_data),
        ]
        loops.advance(read)
        with m.If(read & last_word):
            m.d.sync += first_time.eq(last_time)
        # The pointers run on for ever; a place's number is their low bits.
        write, place = Signal(range(places), name="write"), Signal(range(places), name="place")
        m.d.comb += [ring.write_addr.eq(write), ring.read_addr.eq(place)]
        m.d.sync += write.eq(write + push)
        with m.If(read):
            m.d.sync += place.eq(place + Mux(last_word & ~last_time, 1 - self.words, 1))
        self.count(m, push, fresh_read, some)
        room = Signal()
        self.count(m, release, push, room, init=2 * self.words)
        m.d.comb += self.i.ready.eq(room)
        link(m, queue.o, wiring.flipped(self.o))
        return m

    def count(self, m: Module, up: Value, down: Value, some: Signal, init: int = 0) -> None:
        """Counts up and down; `some`, a register, says that the count is not 0."""
        count = Signal(range(2 * self.words + 1), init=init, name=f"{some.name}_count")
        some_register = Signal(init=init > 0, name=f"{some.name}_register")
        m.d.comb += some.eq(some_register)
        with m.If(up & ~down):
            m.d.sync += [count.eq(count + 1), some_register.eq(1)]
        with m.If(down & ~up):
            m.d.sync += [count.eq(count - 1), some_register.eq(count != 1)]
