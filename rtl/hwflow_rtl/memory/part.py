"""Parts of memory outside of the FPGA: what they must have so that `WeightMemory` can read weights from it."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import fields
from fractions import Fraction
from typing import Any, Protocol

from amaranth.lib import data, wiring
from amaranth.utils import ceil_log2

from ..vendor.base import Resources, Technology
from ..vendor.pads import Pads


class PartNumberError(ValueError):
    """A number of a part that cannot be; `key` is its name, `rule` what it must be and is not."""

    def __init__(self, key: str, rule: str):
        super().__init__(f"{key} {rule}")
        self.key, self.rule = key, rule


def check_times(timing: Any) -> None:
    """PartNumberError where a time of a data sheet is no number of ns above 0."""
    for field in fields(timing):
        value = getattr(timing, field.name)
        if not (math.isfinite(value) and value > 0):
            raise PartNumberError(field.name, f"must be a number of ns above 0, not {value!r}")


class Clocked:
    """A part whose controller runs at `clock_mhz`."""

    clock_mhz: float

    def check_clock_number(self) -> None:
        """PartNumberError where the clock is no number above 0."""
        if not (math.isfinite(self.clock_mhz) and self.clock_mhz > 0):
            raise PartNumberError("clock_mhz", f"must be a number above 0, not {self.clock_mhz!r}")

    @property
    def period(self) -> Fraction:
        """The period of the clock, in ns."""
        return 1000 / Fraction(str(self.clock_mhz))


class WrittenByProgrammer(Clocked):
    """A memory that only a programmer writes; while a read lasts, no word is later than another."""

    @property
    def writable(self) -> bool:
        return False

    @property
    @abstractmethod
    def peak_bytes_per_second(self) -> float:
        """Bytes while a read lasts."""

    @property
    def sustained_bytes_per_second(self) -> float:
        return self.peak_bytes_per_second


class NoPauses:
    """Clocks of a memory that makes no pauses."""

    @property
    def unpaused_share(self) -> Fraction:
        return Fraction(1)

    def with_pauses(self, clocks: int) -> int:
        return clocks


class MemoryClocks(Protocol):
    """Bounds on what a controller does, in clocks of the memory.

    A *pause* is what interrupts reads by itself, as a refresh; a memory may have none.
    """

    @property
    def worst_latency(self) -> int:
        """Most clocks from the transfer of a read request to its first piece at `read`, a pause included."""

    @property
    def worst_gap(self) -> int:
        """Most clocks from one piece of a read to the next, a pause included."""

    @property
    def sustained_share(self) -> Fraction:
        """Least share of the clocks that bring a word while one read lasts, pauses included."""

    def read_clocks(self, words: int) -> int:
        """Most clocks from the last word of a read to the last one of the next, which has so many words, waits for the
        controller and may be anywhere in the memory; pauses excluded."""

    @property
    def unpaused_share(self) -> Fraction:
        """Least share of the clocks that pauses leave, over a long time."""

    def with_pauses(self, clocks: int) -> int:
        """Most clocks that pass while so many clocks without pauses do."""


class MemoryPart(Protocol):
    """A memory on a board, of `words` words of `width` bits, whose controller runs at `clock_mhz`.

    A controller has the streams `request` (`request_of(part)`) and `read`, which has words, or where words come slowly
    their pieces of `piece` bits, the low ones first; a stream `write` if the part is `writable`,
    and `restart`, `initialized` and `pins` as `SdramController` describes them.  `pad_registers` are between its `pins`
    and those of the chip, in `pads` if given; None where the controller's are the chip's.  `cell` is the memory itself
    where it is inside of the FPGA, else None.
    """

    @property
    def name(self) -> str: ...

    @property
    def width(self) -> int: ...

    @property
    def piece(self) -> int: ...

    @property
    def words(self) -> int: ...

    @property
    def clock_mhz(self) -> float: ...

    @property
    def writable(self) -> bool: ...

    @property
    def clocks(self) -> MemoryClocks: ...

    def controller(self, technology: Technology | None = None) -> wiring.Component: ...

    def controller_cost(self, technology: Technology | None = None) -> Resources: ...

    def pins(self) -> wiring.Signature: ...

    def pad_registers(self, pads: Pads | None) -> wiring.Component | None: ...

    def cell(self) -> wiring.Component | None: ...


def request_of(part: MemoryPart) -> data.StructLayout:
    """The payload of a request: the words from address `first` to `last`, both included.

    Words follow each other round and round: after the highest address comes 0.  A memory that cannot be written ignores
    `write`.
    """
    bits = ceil_log2(part.words)
    return data.StructLayout({"first": bits, "last": bits, "write": 1})
