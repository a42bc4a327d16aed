"""Between a host link on a fast line and the core: a `CoreCrossing` that moves a word in every cycle."""

from __future__ import annotations

from amaranth.hdl import DomainRenamer, Module, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from ..stream.crossing import StreamCrossing
from ..stream.gearbox import Gearbox
from ..stream.pipeline import delay
from ..stream.streams import link, payload_of, stream_of
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from .core_crossing import RESET_HOPS, RESTART_CYCLES
from .uart import BYTE

__all__ = ["FastCrossing"]

#: Words that are on their way in a direction, and cycles of `line` in which all of them arrive.
WORDS, DRAIN_CYCLES = 16, 32


class FastCrossing(wiring.Component):
    """Bytes from `line` to words in `sync` and back, and a restart as of a `CoreCrossing`.

    A frame must be whole words.  What was begun of a word is dropped by a restart, as all that is on its way.

    Parameters
    ----------
    data_bytes, result_bytes
        Of a word there, and back.

    Attributes
    ----------
    data, results, restart, stopped, reset
        As of a `CoreCrossing`; a byte in every cycle of `line`.
    core_data, core_results : streams of bytes
        In `sync`, words of them; a word in every cycle of the slower clock.
    """

    def __init__(self, *, data_bytes: int = 1, result_bytes: int = 1):
        self.data_bytes, self.result_bytes = data_bytes, result_bytes
        byte = stream_of(BYTE, 1)
        super().__init__({
            "data": In(byte), "results": Out(byte), "restart": In(1), "stopped": Out(1),
            "core_data": Out(stream_of(BYTE, data_bytes)), "core_results": In(stream_of(BYTE, result_bytes)),
            "reset": Out(1, init=1)})

    @staticmethod
    def cost(technology: Technology, *, data_bytes: int = 1, result_bytes: int = 1) -> Resources:
        """Both crossings and changes of words, and the count of the cycles of a restart."""
        total = fitted("FastCrossing")
        for lanes_in, lanes_out in ((1, data_bytes), (result_bytes, 1)):
            total += Gearbox.cost(width=8, lanes_in=lanes_in, lanes_out=lanes_out)
            total += StreamCrossing.cost(width=8 * max(lanes_in, lanes_out), depth=WORDS, technology=technology)
        return total

    def elaborate(self, platform):
        m = Module()
        m.submodules.arriving = arriving = StreamCrossing(
            shape=payload_of(self.core_data), source="line", target="sync", depth=WORDS)
        m.submodules.leaving = leaving = StreamCrossing(
            shape=payload_of(self.core_results), source="sync", target="line", depth=WORDS)
        # What was begun of a word goes in a restart; what comes from the core meanwhile is taken and lost.
        stops_now = self.restart | self.stopped
        stops = ResetInserter({"line": stops_now})
        on_line = DomainRenamer("line")
        m.submodules.join = join = stops(on_line(Gearbox(shape=BYTE, lanes_in=1, lanes_out=self.data_bytes)))
        m.submodules.split = split = stops(on_line(Gearbox(shape=BYTE, lanes_in=self.result_bytes, lanes_out=1)))
        link(m, wiring.flipped(self.data), join.i)
        link(m, join.o, arriving.i)
        link(m, wiring.flipped(self.core_results), leaving.i)
        m.d.comb += [split.i.valid.eq(leaving.o.valid & ~stops_now), split.i.payload.eq(leaving.o.payload),
                     leaving.o.ready.eq(split.i.ready | stops_now)]
        link(m, split.o, wiring.flipped(self.results))
        self.restarts(m, arriving)
        return m

    def restarts(self, m: Module, arriving: StreamCrossing) -> None:
        """The order of a restart.  Until its end what comes to the core is dropped; and when the core has been in reset
        for long, so that nothing new comes from it, what is on its way from it has time to arrive and be dropped."""
        wanted, done, seen_done = Signal(), Signal(), Signal()
        m.submodules.wanted = FFSynchronizer(self.restart, wanted, o_domain="sync")
        m.submodules.done = FFSynchronizer(done, seen_done, o_domain="line")
        left = Signal(range(-1, RESTART_CYCLES), init=RESTART_CYCLES - 1)  # down to its sign bit
        coming = Signal(range(-1, DRAIN_CYCLES), init=DRAIN_CYCLES - 1)
        # As in `CoreCrossing`: registers on the way to all of the core.
        wants = Signal(init=1)
        m.d.sync += wants.eq(wanted)
        m.d.comb += [
            self.core_data.valid.eq(arriving.o.valid), self.core_data.payload.eq(arriving.o.payload),
            arriving.o.ready.eq(self.core_data.ready | wanted), self.reset.eq(delay(m, wants, RESET_HOPS, "reset_hop")),
            self.stopped.eq(seen_done & coming[-1])]
        m.d.sync += done.eq((wanted | self.reset) & left[-1])
        with m.If(~self.reset):
            m.d.sync += left.eq(left.init)
        with m.Elif(~left[-1]):
            m.d.sync += left.eq(left - 1)
        with m.If(~seen_done):
            m.d.line += coming.eq(coming.init)
        with m.Elif(~coming[-1]):
            m.d.line += coming.eq(coming - 1)
