"""UDP over Ethernet between a PHY and the packets of the host link."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...vendor.base import Technology
from ..link.bytes import TOKEN
from .headers import Address, Peers
from .receiver import DatagramReceiver, MacReceiver
from .sender import MacSender, PacketStore


class UdpEndpoint(wiring.Component):
    """One packet in each datagram, for one peer at a time.  It answers ARP, and is silent where nobody asks.

    Attributes
    ----------
    rx_data, rx_valid, rx_error : In(8), In(1), In(1)
    tx_data, tx_enable : Out(8), Out(1)
        Of the PHY, a byte in a cycle.
    o, i : streams of TOKEN
        From the host, which cannot wait, and to it.
    """

    def __init__(self, *, address: Address, technology: Technology):
        self.address = address
        self.technology = technology
        super().__init__({
            "rx_data": In(8), "rx_valid": In(1), "rx_error": In(1), "tx_data": Out(8), "tx_enable": Out(1),
            "o": Out(stream.Signature(TOKEN)), "i": In(stream.Signature(TOKEN))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.mac = mac = MacReceiver()
        m.submodules.receiver = receiver = DatagramReceiver(address=self.address)
        m.submodules.peers = peers = Peers()
        m.submodules.store = store = PacketStore(technology=self.technology)
        m.submodules.sender = sender = MacSender(address=self.address)
        wiring.connect(m, receiver.o, wiring.flipped(self.o))
        wiring.connect(m, wiring.flipped(self.i), store.i)
        wiring.connect(m, store.length, sender.length)
        m.d.comb += [
            mac.data.eq(self.rx_data), mac.data_valid.eq(self.rx_valid), mac.error.eq(self.rx_error),
            peers.byte.eq(mac.byte), receiver.same.eq(peers.same),
            store.take.eq(sender.take), sender.packet.eq(store.byte), sender.read_byte.eq(peers.read_byte),
            peers.hold.eq(sender.hold), peers.read_slot.eq(sender.read_slot), peers.read_asker.eq(sender.read_asker),
            sender.wants_answer.eq(receiver.wants_answer), receiver.answered.eq(sender.answered),
            self.tx_data.eq(sender.data), self.tx_enable.eq(sender.enable)]
        for name in ("byte", "strobe", "end", "good"):
            m.d.comb += getattr(receiver, name).eq(getattr(mac, name))
        for name in ("slot", "sends", "asks", "begin", "adopt"):
            m.d.comb += getattr(peers, name).eq(getattr(receiver, name))
        return m
