"""The sizes of a shared stage, and the cycles that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from amaranth.hdl import Shape, signed

from ..rescale.ranges import RequantizerRoom, RequantizerRounding
from .constants import constants_bits
from .steps import ELEMENT_BITS, Compute, Fill, IntArray, Load, Operation, Step, Store, meet

#: bias, factor, extra, moves: the constants of the channels of sums, as arrays that broadcast to these.
ChannelArrays = tuple[IntArray, IntArray, IntArray, IntArray]


@dataclass(frozen=True)
class Sums:
    """Sums of `accumulator` bits; `room`, `fraction` and `rounding` are the constants of their rescaling that there is
    room for."""

    accumulator: int
    room: RequantizerRoom
    fraction: int
    rounding: RequantizerRounding


@dataclass(frozen=True)
class Sliding:
    """Windows that slide: the most columns of one (`taps`), and its rows (`slide`); 1 and 0 where none does.

    The array keeps the last (`taps` - 1) * `slide` words.
    """

    taps: int = 1
    slide: int = 0


@dataclass(frozen=True, kw_only=True)
class SharedShape:
    """Holds what does not change from step to step.

    columns
        Elements of a word, and columns of the array.
    turns
        Cycles for a word, a power of two: in each of them it meets `rows` other rows of its `columns` rows of weights.
        So the array has `rows` times `columns` multipliers.
    lanes
        Sums that are rescaled side by side; a divisor of `columns`.
    interval
        Cycles from sum to sum at a rescaler.
    sums
        The sums and their rescaling.
    words
        Words of the frame memory.
    single_port, banks
        The frame memory, or each of its two banks of `words` / 2, cannot be written while it is read.
    buffer
        Words of weights that the stage has room for.
    stream_rows
        Rows of a word of weights that arrive in a beat of the stream; a divisor of `rows`.
    windows
        Those that slide (`Weighting.slides`).
    ahead
        Beats of the stream of weights that may wait in a `BeatsAhead` before the buffer, a power of two; 0 for none.
    products
        The array multiplies words by each other (`Operation.PRODUCT`).
    tables
        Tables in which elements are looked up (`Output.table`).
    wide
        Elements may be bytes of results (`Output.byte`).
    """

    columns: int
    lanes: int
    interval: int
    sums: Sums
    words: int
    single_port: bool
    buffer: int
    stream_rows: int
    banks: int = 1
    windows: Sliding = Sliding()
    ahead: int = 0
    products: bool = False
    tables: int = 0
    wide: bool = False
    turns: int = 1

    def __post_init__(self) -> None:
        for name, whole, what in (("lanes", self.columns, "columns"), ("turns", self.columns, "columns"),
                                  ("stream_rows", self.rows, "rows")):
            if not whole or whole % getattr(self, name):
                raise ValueError(f"{name} of a SharedShape must divide its {whole} {what}, not {getattr(self, name)}")
        if self.turns & (self.turns - 1) or (self.turns > 1 and (self.single_port or self.products)):
            raise ValueError(f"turns of a SharedShape must be a power of two, and 1 beside frames with a single port "
                             f"or products of words, not {self.turns}")
        if self.banks not in (1, 2) or (self.banks == 2 and self.words & (self.words - 1)):
            raise ValueError(f"banks of a SharedShape must be 1, or 2 that are as large as a power of two, not "
                             f"{self.banks} of {self.words} words together")
        taps, slide = self.windows.taps, self.windows.slide
        if not 1 <= taps <= self.columns or (taps > 1) is (slide < 1):
            raise ValueError(f"taps of a SharedShape must be 1 with a slide of 0, or up to its {self.columns} columns, "
                             f"not {taps} with a slide of {slide}")
        if self.ahead and self.ahead < self.buffer * self.columns // self.stream_rows:
            raise ValueError(f"ahead of a SharedShape must be 0 or the beats of its buffer of {self.buffer} words at "
                             f"least, not {self.ahead}")
        if self.stream_lanes < 2:
            raise ValueError(f"columns of a SharedShape must be at least 2, not {self.columns}: a beat of the stream "
                             "has a header of two bytes")

    def check(self, step: Compute) -> None:
        """ValueError where the stage has no room for a step."""
        if step.part > self.buffer:
            raise ValueError(f"a block of {step.part} words of weights must fit the buffer of {self.buffer} words")
        if step.operation is Operation.PRODUCT and not self.products:
            raise ValueError("products of a SharedShape must be True for a step that multiplies two words")
        if step.output.byte is not None and not self.wide:
            raise ValueError("wide of a SharedShape must be True for a step that makes bytes of results")
        self.require_words("writes", step.write_span)
        if step.read_span is not None:
            self.require_words("reads", step.read_span)
        if step.overtakes:
            raise ValueError("a block must not write a word that a later one of its step reads")

    def require_words(self, does: str, span: tuple[int, int]) -> None:
        """ValueError where the frame memory has not the words that a step reads or writes."""
        if span[0] < 0 or span[1] >= self.words:
            raise ValueError(f"words that a step {does} must be 0 to {self.words - 1}, not {span[0]} to {span[1]}")

    def uses(self, step: Step, words: range) -> bool:
        """Whether a step reads or writes any of these words of the frame memory."""
        if not isinstance(step, Compute):
            return meet(ends_of(self.words_of(step)), ends_of(words))
        if meet(step.write_span, ends_of(words)) and any_in(words, step.writes):
            return True
        if step.read_span is None or not meet(step.read_span, ends_of(words)):
            return False
        addresses, inside = step.reads
        return any_in(words, addresses[inside])

    def words_of(self, step: Fill | Load | Store) -> range:
        """The words of the frame memory that a step fills or stores, or has from its input."""
        if isinstance(step, Fill):
            words = step.words
        else:
            words = (step.words(self.columns) if isinstance(step, Store)
                     else step.pixels * -(-step.channels // self.columns))
        return range(step.base, step.base + words)

    @property
    def rows(self) -> int:
        """The rows of the array."""
        return self.columns // self.turns

    @property
    def element(self) -> Shape:
        return signed(ELEMENT_BITS)

    @property
    def stream_lanes(self) -> int:
        """Elements of a beat of the stream of weights."""
        return self.stream_rows * self.columns

    @cached_property
    def constants_beats(self) -> int:
        """Beats of the stream for the constants of a channel."""
        return -(-constants_bits(self.sums.room) // (ELEMENT_BITS * self.stream_lanes))

    @property
    def header_beats(self) -> int:
        """Beats of a tile before its weights."""
        return 1 + self.columns * self.constants_beats

    def beats_of(self, step: Compute) -> int:
        """Beats of the stream of weights for a step."""
        return step.loops.tiles * self.header_beats + step.weight_words * (self.columns // self.stream_rows)

    def period(self, step: Compute) -> int:
        """Cycles from block to block of a tile, or from part to part."""
        return max(self.cycles(step) + self.conflicts(step), self.columns // self.lanes * self.interval)

    def cycles(self, step: Compute) -> int:
        """In which the words of a block, or of a part of it, are read."""
        return step.run * self.turns

    def conflicts(self, step: Compute) -> bool:
        """Whether a block must leave a cycle for the word that is written: to a bank that it reads."""
        if not self.single_port or self.banks == 1:
            return self.single_port
        if step.read_span is None:
            return False
        half = self.words // 2
        (first_read, last_read), (first_write, last_write) = step.read_span, step.write_span
        return meet((first_read // half, last_read // half), (first_write // half, last_write // half))

    def rescaled(self, sums: IntArray, constants: ChannelArrays, zero_point: int, low: int, high: int) -> IntArray:
        """The elements that sums become: clamp(round((sum * 2**fraction + bias) * factor / 2**shift) + zero_point)."""
        return np.clip(self.quotients(sums, constants) + zero_point, low, high)

    def quotients(self, sums: IntArray, constants: ChannelArrays) -> IntArray:
        """round((sum * 2**fraction + bias) * factor / 2**shift); products that move do so before."""
        own, (bias, factor, extra, moves) = self.sums, constants
        products = ((sums << own.fraction) + bias) * factor
        products += np.where(products < 0, -own.room.outward, own.room.outward) * moves
        return own.rounding.of_quotient(products, own.room.base + extra)


def ends_of(words: range) -> tuple[int, int]:
    """The first and the last one."""
    return words.start, words.stop - 1


def any_in(words: range, addresses: IntArray) -> bool:
    """Whether any address is one of `words`, which are consecutive."""
    return bool(((addresses >= words.start) & (addresses < words.stop)).any())
