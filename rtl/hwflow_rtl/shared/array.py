"""The array of a shared stage: multipliers, adder trees, sums of blocks, and maxima."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..stream.pipeline import adder_luts, delay
from ..vendor.base import Resources, Technology
from .shape import SharedShape
from .steps import DIGIT_BITS

__all__ = ["SharedArray"]


class SharedArray(wiring.Component):
    """In each cycle a word of elements meets `columns` rows of weights.

    Ports
    -----
    word, weights
        The elements; the weights, row after row.
    valid, first, last, next_digit
        With the word: it belongs to a block; it is its first, its last; the sum is multiplied by 2**DIGIT_BITS before.
    slides
        Weight c of a row, of the first `shape.taps`, meets the row's lane of the word `c * shape.slide` words earlier,
        not lane c of the word.  It does not change while blocks are inside.
    product
        Blocks are products of two words: lane by lane, -1 less the last word meets -1 less the word before it instead
        of a weight.  It does not change while blocks are inside.
    maximum
        Blocks are maxima of each lane, not sums; it does not change while blocks are inside.
    results
        The sums of a block, `latency` cycles after its last word; they stay until the next ones, `move` shifts them
        down by `lanes`.
    early
        `last`, `timing.ram` cycles before the results are there.
    """

    def __init__(self, *, shape: SharedShape, technology: Technology):
        self.shape = shape
        self.technology = technology
        columns = shape.columns
        super().__init__({
            "word": In(data.ArrayLayout(shape.element, columns)),
            "weights": In(data.ArrayLayout(shape.element, columns * columns)),
            "valid": In(1), "first": In(1), "last": In(1), "next_digit": In(1), "maximum": In(1), "slides": In(1),
            "product": In(1),
            "early": Out(1), "move": In(1), "results": Out(data.ArrayLayout(signed(shape.accumulator), columns))})

    @property
    def latency(self) -> int:
        return self.latency_of(self.shape, self.technology)

    @staticmethod
    def latency_of(shape: SharedShape, technology: Technology) -> int:
        """Cycles from the last word of a block to its results."""
        return technology.timing.multiply + (shape.columns - 1).bit_length() + 1

    @staticmethod
    def cost(shape: SharedShape, technology: Technology) -> Resources:
        """Multipliers exact, LUT and FF estimated."""
        columns, total = shape.columns, shape.accumulator
        products = technology.multipliers_cost(count=columns * columns, a=shape.element, b=shape.element)
        luts, registers, count, width = 0, 0, columns, 2 * shape.element.width
        while count > 1:
            width += 1
            luts += count // 2 * adder_luts(width, technology)
            count -= count // 2
            registers += count * width
        row = Resources(lut=luts + adder_luts(total, technology) + 2 * total + 2 * shape.element.width,
                        ff=registers + 2 * total + shape.element.width)
        word = columns * shape.element.width
        lanes = word * (SharedArray.latency_of(shape, technology) - 1)
        earlier = Resources(lut=word * shape.taps - shape.element.width if shape.slide else 0,
                            ff=word * (shape.taps - 1) * shape.slide)
        by_words = Resources(lut=2 * word, ff=word) if shape.products else Resources()
        return products + row.copies(columns) + earlier + by_words + Resources(lut=4, ff=lanes + 12)

    def elaborate(self, platform):
        m = Module()
        shape, columns = self.shape, self.shape.columns
        m.submodules.products = products = self.technology.multipliers(
            count=columns * columns, a=shape.element, b=shape.element)
        earlier, before = self.earlier(m), self.word_before(m)
        wait = self.latency - 1
        word = delay(m, Value.cast(self.word), wait, "word")
        flags = {name: delay(m, getattr(self, name) & self.valid, wait, name, reset_less=False)
                 for name in ("first", "last", "next_digit")}
        valid = delay(m, self.valid, wait, "valid", reset_less=False)
        early = self.last & self.valid
        m.d.comb += self.early.eq(delay(m, early, self.latency - self.technology.timing.ram, "early",
                                        reset_less=False))
        for row in range(columns):
            self.multiply(m, products, row, earlier, before)
            terms = [products.p[row * columns + column] for column in range(columns)]
            total, largest = self.summed(m, terms, row), Signal(shape.element, name=f"largest{row}", reset_less=True)
            sums = Signal(signed(shape.accumulator), name=f"sum{row}", reset_less=True)
            scaled = Mux(flags["next_digit"], sums << DIGIT_BITS, sums)
            now = Signal(signed(shape.accumulator), name=f"now{row}")
            m.d.comb += now.eq(total + Mux(flags["first"], 0, scaled))
            lane = word.word_select(row, shape.element.width).as_signed()
            maximum = Signal(shape.element, name=f"maximum{row}")
            m.d.comb += maximum.eq(Mux(flags["first"] | (lane > largest), lane, largest))
            with m.If(valid):
                m.d.sync += [sums.eq(now), largest.eq(maximum)]
            above = self.results[row + shape.lanes] if row + shape.lanes < columns else self.results[row]
            with m.If(flags["last"]):
                m.d.sync += self.results[row].eq(Mux(self.maximum, maximum, now))
            with m.Elif(self.move):
                m.d.sync += self.results[row].eq(above)
        return m

    def multiply(self, m: Module, products: Any, row: int, earlier: Sequence[data.View],
                 before: data.View | None) -> None:
        """What the multipliers of a row multiply."""
        shape, by_word = self.shape, self.last & self.product
        for column in range(shape.columns):
            place = row * shape.columns + column
            element, weight = self.word[column], self.weights[place]
            if column < shape.taps and shape.slide:
                element = Mux(self.slides, earlier[column][row], element)
            if before is not None and column == row:
                element = (Value.cast(element) ^ by_word.replicate(len(element))).as_signed()
                weight = Mux(by_word, ~before[column], weight)
            m.d.comb += [products.a[place].eq(element), products.b[place].eq(weight)]

    def word_before(self, m: Module) -> data.View | None:
        """The word before the current one; None where no step multiplies words by each other."""
        if not self.shape.products:
            return None
        before = Signal(self.word.shape(), name="word_before", reset_less=True)
        with m.If(self.valid):
            m.d.sync += before.eq(self.word)
        return before

    def earlier(self, m: Module) -> list[data.View]:
        """The word, that of `slide` words before, and so on: one for each of `taps` columns of a window."""
        shape, found = self.shape, [self.word]
        word: Value = Value.cast(self.word)
        for tap in range(1, shape.taps):
            for k in range(shape.slide):
                after = Signal(len(word), name=f"earlier{tap}_{k}", reset_less=True)
                with m.If(self.valid):
                    m.d.sync += after.eq(word)
                word = after
            found.append(data.View(self.word.shape(), word))
        return found

    def summed(self, m: Module, terms: list[Value], row: int) -> Value:
        """The sum of the products of a row, one level of adders a cycle."""
        level = 0
        while len(terms) > 1:
            sums = [sum(terms[k:k + 2]) for k in range(0, len(terms), 2)]
            terms = []
            for k, value in enumerate(sums):
                register = Signal(Value.cast(value).shape(), name=f"tree{row}_{level}_{k}", reset_less=True)
                m.d.sync += register.eq(value)
                terms.append(register)
            level += 1
        return terms[0]
