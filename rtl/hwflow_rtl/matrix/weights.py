"""Where the weights of a matrix stage come from: the interface `WeightSource`, and ROMs, the one source that there is.

A *word* of weights holds those of all rows and columns of a bank, column after column and row after row, the first in
the lowest bits.  In each cycle in which a word of activations meets a bank, the bank reads one word of weights; the
array counts the addresses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Module, Value
from amaranth.lib import wiring

from ..vendor.base import Resources, Technology
from ..vendor.memory import Holds

__all__ = ["ROMS", "RomSource", "RomWeights", "StageWeights", "WeightSource", "packed"]

#: By bank, the words that it reads, by address: uint8[depth, bytes], least significant byte first.
Contents = Callable[[int], npt.NDArray[np.uint8]]


class StageWeights(Protocol):
    """The weights of one stage in hardware, as a `WeightSource` makes them."""

    def bank(self, b: int) -> wiring.Component:
        """What bank b reads: `data` is the word at `addr`, `WeightSource.latency` cycles later, in every cycle.

        The bank makes it its submodule `weights`.
        """
        ...

    def gated(self, m: Module, *, credit: Value, start: Value) -> Value:
        """`credit`, where all words that the next block reads are there as well.

        `start` is set in the cycle in which a block starts.  As `LineBuffer.credit`: what is returned does not fall but
        after a start, and counts every start of the cycles before.
        """
        ...


class WeightSource(ABC):
    """The place of the weights of a stage: the latency and cost of its hardware, and the hardware itself (`weights`).

    Sources are frozen and equal by value.
    """

    @abstractmethod
    def latency(self, technology: Technology) -> int:
        """Cycles from an address at a bank to the word; constant, one word a cycle."""

    @abstractmethod
    def cost(self, *, width: int, depth: int, technology: Technology) -> Resources:
        """What a bank of `depth` words of `width` bits reads.  RAM exact, LUT and FF estimated."""

    @abstractmethod
    def weights(self, *, width: int, contents: Contents, technology: Technology, name: str) -> StageWeights:
        """For the banks of a stage; `contents` is asked when a bank is made.

        `name` begins the names of the memories and is unique in the design.
        """


@dataclass(frozen=True)
class RomSource(WeightSource):
    """A ROM for each bank."""

    def latency(self, technology: Technology) -> int:
        return technology.timing.rom

    def cost(self, *, width: int, depth: int, technology: Technology) -> Resources:
        return technology.rom_cost(width=width, depth=depth, name="weights", holds=Holds.WEIGHTS)

    def weights(self, *, width: int, contents: Contents, technology: Technology, name: str) -> RomWeights:
        return RomWeights(width, contents, technology, name)


@dataclass(frozen=True)
class RomWeights:
    """The `StageWeights` of a `RomSource`.  A block never waits for them."""

    width: int
    contents: Contents
    technology: Technology
    name: str

    def bank(self, b: int) -> wiring.Component:
        return self.technology.rom(width=self.width, contents=self.contents(b), name=f"{self.name}_weights{b}")

    def gated(self, m: Module, *, credit: Value, start: Value) -> Value:
        return credit


#: The source of all stages.
ROMS = RomSource()


def packed(values: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.uint8]:
    """[depth, count] integers of `width` bits to [depth, bytes], the first in the lowest bits."""
    bits = (values[:, :, None] >> np.arange(width)) & 1
    return np.packbits(bits.reshape(len(values), -1).astype(np.uint8), axis=1, bitorder="little")
