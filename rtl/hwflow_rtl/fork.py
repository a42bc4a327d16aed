"""One stream to several readers: each has a queue of its own, and a word goes into all of them in the same cycle."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, Module, ShapeLike
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .streams import Queue, link
from .vendor.base import Resources, Technology

__all__ = ["Fork"]


class Fork(wiring.Component):
    """Copies each word of `i` to every output `o0`, `o1`, ...

    Parameters
    ----------
    shape
        Of the payloads.
    depths
        Words that each reader may be behind the fastest; each queue has at least `LEAST_DEPTH`.
    technology
        Makes the deep queues.

    Every `ready` that the input waits for is a register of a queue, so that readers never see each other.  Latency is
    that of the queue; initiation interval 1.
    """

    LEAST_DEPTH = 2

    def __init__(self, *, shape: ShapeLike, depths: Sequence[int], technology: Technology | None = None):
        if not depths:
            raise ValueError("depths of a Fork must be at least one, not none")
        self.queues = [Queue(shape=shape, depth=self.depth_of(depth), technology=technology) for depth in depths]
        ports = {f"o{k}": Out(stream.Signature(shape)) for k in range(len(depths))}
        super().__init__({"i": In(stream.Signature(shape)), **ports})

    @staticmethod
    def depth_of(depth: int) -> int:
        """Words of a queue that must hold `depth`."""
        return max(Fork.LEAST_DEPTH, depth)

    @staticmethod
    def cost(*, width: int, depths: Sequence[int], technology: Technology | None = None) -> Resources:
        """Of words of `width` bits, as `Queue.cost`."""
        return sum((Queue.cost(width=width, depth=Fork.depth_of(depth), technology=technology) for depth in depths),
                   Resources(lut=len(depths)))

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
