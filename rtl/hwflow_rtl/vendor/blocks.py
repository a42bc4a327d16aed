"""How a memory of any width and depth is laid over RAM blocks, and how its contents are cut up for them.

A RAM block can be used in several shapes, deep and narrow to shallow and wide.  A `Tiling` uses one shape for the whole
memory: `columns` blocks side by side make the width, `banks` of them one after the other make the depth.  The words
of a ROM after a power of two may have a tiling of their own (`tile_rom`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Const, Instance, Module, Mux, Signal, Value
from amaranth.lib import memory
from amaranth.utils import ceil_log2

from .base import Ram, Resources, Rom
from .memory import Memory, MemoryKind, Place

#: More banks than this make the multiplexer after them the critical path, so that deeper shapes are taken instead.
MOST_BANKS = 4
#: Deeper tables take more than two levels of logic.
DEEPEST_TABLE = 64


@dataclass(frozen=True)
class BlockShape:
    """Words and bits a word of one RAM block in one of its configurations; words are a power of two."""

    depth: int
    width: int


@dataclass(frozen=True)
class Tiling:
    """`banks` times `columns` blocks of `shape`; further words are in the blocks of `rest`."""

    shape: BlockShape
    banks: int
    columns: int
    rest: Tiling | None = None

    @property
    def blocks(self) -> int:
        return self.banks * self.columns + (self.rest.blocks if self.rest else 0)

    @property
    def choices(self) -> int:
        """Banks of all parts: the inputs of the multiplexer after the blocks."""
        return self.banks + (self.rest.banks if self.rest else 0)

    @property
    def inner_bits(self) -> int:
        """Address bits that go to a block; the rest selects the bank."""
        return ceil_log2(self.shape.depth)


@lru_cache(maxsize=1 << 16)  # the solver asks for the same sizes again and again
def tile(width: int, depth: int, shapes: tuple[BlockShape, ...]) -> Tiling:
    """The tiling of the fewest blocks, and among those of the fewest banks."""
    tilings = [Tiling(shape, -(-depth // shape.depth), -(-width // shape.width)) for shape in shapes]
    shallow = [t for t in tilings if t.banks <= MOST_BANKS]
    return min(shallow or tilings, key=lambda t: (t.blocks, t.banks) if shallow else (t.banks, t.blocks))


@lru_cache(maxsize=1 << 16)
def tile_rom(width: int, depth: int, shapes: tuple[BlockShape, ...]) -> Tiling:
    """Tile a ROM as `tile` does, or in two parts, where that takes fewer blocks: a power of two of words, and the
    others.

    The weights of a 3 x 3 kernel are 9 * 2^n words.  On an ECP5 36 864 words of 8 bits take 24 blocks in banks of one
    shape, but 16 for the first 32 768 and 2 for the others.
    """
    whole, first = tile(width, depth, shapes), 1 << (ceil_log2(depth) - 1) if depth > 1 else 0
    if not first:
        return whole
    parts = replace(tile(width, first, shapes), rest=tile(width, depth - first, shapes))
    return parts if parts.blocks < whole.blocks and parts.choices <= MOST_BANKS else whole


def bits_of(contents: npt.NDArray[np.uint8], width: int) -> npt.NDArray[np.uint8]:
    """uint8[depth, bytes], least significant byte first, to one bit an element: uint8[depth, width]."""
    return np.unpackbits(np.ascontiguousarray(contents, dtype=np.uint8), axis=1, bitorder="little")[:, :width]


def block_of(bits: npt.NDArray[np.uint8], tiling: Tiling, bank: int, column: int) -> npt.NDArray[np.uint8]:
    """The part of `bits` that one block holds, filled up with zeros to the block's shape."""
    deep, wide = tiling.shape.depth, tiling.shape.width
    part = bits[bank * deep:(bank + 1) * deep, column * wide:(column + 1) * wide]
    whole = np.zeros((deep, wide), dtype=np.uint8)
    whole[:part.shape[0], :part.shape[1]] = part
    return whole


def packed(rows: npt.NDArray[np.uint8]) -> list[Const]:
    """Each row of bits as a constant of as many bits, the first bit the least significant."""
    octets = np.packbits(rows, axis=1, bitorder="little")
    return [Const(int.from_bytes(row.tobytes(), "little"), rows.shape[1]) for row in octets]


def delay(m: Module, value: Value, cycles: int, name: str) -> Value:
    """`value`, `cycles` clock cycles later, through registers without reset."""
    for k in range(cycles):
        register = Signal.like(value, name=f"{name}_{k}", reset_less=True)
        m.d.sync += register.eq(value)
        value = register
    return value


