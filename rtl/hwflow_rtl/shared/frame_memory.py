"""The frame memory of a shared stage: block RAM with two ports, or large RAM with a single one."""

from __future__ import annotations

from amaranth.hdl import Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..stream.pipeline import delay
from ..vendor.base import Resources, Technology
from ..vendor.memory import Holds

__all__ = ["FrameMemory"]


class FrameMemory(wiring.Component):
    """`read_data` is the word at `read_addr`, `timing.ram` cycles later, where `read_en` was set.

    A word is written in a cycle with `write_en` and `write_ready`.  With a single port a read goes first.
    """

    def __init__(self, *, width: int, words: int, single_port: bool, technology: Technology):
        self.width = width
        self.words = words
        self.single_port = single_port
        self.technology = technology
        super().__init__({
            "read_en": In(1), "read_addr": In(range(words)), "read_data": Out(width),
            "write_en": In(1), "write_ready": Out(1), "write_addr": In(range(words)), "write_data": In(width)})

    @staticmethod
    def cost(*, width: int, words: int, single_port: bool, technology: Technology) -> Resources:
        """RAM exact, LUT and FF estimated."""
        if single_port:
            address = (words - 1).bit_length()
            return (technology.single_port_ram_cost(width=width // 2, depth=words)
                    + Resources(lut=address, ff=width * (technology.timing.ram - 1)))
        return technology.ram_cost(width=width, depth=words, name="frames", holds=Holds.FRAMES)

    def elaborate(self, platform):
        m = Module()
        if self.single_port:
            m.submodules.ram = ram = self.technology.single_port_ram(width=self.width // 2, depth=self.words)
            m.d.comb += [
                self.write_ready.eq(~self.read_en), ram.addr.eq(Mux(self.read_en, self.read_addr, self.write_addr)),
                ram.write_en.eq((self.write_en & ~self.read_en).replicate(2)), ram.data_in.eq(self.write_data),
                self.read_data.eq(delay(m, ram.data_out, self.technology.timing.ram - 1, "read_word"))]
            return m
        m.submodules.ram = ram = self.technology.ram(width=self.width, depth=self.words, name="frames")
        m.d.comb += [
            self.write_ready.eq(1), ram.read_addr.eq(self.read_addr), self.read_data.eq(ram.read_data),
            ram.write_en.eq(self.write_en), ram.write_addr.eq(self.write_addr), ram.write_data.eq(self.write_data)]
        return m
