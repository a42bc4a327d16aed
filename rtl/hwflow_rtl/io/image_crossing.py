"""From the host link to a memory beside the FPGA: the bytes of an image as words, and the order to forget the last."""

from __future__ import annotations

from amaranth.hdl import Module, ResetInserter, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from ..stream.gearbox import Gearbox
from ..stream.streams import link, stream_of
from ..vendor.base import Resources
from ..vendor.fitted import fitted
from .link_bytes import ByteCrossing
from .uart import BYTE

__all__ = ["ImageCrossing"]


class ImageCrossing(wiring.Component):
    """Bytes from the domain `line` to words in `sync`, and a way to clear the memory after which no older byte arrives.

    It takes four steps, whatever the ratio of the clocks:

    1. `clear` rises.  From now on there must come nothing at `data`.
    2. In `sync` `forget` rises, and what still comes is taken and lost.
    3. `cleared` rises when no byte is on its way; then `clear` must fall.
    4. `forget` falls, then `cleared`, and `data` may come again.

    Parameters
    ----------
    width
        Bits of a word of the memory, whole bytes; the low byte comes first.

    Attributes
    ----------
    data : stream of bytes
        In `line`.  Its payload must come from registers that nothing resets.
    clear, cleared : In(1), Out(1)
        In `line`; `clear` from a register.
    complete : Out(1)
        `filled` in `line`.
    words : stream of words
        In `sync`.
    forget : Out(1)
        In `sync`, from a register.
    filled : In(1)
        In `sync`: all words of an image are in the memory.
    """

    def __init__(self, *, width: int):
        if width < 8 or width % 8:
            raise ValueError(f"width must be whole bytes, not {width} bits")
        self.width = width
        super().__init__({
            "data": In(stream_of(BYTE, 1)), "clear": In(1), "cleared": Out(1), "complete": Out(1),
            "words": Out(stream.Signature(width)), "forget": Out(1), "filled": In(1)})

    @staticmethod
    def cost(width: int) -> Resources:
        """LUT and FF estimated."""
        return fitted("ImageCrossing") + Gearbox.cost(width=8, lanes_in=1, lanes_out=width // 8)

    def elaborate(self, platform):
        m = Module()
        m.submodules.arriving = arriving = ByteCrossing(source="line", target="sync")
        m.submodules.gearbox = gearbox = ResetInserter(self.forget)(
            Gearbox(shape=BYTE, lanes_in=1, lanes_out=self.width // 8))
        wanted, seen, filled = Signal(), Signal(), Signal()
        m.submodules.wanted = FFSynchronizer(self.clear, wanted, o_domain="sync")
        m.submodules.seen = FFSynchronizer(self.forget, seen, o_domain="line")
        m.submodules.complete = FFSynchronizer(filled, self.complete, o_domain="line")
        link(m, wiring.flipped(self.data), arriving.i)
        m.d.sync += [self.forget.eq(wanted), filled.eq(self.filled)]
        m.d.comb += [
            gearbox.i.valid.eq(arriving.o.valid & ~self.forget), gearbox.i.payload.eq(arriving.o.payload),
            arriving.o.ready.eq(gearbox.i.ready | self.forget), self.cleared.eq(seen & ~arriving.busy),
            self.words.valid.eq(gearbox.o.valid & ~self.forget),
            self.words.payload.eq(Value.cast(gearbox.o.payload)), gearbox.o.ready.eq(self.words.ready)]
        return m