class BlockRom(Rom):
    """A ROM in RAM blocks; a family says what a block is.  Latency 2.

    The address reaches every bank at once.  Where `fabric_register` is not set, the blocks have output registers and
    the banks' multiplexer comes after them; else it comes before a register in the fabric.
    """

    shapes: ClassVar[tuple[BlockShape, ...]]

    def __init__(self, *, width: int, contents: npt.NDArray[np.uint8], name: str):
        super().__init__(width=width, contents=contents)
        self.name = name
        self.tiling = tile_rom(width, self.depth, self.shapes)

    @property
    def fabric_register(self) -> bool:
        raise NotImplementedError

    def block(self, m: Module, *, read: Value, out: Value, bits: npt.NDArray[np.uint8], **attributes: str) -> Instance:
        """One block that holds `bits` [depth, width] and gives the word at `read` at `out`."""
        raise NotImplementedError

    def elaborate(self, platform):
        m = Module()
        tiling, bits = self.tiling, bits_of(self.contents, self.width)
        words = self.part(m, tiling, bits, 0)
        select = self.addr[tiling.inner_bits:]
        if tiling.rest:
            first = tiling.banks * tiling.shape.depth
            words += self.part(m, tiling.rest, bits[first:], tiling.banks)
            rest_bank = tiling.banks + self.addr[tiling.rest.inner_bits:ceil_log2(first)]
            select = Signal(range(tiling.choices))
            m.d.comb += select.eq(Mux(self.addr[-1], rest_bank, self.addr[tiling.inner_bits:ceil_log2(first)]))
        m.d.comb += self.data.eq(joined(m, words, select, self.fabric_register))
        return m

    def part(self, m: Module, tiling: Tiling, bits: npt.NDArray[np.uint8], number: int) -> list[Value]:
        """The banks of one shape that hold `bits`, from bank `number` on.  Returns the word that each gives."""
        wide, read = tiling.shape.width, Signal(tiling.inner_bits, name=f"read{number}")
        m.d.comb += read.eq(self.addr)
        words = []
        for bank in range(tiling.banks):
            word = Signal(tiling.columns * wide, name=f"word{number + bank}")
            for column in range(tiling.columns):
                m.submodules[f"bank{number + bank}_column{column}"] = self.block(
                    m, read=read, out=word.word_select(column, wide), bits=block_of(bits, tiling, bank, column),
                    a_hwflow_rom=self.name, a_hwflow_block=f"{number + bank}_{column}")
            words.append(word[:self.width])
        return words


class BlockRam(Ram):
    """A RAM in RAM blocks; a family says what a block is.  Latency 2, registers as in `BlockRom`."""

    shapes: ClassVar[tuple[BlockShape, ...]]

    def __init__(self, *, width: int, depth: int):
        super().__init__(width=width, depth=depth)
        self.tiling = tile(width, depth, self.shapes)

    @property
    def fabric_register(self) -> bool:
        raise NotImplementedError

    def block(self, m: Module, *, write: Value, enable: Value, word: Value, read: Value, out: Value) -> Instance:
        """One block; `word` is stored at `write` where `enable` is set, and the word at `read` comes out at `out`."""
        raise NotImplementedError

    def elaborate(self, platform):
        m = Module()
        tiling, wide = self.tiling, self.tiling.shape.width
        write = Signal(tiling.inner_bits)
        read = Signal(tiling.inner_bits)
        data = Signal(tiling.columns * wide)
        m.d.comb += [write.eq(self.write_addr), read.eq(self.read_addr), data.eq(self.write_data)]
        write_bank = self.write_addr[tiling.inner_bits:]
        words = []
        for bank in range(tiling.banks):
            enable = Signal(name=f"enable{bank}")
            m.d.comb += enable.eq(self.write_en & (write_bank == bank) if tiling.banks > 1 else self.write_en)
            word = Signal(tiling.columns * wide, name=f"word{bank}")
            for column in range(tiling.columns):
                m.submodules[f"bank{bank}_column{column}"] = self.block(
                    m, write=write, enable=enable, word=data.word_select(column, wide), read=read,
                    out=word.word_select(column, wide))
            words.append(word[:self.width])
        m.d.comb += self.read_data.eq(joined(m, words, self.read_addr[tiling.inner_bits:], self.fabric_register))
        return m


def joined(m: Module, words: Sequence[Value], bank: Value, fabric_register: bool) -> Value:
    """The word of `bank`, 2 cycles after the address."""
    select = delay(m, bank, 1 if fabric_register else 2, "bank") if len(words) > 1 else bank
    word = words[0] if len(words) == 1 else Cat(*words).word_select(select, len(words[0]))
    return delay(m, word, 1, "word") if fabric_register else word


def block_cost(tiling: Tiling, width: int, fabric_register: bool) -> Resources:
    """The blocks, the multiplexer after the banks (one table a bit for two banks, two for up to four), registers."""
    select = (tiling.choices - 1).bit_length()
    per_bit = 0 if tiling.choices == 1 else 1 if tiling.choices == 2 else 2
    ff = width + select if fabric_register else 2 * select
    return Resources(ram=tiling.blocks, lut=width * per_bit + (select if tiling.rest else 0), ff=ff)


