"""The choice of a queue's memory by its cost, and the queue itself."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Shape, ShapeLike

from ..vendor.base import Technology, price
from ..vendor.blocks import DEEPEST_TABLE
from ..vendor.memory import Place
from .deep_queue import DeepQueue
from .paired_queue import PairedQueue
from .queue import Queue

__all__ = ["QueueChoice", "chosen_for_spram", "make_queue"]


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
