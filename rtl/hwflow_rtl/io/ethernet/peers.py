"""Who is at the other end: the addresses of the peer, of the sender of what comes in, and of who asks for our MAC."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...stream.pipeline import delay
from ...vendor.blocks import LutRam
from .headers import SLOTS

__all__ = ["Peers"]


class Peers(wiring.Component):
    """Addresses, a byte at each slot (`headers`).  The sender of a datagram becomes the peer by `adopt`.

    One bank holds the peer, the next one the sender, and `adopt` goes on by a bank.  A frame is sent to one bank while
    the next peers come: the shortest datagrams take 57 cycles each, and its header 74 at most, in which no bank of four
    is the sender's again.

    Attributes
    ----------
    byte, slot, sends, asks : In(8), In(range(SLOTS)), In(1), In(1)
        A byte of the address of a sender, or of who asks for our MAC.
    begin : In(1)
        A new frame comes in.
    same : Out(1)
        All bytes of the sender since then are those of the peer; LATENCY + 1 cycles after the last one.
    adopt : In(1)
        A pulse: the sender is the peer.
    hold : In(1)
        The header of a frame is sent: read the bank that was the peer's before.
    read_slot, read_asker : In(range(SLOTS)), In(1)
    read_byte : Out(8)
        Of the peer, or of who asked; LATENCY cycles later.
    """

    #: Cycles in which an address is read: the memories are in tables, for RAM blocks are dear.
    LATENCY = 2

    def __init__(self) -> None:
        super().__init__({
            "byte": In(8), "slot": In(range(SLOTS)), "sends": In(1), "asks": In(1), "begin": In(1), "same": Out(1),
            "adopt": In(1), "hold": In(1), "read_slot": In(range(SLOTS)), "read_asker": In(1), "read_byte": Out(8)})

    def elaborate(self, platform):
        m = Module()
        latency, bank, following, held = self.LATENCY, Signal(2), Signal(2), Signal(2)
        m.d.comb += following.eq(bank + 1)
        with m.If(self.adopt):
            m.d.sync += bank.eq(following)
        with m.If(~self.hold):
            m.d.sync += held.eq(bank)
        # The peer is read in two places at a time, so there are two copies of it.
        m.submodules.compared = compared = LutRam(width=8, depth=2 * SLOTS)
        m.submodules.sent = sent = LutRam(width=8, depth=4 * SLOTS)
        m.submodules.asker = asker = LutRam(width=8, depth=SLOTS)
        for ram, write in ((compared, self.sends), (sent, self.sends), (asker, self.asks)):
            m.d.comb += [ram.write_en.eq(write), ram.write_addr.eq(Cat(self.slot, following)[:len(ram.write_addr)]),
                         ram.write_data.eq(self.byte)]
        m.d.comb += [
            compared.read_addr.eq(Cat(self.slot, bank[0])), sent.read_addr.eq(Cat(self.read_slot, held)),
            asker.read_addr.eq(self.read_slot),
            self.read_byte.eq(Mux(delay(m, self.read_asker, latency, "read_asker"), asker.read_data, sent.read_data))]
        differs = delay(m, self.sends, latency, "sends") & (
            compared.read_data != delay(m, self.byte, latency, "byte"))
        # Of a frame that was cut the last byte is compared behind its end.
        m.d.sync += self.same.eq((self.same | delay(m, self.begin, latency, "begin")) & ~differs)
        return m