def write_decoder_cost(tiling: Tiling) -> Resources:
    return Resources(lut=tiling.banks if tiling.banks > 1 else 0)


class SplitRom(Rom):
    """The low bits of each word in `low`, the others in `high`: ROMs of the same depth.  Latency 2, as both have it."""

    def __init__(self, *, low: Rom, high: Rom):
        bits = [bits_of(part.contents, part.width) for part in (low, high)]
        super().__init__(width=low.width + high.width,
                         contents=np.packbits(np.concatenate(bits, axis=1), axis=1, bitorder="little"))
        self.low, self.high = low, high

    def elaborate(self, platform):
        m = Module()
        m.submodules.low, m.submodules.high = self.low, self.high
        m.d.comb += [self.low.addr.eq(self.addr), self.high.addr.eq(self.addr),
                     self.data.eq(Cat(self.low.data, self.high.data))]
        return m


class TailedRam(Ram):
    """The first words, a power of two, in `low` and the others in `high`.  Latency 2, as both have it."""

    def __init__(self, *, low: Ram, high: Ram):
        super().__init__(width=low.width, depth=low.depth + high.depth)
        self.low, self.high = low, high

    def elaborate(self, platform):
        m = Module()
        m.submodules.low, m.submodules.high = self.low, self.high
        for part, top_bit in ((self.low, 0), (self.high, 1)):
            m.d.comb += [
                part.write_en.eq(self.write_en & (self.write_addr[-1] == top_bit)),
                part.write_addr.eq(self.write_addr), part.write_data.eq(self.write_data),
                part.read_addr.eq(self.read_addr),
            ]
        in_high = delay(m, self.read_addr[-1], 2, "behind")
        m.d.comb += self.read_data.eq(Mux(in_high, self.high.read_data, self.low.read_data))
        return m


class LutRam(Ram):
    """A shallow RAM in lookup tables: address register, table, data register.  Latency 2."""

    def elaborate(self, platform):
        m = Module()
        m.submodules.table = table = memory.Memory(
            shape=self.width, depth=self.depth, init=[], attrs={"ram_style": "distributed"})
        write, read = table.write_port(), table.read_port(domain="comb")
        m.d.comb += [
            write.en.eq(self.write_en), write.addr.eq(self.write_addr), write.data.eq(self.write_data),
            read.addr.eq(delay(m, self.read_addr, 1, "read_addr")),
            self.read_data.eq(delay(m, read.data, 1, "read_data")),
        ]
        return m


def tiling_of(memory: Memory, shapes: tuple[BlockShape, ...]) -> Tiling:
    """The tiling of a memory in RAM blocks."""
    cut = tile_rom if memory.kind is MemoryKind.ROM else tile
    return cut(memory.width, memory.depth, shapes)


def places_of(memory: Memory, tables: Resources, tiling: Tiling, luts_for_a_block: int,
              deepest: Mapping[MemoryKind, int] = MappingProxyType({})) -> tuple[Place, ...]:
    """The places of a memory that takes `tables` in tables and `tiling` in blocks.

    Tables are preferred where it is shallow and saves RAM blocks at `luts_for_a_block` tables each or fewer; for this
    `tables` counts what joins them, too, for it burdens the router.  Words
    beyond `deepest` of its kind (`DEEPEST_TABLE` where none is given) are in blocks alone.
    """
    if memory.depth <= DEEPEST_TABLE and tables.lut <= luts_for_a_block * tiling.blocks:
        return Place.TABLES, Place.BLOCKS
    if memory.depth <= deepest.get(memory.kind, DEEPEST_TABLE):
        return Place.BLOCKS, Place.TABLES
    return (Place.BLOCKS,)


def lut_rom_cost(width: int, depth: int) -> Resources:
    """Upper estimate: a table of four inputs holds 16 words of a bit, and two tables join four of those."""
    leaves = -(-depth // 16)
    return Resources(lut=width * (leaves + max(leaves - 1, 0)), ff=width + ceil_log2(depth))


def joined_rom_cost(width: int, depth: int, joined: int) -> Resources:
    """Where the multiplexers of the slices join up to `joined` tables of a bit, and take none; tables join the rest."""
    leaves = 1 << ceil_log2(-(-depth // 16))
    return Resources(lut=width * (leaves + max(leaves // joined - 1, 0)), ff=width + ceil_log2(depth))


def lut_ram_cost(width: int, depth: int, luts_of_16x4: int) -> Resources:
    """`luts_of_16x4` tables hold 16 words of 4 bits with their write port; deeper ones are joined."""
    leaves = -(-depth // 16)
    cells = leaves * -(-width // 4)
    join = width * (leaves - 1) + (2 * leaves if leaves > 1 else 0)
    return Resources(lut=cells * luts_of_16x4 + join, ff=width + ceil_log2(depth))
