"""The array of a shared stage: multipliers, adder trees, sums of blocks, and maxima."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..stream.pipeline import adder_luts, delay
from ..vendor.base import Resources, Technology
from .shape import SharedShape
from .steps import DIGIT_BITS


def array_latency(shape: SharedShape, technology: Technology) -> int:
    """Cycles from the last word of a block to its results."""
    return technology.timing.multiply + (shape.columns - 1).bit_length() + 1


def array_cost(shape: SharedShape, technology: Technology) -> Resources:
    """The cost of a `SharedArray`: multipliers exact, LUT and FF estimated."""
    columns, total, turns = shape.columns, shape.sums.accumulator, shape.turns
    products = technology.multipliers_cost(count=shape.rows * columns, a=shape.element, b=shape.element)
    luts, registers, count, width = 0, 0, columns, 2 * shape.element.width
    while count > 1:
        width += 1
        luts += count // 2 * adder_luts(width, technology)
        count -= count // 2
        registers += count * width
    row = Resources(lut=luts + adder_luts(total, technology) + turns * (2 * total + shape.element.width)
                    + shape.element.width, ff=registers + turns * (2 * total + shape.element.width))
    word = columns * shape.element.width
    lanes = word * (array_latency(shape, technology) - 1)
    # where a row works for two lanes, a multiplexer is before that of the word
    slides = (word * shape.windows.taps - shape.element.width) if turns == 1 else (
        shape.rows * shape.windows.taps * shape.element.width * turns)
    earlier = Resources(lut=slides if shape.windows.slide else 0,
                        ff=word * (shape.windows.taps - 1) * shape.windows.slide)
    by_words = Resources(lut=2 * word, ff=word) if shape.products else Resources()
    return products + row.copies(shape.rows) + earlier + by_words + Resources(lut=4, ff=lanes + 12)


class SharedArray(wiring.Component):
    """In each cycle a word of elements meets `rows` rows of weights; for all `columns` of them it stays for `turns`.

    A row of multipliers and adders works for `turns` sums, one after the other.

    Ports
    -----
    word, weights, turn
        The elements; the weights of this turn, row after row.
    valid, first, last, next_digit
        With the word: it belongs to a block; it is its first, its last, in the last turn; the sum is multiplied by
        2**DIGIT_BITS before.
    slides
        Weight c of a row, of the first `taps`, meets the row's lane of the word `c * slide` words earlier (`Sliding`),
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
            "weights": In(data.ArrayLayout(shape.element, shape.rows * columns)),
            "valid": In(1), "first": In(1), "last": In(1), "next_digit": In(1), "maximum": In(1), "slides": In(1),
            "product": In(1), "turn": In(range(shape.turns)),
            "early": Out(1), "move": In(1), "results": Out(data.ArrayLayout(signed(shape.sums.accumulator), columns))})

    @property
    def latency(self) -> int:
        return array_latency(self.shape, self.technology)

    def elaborate(self, platform):
        m = Module()
        shape, columns = self.shape, self.shape.columns
        m.submodules.products = products = self.technology.multipliers(
            count=shape.rows * columns, a=shape.element, b=shape.element)
        earlier, before = self.earlier(m), self.word_before(m)
        wait = self.latency - 1
        word = delay(m, Value.cast(self.word), wait, "word")
        flags = {name: delay(m, getattr(self, name) & self.valid, wait, name, reset_less=False)
                 for name in ("first", "last", "next_digit")}
        valid = delay(m, self.valid, wait, "valid", reset_less=False)
        early = self.last & self.valid
        m.d.comb += self.early.eq(delay(m, early, self.latency - self.technology.timing.ram, "early",
                                        reset_less=False))
        turn = delay(m, self.turn, wait, "turn")
        for row in range(shape.rows):
            self.multiply(m, products, row, earlier, before)
            terms = [products.p[row * columns + column] for column in range(columns)]
            total = self.summed(m, terms, row)
            # of each turn, the last one first: a word later the oldest is that of the same turn
            sums = [Signal(signed(shape.sums.accumulator), name=f"sum{row}_{k}", reset_less=True)
                    for k in range(shape.turns)]
            largest = [Signal(shape.element, name=f"largest{row}_{k}", reset_less=True) for k in range(shape.turns)]
            scaled = Mux(flags["next_digit"], sums[-1] << DIGIT_BITS, sums[-1])
            now = Signal(signed(shape.sums.accumulator), name=f"now{row}")
            m.d.comb += now.eq(total + Mux(flags["first"], 0, scaled))
            elements = [word.word_select(lane, shape.element.width) for lane in self.lanes_of(row)]
            lane = self.of_turn(elements, turn).as_signed()
            maximum = Signal(shape.element, name=f"maximum{row}")
            m.d.comb += maximum.eq(Mux(flags["first"] | (lane > largest[-1]), lane, largest[-1]))
            with m.If(valid):
                m.d.sync += [Cat(*sums).eq(Cat(now, *sums[:-1])), Cat(*largest).eq(Cat(maximum, *largest[:-1]))]
            results = [*reversed(list(zip(largest, sums, strict=True))[:-1]), (maximum, now)]
            for place, (most, whole) in zip(self.lanes_of(row), results, strict=True):
                self.keep(m, place, flags["last"], Mux(self.maximum, most, whole))
        return m

    def lanes_of(self, row: int) -> range:
        """The lanes of results that a row of multipliers makes, turn by turn."""
        return range(row, self.shape.columns, self.shape.rows)

    def of_turn(self, values: Sequence[Value], turn: Value) -> Value:
        """One of `values`, of which each belongs to a turn."""
        found = values[0]
        for k, value in enumerate(values[1:], 1):
            found = Mux(turn == k, value, found)
        return found

    def keep(self, m: Module, lane: int, complete: Value, result: Value) -> None:
        """A result of a block, until the next one; `move` brings that of a lane above."""
        above = lane + self.shape.lanes
        with m.If(complete):
            m.d.sync += self.results[lane].eq(result)
        with m.Elif(self.move):
            m.d.sync += self.results[lane].eq(self.results[above if above < self.shape.columns else lane])

    def multiply(self, m: Module, products: Any, row: int, earlier: Sequence[data.View],
                 before: data.View | None) -> None:
        """Build what the multipliers of a row multiply."""
        shape, by_word = self.shape, self.last & self.product
        for column in range(shape.columns):
            place = row * shape.columns + column
            element, weight = self.word[column], self.weights[place]
            if column < shape.windows.taps and shape.windows.slide:
                slid = self.of_turn([Value.cast(earlier[column][lane]) for lane in self.lanes_of(row)], self.turn)
                element = Mux(self.slides, slid, Value.cast(element)).as_signed()
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
        shape, words = self.shape, [self.word]
        word: Value = Value.cast(self.word)
        for tap in range(1, shape.windows.taps):
            for k in range(shape.windows.slide):
                after = Signal(len(word), name=f"earlier{tap}_{k}", reset_less=True)
                with m.If(self.valid & (self.turn == shape.turns - 1)):
                    m.d.sync += after.eq(word)
                word = after
            words.append(data.View(self.word.shape(), word))
        return words

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
