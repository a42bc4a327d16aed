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


class Fold(wiring.Component):
    """Takes words in turns of `period`; `count` words of the same place in their turns become one word.

    Parameters
    ----------
    shape, lanes
        Of the partial results.
    element
        Shape of the elements that come.
    period, count, combine
        The loop, and what is done with an element.
    technology
        Makes the memory of a long period.
    number
        Of this fold among those of a stage, in the name of its memory.

    A word may come in every cycle; the last of `count` leaves combined with the others, `latency` cycles later.
    """

    def __init__(self, *, shape: Shape, element: Shape, lanes: int, period: int, count: int, combine: Combine,
                 technology: Technology, number: int = 0):
        self.shape = Shape.cast(shape)
        self.lanes = lanes
        self.number = number
        self.period = period if count > 1 else 1
        self.count = count
        self.combine = combine
        self.technology = technology
        super().__init__({
            "i_valid": In(1), "i_word": In(data.ArrayLayout(element, lanes)),
            "o_valid": Out(1), "o_word": Out(data.ArrayLayout(shape, lanes))})

    @staticmethod
    def in_registers(width: int, period: int, technology: Technology) -> bool:
        """A memory reads a word again `ram + 3` cycles after it was read before, at the earliest: then it is written.

        The same on all families, so that the cycles are.
        """
        return period < technology.timing.ram + 3 or width * (period - 1) <= FEW_BITS

    @staticmethod
    def latency_of(width: int, period: int, count: int, technology: Technology) -> int:
        return 1 if count == 1 or Fold.in_registers(width, period, technology) else technology.timing.ram + 2

    @property
    def width(self) -> int:
        return self.shape.width * self.lanes

    @property
    def latency(self) -> int:
        return self.latency_of(self.width, self.period, self.count, self.technology)

    @staticmethod
    def cost(*, width: int, came: int, period: int, count: int, lanes: int, sums: bool,
             technology: Technology, number: int = 0) -> Resources:
        """Of partial results of `width` bits in `lanes`, of words of `came` bits.  RAM exact, LUT and FF estimated."""
        counters = Nest.bits((period if count > 1 else 1, count))
        control = fitted("Fold", counter_bits=counters) + Resources(
            lut=2 * width + lanes * adder_luts(0, technology), ff=width)
        if count == 1 or Fold.in_registers(width, period, technology):
            old = (period - 1) * width if count > 1 else 0
            return control + flip_flops(old, old, technology)
        address, wait = (period - 1).bit_length(), technology.timing.ram + 1
        late = width + wait * (came + 3) + (wait + 1) * address + 1
        if sums:  # what does not count is 0 before it comes to the adder
            control = Resources(lut=control.lut - width, ff=control.ff)
        return (control + technology.ram_cost(
                width=width, depth=period, name=f"partial{number}", holds=Holds.PARTIAL)
                + fitted("Fold in memory", address_bits=address) + flip_flops(late, late, technology))

    def elaborate(self, platform):
        m = Module()
        nest = Nest(m, (self.period, self.count), name="left")
        nest.advance(self.i_valid)
        first = Signal(init=1)
        with m.If(self.i_valid & nest.last[0]):
            m.d.sync += first.eq(nest.last[1])
        flags, word = Cat(self.i_valid, first, nest.last[1]), Value.cast(self.i_word)
        made = Signal(self.o_word.shape(), reset_less=True)
        if self.count == 1 or self.in_registers(self.width, self.period, self.technology):
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
            for lane in range(self.lanes):
                m.d.sync += made[lane].eq(self.combine(m, first, old[lane], elements[lane], f"{lane}"))
        m.d.comb += [self.o_valid.eq(delay(m, valid & last, 1, "made", reset_less=False)), self.o_word.eq(made)]
        return m

    def registers(self, m: Module, made) -> data.View:
        """The partial results move along with the words: the one that is wanted is always the last."""
        word = Value.cast(made)
        for k in range(self.period - 1):
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
            width=self.width, depth=self.period, name=f"partial{self.number}")
        place = Signal(range(self.period))
        with m.If(self.i_valid):
            m.d.sync += place.eq(Mux(turn, 0, place + 1))
        m.d.comb += [
            ram.read_addr.eq(place), ram.write_en.eq(delay(m, valid, 1, "write", reset_less=False)),
            ram.write_addr.eq(delay(m, place, self.technology.timing.ram + 2, "written")),
            ram.write_data.eq(Value.cast(made)),
        ]
        lowest, highest = shape_range(self.shape)
        neutral = {add: 0, larger: lowest, smaller: highest}[self.combine]
        old = Signal(self.o_word.shape(), reset_less=True)
        m.d.sync += Value.cast(old).eq(Mux(first, Cat(*[Const(neutral, self.shape)] * self.lanes), ram.read_data))
        return old


class Folds(wiring.Component):
    """The words of frames to the results of their windows.

    Ports
    -----
    take
        A word is there and taken in this cycle: `word`.
    completes
        The word that is taken next completes a result: a register.
    valid, made
        A result, `latency` cycles after the word that completes it was taken.
    """

    def __init__(self, *, shape: FoldShape, element: Shape, partial: Shape, lanes: int, combine: Combine,
                 technology: Technology):
        self.shape = shape
        self.folds = []
        for number, (period, count) in enumerate(shape.loops):
            self.folds.append(Fold(shape=partial, element=element, lanes=lanes, period=period, count=count,
                                   combine=combine, technology=technology, number=number))
            element = partial
        super().__init__({
            "take": In(1), "word": In(self.folds[0].i_word.shape()),
            "completes": Out(1, init=all(count == 1 for count in (self.counts[1], self.counts[3]))),
            "valid": Out(1), "made": Out(self.folds[-1].o_word.shape())})

    @staticmethod
    def latency_of(shape: FoldShape, width: int, technology: Technology) -> int:
        """`width`: bits of the partial results of a word."""
        return 1 + sum(Fold.latency_of(width, *loop, technology) for loop in shape.loops)

    @staticmethod
    def cost(shape: FoldShape, width: int, came: int, lanes: int, technology: Technology) -> Resources:
        """Partial results of `width` bits of words of `came` bits, both of `lanes` elements."""
        window = shape.window
        counts = [window.words, window.kernel[1], window.out_width, window.kernel[0]]
        if shape.has_rests:
            counts += [window.width * window.words, window.height]
        frame = Nest.bits(counts)
        total = fitted("Folds", counter_bits=frame) + Resources(ff=came + shape.has_rests)
        sums = width > came  # partial results that are no sums are as wide as the words
        for n, (period, count) in enumerate(shape.loops):
            total += Fold.cost(width=width, came=width if n else came, period=period, count=count, lanes=lanes,
                               sums=sums, technology=technology, number=n)
        return total

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

    @property
    def counts(self) -> tuple[int, ...]:
        """Of the words that are in windows, innermost first."""
        window = self.shape.window
        return (window.words, window.kernel[1], window.out_width, window.kernel[0])

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
