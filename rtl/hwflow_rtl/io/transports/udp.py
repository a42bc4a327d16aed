"""UDP over gigabit Ethernet as the way to a design: a PHY with RGMII beside the FPGA."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...vendor.base import Resources, Technology
from ...vendor.fitted import fitted
from ..ethernet.endpoint import UdpEndpoint
from ..ethernet.headers import Address
from ..ethernet.rgmii import Delays, Rgmii
from ..ethernet.sender import PacketStore
from ..link.shape import LARGEST_PAYLOAD, LinkShape
from .base import Transport

#: Of RGMII at a gigabit a second.
CLOCK_MHZ = 125.0


class Udp(Transport):
    """A packet in each datagram.  `line` has the clock that the PHY gives with what it receives.

    Parameters
    ----------
    address
        Our own.
    technology
        Makes the memory of packets to send and the registers in the pads.  ValueError where it has no such registers.
    delays
        What the board wants; None: none.

    Attributes
    ----------
    udp_rxc, udp_rxd, udp_rx_ctl : In(1), In(4), In(1)
    udp_txc, udp_txd, udp_tx_ctl : Out(1), Out(4), Out(1)
        RGMII.
    udp_reset_n : Out(1)
        Of the PHY, low until the board has started: then it finds the levels that say how it is to work.
    started : In(1)
        Of the oscillator's domain, for the PHY may stop its clock in reset.
    """

    kind = "udp"
    #: A packet fills a datagram, and a queue has room for five of them.
    shape = LinkShape(payload=LARGEST_PAYLOAD, room=8192, fast=True)

    def __init__(self, *, address: Address, technology: Technology, delays: Delays | None = None):
        if technology.double_rate is None:
            raise ValueError(f"family must be one that has registers for two bits in a cycle in its pads, not "
                             f"{technology.name}")
        self.phy = Rgmii(pads=technology.double_rate, delays=delays or Delays())
        self.endpoint = UdpEndpoint(address=address, technology=technology)
        super().__init__(
            {"udp_rxc": In(1), "udp_rxd": In(4), "udp_rx_ctl": In(1), "udp_txc": Out(1), "udp_txd": Out(4),
             "udp_tx_ctl": Out(1), "udp_reset_n": Out(1)},
            clock="udp_rxc", clock_mhz=CLOCK_MHZ, members={"started": In(1)})

    @staticmethod
    def cost(technology: Technology) -> Resources:
        """LUT and FF as synthesized, RAM exact."""
        return fitted("Udp") + PacketStore.memory_cost(technology)

    def elaborate(self, platform):
        m = Module()
        m.submodules.phy, m.submodules.endpoint = phy, endpoint = self.phy, self.endpoint
        m.d.comb += [
            phy.rxd.eq(self.udp_rxd), phy.rx_ctl.eq(self.udp_rx_ctl), self.udp_txd.eq(phy.txd),
            self.udp_tx_ctl.eq(phy.tx_ctl), self.udp_txc.eq(phy.txc),
            endpoint.rx_data.eq(phy.rx_data), endpoint.rx_valid.eq(phy.rx_valid),
            endpoint.rx_error.eq(phy.rx_error), phy.tx_data.eq(endpoint.tx_data),
            phy.tx_enable.eq(endpoint.tx_enable), self.udp_reset_n.eq(self.started)]
        wiring.connect(m, endpoint.o, wiring.flipped(self.o))
        wiring.connect(m, wiring.flipped(self.i), endpoint.i)
        return m
