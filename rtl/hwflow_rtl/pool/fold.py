"""Windows that do not overlap need no ring: each word is added to the partial result of its window when it arrives.

A `FoldShape` is the schedule in numpy; a `Fold` is one loop of partial results; `Folds` is the whole datapath from the
words of a frame to the results of its windows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..rescale.ranges import shape_range
from ..stream.pipeline import Nest, adder_luts, delay, flip_flops
from ..stream.times import Times, in_turn
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from ..vendor.memory import Holds
from ..window.shape import WindowShape

#: Partial results of so few bits are cheaper in registers than in a memory with its address and the delays around it.
FEW_BITS = 96

#: The next partial result of (module, whether the old one does not count, the old one, the new element, a name).
Combine = Callable[[Module, Value, Value, Value, str], Value]


def add(m: Module, first: Value, old: Value, new: Value, name: str) -> Value:
    """The sum."""
    return Mux(first, 0, old) + new


def larger(m: Module, first: Value, old: Value, new: Value, name: str) -> Value:
    """The larger one.  The sign of a difference is one carry chain; yosys makes two of a signed comparison."""
    return better(m, first, old, new, old - new, name)


def smaller(m: Module, first: Value, old: Value, new: Value, name: str) -> Value:
    """The smaller one."""
    return better(m, first, old, new, new - old, name)


def better(m: Module, first: Value, old: Value, new: Value, lead: Value, name: str) -> Value:
    """The new one where it is the first, or the `lead` of the old one is below 0."""
    less = Signal(Shape(new.shape().width + 1, signed=True), name=f"less_{name}")
    m.d.comb += less.eq(lead)
    return Mux(first | less[-1], new, old)


@dataclass(frozen=True)
class FoldShape:
    """How the windows of `window`, which do not overlap, are folded up.

    `loops`: pairs (period, count).  A loop combines `count` words, `period` words apart, to one.
    """

    window: WindowShape

    @staticmethod
    def fits(window: WindowShape) -> bool:
        """Whether the windows are side by side without padding; the stride of a single window does not matter."""
        counts = (window.out_height, window.out_width)
        return window.groups == window.words and window.tiles_per_group == 1 and not any(window.pads) and all(
            (count == 1 or kernel == stride) and (kernel == 1 or dilation == 1) for count, kernel, stride, dilation in
            zip(counts, window.kernel, window.stride, window.dilation, strict=True))

    @cached_property
    def loops(self) -> tuple[tuple[int, int], ...]:
        window, (rows, columns) = self.window, self.window.kernel
        if window.out_width == 1 or rows == 1:
            return ((window.words, rows * columns),)
        below = (window.out_width * window.words, rows)
        return ((window.words, columns), below) if columns > 1 else (below,)

    @property
    def has_rests(self) -> bool:
        """Whether rows or columns at the ends of a frame are in no window."""
        window = self.window
        return (window.out_width * window.kernel[1], window.out_height * window.kernel[0]) != (
            window.width, window.height)

    @property
    def pace(self) -> int:
        """Least cycles from one pixel of the output to the next."""
        return prod(self.window.kernel) if self.window.out_width == 1 else self.window.kernel[1]

    def last_words(self) -> Times:
        """Which word of a frame completes each word of the output."""
        window = self.window
        rows = np.arange(window.out_height) * window.stride[0] + window.kernel[0] - 1
        columns = np.arange(window.out_width) * window.stride[1] + window.kernel[1] - 1
        pixels = rows[:, None] * window.width + columns
        return (pixels[..., None] * window.words + np.arange(window.words)).reshape(-1)

    def complete(self, taken: Times) -> Times:
        """When the words are taken that complete words of the output; `taken` are those of whole frames."""
        return taken.reshape(-1, self.window.input_words)[:, self.last_words()].reshape(-1)

    def taken(self, arrivals: Times, completing: Times) -> Times:
        """When the words are taken that come as `arrivals` says, those that complete a word not before `completing`."""
        earliest = arrivals.reshape(-1, self.window.input_words).copy()
        earliest[:, self.last_words()] = completing.reshape(len(earliest), -1)
        return in_turn(earliest.reshape(-1))


@dataclass(frozen=True, kw_only=True)
class LoopShape:
    """Words of `lanes` elements come in turns of `turn`; `count` words of one place in their turns become one word.

    element, partial
        Shapes of an element that comes, and of a partial result.
    """

    element: Shape
    partial: Shape
    lanes: int
    turn: int
    count: int

    @property
    def period(self) -> int:
        """Partial results."""
        return self.turn if self.count > 1 else 1

    @property
    def width(self) -> int:
        """Bits of the partial results of a word."""
        return self.partial.width * self.lanes

    @property
    def came(self) -> int:
        """Bits of a word that comes."""
        return self.element.width * self.lanes

    def in_registers(self, technology: Technology) -> bool:
        """A memory reads a word again `ram + 3` cycles after it was read before, at the earliest: then it is written.

        The same on all families, so that the cycles are.
        """
        return (self.count == 1 or self.turn < technology.timing.ram + 3
                or self.width * (self.turn - 1) <= FEW_BITS)

    def latency(self, technology: Technology) -> int:
        return 1 if self.in_registers(technology) else technology.timing.ram + 2

    def cost(self, technology: Technology, number: int, sums: bool) -> Resources:
        """RAM exact, LUT and FF estimated; `number` is that of a `Fold`, and partial results are `sums`, or not."""
        width, turn = self.width, self.turn
        counters = Nest.bits((self.period, self.count))
        control = fitted("Fold", counter_bits=counters) + Resources(
            lut=2 * width + self.lanes * adder_luts(0, technology), ff=width)
        if self.in_registers(technology):
            old = (turn - 1) * width if self.count > 1 else 0
            return control + flip_flops(old, old, technology)
        address, wait = (turn - 1).bit_length(), technology.timing.ram + 1
        late = width + wait * (self.came + 3) + (wait + 1) * address + 1
        if sums:  # what does not count is 0 before it comes to the adder
            control = Resources(lut=control.lut - width, ff=control.ff)
        return (control + technology.ram_cost(
                width=width, depth=turn, name=f"partial{number}", holds=Holds.PARTIAL)
                + fitted("Fold in memory", address_bits=address) + flip_flops(late, late, technology))


class Fold(wiring.Component):
    """One loop; `combine` says what is done with an element.

    `technology` makes the memory of a long turn; `number`, that of this fold among those of a stage, is in its name.

    A word may come in every cycle; the last of `count` leaves combined with the others, `LoopShape.latency` cycles
    later.
    """

    def __init__(self, *, shape: LoopShape, combine: Combine, technology: Technology, number: int = 0):
        self.shape = shape
        self.combine = combine
        self.technology = technology
        self.number = number
        super().__init__({
            "i_valid": In(1), "i_word": In(data.ArrayLayout(shape.element, shape.lanes)),
            "o_valid": Out(1), "o_word": Out(data.ArrayLayout(shape.partial, shape.lanes))})

    def elaborate(self, platform):
        m = Module()
        shape = self.shape
        nest = Nest(m, (shape.period, shape.count), name="left")
        nest.advance(self.i_valid)
        first = Signal(init=1)
        with m.If(self.i_valid & nest.last[0]):
            m.d.sync += first.eq(nest.last[1])
        flags, word = Cat(self.i_valid, first, nest.last[1]), Value.cast(self.i_word)
        made = Signal(self.o_word.shape(), reset_less=True)
        if shape.in_registers(self.technology):
            old = self.registers(m, made)
        else:
            wait = self.technology.timing.ram
            read = delay(m, flags, wait, "flags", reset_less=False)
            flags, word = delay(m, read, 1, "flags_late", reset_less=False), delay(m, word, wait + 1, "word")
            old = self.memory(m, nest.last[0], read[1], flags[0], made)
            flags = Cat(flags[0], 0, flags[2])
        valid, first, last = flags[0], flags[1], flags[2]
        elements = data.View(self.i_word.shape(), word)
        with m.If(valid):
            for lane in range(shape.lanes):
                m.d.sync += made[lane].eq(self.combine(m, first, old[lane], elements[lane], f"{lane}"))
        m.d.comb += [self.o_valid.eq(delay(m, valid & last, 1, "made", reset_less=False)), self.o_word.eq(made)]
        return m

    def registers(self, m: Module, made) -> data.View:
        """The partial results move along with the words: the one that is wanted is always the last."""
        word = Value.cast(made)
        for k in range(self.shape.period - 1):
            register = Signal.like(word, name=f"partial{k}", reset_less=True)
            with m.If(self.i_valid):
                m.d.sync += register.eq(word)
            word = register
        return data.View(self.o_word.shape(), word)

    def memory(self, m: Module, turn: Value, first: Value, valid: Value, made) -> data.View:
        """A place is read when its word comes and written when it is made.

        A register takes what is read; in place of what does not count, what changes nothing.
        """
        m.submodules.partial = ram = self.technology.ram(
            width=self.shape.width, depth=self.shape.period, name=f"partial{self.number}")
        place = Signal(range(self.shape.period))
        with m.If(self.i_valid):
            m.d.sync += place.eq(Mux(turn, 0, place + 1))
        m.d.comb += [
            ram.read_addr.eq(place), ram.write_en.eq(delay(m, valid, 1, "write", reset_less=False)),
            ram.write_addr.eq(delay(m, place, self.technology.timing.ram + 2, "written")),
            ram.write_data.eq(Value.cast(made)),
        ]
        partial, lanes = self.shape.partial, self.shape.lanes
        lowest, highest = shape_range(partial)
        neutral = {add: 0, larger: lowest, smaller: highest}[self.combine]
        old = Signal(self.o_word.shape(), reset_less=True)
        m.d.sync += Value.cast(old).eq(Mux(first, Cat(*[Const(neutral, partial)] * lanes), ram.read_data))
        return old


@dataclass(frozen=True, kw_only=True)
class FoldsShape:
    """The windows of `fold` over words of `lanes` elements, from `element` to partial results of shape `partial`."""

    fold: FoldShape
    element: Shape
    partial: Shape
    lanes: int

    @property
    def loops(self) -> list[LoopShape]:
        return [LoopShape(element=self.partial if n else self.element, partial=self.partial, lanes=self.lanes,
                          turn=turn, count=count) for n, (turn, count) in enumerate(self.fold.loops)]

    @property
    def counts(self) -> tuple[int, ...]:
        """The counts of the words that are in windows, innermost first."""
        window = self.fold.window
        return (window.words, window.kernel[1], window.out_width, window.kernel[0])

    def latency(self, technology: Technology) -> int:
        return 1 + sum(loop.latency(technology) for loop in self.loops)

    def cost(self, technology: Technology) -> Resources:
        window, loops = self.fold.window, self.loops
        counts = list(self.counts)
        if self.fold.has_rests:
            counts += [window.width * window.words, window.height]
        total = fitted("Folds", counter_bits=Nest.bits(counts)) + Resources(ff=loops[0].came + self.fold.has_rests)
        sums = self.partial.width > self.element.width  # partial results that are no sums are as wide as the elements
        return sum((loop.cost(technology, n, sums) for n, loop in enumerate(loops)), total)


class Folds(wiring.Component):
    """The words of frames to the results of their windows.

    Ports
    -----
    take
        A word is there and taken in this cycle: `word`.
    completes
        The word that is taken next completes a result: a register.
    valid, made
        A result, `FoldsShape.latency` cycles after the word that completes it was taken.
    """

    def __init__(self, *, shape: FoldsShape, combine: Combine, technology: Technology):
        self.shape = shape.fold
        self.counts = shape.counts
        self.folds = [Fold(shape=loop, combine=combine, technology=technology, number=number)
                      for number, loop in enumerate(shape.loops)]
        super().__init__({
            "take": In(1), "word": In(self.folds[0].i_word.shape()),
            "completes": Out(1, init=all(count == 1 for count in (self.counts[1], self.counts[3]))),
            "valid": Out(1), "made": Out(self.folds[-1].o_word.shape())})

    def elaborate(self, platform):
        m = Module()
        # Registers describe a word already when it comes: the counters are one word ahead.
        nest = Nest(m, self.counts, ahead=1, name="left")
        kept_ahead = self.keep(m)
        nest.advance(self.take & kept_ahead)
        kept: Value = Const(1)
        if self.shape.has_rests:
            kept = Signal(init=1, name="kept")
            with m.If(self.take):
                m.d.sync += kept.eq(kept_ahead)
        with m.If(self.take):
            m.d.sync += self.completes.eq(kept_ahead & nest.last[1] & nest.last[3])
        # A register for the word: what decides whether it is taken does not drive all that folds it.
        valid = delay(m, self.take & kept, 1, "came", reset_less=False)
        word = delay(m, Value.cast(self.word), 1, "came_word")
        for k, fold in enumerate(self.folds):
            m.submodules[f"fold{k}"] = fold
            m.d.comb += [fold.i_valid.eq(valid), Value.cast(fold.i_word).eq(Value.cast(word))]
            valid, word = fold.o_valid, fold.o_word
        m.d.comb += [self.valid.eq(valid), self.made.eq(word)]
        return m

    def keep(self, m: Module) -> Value:
        """Whether the word after the one that comes next is in a window: what is left of rows and columns at the ends
        is in none."""
        window = self.shape.window
        used = (window.out_width * window.kernel[1] * window.words, window.out_height * window.kernel[0])
        nest = Nest(m, (window.width * window.words, window.height), ahead=1, name="frame")
        nest.advance(self.take)
        kept, step = Const(1), self.take
        place = 1  # of that word in the frame
        for loop, (last, count) in enumerate(zip(used, nest.counts, strict=True)):
            place, index = divmod(place, count)
            if last < count:
                flag = Signal(init=index < last, name=f"kept{loop}")
                with m.If(step & nest.last[loop]):
                    m.d.sync += flag.eq(1)
                with m.Elif(step & nest.at(loop, [last - 1])):
                    m.d.sync += flag.eq(0)
                kept = kept & flag
            step = step & nest.last[loop]
        return kept
