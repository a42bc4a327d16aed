"""The frame memory of a shared stage: block RAM with two ports, or large RAM with a single one."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..stream.pipeline import delay
from ..vendor.base import Resources, Technology
from ..vendor.memory import Holds

#: RAMs that a frame memory is made of at most: a multiplexer is after them.
MOST_PARTS = 3


@dataclass(frozen=True, kw_only=True)
class FrameMemoryShape:
    """`words` words of `width` bits.

    A memory with a single port is made of `banks` (1 or 2, the second has the upper half of the words): a bank is
    written while it is not read.  One with two ports is made of RAMs of `parts_of` words, one after another.
    """

    width: int
    words: int
    single_port: bool
    banks: int

    def cost(self, technology: Technology) -> Resources:
        """RAM exact, LUT and FF estimated."""
        width, words, banks = self.width, self.words, self.banks
        if self.single_port:
            address, depth = (words - 1).bit_length(), words // banks
            ram = technology.single_port_ram_cost(width=width // 2, depth=depth)
            return (ram.copies(banks) + Resources(lut=banks * address + (width if banks > 1 else 0),
                                                  ff=width * (technology.timing.ram - 1) + banks))
        parts = parts_of(width, words, technology)
        total = sum((technology.ram_cost(width=width, depth=depth, name=name, holds=Holds.FRAMES)
                     for name, depth in zip(names_of(parts), parts, strict=True)), Resources())
        return total + Resources(lut=(len(parts) - 1) * width, ff=technology.timing.ram * (len(parts) - 1))


class FrameMemory(wiring.Component):
    """`read_data` is the word at `read_addr`, `timing.ram` cycles later, where `read_en` was set.

    A word is written in a cycle with `write_en` and `write_ready`.
    """

    def __init__(self, *, shape: FrameMemoryShape, technology: Technology):
        self.width, self.words, self.single_port, self.banks = (
            shape.width, shape.words, shape.single_port, shape.banks)
        self.technology = technology
        super().__init__({
            "read_en": In(1), "read_addr": In(range(self.words)), "read_data": Out(self.width),
            "write_en": In(1), "write_ready": Out(1), "write_addr": In(range(self.words)),
            "write_data": In(self.width)})

    def elaborate(self, platform):
        m = Module()
        if self.single_port:
            self.single(m)
            return m
        m.d.comb += self.write_ready.eq(1)
        parts, first = parts_of(self.width, self.words, self.technology), 0
        for name, depth in zip(names_of(parts), parts, strict=True):
            m.submodules[name] = ram = self.technology.ram(width=self.width, depth=depth, name=name)
            # a part but the last has a power of two of words, and begins at a multiple of it
            is_written, is_read = (in_part(addr, first, depth, self.words)
                                   for addr in (self.write_addr, self.read_addr))
            m.d.comb += [ram.read_addr.eq(self.read_addr), ram.write_addr.eq(self.write_addr),
                         ram.write_en.eq(self.write_en & is_written), ram.write_data.eq(self.write_data)]
            with m.If(delay(m, is_read, self.technology.timing.ram, f"read_of_{name}")):
                m.d.comb += self.read_data.eq(ram.read_data)
            first += depth
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


def parts_of(width: int, words: int, technology: Technology) -> tuple[int, ...]:
    """The depths of the RAMs that together take the fewest RAM blocks: all but the last are powers of two.

    A RAM has blocks of one shape.  39 984 words of 64 bits take 192 blocks of an ECP5 as one RAM, and 160 as one of
    32 768 words and one for the others.
    """
    def blocks(parts: tuple[int, ...]) -> int:
        return sum(technology.ram_cost(width=width, depth=depth, holds=Holds.FRAMES).ram for depth in parts)

    splits = [(words,)]
    while len(splits) < MOST_PARTS and splits[-1][-1] > 2:
        *before, last = splits[-1]
        first = 1 << ((last - 1).bit_length() - 1)
        splits.append((*before, first, last - first))
    return min(splits, key=lambda parts: (blocks(parts), len(parts)))


def names_of(parts: tuple[int, ...]) -> tuple[str, ...]:
    return ("frames",) if len(parts) == 1 else tuple(f"frames{k}" for k in range(len(parts)))


def in_part(address: Value, first: int, depth: int, words: int) -> Value:
    """Whether an address is of the part of `depth` words from `first` on."""
    if depth == words:
        return Const(1, 1)
    if first + depth == words:
        depth = 1 << (depth - 1).bit_length()
    bits = depth.bit_length() - 1
    return address[bits:] == first >> bits
