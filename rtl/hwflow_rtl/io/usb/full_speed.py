"""USB at full speed on two pins of the FPGA: the PHY in gateware, the device, and the crossing to the line."""

from __future__ import annotations

from amaranth.hdl import ClockDomain, DomainRenamer, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from ...stream.streams import link, stream_of
from ...vendor.base import Technology
from ..link_bytes import ByteCrossing
from ..uart import BYTE
from .device import SerialDevice
from .identity import UsbIdentity
from .phy import FullSpeedPhy

__all__ = ["FullSpeedPort"]

#: Ports that are those of the PHY.
LINES = ("d_p_i", "d_n_i", "d_p_o", "d_n_o", "oe", "pullup")


class FullSpeedPort(wiring.Component):
    """Bytes from and to a host in `sync`; the bus is in the domain `usb` of 48 MHz.

    A reset of `sync` takes the device from the bus.

    Parameters
    ----------
    identity
        The descriptors.
    technology
        Makes the buffers.
    own_clock
        Whether `usb` has a clock of its own.  Else `sync` is of 48 MHz, and nothing crosses.

    Attributes
    ----------
    sample_clk, locked : In(1)
        With `own_clock`: 48 MHz, and whether they run.
    d_p_i, d_p_o, d_n_i, d_n_o, oe : In(1), Out(1)
        The two data lines, and whether the device drives them.
    pullup : Out(1)
        High where the host is to see a device at full speed: pulls D+ up through 1.5 kOhm.
    o, i : streams of bytes
    """

    def __init__(self, *, identity: UsbIdentity, technology: Technology, own_clock: bool):
        self.identity = identity
        self.technology = technology
        self.own_clock = own_clock
        self.phy = FullSpeedPhy()
        super().__init__({
            **({"sample_clk": In(1), "locked": In(1)} if own_clock else {}),
            **{name: self.phy.signature.members[name] for name in LINES},
            "o": Out(stream_of(BYTE, 1)), "i": In(stream_of(BYTE, 1))})

    def elaborate(self, platform):
        m = Module()
        for name in LINES:
            here, there = getattr(self, name), getattr(self.phy, name)
            m.d.comb += there.eq(here) if self.signature.members[name].flow is In else here.eq(there)
        device = SerialDevice(bus=self.phy, identity=self.identity, high_speed=False, technology=self.technology)
        domains = {"sync": "usb"} if self.own_clock else {"usb": "sync"}
        m.submodules.phy, m.submodules.device = DomainRenamer(domains)(self.phy), DomainRenamer(domains)(device)
        if not self.own_clock:
            link(m, device.o, wiring.flipped(self.o))
            link(m, wiring.flipped(self.i), device.i)
            return m
        self.clock(m)
        m.submodules.arriving = arriving = ByteCrossing(source="usb", target="sync")
        m.submodules.leaving = leaving = ByteCrossing(source="sync", target="usb")
        link(m, device.o, arriving.i)
        link(m, arriving.o, wiring.flipped(self.o))
        link(m, wiring.flipped(self.i), leaving.i)
        link(m, leaving.o, device.i)
        return m

    def clock(self, m: Module) -> None:
        """The domain `usb`, in reset as long as `sync` is, or its clock does not run."""
        start, usb = ClockDomain("usb_start", reset_less=True, local=True), ClockDomain("usb", local=True)
        m.domains += [start, usb]
        stopped = Signal()
        m.d.comb += [start.clk.eq(self.sample_clk), usb.clk.eq(self.sample_clk),
                     stopped.eq(ResetSignal("sync", allow_reset_less=True) | ~self.locked)]
        m.submodules.usb_reset = FFSynchronizer(stopped, usb.rst, o_domain="usb_start", init=1, stages=3)
