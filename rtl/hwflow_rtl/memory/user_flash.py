"""`UserFlashController`: words of a flash inside of the FPGA as a stream."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..vendor.base import Resources
from .flash_start import FlashError
from .part import request_of
from .user_flash_part import UserFlashPart

__all__ = ["UserFlashController"]


class UserFlashController(wiring.Component):
    """Reads as many words in a row as a request wants.

    The address of a word is at the cell from the first of its clocks on.  Sense enable is low for one and then high
    until data are taken, `clocks.access` later or, while the word before waits at `read`, until there is room.  All
    that the cell gets comes from registers, and its data go to one.

    Parameters
    ----------
    part
        The flash; `sync` is at most as fast as `part.clock_mhz`.

    Attributes
    ----------
    request : stream of `request_of(part)`
        Words from `first` to `last`, both included, `first` <= `last` < `part.words`; `write` is 0.
    read : stream of words
    restart : In(1)
        Drops the request under way and a word that was not taken.  From a register; whoever makes requests must be
        reset by the same.
    initialized : Out(1)
        High: the cell needs no start.
    error : Out(FlashError)
        `NONE`: the cell is asked nothing.
    pins : Out(part.pins())

    Latency from a request to its first word: `part.clocks.worst_latency`.  Between two words of a request:
    `part.clocks.worst_gap`.
    """

    def __init__(self, *, part: UserFlashPart):
        self.part = part
        super().__init__({
            "request": In(stream.Signature(request_of(part))), "read": Out(stream.Signature(part.piece)),
            "restart": In(1), "initialized": Out(1), "error": Out(FlashError), "pins": Out(part.pins())})

    @staticmethod
    def cost(*, part: UserFlashPart) -> Resources:
        """LUT and FF: address and words that are left, the word, the clocks of one."""
        address, clocks, control = ceil_log2(part.words), ceil_log2(part.clocks.word), 6
        return Resources(lut=3 * address + 2 * (clocks + control), ff=2 * address + part.width + clocks + control)

    def elaborate(self, platform):
        m = Module()
        pins, clocks = self.pins, self.part.clocks
        address, left = Signal(ceil_log2(self.part.words)), Signal(ceil_log2(self.part.words))
        place, ends = Signal(range(clocks.word), init=clocks.word - 1), Signal()
        word, there = Signal(self.part.width, reset_less=True), Signal()
        takes = Signal()
        m.d.comb += [
            self.initialized.eq(1), Cat(pins.yadr, pins.xadr).eq(address),
            self.read.valid.eq(there), self.read.payload.eq(word), takes.eq(ends & (~there | self.read.ready))]
        with m.If(self.read.ready):
            m.d.sync += there.eq(0)
        with m.FSM():
            with m.State("IDLE"):
                asked = self.request.payload
                m.d.comb += self.request.ready.eq(~self.restart)
                m.d.sync += [address.eq(asked.first), left.eq(asked.last - asked.first)]
                with m.If(self.request.valid & self.request.ready):
                    m.next = "READ"
            with m.State("READ"):
                # `place` counts the clocks of a word that are left.
                m.d.sync += [place.eq(Mux(takes, clocks.word - 1, Mux(ends, 0, place - 1))), ends.eq(place <= 1),
                             pins.se.eq(1)]
                with m.If(takes):
                    m.d.sync += [word.eq(pins.dout), there.eq(1), left.eq(left - 1), address.eq(address + 1),
                                 pins.se.eq(0), ends.eq(0)]
                    with m.If(left == 0):
                        m.next = "IDLE"
                with m.If(self.restart):
                    m.next = "IDLE"
        with m.If(self.restart):
            m.d.sync += [there.eq(0), pins.se.eq(0), ends.eq(0), place.eq(place.init)]
        return m
