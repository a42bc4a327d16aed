"""Between the host link, as fast as the oscillator, and the core: bytes of frames, and the restart of the core."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from ..stream.pipeline import delay
from ..stream.streams import link, stream_of
from ..vendor.base import Resources
from ..vendor.fitted import fitted
from .link_bytes import ByteCrossing
from .uart import BYTE

__all__ = ["RESTART_CYCLES", "CoreCrossing"]

#: Cycles of `sync` in which a restart keeps the core in reset: more than its longest pipeline without reset.
RESTART_CYCLES = 32
#: Registers between what wants the core to be reset and the core.
RESET_HOPS = 2


class CoreCrossing(wiring.Component):
    """Bytes from the domain `line` to `sync` and back, and a restart after which no older byte arrives on either side.

    Whatever the ratio of the two clocks, a restart takes four steps, each of which waits for the one before:

    1. `restart` rises.  From now on there must come nothing at `data`.  `results` are taken and mean nothing.
    2. In `sync` the core is reset for RESTART_CYCLES, and what still comes to it is taken and lost.
    3. `stopped` rises when those have passed and no byte is on its way in either direction; then `restart` must fall.
    4. The core leaves its reset; then `stopped` falls, and `data` may come again.

    So `data` and `results` must be quiet while `restart` or `stopped` is high.

    Attributes
    ----------
    data : stream of bytes
        For the core, in `line`.  Its payload must come from registers that a restart does not reset.
    results : stream of bytes
        From the core, in `line`.
    restart, stopped : In(1), Out(1)
        In `line`; `restart` from a register.
    core_data, core_results : streams of bytes
        The same in `sync`.
    reset : Out(1)
        Resets the core; in `sync`, from a register, which the reset of `sync` sets, too, some cycles later.
    """

    def __init__(self):
        byte = stream_of(BYTE, 1)
        super().__init__({
            "data": In(byte), "results": Out(byte), "restart": In(1), "stopped": Out(1),
            "core_data": Out(byte), "core_results": In(byte), "reset": Out(1, init=1)})

    @staticmethod
    def cost() -> Resources:
        """Both crossings, and the count of the cycles of a restart."""
        return fitted("CoreCrossing")

    def elaborate(self, platform):
        m = Module()
        m.submodules.arriving = arriving = ByteCrossing(source="line", target="sync")
        m.submodules.leaving = leaving = ByteCrossing(source="sync", target="line")
        link(m, wiring.flipped(self.data), arriving.i)
        link(m, wiring.flipped(self.core_results), leaving.i)
        wanted, done, seen_done = Signal(), Signal(), Signal()
        m.submodules.wanted = FFSynchronizer(self.restart, wanted, o_domain="sync")
        m.submodules.done = FFSynchronizer(done, seen_done, o_domain="line")
        left = Signal(range(-1, RESTART_CYCLES), init=RESTART_CYCLES - 1)  # down to its sign bit
        m.d.comb += [
            self.core_data.valid.eq(arriving.o.valid), self.core_data.payload.eq(arriving.o.payload),
            arriving.o.ready.eq(self.core_data.ready | wanted),
            self.results.valid.eq(leaving.o.valid), self.results.payload.eq(leaving.o.payload),
            leaving.o.ready.eq(self.results.ready | self.restart),
            self.stopped.eq(seen_done & ~arriving.busy),
        ]
        # Registers on the way give place and route time to bring the reset to all of the core.  Only the first is reset
        # itself, for else that reset would have to reach the others.
        wants = Signal(init=1)
        m.d.sync += wants.eq(wanted)
        late = delay(m, wants, RESET_HOPS, "reset_hop")
        m.d.comb += self.reset.eq(late)
        # The count begins when the core is in reset, and so gives no byte any more; it ends when the core has left it.
        m.d.sync += done.eq((wanted | self.reset) & left[-1] & ~leaving.busy)
        with m.If(~self.reset):
            m.d.sync += left.eq(left.init)
        with m.Elif(~left[-1]):
            m.d.sync += left.eq(left - 1)
        return m
