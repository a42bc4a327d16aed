"""A slave on an SPI bus as the way to a design: a microcontroller or a small computer is the host."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from ...stream.streams import link, stream_of
from ...vendor.base import Resources
from ...vendor.fitted import fitted
from ..link.bytes import FLAG
from .base import Framed, Transport

# A slave on an SPI bus: bytes both ways at the same time, at the other end's clock, which is sampled.
#
# Modes 0 and 3 look the same to it: bits are taken, and the next one is given, at the rising edge of `sck`.


BYTE = unsigned(8)
#: Clock cycles of a bit at least.  A bit of `miso` changes 3 cycles after the rising edge before it at the latest, so a
#: fourth is left for the pads, the wires and the other end.
CYCLES_A_BIT = 4


class SpiSlave(wiring.Component):
    """Bytes in and out, most significant bit first; where there is none to give, `FLAG` goes out.

    A byte begins when `cs_n` falls, and one behind the other while it stays low.  What was begun when it rises is lost,
    in both directions.  A byte to give is taken from `i` when the one before it ends, or with `cs_n` high.

    Attributes
    ----------
    sck, mosi, cs_n : In(1)
        The bus, asynchronous: at least CYCLES_A_BIT cycles a bit, half of them high and half low, and as many from the
        edges of `cs_n` to those of `sck`.
    miso : Out(1)
        From a register; driven also while the slave is not selected.
    i, o : streams of bytes
        To the master, and from it.  A byte waits at `o` until it is taken; one that comes meanwhile is lost: `overrun`.
    overrun : Out(1)
        High for one cycle when a byte was lost.
    """

    def __init__(self):
        super().__init__({
            "sck": In(1), "mosi": In(1), "cs_n": In(1), "miso": Out(1),
            "i": In(stream_of(BYTE, 1)), "o": Out(stream_of(BYTE, 1)), "overrun": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        sck, before, mosi, off = Signal(init=1), Signal(init=1), Signal(), Signal(init=1)
        for name, pin, seen, idle in (("sck", self.sck, sck, 1), ("mosi", self.mosi, mosi, 0),
                                      ("cs_n", self.cs_n, off, 1)):
            m.submodules[name] = FFSynchronizer(pin, seen, init=idle)
        edge, last, loads, held, begun = Signal(), Signal(), Signal(), Signal(), Signal()
        count = Signal(3)
        into, out = Signal(7, reset_less=True), Signal(8, init=FLAG)
        full, word = Signal(), Signal(8, reset_less=True)
        # After a reset in the middle of a transfer nobody knows where its bytes begin.
        m.d.sync += [before.eq(sck), begun.eq(begun | off)]
        m.d.comb += [
            edge.eq(sck & ~before & ~off & begun), last.eq(edge & (count == 7)), self.miso.eq(out[-1]),
            # A byte that was not begun stays through a pause; the flag that stands for none does not.
            loads.eq(last | off & (~held | (count != 0))), self.i.ready.eq(loads),
            self.o.valid.eq(full), self.o.payload[0].eq(word),
        ]
        m.d.sync += self.overrun.eq(last & full & ~self.o.ready)
        with m.If(loads):
            m.d.sync += [out.eq(Mux(self.i.valid, self.i.payload[0], FLAG)), held.eq(self.i.valid)]
        with m.Elif(edge):
            m.d.sync += out.eq(Cat(0, out))
        with m.If(edge):
            m.d.sync += [into.eq(Cat(mosi, into)), count.eq(count + 1)]
        with m.If(off):
            m.d.sync += count.eq(0)
        with m.If(last & (~full | self.o.ready)):
            m.d.sync += [word.eq(Cat(mosi, into)), full.eq(1)]
        with m.Elif(self.o.ready):
            m.d.sync += full.eq(0)
        return m


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
