"""After the array of a shared stage: sums become elements, perhaps others in a table, and these words of the frame
memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..rescale.requantizer import RequantizerStyle
from ..stream.pipeline import delay
from ..vendor.base import Resources, Technology
from ..vendor.memory import Holds
from .constants import constants_bits, constants_layout
from .requantizer import SharedRequantizer
from .shape import SharedShape
from .steps import ELEMENT_BITS, IntArray

__all__ = ["Results"]


class Results(wiring.Component):
    """Rescales the sums of a block, `lanes` of them every `interval` cycles, and collects them in a word.

    Ports
    -----
    early, ends_tile
        The sums of a block will be there `timing.ram` cycles later; the block is the last of its tile.
    move, sums
        The lowest `lanes` sums are taken; the others follow.
    group, constants, tile_done
        As of `Weights`.
    zero_point, low, high, byte, looks_up, table
        Of the step; `table` is the number of the table in which elements are looked up where `looks_up` is set.
    valid, word
        A word is complete, `latency` cycles after its sums.
    next_valid
        `valid` will be set in the next cycle.
    """

    def __init__(self, *, shape: SharedShape, tables: Sequence[IntArray], style: RequantizerStyle,
                 technology: Technology, name: str):
        self.shape = shape
        self.tables = tables
        self.technology = technology
        self.name = name
        self.groups = shape.columns // shape.lanes
        self.units = [SharedRequantizer(**self.arguments(shape, style, technology), wide=shape.wide)
                      for _ in range(shape.lanes)]
        super().__init__({
            "early": In(1), "ends_tile": In(1), "move": Out(1),
            "sums": In(data.ArrayLayout(signed(shape.accumulator), shape.lanes)),
            "group": Out(range(self.groups)), "constants": In(shape.lanes * constants_bits(shape.room)),
            "tile_done": Out(1),
            "zero_point": In(signed(9)), "low": In(signed(8)), "high": In(signed(8)),
            "looks_up": In(1), "table": In(range(shape.tables)), "byte": In(2),
            "valid": Out(1), "next_valid": Out(1), "word": Out(shape.columns * ELEMENT_BITS)})

    @staticmethod
    def arguments(shape: SharedShape, style: RequantizerStyle, technology: Technology) -> dict:
        """Of `SharedRequantizer`."""
        return {"accumulator": signed(shape.accumulator), "room": shape.room, "fraction": shape.fraction,
                "rounding": shape.rounding, "interval": shape.interval, "style": style, "technology": technology}

    @staticmethod
    def latency_of(shape: SharedShape, style: RequantizerStyle, technology: Technology) -> int:
        """Cycles from the sums of a block to `valid`."""
        groups = shape.columns // shape.lanes
        unit = SharedRequantizer.latency_for(**Results.arguments(shape, style, technology))
        return (groups - 1) * shape.interval + unit + (groups > 1) + (technology.timing.rom if shape.tables else 0)

    @staticmethod
    def cost(shape: SharedShape, style: RequantizerStyle, technology: Technology) -> Resources:
        """LUT and FF estimated."""
        units = SharedRequantizer.cost(**Results.arguments(shape, style, technology)).copies(shape.lanes)
        if shape.tables:
            table = technology.rom_cost(width=ELEMENT_BITS, depth=shape.tables << ELEMENT_BITS, name="table",
                                        holds=Holds.TABLE)
            beside = Resources(lut=ELEMENT_BITS, ff=ELEMENT_BITS * technology.timing.rom + 1)
            units += (table + beside).copies(shape.lanes)
        if shape.wide:
            units += Resources(lut=ELEMENT_BITS + 4).copies(shape.lanes)
        return units + Resources(lut=8, ff=shape.columns * ELEMENT_BITS + 16)

    def elaborate(self, platform):
        m = Module()
        shape, groups = self.shape, self.groups
        takes = [self.early]  # the constants of a group of sums are read
        for k in range(1, groups):
            takes.append(delay(m, takes[-1], shape.interval, f"take{k}", reset_less=False))
        take, ends = Signal(name="take"), Signal(name="ends")
        m.d.comb += take.eq(Cat(*takes).any())
        with m.If(self.early):
            m.d.sync += ends.eq(self.ends_tile)
        last = takes[-1]
        m.d.comb += self.tile_done.eq(last & (self.ends_tile if groups == 1 else ends))
        if groups > 1:
            with m.If(take):
                m.d.sync += self.group.eq(Mux(last, 0, self.group + 1))
        move = delay(m, take, self.technology.timing.ram, "move", reset_less=False)
        m.d.comb += self.move.eq(move)
        made = []
        for lane, unit in enumerate(self.units):
            m.submodules[f"requantizer{lane}"] = unit
            layout = constants_layout(shape.room)
            constants = data.View(layout, self.constants.word_select(lane, layout.size))
            m.d.comb += [
                unit.i_valid.eq(move), unit.i_value.eq(self.sums[lane]), unit.bias.eq(constants.bias),
                unit.factor.eq(constants.factor), unit.extra.eq(constants.extra),
                unit.zero_point.eq(self.zero_point), unit.low.eq(self.low), unit.high.eq(self.high),
                unit.byte.eq(self.byte)]
            made.append(self.looked_up(m, unit, lane))
        self.collect(m, move, made)
        return m

    def collect(self, m: Module, move: Value, made: Sequence[Value]) -> None:
        """The elements of a group of sums become a part of a word."""
        shape, groups = self.shape, self.groups
        valid = self.units[0].o_valid
        if self.tables:
            valid = delay(m, valid, self.technology.timing.rom, "found", reset_less=False)
        if groups == 1:
            cycles = self.units[0].latency + (self.technology.timing.rom if self.tables else 0)
            m.d.comb += [self.valid.eq(valid), self.word.eq(Cat(*made)),
                         self.next_valid.eq(delay(m, move, cycles - 1, "result_next", reset_less=False))]
            return
        count = Signal(range(groups), name="collected")
        with m.If(valid):
            m.d.sync += [self.word.eq(Cat(self.word[shape.lanes * ELEMENT_BITS:], *made)),
                         count.eq(Mux(count == groups - 1, 0, count + 1))]
        m.d.comb += self.next_valid.eq(valid & (count == groups - 1))
        m.d.sync += self.valid.eq(self.next_valid)

    def looked_up(self, m: Module, unit: SharedRequantizer, lane: int) -> Value:
        """The bits of what the element of a rescaler becomes; with tables `timing.rom` cycles later."""
        element = Value.cast(unit.o_value)[:]
        if not self.tables:
            return element
        contents = np.concatenate(self.tables) & ((1 << ELEMENT_BITS) - 1)
        m.submodules[f"table{lane}"] = rom = self.technology.rom(
            width=ELEMENT_BITS, contents=contents.astype(np.uint8).reshape(-1, 1), name=f"{self.name}_table{lane}")
        m.d.comb += rom.addr.eq(Cat(element, self.table))
        return Mux(self.looks_up, rom.data, delay(m, element, self.technology.timing.rom, f"element{lane}"))
