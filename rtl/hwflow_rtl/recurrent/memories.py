"""Memories of a loop: the states of units, beat by beat, and the operand of the product, word by word."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Module, Mux, Shape, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..matrix.weights import packed
from ..stream.pipeline import delay
from ..vendor.base import Resources, Technology
from ..vendor.memory import Holds

IntArray = npt.NDArray[np.int64]


def beats_memory(*, width: int, depth: int, technology: Technology, name: str):
    """A RAM of `depth` beats."""
    return technology.ram(width=width, depth=max(2, depth), name=name)


def beats_memory_cost(*, width: int, depth: int, technology: Technology, name: str) -> Resources:
    """RAM exact, LUT and FF estimated."""
    return technology.ram_cost(width=width, depth=max(2, depth), name=name, holds=Holds.PARTIAL)


@dataclass(frozen=True, kw_only=True)
class StateMemoryShape:
    """`depth` words of `lanes` integers of `element`, in a RAM called `name`; `zero`: all initial ones are 0."""

    element: Shape
    lanes: int
    depth: int
    zero: bool
    name: str

    @property
    def width(self) -> int:
        """Bits of a word."""
        return self.element.width * self.lanes

    def latency(self, technology: Technology) -> int:
        return technology.timing.ram + 1

    def cost(self, technology: Technology) -> Resources:
        """RAM exact, LUT and FF estimated."""
        width = self.width
        total = beats_memory_cost(width=width, depth=self.depth, technology=technology, name=self.name)
        if not self.zero:  # else the register is reset in place of a choice
            total += technology.rom_cost(width=width, depth=max(2, self.depth), name=f"{self.name}_initial",
                                         holds=Holds.TABLE)
            total += Resources(lut=width)
        return total + Resources(ff=width + technology.timing.ram)


class StateMemory(wiring.Component):
    """The words of `shape`; initial ones may be read in place of what was written.

    `data` has the word at `address`, or the initial one where `initial` came with the address, `timing.ram` + 1 cycles
    later.  A word may be read from the cycle after its write on.
    """

    def __init__(self, *, shape: StateMemoryShape, contents: IntArray, technology: Technology, name: str):
        """`contents`: int64 [depth, lanes], the initial states.  `name` begins the names of ROMs."""
        self.contents = contents
        self.width, self.depth, self.element, self.memory = shape.width, shape.depth, shape.element, shape.name
        self.technology = technology
        self.name = name
        super().__init__({
            "address": In(range(max(2, self.depth))), "initial": In(1), "data": Out(self.width),
            "write": In(1), "write_address": In(range(max(2, self.depth))), "write_data": In(self.width)})

    def elaborate(self, platform):
        m = Module()
        technology, wait = self.technology, self.technology.timing.ram
        m.submodules.ram = ram = beats_memory(
            width=self.width, depth=self.depth, technology=technology, name=self.memory)
        m.d.comb += [
            ram.read_addr.eq(self.address), ram.write_en.eq(self.write), ram.write_addr.eq(self.write_address),
            ram.write_data.eq(self.write_data)]
        initial = delay(m, self.initial, wait, "initial_late")
        begin: Value | int = 0
        if self.contents.any():
            words = np.resize(self.contents, (max(2, self.depth), self.contents.shape[1]))
            m.submodules.rom = rom = technology.rom(
                width=self.width, contents=packed(words, self.element.width), name=f"{self.name}_{self.memory}_initial")
            m.d.comb += rom.addr.eq(self.address)
            begin = delay(m, rom.data, wait - technology.timing.rom, "initial_data")
        word = Signal(self.width, reset_less=True)
        m.d.sync += word.eq(Mux(initial, begin, ram.read_data))
        m.d.comb += self.data.eq(word)
        return m


@dataclass(frozen=True, kw_only=True)
class LoopOperandShape:
    """`words` words of `cols` states of `element`, which come in beats of `lanes`, in `banks`; `zero`: all initial
    states are 0."""

    element: Shape
    lanes: int
    cols: int
    words: int
    banks: int
    zero: bool

    @property
    def memory(self) -> StateMemoryShape:
        return StateMemoryShape(element=self.element, lanes=self.cols, zero=self.zero, name="operand",
                                depth=self.banks << ceil_log2(max(2, self.words)))

    def cost(self, technology: Technology) -> Resources:
        """RAM exact, LUT and FF estimated."""
        counters = ceil_log2(max(2, self.words)) + self.cols // self.lanes
        return self.memory.cost(technology) + Resources(
            lut=counters, ff=self.element.width * (self.cols - self.lanes) + counters)


class LoopOperand(wiring.Component):
    """The operand of the product: states of two steps in turn, and with 3 `banks` what r has left of them.

    Words of `cols` states are read, and beats of `lanes` are written one after the other, from the first unit on.

    Ports
    -----
    bank, word, initial, data
        Reads a word of a bank, or of the initial states; `data` comes `StateMemoryShape.latency` cycles later.
    write, write_bank, write_data
        The next beat, which belongs to that bank.
    last
        With `write`: it is the last one of all units.
    """

    def __init__(self, *, shape: LoopOperandShape, contents: IntArray, technology: Technology, name: str):
        """`contents`: int64 [words, cols], the initial states."""
        self.shape = shape
        self.element, self.lanes, self.cols = shape.element, shape.lanes, shape.cols
        self.words, self.banks = shape.words, shape.banks
        self.contents = contents
        self.technology = technology
        self.name = name
        super().__init__({
            "bank": In(range(self.banks)), "word": In(range(max(2, self.words))), "initial": In(1),
            "data": Out(self.element.width * self.cols), "write": In(1), "write_bank": In(range(self.banks)),
            "write_data": In(self.element.width * self.lanes), "last": Out(1)})

    def elaborate(self, platform):
        m = Module()
        padded = np.zeros((self.shape.memory.depth // self.banks, self.cols), np.int64)
        padded[:self.words] = self.contents
        m.submodules.memory = memory = StateMemory(
            shape=self.shape.memory, contents=np.tile(padded, (self.banks, 1)), technology=self.technology,
            name=self.name)
        place, parts = Signal(range(max(2, self.words))), self.cols // self.lanes
        part, whole = Signal(range(max(2, parts))), Signal()
        begun = Signal(self.element.width * (self.cols - self.lanes), reset_less=True)
        m.d.comb += [
            memory.address.eq(Cat(self.word, self.bank)), memory.initial.eq(self.initial), self.data.eq(memory.data),
            whole.eq(self.write & (part == parts - 1)), self.last.eq(whole & (place == self.words - 1)),
            memory.write.eq(whole), memory.write_address.eq(Cat(place, self.write_bank)),
            memory.write_data.eq(Cat(begun, self.write_data))]
        with m.If(self.write):
            m.d.sync += [part.eq(Mux(part == parts - 1, 0, part + 1)),
                         begun.eq(Cat(begun, self.write_data)[len(self.write_data):])]
        with m.If(whole):
            m.d.sync += place.eq(Mux(place == self.words - 1, 0, place + 1))
        return m
