"""Frames of the line: found behind their preambles, and judged by their FCS."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .checks import RESIDUE, crc_after

__all__ = ["PREAMBLE", "SFD", "MacReceiver"]

PREAMBLE, SFD = 0x55, 0xD5


class MacReceiver(wiring.Component):
    """Takes what a PHY gives, a byte in each cycle of 125 MHz.

    What begins with anything but a preamble and its SFD is no frame, and is passed over to its end.  So is all that
    comes at 10 or 100 Mbit/s, where a PHY gives each nibble twice.

    Attributes
    ----------
    data, data_valid, error : In(8), In(1), In(1)
        Of the PHY.
    byte, strobe : Out(8), Out(1)
        A byte behind the SFD, FCS included.
    end, good : Out(1)
        A pulse behind the last byte, two cycles or more after it; then, whether the FCS was right and the PHY saw no
        error.
    """

    def __init__(self) -> None:
        super().__init__({"data": In(8), "data_valid": In(1), "error": In(1), "byte": Out(8), "strobe": Out(1),
                          "end": Out(1), "good": Out(1)})

    def elaborate(self, platform):
        m = Module()
        inside, foreign, failed = Signal(), Signal(), Signal()
        ended, ended_good = Signal(), Signal()
        crc = Signal(32, init=0xFFFFFFFF, reset_less=True)
        m.d.sync += [self.byte.eq(self.data), self.strobe.eq(inside & self.data_valid),
                     ended.eq(inside & ~self.data_valid)]
        with m.If(~self.data_valid):
            m.d.sync += [inside.eq(0), foreign.eq(0)]
        with m.Elif(~inside & ~foreign):
            m.d.sync += [inside.eq(self.data == SFD), foreign.eq((self.data != SFD) & (self.data != PREAMBLE)),
                         failed.eq(0)]
        with m.If(inside & self.data_valid & self.error):
            m.d.sync += failed.eq(1)
        with m.If(self.strobe):
            m.d.sync += crc.eq(crc_after(crc, self.byte))
        with m.Elif(~ended):
            m.d.sync += crc.eq(crc.init)
        m.d.sync += [ended_good.eq((crc == Const(RESIDUE, 32)) & ~failed), self.end.eq(ended)]
        m.d.comb += self.good.eq(ended_good)
        return m
