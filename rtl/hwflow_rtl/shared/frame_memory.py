"""The frame memory of a shared stage: block RAM with two ports, or large RAM with a single one."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..stream.pipeline import delay
from ..vendor.base import Resources, Technology
from ..vendor.memory import Holds

__all__ = ["FrameMemory"]


class FrameMemory(wiring.Component):
    """`read_data` is the word at `read_addr`, `timing.ram` cycles later, where `read_en` was set.

    A word is written in a cycle with `write_en` and `write_ready`.  A memory with a single port is made of `banks`
    (1 or 2, the second has the upper half of the words): a bank is written while it is not read.
    """

    def __init__(self, *, width: int, words: int, single_port: bool, banks: int, technology: Technology):
        self.width = width
        self.words = words
        self.single_port = single_port
        self.banks = banks
        self.technology = technology
        super().__init__({
            "read_en": In(1), "read_addr": In(range(words)), "read_data": Out(width),
            "write_en": In(1), "write_ready": Out(1), "write_addr": In(range(words)), "write_data": In(width)})

    @staticmethod
    def cost(*, width: int, words: int, single_port: bool, banks: int, technology: Technology) -> Resources:
        """RAM exact, LUT and FF estimated."""
        if single_port:
            address, depth = (words - 1).bit_length(), words // banks
            ram = technology.single_port_ram_cost(width=width // 2, depth=depth)
            return (ram.copies(banks) + Resources(lut=banks * address + (width if banks > 1 else 0),
                                                  ff=width * (technology.timing.ram - 1) + banks))
        return technology.ram_cost(width=width, depth=words, name="frames", holds=Holds.FRAMES)

    def elaborate(self, platform):
        m = Module()
        if self.single_port:
            self.single(m)
            return m
        m.submodules.ram = ram = self.technology.ram(width=self.width, depth=self.words, name="frames")
        m.d.comb += [
            self.write_ready.eq(1), ram.read_addr.eq(self.read_addr), self.read_data.eq(ram.read_data),
            ram.write_en.eq(self.write_en), ram.write_addr.eq(self.write_addr), ram.write_data.eq(self.write_data)]
        return m

    def single(self, m: Module) -> None:
        """Banks with a port each; a read goes first."""
        reads, writes = (addr[-1] if self.banks > 1 else Const(0, 1) for addr in (self.read_addr, self.write_addr))
        m.d.comb += self.write_ready.eq(~(self.read_en & (reads == writes)))
        words = []
        for bank in range(self.banks):
            m.submodules[f"ram{bank}"] = ram = self.technology.single_port_ram(
                width=self.width // 2, depth=self.words // self.banks)
            is_read, address_bits = Signal(name=f"is_read{bank}"), len(ram.addr)
            m.d.comb += [
                is_read.eq(self.read_en & (reads == bank)),
                ram.addr.eq(Mux(is_read, self.read_addr[:address_bits], self.write_addr[:address_bits])),
                ram.write_en.eq((self.write_en & ~is_read & (writes == bank)).replicate(2)),
                ram.data_in.eq(self.write_data)]
            words.append(ram.data_out)
        word = words[0]
        if self.banks > 1:
            word = Mux(delay(m, reads, 1, "was_bank"), words[1], words[0])
        m.d.comb += self.read_data.eq(delay(m, word, self.technology.timing.ram - 1, "read_word"))
