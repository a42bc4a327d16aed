"""Memories of a loop: the states of units, beat by beat, and the operand of the product, word by word."""

from __future__ import annotations

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


class StateMemory(wiring.Component):
    """`depth` words of `lanes` integers of `element`; initial ones may be read in place of what was written.

    `data` has the word at `address`, or the initial one where `initial` came with the address, `latency` cycles later.
    A word may be read from the cycle after its write on.
    """

    def __init__(self, *, element: Shape, lanes: int, contents: IntArray, technology: Technology, name: str,
                 memory: str):
        """`contents`: int64 [depth, lanes], the initial states.  `name` begins the names of ROMs; `memory`: the RAM's.
        """
        self.contents = contents
        self.width, self.depth = element.width * lanes, len(contents)
        self.element = element
        self.technology = technology
        self.name, self.memory = name, memory
        super().__init__({
            "address": In(range(max(2, self.depth))), "initial": In(1), "data": Out(self.width),
            "write": In(1), "write_address": In(range(max(2, self.depth))), "write_data": In(self.width)})

    @staticmethod
    def latency(technology: Technology) -> int:
        return technology.timing.ram + 1

    @staticmethod
    def cost(*, width: int, depth: int, zero: bool, technology: Technology, memory: str) -> Resources:
        """`zero`: all initial states are.  RAM exact, LUT and FF estimated."""
        total = beats_memory_cost(width=width, depth=depth, technology=technology, name=memory)
        if not zero:  # else the register is reset in place of a choice
            total += technology.rom_cost(width=width, depth=max(2, depth), name=f"{memory}_initial", holds=Holds.TABLE)
            total += Resources(lut=width)
        return total + Resources(ff=width + technology.timing.ram)

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


class LoopOperand(wiring.Component):
    """The operand of the product: states of two steps in turn, and with `banks` 3 what r has left of them.

    Words of `cols` states are read, and beats of `lanes` are written one after the other, from the first unit on.

    Ports
    -----
    bank, word, initial, data
        Reads a word of a bank, or of the initial states; `data` comes `StateMemory.latency` cycles later.
    write, write_bank, write_data
        The next beat, which belongs to that bank.
    last
        With `write`: it is the last one of all units.
    """

    def __init__(self, *, element: Shape, lanes: int, cols: int, banks: int, contents: IntArray,
                 technology: Technology, name: str):
        """`contents`: int64 [words, cols], the initial states."""
        self.element, self.lanes, self.cols, self.banks = element, lanes, cols, banks
        self.words = len(contents)
        self.contents = contents
        self.technology = technology
        self.name = name
        super().__init__({
            "bank": In(range(banks)), "word": In(range(max(2, self.words))), "initial": In(1),
            "data": Out(element.width * cols),
            "write": In(1), "write_bank": In(range(banks)), "write_data": In(element.width * lanes), "last": Out(1)})

    @staticmethod
    def depth(words: int, banks: int) -> int:
        return banks << ceil_log2(max(2, words))

    @staticmethod
    def cost(*, width: int, lanes: int, cols: int, words: int, banks: int, zero: bool,
             technology: Technology) -> Resources:
        """For states of `width` bits.  RAM exact, LUT and FF estimated."""
        total = StateMemory.cost(width=width * cols, depth=LoopOperand.depth(words, banks), zero=zero,
                                 technology=technology, memory="operand")
        return total + Resources(lut=ceil_log2(max(2, words)) + cols // lanes, ff=width * (cols - lanes)
                                 + ceil_log2(max(2, words)) + cols // lanes)

    def elaborate(self, platform):
        m = Module()
        depth = self.depth(self.words, self.banks)
        padded = np.zeros((depth // self.banks, self.cols), np.int64)
        padded[:self.words] = self.contents
        m.submodules.memory = memory = StateMemory(
            element=self.element, lanes=self.cols, contents=np.tile(padded, (self.banks, 1)),
            technology=self.technology, name=self.name, memory="operand")
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
