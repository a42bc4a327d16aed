"""The ring in which words wait until all of their row is known."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Module, Shape, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..stream.pipeline import adder_luts
from ..vendor.base import Resources, Technology
from ..vendor.memory import Holds


@dataclass(frozen=True, kw_only=True)
class RowRingShape:
    """`depth` words of `width` bits, a power of two, in a RAM called `name`."""

    width: int
    depth: int
    name: str

    def __post_init__(self) -> None:
        if self.depth & (self.depth - 1):
            raise ValueError(f"depth of a RowRing must be a power of two, not {self.depth}")

    def cost(self, technology: Technology) -> Resources:
        """RAM exact, LUT and FF estimated."""
        address = (self.depth - 1).bit_length()
        counters = 2 * address + address + 1
        ram = technology.ram_cost(width=self.width, depth=self.depth, name=self.name, holds=Holds.RING)
        return ram + Resources(
            lut=2 * adder_luts(address, technology) + adder_luts(address + 1, technology), ff=counters)

    def build(self, technology: Technology) -> RowRing:
        return RowRing(shape=self, technology=technology)


class RowRing(wiring.Component):
    """Words that are read in the order in which they were written.

    Ports
    -----
    room
        There is a place for one more word: a register.
    reserve
        A word has a place from now on; it is written later, or in the same cycle.
    write, written
        A word is written.
    read, word
        The next word is read; it comes `technology.timing.ram` cycles later.  Its place is free in the next cycle.
    """

    def __init__(self, *, shape: RowRingShape, technology: Technology):
        self.depth, self.name = shape.depth, shape.name
        self.technology = technology
        super().__init__({"room": Out(1), "reserve": In(1), "write": In(1), "written": In(shape.width), "read": In(1),
                          "word": Out(shape.width)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.memory = memory = self.technology.ram(
            width=len(self.written), depth=self.depth, name=self.name)
        write, read = Signal(range(self.depth)), Signal(range(self.depth))
        places = Signal(Shape.cast(range(-1, self.depth)), init=self.depth - 1)  # less one: its sign bit is the answer
        m.d.sync += [write.eq(write + self.write), read.eq(read + self.read)]
        with m.If(self.read & ~self.reserve):
            m.d.sync += places.eq(places + 1)
        with m.Elif(self.reserve & ~self.read):
            m.d.sync += places.eq(places - 1)
        m.d.comb += [
            self.room.eq(~places[-1]), memory.write_en.eq(self.write), memory.write_addr.eq(write),
            memory.write_data.eq(self.written), memory.read_addr.eq(read), self.word.eq(memory.read_data),
        ]
        return m
