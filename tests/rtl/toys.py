"""Stages of a few gates, for tests of what joins stages."""

from __future__ import annotations

import numpy as np
from amaranth.hdl import Module, Shape, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.stream.queue import Queue
from hwflow_rtl.stream.streams import lanes_of, link, payload_of, stream_of
from hwflow_rtl.vendor import Generic
from hwflow_rtl.vendor.pll import Pll, PllSettings

INT8 = signed(8)


class Sum(wiring.Component):
    """The sums of the elements of both inputs, a beat when both have one."""

    def __init__(self, lanes: int = 1, output: Shape = INT8):
        ports = {name: In(stream_of(INT8, lanes)) for name in ("i0", "i1")}
        super().__init__({**ports, "o": Out(stream_of(output, lanes)), "busy": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = Queue(shape=payload_of(self.o), depth=2)
        both = self.i0.valid & self.i1.valid
        m.d.comb += [queue.i.valid.eq(both), self.i0.ready.eq(both & queue.i.ready),
                     self.i1.ready.eq(both & queue.i.ready), self.busy.eq(both)]
        for lane in range(lanes_of(self.o)):
            m.d.comb += queue.i.payload[lane].eq(self.i0.payload[lane] + self.i1.payload[lane])
        link(m, queue.o, wiring.flipped(self.o))
        return m


class ShownPll(Pll):
    """A PLL whose clock and lock the test drives."""

    def __init__(self, lock: bool):
        super().__init__()
        self.clock, self.lock = Signal(), Signal(init=lock)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [self.clk_through.eq(self.clk_in), self.clk_out.eq(self.clock), self.locked.eq(self.lock)]
        return m


class WithShownPll(Generic):
    """`lock`: whether it is locked from the start."""

    def __init__(self, *, lock: bool = False):
        super().__init__()
        self.shown = ShownPll(lock)

    def pll(self, settings: PllSettings) -> Pll:
        return self.shown


def wrapped(values: np.ndarray) -> np.ndarray:
    """As INT8 has them."""
    return (values + 128) % 256 - 128
