"""Constants of elements that repeat along a row, or differ from row to row: a ROM and the walk through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..stream.pipeline import Nest, adder_luts
from ..vendor.base import Resources, Technology
from ..vendor.memory import Holds

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class WalkShape:
    """Which constants belong to a beat of `lanes` elements, of rows of `elements`.

    Constants are [rows, period]: element j of row r has [r % rows, j % period].  A period is whole beats, or 1.
    """

    elements: int
    lanes: int
    rows: int
    period: int

    def __post_init__(self) -> None:
        if self.elements % self.period or (self.period > 1 and self.period % self.lanes):
            raise ValueError(f"lanes must divide a period of constants, {self.period}, which divides the row, "
                             f"{self.elements}, not be {self.lanes}")

    @property
    def together(self) -> int:
        """Constants of a beat: one for each lane, or one for all."""
        return 1 if self.period == 1 else self.lanes

    @property
    def loops(self) -> tuple[int, int, int]:
        """Words of a period, periods of a row, rows."""
        inner = self.period // self.together
        return inner, self.elements // self.lanes // inner, self.rows

    @property
    def depth(self) -> int:
        return self.loops[0] * self.rows


@dataclass(frozen=True)
class RowConstantsShape:
    """The constants of a beat, of shapes `shapes` one after the other; those of a `walk` through all of them."""

    walk: WalkShape
    shapes: tuple[Shape, ...]

    @property
    def width(self) -> int:
        """Bits of a word."""
        return self.walk.together * sum(shape.width for shape in self.shapes)

    def latency(self, technology: Technology) -> int:
        return technology.timing.rom + 1

    def cost(self, technology: Technology) -> Resources:
        """RAM exact, LUT and FF estimated."""
        walk = self.walk
        if walk.depth == 1:
            return Resources()
        address = (walk.depth - 1).bit_length()
        counters = Nest.bits(walk.loops)
        rom = technology.rom_cost(width=self.width, depth=walk.depth, name="constants", holds=Holds.CONSTANTS)
        return rom + Resources(lut=2 * adder_luts(address, technology) + 2 * counters, ff=2 * address + counters)


class RowConstants(wiring.Component):
    """`word` is what belongs to a beat, `timing.rom` + 1 cycles after `step` came with the beat.

    The constants of a beat, out of `values`, are packed, lane 0 lowest, each of the bits of its shape.
    """

    def __init__(self, *, shape: RowConstantsShape, values: Sequence[IntArray], technology: Technology, name: str):
        self.walk, self.shapes = shape.walk, shape.shapes
        self.values = values
        self.technology = technology
        self.name = name
        super().__init__({"step": In(1), "word": Out(shape.width)})

    def packed(self) -> list[int]:
        """The words, as numbers."""
        words = []
        for beat in range(self.walk.depth):
            word = place = 0
            for lane in range(self.walk.together):
                for values, shape in zip(self.values, self.shapes, strict=True):
                    value = int(values.reshape(-1)[beat * self.walk.together + lane])
                    word |= (value & ((1 << shape.width) - 1)) << place
                    place += shape.width
            words.append(word)
        return words

    def elaborate(self, platform):
        m = Module()
        words = self.packed()
        if self.walk.depth == 1:
            m.d.comb += self.word.eq(Const(words[0], len(self.word)))
            return m
        octets = -(-len(self.word) // 8)
        contents = np.array([list(word.to_bytes(octets, "little")) for word in words], np.uint8)
        m.submodules.rom = rom = self.technology.rom(width=len(self.word), contents=contents, name=self.name)
        m.d.comb += [rom.addr.eq(self.address(m)), self.word.eq(rom.data)]
        return m

    def address(self, m: Module) -> Value:
        """The address of the beat with the last `step`: a register."""
        inner, _, rows = self.walk.loops
        nest = Nest(m, self.walk.loops, name="walk")
        nest.advance(self.step)
        following, now = Signal(range(self.walk.depth)), Signal(range(self.walk.depth), reset_less=True)
        ends_row, ends_frame = nest.last[0] & nest.last[1], nest.last[2]
        again = following - (inner - 1) if inner > 1 else following
        onwards = Mux(ends_row & ends_frame, 0, following + 1) if rows > 1 else Mux(ends_row, 0, following + 1)
        with m.If(self.step):
            m.d.sync += [following.eq(Mux(nest.last[0] & ~nest.last[1], again, onwards)), now.eq(following)]
        return now
