"""Packets that wait to be sent, whole: a datagram says how long it is before its contents."""

from __future__ import annotations

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...stream.pipeline import delay
from ...stream.queue import Queue
from ...vendor.base import Resources, Technology
from ..link_bytes import TOKEN
from .headers import LARGEST_UDP, UDP_HEADER
from .peers import Peers

__all__ = ["LARGEST", "PacketStore"]

#: Bytes of a packet, at most.
LARGEST = LARGEST_UDP - UDP_HEADER
#: Bytes that wait: one RAM block, more than a packet.  While one is sent the next comes as fast as that leaves room.
ROOM = 2048
#: Packets that wait.
PACKETS = 4


class PacketStore(wiring.Component):
    """Tokens in, and packets of which the length is known.

    A packet whose flag is `bad`, or which is longer than `LARGEST`, is dropped, and so is an empty one.

    Attributes
    ----------
    i : stream of TOKEN
    length : stream of bytes of the packets that are whole
        Taken when its last byte has been taken.
    take : In(1)
        The next byte of all packets; there must be one.
    byte : Out(8)
        What `take` took, `Peers.LATENCY` cycles later, as all that is sent.
    """

    def __init__(self, *, technology: Technology):
        self.technology = technology
        super().__init__({"i": In(stream.Signature(TOKEN)), "length": Out(stream.Signature(range(LARGEST + 1))),
                          "take": In(1), "byte": Out(8)})

    @staticmethod
    def memory_cost(technology: Technology) -> Resources:
        """Of the packets."""
        return Resources(ram=technology.ram_cost(width=8, depth=ROOM).ram)

    def elaborate(self, platform):
        m = Module()
        m.submodules.ram = ram = self.technology.ram(width=8, depth=ROOM)
        m.submodules.lengths = lengths = Queue(shape=range(LARGEST + 1), depth=PACKETS, technology=self.technology)
        written, whole, read = (Signal(range(2 * ROOM), name=name) for name in ("written", "whole", "read"))
        count, some, long = Signal(range(LARGEST + 2)), Signal(), Signal()
        token, taken, room = self.i.payload, Signal(), Signal()
        # One cycle late: the byte that comes meanwhile has its place.
        m.d.sync += room.eq((written - read)[:len(read)] < ROOM - 2)
        m.d.comb += [
            self.i.ready.eq((room | long) & lengths.i.ready), taken.eq(self.i.valid & self.i.ready),
            ram.write_en.eq(taken & ~token.flag), ram.write_addr.eq(written[:-1]), ram.write_data.eq(token.byte),
            ram.read_addr.eq(read[:-1]),
            self.byte.eq(delay(m, ram.read_data, Peers.LATENCY - self.technology.timing.ram, "byte")),
            lengths.i.payload.eq(count), lengths.i.valid.eq(taken & token.flag & ~token.bad & ~long & some)]
        with m.If(taken & token.flag):
            m.d.sync += [count.eq(0), some.eq(0), long.eq(0)]
            with m.If(lengths.i.valid):
                m.d.sync += whole.eq(written)
            with m.Else():
                m.d.sync += written.eq(whole)
        with m.Elif(taken & ~long):
            m.d.sync += [written.eq(written + 1), count.eq(count + 1), some.eq(1), long.eq(count == LARGEST)]
        m.d.sync += read.eq(read + self.take)
        wiring.connect(m, lengths.o, wiring.flipped(self.length))
        return m
