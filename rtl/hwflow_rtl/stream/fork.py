"""`Fork` copies a stream to several readers.  Each reader has a FIFO; a word enters all FIFOs in the same cycle."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, ShapeLike
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from .queue import Queue
from .queue_choice import QueueChoice, make_queue
from .streams import link
from .times import Times


class Fork(wiring.Component):
    """Copies each word of `i` to every output `o0`, `o1`, ...

    Parameters
    ----------
    shape
        Of the payloads.
    depths
        Depth of each reader's FIFO, at least `LEAST_DEPTH`: how many words it may be behind the fastest reader.
    technology
        Makes the deep FIFOs.
    spram
        For each reader, whether its FIFO is in SPRAM; None: no FIFO is.

    Every `ready` that the input waits for is a register of a FIFO, so there is no combinational path between readers.
    `QueueChoice` chooses the memory of each FIFO.  Latency of each output: that of its FIFO; initiation interval 1.
    """

    LEAST_DEPTH = 2

    def __init__(self, *, shape: ShapeLike, depths: Sequence[int], technology: Technology | None = None,
                 spram: Sequence[bool] | None = None):
        if not depths:
            raise ValueError("depths of a Fork must be at least one, not none")
        self.queues = [make_queue(shape=shape, depth=self.depth_of(depth), technology=technology, spram=each)
                       for depth, each in zip(depths, spram or [False] * len(depths), strict=True)]
        ports = {f"o{k}": Out(stream.Signature(shape)) for k in range(len(depths))}
        super().__init__({"i": In(stream.Signature(shape)), **ports})

    @staticmethod
    def depth_of(depth: int) -> int:
        """Words of a FIFO that must hold `depth`."""
        return max(Fork.LEAST_DEPTH, depth)

    @staticmethod
    def choice(*, width: int, depth: int, technology: Technology | None, spram: bool = False) -> QueueChoice:
        """The FIFO of one reader, for words of `width` bits."""
        return QueueChoice(width=width, depth=Fork.depth_of(depth), technology=technology, spram=spram)

    @staticmethod
    def times(arrivals: Times, *, width: int, depth: int, technology: Technology | None, spram: bool = False) -> Times:
        """The cycles in which the words are at an output with this `depth`, if they arrive at the input as `arrivals`
        says.

        Exact if no output stalls.
        """
        return arrivals + Fork.choice(width=width, depth=depth, technology=technology, spram=spram).latency

    @staticmethod
    def cost(*, width: int, depths: Sequence[int], technology: Technology | None = None,
             spram: Sequence[bool] | None = None) -> Resources:
        """The cost of words of `width` bits: LUT and FF estimated, RAM exact."""
        return sum((Fork.choice(width=width, depth=depth, technology=technology, spram=each).cost
                    for depth, each in zip(depths, spram or [False] * len(depths), strict=True)),
                   fitted("Fork", others=len(depths) - 1, more_words=Fork.more_words(depths)))

    @staticmethod
    def more_words(depths: Sequence[int]) -> int:
        """Words of shift registers beyond the first two of each, whose enables depend on the other FIFOs."""
        registers = [Fork.depth_of(depth) for depth in depths if len(depths) > 1 and depth <= Queue.SHIFT_DEPTH]
        return sum(registers) - Fork.LEAST_DEPTH * len(registers)

    def elaborate(self, platform):
        m = Module()
        readies = [queue.i.ready for queue in self.queues]
        m.d.comb += self.i.ready.eq(Cat(*readies).all())
        for k, queue in enumerate(self.queues):
            m.submodules[f"queue{k}"] = queue
            others = [ready for n, ready in enumerate(readies) if n != k]
            m.d.comb += [queue.i.payload.eq(self.i.payload), queue.i.valid.eq(self.i.valid & Cat(*others).all())]
            link(m, queue.o, wiring.flipped(getattr(self, f"o{k}")))
        return m
