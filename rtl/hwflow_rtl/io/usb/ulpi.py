"""USB at high speed behind a PHY chip with ULPI, whose clock of 60 MHz is that of the line."""

from __future__ import annotations

from types import SimpleNamespace

from amaranth.hdl import DomainRenamer, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...stream.streams import BYTE, link, stream_of
from ...vendor.base import Technology
from .device import SerialDevice
from .identity import UsbIdentity

ULPI_MHZ = 60


class UlpiPort(wiring.Component):
    """Bytes from and to a host; `sync` is the clock of the PHY.

    Parameters
    ----------
    identity
        The descriptors.
    technology
        Makes the buffers.

    Attributes
    ----------
    data_i, data_o, data_oe : In(8), Out(8), Out(1)
        The data lines, which the FPGA drives unless `dir` is high.
    dir, nxt, stp : In(1), In(1), Out(1)
    o, i : streams of bytes
    """

    def __init__(self, *, identity: UsbIdentity, technology: Technology):
        self.identity = identity
        self.technology = technology
        super().__init__({
            "data_i": In(8), "data_o": Out(8), "data_oe": Out(1), "dir": In(1), "nxt": In(1), "stp": Out(1),
            "o": Out(stream_of(BYTE, 1)), "i": In(stream_of(BYTE, 1))})

    def elaborate(self, platform):
        m = Module()
        # LUNA drives these itself: as members of a signature they would be outputs of another component.
        data_o, data_oe, stp = Signal(8), Signal(), Signal()
        bus = SimpleNamespace(
            data=SimpleNamespace(i=self.data_i, o=data_o, oe=data_oe), dir=SimpleNamespace(i=self.dir),
            nxt=SimpleNamespace(i=self.nxt), stp=SimpleNamespace(o=stp))
        device = SerialDevice(bus=bus, identity=self.identity, high_speed=True, technology=self.technology)
        m.submodules.device = DomainRenamer({"usb": "sync"})(device)
        m.d.comb += [self.data_o.eq(data_o), self.data_oe.eq(data_oe), self.stp.eq(stp)]
        link(m, device.o, wiring.flipped(self.o))
        link(m, wiring.flipped(self.i), device.i)
        return m
