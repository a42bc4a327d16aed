"""USB as the way to a design: two pins of the FPGA at full speed, or a PHY chip with ULPI at high speed.

The device is a serial port of the class CDC-ACM, which every operating system knows: no driver, no library.
"""

from __future__ import annotations

from collections.abc import Iterator

from amaranth.hdl import ClockSignal, IOBufferInstance, IOPort, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Member, Out

from ...stream.streams import link
from ...vendor.base import Resources, Technology
from ...vendor.fitted import fitted
from ...vendor.pll import PllSettings, exact
from ..link.shape import LARGEST_PAYLOAD, LinkShape
from ..usb import SAMPLE_MHZ, ULPI_MHZ, FullSpeedPort, UlpiPort, UsbIdentity
from .base import Framed, Transport

#: How far a device at full speed may be from 12 Mbit/s: USB 2.0, 7.1.11.
LARGEST_ERROR = 0.0025
#: Of the host link at high speed: what a microframe carries, and more.
ROOM = 8192
#: Bytes of the buffer of each direction.
BUFFER = 2048


class FullSpeedUsb(Transport):
    """Packets over USB at full speed.

    Parameters
    ----------
    identity
        What the device says of itself.
    line_mhz
        The clock of `line`, of which a PLL makes 48 MHz; one of 48 MHz is taken as it is.
    technology
        Makes the PLL and the buffers.
    pads
        Whether the data lines are ports in both directions; else each is three ports, as for a simulation.

    Raises ValueError where no PLL makes a clock for USB.

    Attributes
    ----------
    usb_pullup : Out(1)
        Pulls D+ up through 1.5 kOhm.
    usb_d_p, usb_d_n
        The data lines, with `pads`; else `_i`, `_o` and `_oe` of each.
    """

    kind = "usb"
    shape = LinkShape(payload=LARGEST_PAYLOAD, room=4096)

    def __init__(self, *, identity: UsbIdentity, line_mhz: float, technology: Technology, pads: bool = False):
        self.technology = technology
        self.settings = pll_settings(technology, line_mhz)
        self.port = FullSpeedPort(identity=identity, technology=technology, own_clock=self.settings is not None)
        lines = tuple(IOPort(1, name=f"usb_{name}") for name in ("d_p", "d_n")) if pads else ()
        open_ends: dict[str, Member] = {} if pads else {
            f"usb_{name}_{end}": (In if end == "i" else Out)(1) for name in ("d_p", "d_n") for end in ("i", "o", "oe")}
        super().__init__({"usb_pullup": Out(1), **open_ends}, both_ways=lines)

    @staticmethod
    def cost(technology: Technology) -> Resources:
        """LUT and FF as synthesized, RAM exact."""
        return fitted("FullSpeedUsb") + buffers(technology)

    def elaborate(self, platform):
        m = Module()
        m.submodules.port, m.submodules.framed = port, framed = self.port, Framed()
        connect(m, self, framed, port)
        m.d.comb += self.usb_pullup.eq(port.pullup)
        for name in ("d_p", "d_n"):
            into, out = getattr(port, f"{name}_i"), getattr(port, f"{name}_o")
            if self.both_ways:
                pad = next(pad for pad in self.both_ways if pad.name == f"usb_{name}")
                m.submodules[f"pad_{name}"] = IOBufferInstance(pad, i=into, o=out, oe=port.oe)
            else:
                m.d.comb += [into.eq(getattr(self, f"usb_{name}_i")), getattr(self, f"usb_{name}_o").eq(out),
                             getattr(self, f"usb_{name}_oe").eq(port.oe)]
        if self.settings is not None:
            m.submodules.pll = pll = self.technology.pll(self.settings)
            m.d.comb += [pll.clk_in.eq(ClockSignal()), port.sample_clk.eq(pll.clk_out), port.locked.eq(pll.locked)]
        return m


def pll_settings(technology: Technology, line_mhz: float) -> PllSettings | None:
    """The settings that make 48 MHz of the clock of `line`; None for nothing.  ValueError where nothing does."""
    if exact(line_mhz) == SAMPLE_MHZ:
        return None
    settings = technology.pll_settings(line_mhz, SAMPLE_MHZ)
    if settings is None or abs(settings.output_mhz / SAMPLE_MHZ - 1) > LARGEST_ERROR:
        raise ValueError(f"the clock of the board must be one of which a PLL makes {SAMPLE_MHZ} MHz, within "
                         f"{LARGEST_ERROR:.2%}, not {line_mhz:g} MHz")
    return settings


class UlpiUsb(Transport):
    """Packets over USB at high speed, or full speed where the host has no more.

    Parameters
    ----------
    identity, technology, pads
        As of `FullSpeedUsb`.

    Attributes
    ----------
    usb_clk : In(1)
        60 MHz from the PHY; that of `line`.
    usb_dir, usb_nxt, usb_stp : In(1), In(1), Out(1)
    usb_rst : Out(1)
        Resets the PHY where it is high, which it never is.  The PHY makes the clock of all this: without it, nobody
        would end the reset.
    usb_data
        The data lines, with `pads`; else `_i`, `_o` and `_oe`.
    """

    kind = "usb"
    shape = LinkShape(payload=LARGEST_PAYLOAD, room=ROOM, fast=True)

    def __init__(self, *, identity: UsbIdentity, technology: Technology, pads: bool = False):
        self.technology = technology
        self.port = UlpiPort(identity=identity, technology=technology)
        lines = (IOPort(8, name="usb_data"),) if pads else ()
        open_ends: dict[str, Member] = {} if pads else {
            "usb_data_i": In(8), "usb_data_o": Out(8), "usb_data_oe": Out(1)}
        super().__init__({"usb_clk": In(1), "usb_dir": In(1), "usb_nxt": In(1), "usb_stp": Out(1), "usb_rst": Out(1),
                          **open_ends}, both_ways=lines, clock="usb_clk", clock_mhz=ULPI_MHZ)

    @staticmethod
    def cost(technology: Technology) -> Resources:
        """LUT and FF as synthesized, RAM exact."""
        return fitted("UlpiUsb") + buffers(technology)

    def elaborate(self, platform):
        m = Module()
        m.submodules.port, m.submodules.framed = port, framed = self.port, Framed()
        connect(m, self, framed, port)
        m.d.comb += [port.dir.eq(self.usb_dir), port.nxt.eq(self.usb_nxt), self.usb_stp.eq(port.stp),
                     self.usb_rst.eq(0)]
        if not self.both_ways:
            m.d.comb += [port.data_i.eq(self.usb_data_i), self.usb_data_o.eq(port.data_o),
                         self.usb_data_oe.eq(port.data_oe)]
            return m
        for k, pad in enumerate(bits_of(self.both_ways[0])):
            m.submodules[f"pad_data{k}"] = IOBufferInstance(pad, i=port.data_i[k], o=port.data_o[k], oe=port.data_oe)
        return m


def bits_of(port: IOPort) -> Iterator[IOPort]:
    return (port[k] for k in range(len(port)))


def connect(m: Module, transport: Transport, framed: Framed, port: FullSpeedPort | UlpiPort) -> None:
    """Tokens of `transport` as bytes of `port`."""
    link(m, port.o, framed.received)
    link(m, framed.o, wiring.flipped(transport.o))
    link(m, wiring.flipped(transport.i), framed.i)
    link(m, framed.sent, port.i)


def buffers(technology: Technology) -> Resources:
    """The RAM of both directions."""
    one = technology.ram_cost(width=8, depth=BUFFER)
    return one + one
