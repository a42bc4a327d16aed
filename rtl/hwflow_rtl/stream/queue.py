"""`Queue`, the FIFO of all units: a shift register or a memory.  A word can enter and one can leave in every cycle.

`Pair` holds two words and breaks a long path of `ready`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Module, Mux, ShapeLike, Signal, Value, signed
from amaranth.lib import memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from ..vendor.memory import Holds
from .pipeline import adder_luts, flip_flops


class Queue(wiring.Component):
    """A first-in first-out buffer that takes and gives a word in every cycle.

    Parameters
    ----------
    shape
        Of the payload of both streams.
    depth
        Words it holds, at least 2.  Up to `SHIFT_DEPTH` words are in a shift register.  A deeper queue is a memory with
        an output register, which holds one more word.
    technology
        Decides whether the memory is in tables, or, on a family without such memories, in RAM blocks whose output
        register is that of the queue.  With None the synthesis tool decides.  The behaviour is the same in every case.

    `level` is the number of words inside; if it is not connected, it costs nothing.

    Latency 1 cycle (shift register) or 2 (memory); initiation interval 1.
    """

    SHIFT_DEPTH = 4

    def __init__(self, *, shape: ShapeLike, depth: int, technology: Technology | None = None):
        if depth < 2:
            raise ValueError(f"depth of a Queue must be at least 2, not {depth}: a single register passes a word only "
                             f"every other cycle")
        self.shape = shape
        self.depth = depth
        self.technology = technology
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)),
                          "level": Out(range(self.capacity + 1))})

    @property
    def latency(self) -> int:
        return self.latency_of(self.depth)

    @staticmethod
    def latency_of(depth: int) -> int:
        """Cycles from the entry of a word to its exit."""
        return 1 if depth <= Queue.SHIFT_DEPTH else 2

    @property
    def capacity(self) -> int:
        """Words that can enter before the first leaves."""
        return self.capacity_of(self.depth)

    @staticmethod
    def capacity_of(depth: int) -> int:
        """The capacity of a queue of `depth` words."""
        return depth if depth <= Queue.SHIFT_DEPTH else depth + 1

    @staticmethod
    def cost(*, width: int, depth: int, technology: Technology | None = None) -> Resources:
        """The cost of words of `width` bits: LUT and FF estimated; RAM exact, and 0 without a technology."""
        if depth <= Queue.SHIFT_DEPTH:
            return (Resources(lut=(depth - 1) * width) + fitted("Queue in registers", words=depth)
                    + flip_flops(depth * (width + 1), width, technology))
        count = ceil_log2(depth + 1)
        if technology is not None and not has_tables(technology):
            # A block has a latency: a register keeps a word that is written meanwhile.
            ram = technology.ram_cost(width=width, depth=1 << ceil_log2(depth), name="queue", holds=Holds.QUEUE)
            control = fitted("Queue in blocks", level_bits=count)
            return (Resources(lut=control.lut + width, ram=ram.ram, memories=ram.memories)
                    + flip_flops(control.ff + 2 * width, 2 * width + 8, technology))
        # Up to four bits are counted in tables, more in carry chains.
        chains = 4 * adder_luts(0, technology) if technology is not None and count > 4 else 0
        blocks = -(-(1 << ceil_log2(depth)) // 16)
        # A TRELLIS_DPR16X4 takes four tables and a write slice.
        table = 6 if technology is None else technology.ram_cost(width=4, depth=16).lut
        return fitted("Queue in tables", level_bits=count) + Resources(
            lut=chains + blocks * -(-width // 4) * table + (blocks - 1) * width, ff=width)

    @staticmethod
    def model(beats: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return beats

    def elaborate(self, platform):
        return self.shift_register() if self.depth <= self.SHIFT_DEPTH else self.ring()

    def shift_register(self) -> Module:
        """Word k is in use where `used[k]` is set; a word enters at the first free place."""
        m = Module()
        used = Signal(self.depth)
        words = [Signal(self.shape, name=f"word{k}", reset_less=True) for k in range(self.depth)]
        m.d.comb += [
            self.i.ready.eq(~used[-1]), self.o.valid.eq(used[0]), self.o.payload.eq(words[0]),
            self.level.eq(sum(used)),
        ]
        pop = used_places(m, used, self.i.valid & self.i.ready, self.o.ready)
        for k, word in enumerate(words[:-1]):
            with m.If(~used[k] | pop):  # a free place may load any word
                m.d.sync += word.eq(self.i.payload)
                with m.If(used[k + 1]):
                    m.d.sync += word.eq(words[k + 1])
        with m.If(~used[-1]):  # no word enters while it is in use: its enable does not depend on the reader
            m.d.sync += words[-1].eq(self.i.payload)
        return m

    def ring(self) -> Module:
        """A `Count` of the words in the memory; `some` and `self.i.ready` are its comparisons, one cycle ahead.

        They are written out for the same reason as in `used_places`.  `remain` is kept, so that a reader that is late
        enters the last table before `some`, and not the first.
        """
        m = Module()
        places = 1 << ceil_log2(self.depth)
        style = {} if self.technology is None else {
            "ram_style": "distributed" if has_tables(self.technology) else "block"}
        m.submodules.ring = ring = memory.Memory(shape=self.shape, depth=places, init=[], attrs=style)
        write, read = ring.write_port(), ring.read_port(domain="comb")
        some, space = Signal(name="some"), Signal(init=1)
        word, full = Signal(self.shape, reset_less=True, name="word"), Signal(name="full")
        push, pull = Signal(name="push"), Signal(name="pull")
        stored = Count(m, push, pull, self.depth, "stored")
        remain = Signal(name="remain", attrs={"keep": 1})
        m.d.comb += [
            remain.eq(push | (some & ~stored.is_(1))),
            self.i.ready.eq(space), self.o.valid.eq(full), self.o.payload.eq(word),
            push.eq(self.i.valid & space), pull.eq(some & (~full | self.o.ready)),
            write.en.eq(push), write.data.eq(self.i.payload), self.level.eq(stored.value + full),
        ]
        m.d.sync += [
            full.eq(pull | (full & ~self.o.ready)),
            some.eq(remain | (some & full & ~self.o.ready)),
            space.eq(pull | (space & ~(self.i.valid & stored.is_(self.depth - 1)))),
        ]
        with m.If(push):
            m.d.sync += write.addr.eq(write.addr + 1)
        with m.If(pull):
            m.d.sync += [read.addr.eq(read.addr + 1), word.eq(read.data)]
        return m


class Count:
    """How many words are inside, from 0 to `most`: one more for each `up`, one less for each `down`.

    The register `before` is one cycle behind and `came` and `left` are what it lacks, so a long path to `up` or `down`
    ends in a register and not in a carry chain.  One adder counts in both directions.
    """

    def __init__(self, m: Module, up: Value, down: Value, most: int, name: str):
        self.before = Signal(range(most + 1), name=name)
        self.came, self.left = Signal(name=f"{name}_came"), Signal(name=f"{name}_left")
        self.step = Signal(signed(2), name=f"{name}_step")
        m.d.comb += self.step.eq(Cat(self.came ^ self.left, self.left & ~self.came))
        m.d.sync += [self.before.eq(self.before + self.step), self.came.eq(up), self.left.eq(down)]

    @property
    def value(self) -> Value:
        return self.before + self.step

    def is_(self, count: int) -> Value:
        """Whether so many are inside; no adder is in front of the comparison."""
        changed = Mux(self.came, self.before == count - 1, self.before == count + 1)
        return Mux(self.came ^ self.left, changed, self.before == count)


def used_places(m: Module, used: Signal, push: Value, ready: Value) -> Signal:
    """Drives `used`, a unary count of the words: one more bit for each `push`, one less if bit 0 and `ready` are set.

    Returns that last condition.  The next value of each bit is written as an expression.  With `m.If`, synthesis makes
    tables for enable and reset, which lie in a chain between `ready`, which arrives late, and the register.
    """
    pop = Signal(name="pop")
    m.d.comb += pop.eq(used[0] & ready)
    below, above = Cat(1, used[:-1]), Cat(used[1:], 0)
    stays, enters = push | ~pop, push & ~pop
    m.d.sync += used.eq(above | (used & stays.replicate(len(used))) | (below & enters.replicate(len(used))))
    return pop


def has_tables(technology: Technology) -> bool:
    """Whether the family can make a small memory without a RAM block."""
    return technology.ram_cost(width=4, depth=16).ram == 0


# A FIFO of two words whose `o.ready` may have a long path.


class Pair(wiring.Component):
    """A FIFO of two words that are written and read in turns.  Latency 1; a word in every cycle.

    An incoming word is written to either place without a multiplexer, so synthesis does not duplicate the logic before
    it, as it does before a shift register.  An outgoing word passes one multiplexer.  `i.valid` and `o.ready` drive
    a few registers and no word.
    """

    DEPTH = 2

    def __init__(self, *, shape: ShapeLike):
        self.shape = shape
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    @staticmethod
    def cost(*, width: int) -> Resources:
        """The cost of words of `width` bits, estimated."""
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
            with m.If(self.i.ready & (written == k)):  # also while it is not valid: the place is free
                m.d.sync += word.eq(self.i.payload)
        return m
