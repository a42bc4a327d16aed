"""Queues in RAM blocks."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Shape, ShapeLike, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from ..vendor.memory import Holds
from .credit import CreditCounter
from .pipeline import delay
from .queue import Count, Queue
from .streams import link


class DeepQueue(wiring.Component):
    """A first-in first-out buffer of `depth` words in RAM blocks that takes and gives a word in every cycle.

        i ─▶ RAM, a ring of depth - front words ─▶ shift register of `front` words ─▶ o

    The RAM is read ahead: a word is read as soon as the shift register has a place for it, words still on their way
    included.  So the RAM never stalls.  Ready at the input and valid at the output are registers.

    Parameters
    ----------
    shape
        Of the payload of both streams.
    depth
        Exactly the number of words that can enter before the first leaves; at least `least_depth`.
    technology
        Makes the RAM.

    Latency `latency_of(technology)`; initiation interval 1.  `level` is the number of words inside.
    """

    def __init__(self, *, shape: ShapeLike, depth: int, technology: Technology):
        if depth < self.least_depth(technology):
            raise ValueError(f"depth of a DeepQueue must be at least {self.least_depth(technology)}, not {depth}; take "
                             f"a Queue")
        self.shape = shape
        self.depth = depth
        self.technology = technology
        self.front = self.front_of(technology)
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)),
                          "level": Out(range(depth + 1))})

    @staticmethod
    def front_of(technology: Technology) -> int:
        """Words of the shift register for one word a cycle: latency of RAM and register, and one for a free place."""
        return next(words for words in range(2, 64) if words >= technology.timing.ram + Queue.latency_of(words) + 1)

    @staticmethod
    def least_depth(technology: Technology) -> int:
        return DeepQueue.front_of(technology) + 2

    @staticmethod
    def latency_of(technology: Technology) -> int:
        """Cycles from the entry of a word to its exit: write, read, shift register."""
        return 1 + technology.timing.ram + Queue.latency_of(DeepQueue.front_of(technology))

    @property
    def latency(self) -> int:
        return self.latency_of(self.technology)

    @property
    def capacity(self) -> int:
        return self.depth

    @staticmethod
    def cost(*, width: int, depth: int, technology: Technology) -> Resources:
        """The cost of words of `width` bits: LUT and FF estimated, RAM exact."""
        front = DeepQueue.front_of(technology)
        count = ceil_log2(depth - front + 1)
        return (technology.ram_cost(width=width, depth=depth - front, name="queue", holds=Holds.QUEUE)
                + Queue.cost(width=width, depth=front) + CreditCounter.cost(words=front)
                + fitted("DeepQueue", level_bits=count) + Resources(ff=technology.timing.ram))

    def elaborate(self, platform):
        m = Module()
        places, width = self.depth - self.front, Shape.cast(self.shape).width
        m.submodules.ram = ram = self.technology.ram(width=width, depth=places, name="queue")
        m.submodules.front = front = Queue(shape=self.shape, depth=self.front)
        m.submodules.credit = credit = CreditCounter(words=self.front, take=1)
        push, pull = Signal(name="push"), Signal(name="pull")
        some, space = Signal(name="some"), Signal(name="space", init=1)
        stored = Count(m, push, pull, places, "stored")
        read = [pull]
        for n in range(self.technology.timing.ram):
            read.append(delay(m, read[-1], 1, f"read{n}", reset_less=False))
        m.d.comb += [
            self.i.ready.eq(space), push.eq(self.i.valid & space), pull.eq(some & credit.credit),
            ram.write_en.eq(push), ram.write_data.eq(Value.cast(self.i.payload)),
            credit.taken.eq(pull), credit.given.eq(front.o.valid & front.o.ready),
            front.i.valid.eq(read[-1]), Value.cast(front.i.payload).eq(ram.read_data),
            self.level.eq(stored.value + sum(read[1:]) + front.level),
        ]
        pointer(m, ram.write_addr, push, places, "write")
        pointer(m, ram.read_addr, pull, places, "read")
        with m.If(push & ~pull):
            m.d.sync += [some.eq(1), space.eq(~stored.is_(places - 1))]
        with m.If(pull & ~push):
            m.d.sync += [some.eq(~stored.is_(1)), space.eq(1)]
        link(m, front.o, wiring.flipped(self.o))
        return m


def pointer(m: Module, address: Signal, step: Value, places: int, name: str) -> None:
    """Moves `address` round the `places`, one for each `step`.  A register says that it is at the last."""
    here, last = Signal(range(places), name=f"{name}_here"), Signal(name=f"{name}_last")
    m.d.comb += address.eq(here)
    with m.If(step):
        m.d.sync += [here.eq(Mux(last, 0, here + 1)), last.eq(here == places - 2)]
