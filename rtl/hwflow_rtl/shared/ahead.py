"""A queue for the stream of weights: what a slow memory gives early waits here until it is needed quickly."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..stream.streams import stream_of
from ..vendor.base import Resources, Technology
from .steps import ELEMENT_BITS

__all__ = ["LATENCY", "PERIOD", "BeatsAhead"]

#: Cycles from beat to beat at the output.
PERIOD = 2
#: Most cycles from the one in which a beat could enter to the one in which it can leave.
LATENCY = 5


class BeatsAhead(wiring.Component):
    """Holds up to `depth` beats, a power of two, in a memory with a single port.

    Even cycles read the memory and odd ones write it, so a beat enters, and one leaves, in every second cycle.
    """

    def __init__(self, *, lanes: int, depth: int, technology: Technology):
        if depth < 2 or depth & (depth - 1):
            raise ValueError(f"depth of a BeatsAhead must be a power of two, not {depth}")
        self.lanes = lanes
        self.depth = depth
        self.technology = technology
        beats = stream_of(unsigned(ELEMENT_BITS), lanes)
        super().__init__({"i": In(beats), "o": Out(beats)})

    @staticmethod
    def cost(*, lanes: int, depth: int, technology: Technology) -> Resources:
        """SPRAM exact, LUT and FF estimated."""
        width, address = lanes * ELEMENT_BITS, (depth - 1).bit_length()
        return technology.single_port_ram_cost(width=width // 2, depth=depth) + Resources(
            lut=5 * address + 8, ff=width + 2 * address + 6)

    def elaborate(self, platform):
        m = Module()
        m.submodules.ram = ram = self.technology.single_port_ram(
            width=self.lanes * ELEMENT_BITS // 2, depth=self.depth)
        # With a bit more than an address has: places that differ in this bit alone are those of a full queue.
        write_place, read_place = Signal(range(2 * self.depth)), Signal(range(2 * self.depth))
        same, full = Signal(), Signal()
        writes, room, reads, reading, free = Signal(), Signal(init=1), Signal(), Signal(), Signal()
        m.d.comb += [
            same.eq(write_place[:-1] == read_place[:-1]), full.eq(write_place[-1] ^ read_place[-1]),
            self.i.ready.eq(writes & room), free.eq(~self.o.valid | self.o.ready),
            reads.eq(~writes & ~(same & ~full) & free),
            ram.addr.eq(Mux(writes, write_place[:-1], read_place[:-1])), ram.data_in.eq(Value.cast(self.i.payload)),
            ram.write_en.eq((self.i.valid & self.i.ready).replicate(2))]
        m.d.sync += [writes.eq(~writes), room.eq(~(same & full)), reading.eq(reads)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += write_place.eq(write_place + 1)
        with m.If(reads):
            m.d.sync += read_place.eq(read_place + 1)
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(reading):
            m.d.sync += [self.o.valid.eq(1), Value.cast(self.o.payload).eq(ram.data_out)]
        return m
