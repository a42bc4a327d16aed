"""A serial line as the way to a design."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...stream.streams import link
from ...vendor.base import Resources
from ...vendor.fitted import fitted
from ..uart import UartReceiver, UartTransmitter
from .base import Transport
from .framed import Framed

__all__ = ["Uart"]


class Uart(Transport):
    """Packets over a serial line, 8 data bits, no parity, one stop bit.

    Parameters
    ----------
    divider
        Clock cycles of one bit, at least 4.

    Attributes
    ----------
    rx : In(1)
        From the host.
    tx : Out(1)
        To the host, idle high.
    """

    kind = "uart"

    def __init__(self, *, divider: int):
        self.divider = divider
        self.receiver, self.transmitter = UartReceiver(divider=divider), UartTransmitter(divider=divider)
        super().__init__({"rx": In(1), "tx": Out(1, init=1)})

    @staticmethod
    def cost() -> Resources:
        """LUT and FF as synthesized."""
        return fitted("Uart")

    def elaborate(self, platform):
        m = Module()
        m.submodules.receiver, m.submodules.transmitter = receiver, transmitter = self.receiver, self.transmitter
        m.submodules.framed = framed = Framed()
        m.d.comb += [receiver.rx.eq(self.rx), self.tx.eq(transmitter.tx)]
        link(m, receiver.o, framed.received)
        link(m, framed.o, wiring.flipped(self.o))
        link(m, wiring.flipped(self.i), framed.i)
        link(m, framed.sent, transmitter.i)
        return m
