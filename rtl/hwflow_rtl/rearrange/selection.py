"""Lets some words of a frame pass and drops the others: crops, slices and choices of channels in order need no ring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Module, Mux, Shape, Signal
from amaranth.lib import wiring

from ..stream.pipeline import adder_luts
from ..stream.queue import Queue
from ..stream.streams import link, payload_of
from ..stream.times import StageTimes, Times, in_turn
from ..stream.unit import ShapedUnit
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from .rearrange import MovedShape
from .walk import Walker, WalkerShape

#: Words of the queue at the output.
DEPTH = 2


@dataclass(frozen=True, kw_only=True)
class SelectionShape(MovedShape):
    """Words that pass `in_order`."""

    #: Cycles from a word's way in to its way out.
    LATENCY: ClassVar[int] = Queue.latency_of(DEPTH)

    def __post_init__(self) -> None:
        if not self.order.in_order:
            raise ValueError(f"words of {self.called('selection')} must pass in order, each once; use a RearrangeStage")

    @property
    def lack(self) -> Shape:
        """The shape of the counter of words that are dropped before the next one passes, less one."""
        return Shape.cast(range(-1, max(self.order.first, int(self.order.steps.max()))))

    def times(self, technology: Technology, *arrivals: Times, left: Times | None = None) -> StageTimes:
        order, (taken,) = self.order, arrivals
        if left is not None:  # what is dropped waits for a place as well
            places = np.cumsum(np.isin(np.arange(order.input_words), order.addresses))
            before = (np.arange(len(taken) // order.input_words)[:, None] * places[-1] + places).reshape(-1)
            passing = np.diff(before, prepend=0)
            last = before - passing - DEPTH
            taken = in_turn(np.where(last < 0, taken, np.maximum(taken, left[np.maximum(last, 0)] + 1)))
        frames = taken.reshape(-1, order.input_words)
        return StageTimes((taken,), frames[:, order.addresses].reshape(-1) + self.LATENCY)

    def cost(self, technology: Technology) -> Resources:
        """RAM exact, LUT and FF estimated."""
        bits = self.lack.width
        return (WalkerShape(order=self.order).cost(technology) + Queue.cost(width=self.width, depth=DEPTH)
                + fitted("SelectionStage", lack_bits=bits) + Resources(lut=adder_luts(bits, technology)))

    def build(self, technology: Technology, name: str) -> SelectionStage:
        return SelectionStage(shape=self, technology=technology, name=name)


class SelectionStage(ShapedUnit):
    """Gives the words that `shape` names.  `technology` and `name` make ROMs, and begin their names.

    Takes a word in every cycle, so that a frame takes as many cycles as it has words; one that passes is at the output
    in the next cycle.  `busy` says that one passes.  Words are taken as long as the queue has room for one more: the
    stage never needs input beyond its next output.
    """

    def model(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Beats at the output, [n, lanes]; frames are [n, height, width, channels]."""
        return self.shape.words_of(frames)[:, self.shape.order.addresses].reshape(-1, self.shape.lanes)

    def elaborate(self, platform):
        m = Module()
        order = self.shape.order
        m.submodules.walker = walker = Walker(
            shape=WalkerShape(order=order), technology=self.technology, name=self.name)
        m.submodules.queue = queue = Queue(shape=payload_of(self.o), depth=DEPTH)
        lack = Signal(self.shape.lack, init=order.first - 1)  # words to drop, less one
        wanted = lack[-1]
        m.d.comb += [
            self.i.ready.eq(queue.i.ready), queue.i.valid.eq(self.i.valid & wanted), queue.i.payload.eq(self.i.payload),
            walker.start.eq(queue.i.valid & queue.i.ready), self.busy.eq(walker.start),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += lack.eq(lack + Mux(wanted, walker.hop, -1))
        link(m, queue.o, wiring.flipped(self.o))
        return m
