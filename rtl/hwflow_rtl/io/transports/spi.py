"""A slave on an SPI bus as the way to a design: a microcontroller or a small computer is the host."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...stream.streams import link
from ...vendor.base import Resources
from ...vendor.fitted import fitted
from ..spi import SpiSlave
from .base import Transport
from .framed import Framed

__all__ = ["Spi"]


class Spi(Transport):
    """Packets over an SPI bus, both ways at the same time.  A slave cannot begin, so the host asks by clocking: where
    the board has nothing to say it says flags, which are nothing.

    Attributes
    ----------
    spi_sck, spi_mosi, spi_cs_n : In(1)
        As of `SpiSlave`.
    spi_miso : Out(1)
        Driven always: the board is the only slave on this wire.
    """

    kind = "spi"

    def __init__(self) -> None:
        super().__init__({"spi_sck": In(1), "spi_mosi": In(1), "spi_miso": Out(1), "spi_cs_n": In(1, init=1)})

    @staticmethod
    def cost() -> Resources:
        """LUT and FF as synthesized."""
        return fitted("Spi")

    def elaborate(self, platform):
        m = Module()
        m.submodules.slave = slave = SpiSlave()
        m.submodules.framed = framed = Framed()
        m.d.comb += [slave.sck.eq(self.spi_sck), slave.mosi.eq(self.spi_mosi), self.spi_miso.eq(slave.miso),
                     slave.cs_n.eq(self.spi_cs_n)]
        link(m, slave.o, framed.received)
        link(m, framed.o, wiring.flipped(self.o))
        link(m, wiring.flipped(self.i), framed.i)
        link(m, framed.sent, slave.i)
        return m
