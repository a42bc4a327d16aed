"""The choice of a queue's memory by its cost: RAM blocks, or a memory with a single port, two words in a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Shape, ShapeLike, Signal, Value, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..vendor.base import Resources, Technology, price
from ..vendor.blocks import DEEPEST_TABLE
from ..vendor.fitted import fitted
from ..vendor.memory import Place
from .credit import CreditCounter
from .deep_queue import DeepQueue, pointer
from .pipeline import delay
from .queue import Count, Queue

# A queue in a memory with a single port, such as the SPRAM of an iCE40 UltraPlus, with two words in a row.


class Front(Queue):
    """The last words before the output of a FIFO in SPRAM: a shift register of more words than that of a `Queue`.
    Latency 1."""

    SHIFT_DEPTH = 9

    @staticmethod
    def cost(*, width: int, depth: int, technology: Technology | None = None) -> Resources:
        """Estimated."""
        return fitted("PairedQueue front", words=depth) + Resources(lut=(depth - 1) * width, ff=depth * (width + 1))


class PairedQueue(wiring.Component):
    """A first-in first-out buffer of `depth` words in a `SinglePortRam` that takes and gives a word in every cycle.

        i ─▶ delay line ─▶ RAM, a ring of rows of two words ─▶ row ─▶ shift register of `FRONT` words ─▶ o

    Reads have every other cycle, writes the cycles between.  Let a word enter in cycle t.  If t is a write cycle, it is
    written at t + 2.  If not, it is written at t + 1 as the second word of its row, or at t + 3 as the first.  First
    and second words alternate.  So two words that share a write cycle are a first word and the second word that
    directly follows it, in one row.  Hence writes never stall, and a word may be read in the first read cycle from t +
    3 on.  A read takes the words of a row that are written and have not been read.

    The parity of the cycle and the place in the row change the latency of the memory.  The output compensates this: it
    shows each word `LATENCY` cycles after its entry.

    Parameters
    ----------
    shape
        Of the payload of both streams.
    depth
        Exactly the number of words that can enter before the first leaves; at least `LEAST_DEPTH`.
    technology
        Makes the RAM.

    Latency `LATENCY`; initiation interval 1.  `level` is the number of words inside.
    """

    #: From entry to exit: a word is read at most 5 cycles after its entry, and is at the output 3 cycles later; if it
    #: is the second of two read at once, 4 later, but then it is read a cycle earlier.
    LATENCY = 8
    #: Words of the shift register for one word a cycle: those that enter while one moves from its read to the output
    #: and the place of another becomes free.
    FRONT = 9
    #: Words that are inside when one comes in every cycle, and more.
    LEAST_DEPTH = 16

    def __init__(self, *, shape: ShapeLike, depth: int, technology: Technology):
        if depth < self.LEAST_DEPTH:
            raise ValueError(f"depth of a PairedQueue must be at least {self.LEAST_DEPTH}, not {depth}; take a Queue")
        self.shape = shape
        self.depth = depth
        self.technology = technology
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)),
                          "level": Out(range(depth + 1))})

    @property
    def latency(self) -> int:
        return self.LATENCY

    @property
    def capacity(self) -> int:
        return self.depth

    @staticmethod
    def cost(*, width: int, depth: int, technology: Technology) -> Resources:
        """The cost of words of `width` bits: LUT and FF estimated, RAM exact; ValueError where the family has no such
        RAM."""
        rows = -(-depth // 2)
        places, count = ceil_log2(rows), ceil_log2(depth + 1)
        return (technology.single_port_ram_cost(width=width, depth=rows)
                + Front.cost(width=width, depth=PairedQueue.FRONT)
                + CreditCounter.cost(words=PairedQueue.FRONT, take=2, give=2)
                + fitted("PairedQueue", address_bits=places, level_bits=count, word_bits=width))

    def elaborate(self, platform):
        m = Module()
        rows = -(-self.depth // 2)
        m.submodules.ram = ram = self.technology.single_port_ram(width=Shape.cast(self.shape).width, depth=rows)
        m.submodules.front = front = Front(shape=self.shape, depth=self.FRONT)
        push, pop = Signal(name="push"), Signal(name="pop")
        writes, shown = Signal(name="writes"), Signal(name="shown")
        write_row, read_row = Signal(range(rows), name="write_row"), Signal(range(rows), name="read_row")
        came = [push]  # n cycles ago
        for n in range(1, self.LATENCY):
            came.append(delay(m, came[-1], 1, f"came{n}", reset_less=False))
        m.d.sync += writes.eq(~writes)
        m.d.comb += [
            push.eq(self.i.valid & self.i.ready), pop.eq(self.o.valid & self.o.ready),
            ram.addr.eq(Mux(writes, write_row, read_row)),
            self.o.payload.eq(front.o.payload), self.o.valid.eq(shown & front.o.valid),
            front.o.ready.eq(shown & self.o.ready),
        ]
        self.write(m, ram, push, writes, write_row)
        self.read(m, ram, front, came[2], pop, writes, read_row)
        space = Signal(init=1)
        m.d.comb += self.i.ready.eq(space)
        inside = Count(m, push, pop, self.depth, "inside")
        with m.If(push & ~pop):
            m.d.sync += space.eq(~inside.is_(self.depth - 1))
        with m.If(pop & ~push):
            m.d.sync += space.eq(1)
        m.d.comb += self.level.eq(inside.value)
        due = Count(m, came[-1], pop, self.depth, "due")  # entered so long ago that the output may show them
        with m.If(came[-1] & ~pop):
            m.d.sync += shown.eq(1)
        with m.If(pop & ~came[-1]):
            m.d.sync += shown.eq(~due.is_(1))
        return m

    def write(self, m: Module, ram: Any, push: Value, writes: Signal, row: Signal) -> None:
        """Words of one row from the delay line into the RAM, in cycles of writes."""
        odd = Signal()  # the next word that comes is the second of its row
        with m.If(push):
            m.d.sync += odd.eq(~odd)
        firsts, seconds, words = [push & ~odd], [push & odd], [Value.cast(self.i.payload)]
        for n in range(1, 4):
            firsts.append(delay(m, firsts[-1], 1, f"first{n}", reset_less=False))
            seconds.append(delay(m, seconds[-1], 1, f"second{n}", reset_less=False))
            words.append(delay(m, words[-1], 1, f"word{n}"))
        enable = Cat(firsts[3] | firsts[2], seconds[2] | seconds[1]) & writes.replicate(2)
        m.d.comb += [ram.write_en.eq(enable),
                     ram.data_in.eq(Cat(Mux(firsts[3], words[3], words[2]), Mux(seconds[2], words[2], words[1])))]
        pointer(m, row, enable[1], -(-self.depth // 2), "write")

    def read(self, m: Module, ram: Any, front: Front, came: Value, pop: Value, writes: Signal, row: Signal) -> None:
        """Rows from the RAM into the front.  `came`: a word may be read from the next cycle on."""
        m.submodules.credit = credit = CreditCounter(words=self.FRONT, take=2, give=2)
        beyond = Signal(Shape.cast(range(-1, self.depth)), init=-1)  # words that may be read, less one
        some, several = Signal(name="some"), Signal(name="several")  # in cycles of reads: there is one; there are two
        odd = Signal()  # the next one to read is the second of its row
        take, both = Signal(name="take"), Signal(name="both")
        step = Signal(signed(3))
        m.d.comb += [take.eq(some & credit.credit), both.eq(take & several & ~odd), step.eq(came - take - both)]
        m.d.sync += [
            some.eq(writes & (~beyond[-1] | came)),
            several.eq(writes & ~beyond[-1] & (came | beyond[:-1].any())),
            beyond.eq(beyond + step),
        ]
        with m.If(take & ~both):
            m.d.sync += odd.eq(~odd)
        pointer(m, row, both | (take & odd), -(-self.depth // 2), "read")

        at_ram, was_odd = delay(m, take, 1, "at_ram", reset_less=False), delay(m, odd, 1, "was_odd")
        two = delay(m, both, 1, "two", reset_less=False)
        another = delay(m, two, 1, "another", reset_less=False)
        given, there = Signal(range(3), name="given"), Signal(name="there")
        word, other = Signal(ram.width, name="word"), Signal(ram.width, name="other")
        low, high = ram.data_out[:ram.width], ram.data_out[ram.width:]
        m.d.sync += [
            given.eq(pop + (at_ram & ~two)), there.eq(at_ram | another), other.eq(high),
            word.eq(Mux(another, other, Mux(was_odd, high, low))),
        ]
        m.d.comb += [
            credit.taken.eq(take), credit.given.eq(given),
            front.i.valid.eq(there), Value.cast(front.i.payload).eq(word),
        ]


class QueueChoice:
    """A queue of at least `depth` words of `width` bits: its memory, its latency and its cost.

    It is in RAM blocks if the blocks are worth less than the tables that they save (`vendor.price`), or if tables would
    be so deep that they limit the clock; never without a technology.  With `spram` it is in single-port RAMs, if it is
    deep enough for one.  A device has few of these, so `chosen_for_spram` decides for all queues of a design together.
    """

    def __init__(self, *, width: int, depth: int, technology: Technology | None, spram: bool = False):
        self.width = width
        self.depth = depth
        self.technology = technology
        self.in_spram = spram and technology is not None and depth >= PairedQueue.LEAST_DEPTH
        self.in_blocks = False
        if self.in_spram:
            assert technology is not None
            self.cost = PairedQueue.cost(width=width, depth=depth, technology=technology)
            return
        self.cost = Queue.cost(width=width, depth=depth, technology=technology)
        if technology is not None and depth >= DeepQueue.least_depth(technology):
            deep = DeepQueue.cost(width=width, depth=depth, technology=technology)
            if depth > DEEPEST_TABLE or price(deep) < price(self.cost):
                self.in_blocks, self.cost = True, deep

    @property
    def memory(self) -> Place:
        """The memory of most of its words.  A family without memories in tables uses RAM blocks instead."""
        if self.in_spram:
            return Place.SPRAM
        return Place.BLOCKS if self.cost.ram else Place.TABLES

    @property
    def latency(self) -> int:
        if self.in_spram:
            return PairedQueue.LATENCY
        return DeepQueue.latency_of(self.technology) if self.in_blocks else Queue.latency_of(self.depth)

    @property
    def capacity(self) -> int:
        """Words that can enter before the first leaves."""
        exact = self.in_spram or self.in_blocks or self.depth <= Queue.SHIFT_DEPTH
        return self.depth if exact else self.depth + 1


def make_queue(*, shape: ShapeLike, depth: int, technology: Technology | None,
               spram: bool = False) -> Queue | DeepQueue | PairedQueue:
    """The queue of `QueueChoice`."""
    choice = QueueChoice(width=Shape.cast(shape).width, depth=depth, technology=technology, spram=spram)
    if choice.in_spram or choice.in_blocks:
        assert technology is not None
        kind = PairedQueue if choice.in_spram else DeepQueue
        return kind(shape=shape, depth=depth, technology=technology)
    return Queue(shape=shape, depth=depth, technology=technology)


def chosen_for_spram(queues: Sequence[tuple[int, int]], technology: Technology, free: int) -> tuple[bool, ...]:
    """For each queue, given as width and depth, whether it is in SPRAM, if `free` SPRAMs are available.

    A queue moves to SPRAM if the RAM blocks that it frees are worth more than the logic cells that it costs.  Queues
    that gain most for an SPRAM come first; of equal ones the first in the list.
    """
    offers = []
    for k, (width, depth) in enumerate(queues):
        if free and depth >= PairedQueue.LEAST_DEPTH:
            before, after = (QueueChoice(width=width, depth=depth, technology=technology, spram=spram).cost
                             for spram in (False, True))
            cells = technology.placed(after).lut - technology.placed(before).lut
            worth = (before.ram - after.ram) * technology.cells_for_a_ram_block - cells
            if worth > 0:
                offers.append((-worth / after.spram, k, after.spram))
    taken = set()
    for _, k, spram in sorted(offers):
        if spram <= free:
            taken.add(k)
            free -= spram
    return tuple(k in taken for k in range(len(queues)))
