"""From a flash with an image of weights to the host link: the digest of the image, and whether it may be read."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from ..stream.streams import link, stream_of
from ..vendor.base import Resources
from ..vendor.fitted import fitted
from .link_bytes import ByteCrossing
from .link_image import MemoryState
from .uart import BYTE

__all__ = ["SealCrossing"]


class SealCrossing(wiring.Component):
    """A digest and a state from `sync` to `line`.

    Attributes
    ----------
    digest : stream of bytes
        In `sync`, from registers that nothing resets.
    state : In(MemoryState)
        In `sync`.  `FILLING` until the digest was given or is not to come; then it stays until a reset of both domains.
    line_digest, line_state
        The same in `line`; all of the digest has come before `FILLED`.
    """

    def __init__(self):
        byte = stream_of(BYTE, 1)
        super().__init__({"digest": In(byte), "state": In(MemoryState), "line_digest": Out(byte),
                          "line_state": Out(MemoryState)})

    @staticmethod
    def cost() -> Resources:
        """LUT and FF as synthesized."""
        return fitted("SealCrossing")

    def elaborate(self, platform):
        m = Module()
        m.submodules.bytes = octets = ByteCrossing(source="sync", target="line")
        link(m, wiring.flipped(self.digest), octets.i)
        link(m, octets.o, wiring.flipped(self.line_digest))
        held, ended, seen = Signal(MemoryState, init=MemoryState.FILLING), Signal(), Signal()
        m.submodules.ended = FFSynchronizer(ended, seen, o_domain="line")
        # The state stays when its end is seen in `line`.
        m.d.sync += [held.eq(self.state), ended.eq((held != MemoryState.FILLING) & ~octets.busy)]
        m.d.comb += self.line_state.eq(Mux(seen, held, MemoryState.FILLING))
        return m
