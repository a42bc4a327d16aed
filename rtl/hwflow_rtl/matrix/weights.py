"""Where the weights of a matrix stage come from: the interface `WeightSource`, and ROMs.

A *word* of weights holds those of all rows and columns of a bank, column after column and row after row, the first in
the lowest bits.  In each cycle in which a word of activations meets a bank, the bank reads one word of weights; the
array counts the addresses.  `streamed_weights` has the source whose weights arrive as a stream.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Module, Value
from amaranth.lib import wiring

from ..stream.times import Times, in_turn
from ..vendor.base import Resources, Technology
from ..vendor.memory import Holds

#: By bank, the words that it reads, by address: uint8[depth, bytes], least significant byte first.
Contents = Callable[[int], npt.NDArray[np.uint8]]


@dataclass(frozen=True, kw_only=True)
class BankWords:
    """The words that the banks of a stage read.

    width
        Bits of a word of a bank.
    beats, blocks
        Words of a block; blocks of an output pixel.
    pixels
        Output pixels of a frame.
    banks, rows
        Banks of the stage; rows of a bank.
    interval
        Cycles from the start of a block to the next, at least.
    """

    width: int
    beats: int
    blocks: int
    pixels: int
    banks: int
    rows: int
    interval: int = 1


class StageWeights(Protocol):
    """The weights of one stage in hardware, as a `WeightSource` makes them."""

    def bank(self, b: int) -> wiring.Component:
        """Build what bank b reads: `data` is the word at `addr`, `WeightSource.latency` cycles later, in every cycle.

        The bank makes it its submodule `weights`.
        """
        ...

    def gated(self, m: Module, *, credit: Value, start: Value, arrivals: Any) -> Value:
        """`credit`, and whether all words that the next block reads have arrived.

        `start` is set in the cycle in which a block starts.  As with `LineBuffer.credit`, the result falls only after a
        start, and counts every start of the cycles before.  `arrivals` is the stream `weights` of the stage, or
        None where `WeightSource.arriving_rows` is 0.
        """
        ...


class WeightSource(ABC):
    """The place of the weights of a stage: its latency, its cost, its part in the schedule, and its hardware.

    Sources are frozen and equal by value.
    """

    @property
    def arriving_rows(self) -> int:
        """Rows whose weights arrive in a beat of the stage's stream `weights`; 0 where the stage has no such stream."""
        return 0

    def lanes(self, cols: int) -> int:
        """Weights of a beat of the stream `weights`, of a stage whose rows make `cols` products."""
        return self.arriving_rows * cols

    @property
    def whole(self) -> bool:
        """Whether a tile, which all pixels read again, is the words of all blocks of a pixel, and not of one block."""
        return False

    def tile(self, words: BankWords) -> int:
        """Words of a tile in a bank."""
        return words.beats * (words.blocks if self.whole else 1)

    def block_cycles(self, words: int) -> int:
        """Least cycles in which the weights of a tile arrive, `words` times those of `arriving_rows` rows."""
        return 0

    @abstractmethod
    def latency(self, technology: Technology) -> int:
        """Cycles from an address at a bank to the word; constant, one word a cycle."""

    @abstractmethod
    def places(self, words: BankWords) -> int:
        """Addresses that the array counts through, again and again."""

    @abstractmethod
    def cost(self, words: BankWords, technology: Technology) -> Resources:
        """Count what one bank reads.  RAM exact, LUT and FF estimated."""

    def control_cost(self, words: BankWords, technology: Technology) -> Resources:
        """The cost of what all banks share; estimated."""
        return Resources()

    def starts(self, earliest: Times, pace: int, words: BankWords, arrivals: Times | None) -> tuple[Times, ...]:
        """When blocks start that are `pace` cycles apart, not before `earliest`, and when beats of weights are taken.

        `arrivals` are those of the stream `weights`; None: it keeps up what the source promises.  The second array is
        missing where there is no such stream.
        """
        return (in_turn(earliest, pace),)

    @abstractmethod
    def weights(self, *, words: BankWords, contents: Contents, technology: Technology, name: str) -> StageWeights:
        """For the banks of a stage; `contents` is asked when a bank is made.

        `name` begins the names of the memories and is unique in the design.
        """


@dataclass(frozen=True)
class RomSource(WeightSource):
    """A ROM for each bank."""

    def latency(self, technology: Technology) -> int:
        return technology.timing.rom

    def places(self, words: BankWords) -> int:
        return words.blocks * words.beats

    def cost(self, words: BankWords, technology: Technology) -> Resources:
        return technology.rom_cost(width=words.width, depth=self.places(words), name="weights", holds=Holds.WEIGHTS)

    def weights(self, *, words: BankWords, contents: Contents, technology: Technology, name: str) -> RomWeights:
        return RomWeights(words.width, contents, technology, name)


@dataclass(frozen=True)
class RomWeights:
    """The `StageWeights` of a `RomSource`.  A block never waits for them."""

    width: int
    contents: Contents
    technology: Technology
    name: str

    def bank(self, b: int) -> wiring.Component:
        return self.technology.rom(width=self.width, contents=self.contents(b), name=f"{self.name}_weights{b}")

    def gated(self, m: Module, *, credit: Value, start: Value, arrivals: Any) -> Value:
        return credit


#: The source of a stage whose weights are in the FPGA.
ROMS = RomSource()


def packed(values: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.uint8]:
    """[depth, count] integers of `width` bits to [depth, bytes], the first in the lowest bits."""
    bits = (values[:, :, None] >> np.arange(width)) & 1
    return np.packbits(bits.reshape(len(values), -1).astype(np.uint8), axis=1, bitorder="little")
