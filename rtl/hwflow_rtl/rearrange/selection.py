"""Lets some words of a frame pass and drops the others: crops, slices and choices of channels in order need no ring."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Module, Mux, Shape, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..stream.pipeline import adder_luts
from ..stream.queue import Queue
from ..stream.streams import link, payload_of, stream_of
from ..stream.times import StageTimes, Times, in_turn
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from .shape import RearrangeShape
from .walk import Walker

#: Words of the queue at the output.
DEPTH = 2


class SelectionStage(wiring.Component):
    """Gives the words that `shape` names, which must be `in_order`.

    Parameters
    ----------
    shape
        Which words pass.
    element, lanes
        A word is `lanes` elements, on both streams.
    technology, name
        Makes ROMs; prefix of their names.

    Takes a word in every cycle, so that a frame takes as many cycles as it has words; one that passes is at the output
    in the next cycle.  `busy` says that one passes.  Words are taken as long as the queue has room for one more: the
    stage never needs input beyond its next output.
    """

    def __init__(self, *, shape: RearrangeShape, element: Shape, lanes: int, technology: Technology, name: str):
        self.shape = shape
        self.element = Shape.cast(element)
        self.lanes = lanes
        self.technology = technology
        self.name = name
        if not shape.in_order:
            raise ValueError(f"words of selection '{name}' must pass in order, each once; use a RearrangeStage")
        super().__init__({"i": In(stream_of(element, lanes)), "o": Out(stream_of(element, lanes)), "busy": Out(1)})

    @property
    def latency(self) -> int:
        """Cycles from a word's way in to its way out."""
        return Queue.latency_of(DEPTH)

    @staticmethod
    def times(arrivals: Times, *, shape: RearrangeShape, left: Times | None = None) -> StageTimes:
        """When words are taken and given, for those that come as `arrivals` says; `left`: see `with_room`."""
        taken = arrivals
        if left is not None:  # what is dropped waits for a place as well
            places = np.cumsum(np.isin(np.arange(shape.input_words), shape.addresses))
            before = (np.arange(len(arrivals) // shape.input_words)[:, None] * places[-1] + places).reshape(-1)
            kept = np.diff(before, prepend=0)
            last = before - kept - DEPTH
            taken = in_turn(np.where(last < 0, arrivals, np.maximum(arrivals, left[np.maximum(last, 0)] + 1)))
        frames = taken.reshape(-1, shape.input_words)
        return StageTimes((taken,), frames[:, shape.addresses].reshape(-1) + Queue.latency_of(DEPTH))

    @staticmethod
    def cost(*, shape: RearrangeShape, width: int, technology: Technology) -> Resources:
        """For words of `width` bits.  RAM exact, LUT and FF estimated."""
        bits = lack_of(shape).width
        return (Walker.cost(shape=shape, technology=technology) + Queue.cost(width=width, depth=DEPTH)
                + fitted("SelectionStage", lack_bits=bits) + Resources(lut=adder_luts(bits, technology)))

    def model(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Beats at the output, [n, lanes]; frames are [n, height, width, channels]."""
        words = np.asarray(frames, dtype=np.int64).reshape(len(frames), self.shape.input_words, self.lanes)
        return words[:, self.shape.addresses].reshape(-1, self.lanes)

    def elaborate(self, platform):
        m = Module()
        m.submodules.walker = walker = Walker(shape=self.shape, technology=self.technology, name=self.name)
        m.submodules.queue = queue = Queue(shape=payload_of(self.o), depth=DEPTH)
        lack = Signal(lack_of(self.shape), init=self.shape.first - 1)  # words to drop, less one
        wanted = lack[-1]
        m.d.comb += [
            self.i.ready.eq(queue.i.ready), queue.i.valid.eq(self.i.valid & wanted), queue.i.payload.eq(self.i.payload),
            walker.start.eq(queue.i.valid & queue.i.ready), self.busy.eq(walker.start),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += lack.eq(lack + Mux(wanted, walker.hop, -1))
        link(m, queue.o, wiring.flipped(self.o))
        return m


def lack_of(shape: RearrangeShape) -> Shape:
    """Of the counter of words that are dropped before the next one passes, less one."""
    return Shape.cast(range(-1, max(shape.first, int(shape.steps.max()))))
