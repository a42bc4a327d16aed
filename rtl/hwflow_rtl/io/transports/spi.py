"""A slave on an SPI bus as the way to a design: a microcontroller or a small computer is the host."""

from __future__ import annotations

from amaranth.hdl import IOBufferInstance, IOPort, Module
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

    Parameters
    ----------
    pads
        Whether `spi_miso` floats while the board is not selected; else it is driven always, as for a simulation.

    Attributes
    ----------
    spi_sck, spi_mosi, spi_cs_n : In(1)
        As of `SpiSlave`.
    spi_miso : Out(1), or with `pads` an IOPort
    """

    kind = "spi"

    def __init__(self, *, pads: bool = False):
        self.pad = IOPort(1, name="spi_miso") if pads else None
        ports = {} if pads else {"spi_miso": Out(1)}
        super().__init__({"spi_sck": In(1), "spi_mosi": In(1), "spi_cs_n": In(1, init=1), **ports},
                         both_ways=() if self.pad is None else (self.pad,))

    @staticmethod
    def cost() -> Resources:
        """LUT and FF as synthesized."""
        return fitted("Spi")

    def elaborate(self, platform):
        m = Module()
        m.submodules.slave = slave = SpiSlave()
        m.submodules.framed = framed = Framed()
        m.d.comb += [slave.sck.eq(self.spi_sck), slave.mosi.eq(self.spi_mosi), slave.cs_n.eq(self.spi_cs_n)]
        if self.pad is None:
            m.d.comb += self.spi_miso.eq(slave.miso)
        else:
            m.submodules.pad = IOBufferInstance(self.pad, o=slave.miso, oe=slave.driven)
        link(m, slave.o, framed.received)
        link(m, framed.o, wiring.flipped(self.o))
        link(m, wiring.flipped(self.i), framed.i)
        link(m, framed.sent, slave.i)
        return m
