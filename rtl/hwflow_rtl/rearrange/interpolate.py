"""Frames of another size, each element of which is a sum of its neighbours in two rows and two columns, rescaled.

    i ─▶ ring, which plays the neighbours of a word one after another ─▶ products ─▶ sums ─▶ rescalers ─▶ queue ─▶ o
                                counters ─▶ tables of weights ───────────────┘
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, unsigned
from amaranth.lib import data, wiring

from ..join.multiply import BlockProduct, RowProduct, product_of
from ..join.tree import holding
from ..pool.results import Results, drain, rescaled
from ..pool.shape import RescaledShape
from ..stream.pipeline import Nest, adder_luts, delay
from ..stream.times import StageTimes, Times
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from ..vendor.memory import Holds
from .rearrange import RearrangeStage, RearrangeStageShape
from .walk import ENTRIES_IN_LOGIC

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class AxisWeights:
    """For each row, or each column, of the output the weight of the second of two neighbours; that of the first is
    `total` less it.  With `total` 1 there is one neighbour, whose weight is 1.
    """

    weights: IntArray
    total: int

    @property
    def taps(self) -> int:
        return 2 if self.total > 1 else 1

    @property
    def shape(self) -> Shape:
        """The shape of a weight."""
        return unsigned(self.total.bit_length())

    @property
    def counter(self) -> Shape:
        """Counts down as the loop of a `Nest` does."""
        return Shape.cast(range(-1, len(self.weights) - 1))

    @property
    def varies(self) -> bool:
        return self.taps > 1 and bool((self.weights != self.weights[0]).any())

    @property
    def depth(self) -> int:
        """Entries of the table."""
        return 1 << self.counter.width

    @property
    def in_rom(self) -> bool:
        return self.varies and self.depth > ENTRIES_IN_LOGIC

    @cached_property
    def stored(self) -> IntArray:
        """The weights by the counter."""
        count = len(self.weights)
        return self.weights[(count - 2 - np.arange(self.depth)) % self.depth % count]

    def cost(self, technology: Technology, name: str) -> Resources:
        """RAM exact, LUT and FF estimated: the table, and the register of what an element is multiplied with."""
        if self.taps == 1:
            return Resources()
        width, chosen = self.shape.width, Resources(lut=self.shape.width * 2, ff=self.shape.width)
        if self.in_rom:
            return chosen + technology.rom_cost(width=width, depth=self.depth, name=name, holds=Holds.TABLE)
        return chosen + Resources(lut=self.varies * width, ff=self.varies * width * technology.timing.rom)


@dataclass(frozen=True, kw_only=True, eq=False)
class InterpolateShape(RescaledShape, RearrangeStageShape):
    """Sums over blocks of words, which `order` plays: an element of both rows and both columns, the columns innermost.

    rows, columns
        The weights, those of a block being the products of a row's and a column's.
    """

    rows: AxisWeights
    columns: AxisWeights
    padding: int = 0

    def __post_init__(self) -> None:
        RearrangeStageShape.__post_init__(self)
        self.check_lanes("an interpolation")
        if self.parts > self.taps:
            raise ValueError(f"out_lanes of an interpolation must be such that a word leaves in at most {self.taps} "
                             f"parts, not {self.parts}")
        if len(self.order.groups) % self.taps:
            raise ValueError(f"groups of an interpolation must be blocks of {self.taps} words, not {self.order.groups}")

    @property
    def taps(self) -> int:
        """Words of a block."""
        return self.rows.taps * self.columns.taps

    @property
    def step(self) -> int:
        return self.taps // self.parts

    @property
    def multipliers(self) -> int:
        return self.lanes if self.taps > 1 else 0

    @property
    def weight(self) -> int:
        """The largest weight, and what those of a block add up to."""
        return self.rows.total * self.columns.total

    @cached_property
    def weighing(self) -> RowProduct | BlockProduct | None:
        """What multiplies the weight of a row with that of a column; None where just one of them varies."""
        if self.taps < 4:
            return None
        return product_of(((0, self.rows.total), (0, self.columns.total)))

    @cached_property
    def product(self) -> RowProduct | BlockProduct:
        """What multiplies an element with its weight."""
        return product_of((self.operand.range, (0, self.weight)))

    def weight_latency(self, technology: Technology) -> int:
        """Cycles from the start of a word to its weight; no fewer than to the word."""
        weighed = self.weighing.latency(technology) if self.weighing else 0
        return max(technology.timing.rom + 1 + weighed, technology.timing.ram) if self.taps > 1 else (
            technology.timing.ram)

    def sum_latency(self, technology: Technology) -> int:
        """Cycles from the start of a block's last word to its sums."""
        product = self.product.latency(technology) if self.taps > 1 else 0
        return self.weight_latency(technology) + product + 1

    def results(self, technology: Technology) -> Results:
        latency = self.taps - 1 + self.sum_latency(technology) + self.drain_latency + self.rescale_latency(technology)
        return Results(words=self.parts, interval=self.taps, latency=latency, technology=technology)

    def times_with(self, depth: int, technology: Technology, arrivals: Times, left: Times | None) -> StageTimes:
        """The first word of a block waits for room for its results, and each word for what is played."""
        order, taps, results = self.order, self.taps, self.results(technology)
        blocks = len(arrivals) // order.input_words * order.output_words // taps
        room = np.zeros((blocks, taps), np.int64)
        room[:, 0] = results.starts(room[:, 0], left)
        played, taken = order.times(arrivals, depth, room.reshape(-1))
        return StageTimes((taken,), results.departures(played[taps - 1::taps] - (taps - 1), self.step))

    def cost(self, technology: Technology) -> Resources:
        """DSP and RAM exact, LUT and FF estimated."""
        total = self.playing_cost(technology) + self.results(technology).cost(self.width_out)
        total += self.rows.cost(technology, "rows") + self.columns.cost(technology, "columns")
        waits = self.weight_latency(technology) - technology.timing.ram
        # Adders, which also clear their sums, the elements that wait for their weights, the sums that wait to leave.
        waiting = self.sums_width - self.sums_width // self.parts
        adders = self.lanes * adder_luts(self.accumulator.width, technology) if self.taps > 1 else 0
        total += Resources(lut=adders + waiting,
                           ff=self.sums_width * (1 + (self.parts > 1)) + waits * self.width)
        if self.taps > 1:
            total += sum((self.product.cost(technology) for _ in range(self.lanes)), Resources())
        if self.weighing:
            total += self.weighing.cost(technology)
        weights = self.rows.shape.width + self.columns.shape.width if self.weighing else 0
        own = fitted("InterpolateStage", counter_bits=Nest.bits(self.loops), sum_bits=self.sums_width,
                     waiting_bits=waiting, weight_bits=weights)
        return total + self.rescale_cost(technology) + own

    @property
    def loops(self) -> tuple[int, ...]:
        """Columns of a block, rows of a block, blocks of a pixel, columns and rows of the output."""
        return (self.columns.taps, self.rows.taps, len(self.order.groups) // self.taps, len(self.columns.weights),
                len(self.rows.weights))

    def build(self, technology: Technology, name: str) -> InterpolateStage:
        return InterpolateStage(shape=self, technology=technology, name=name)


class InterpolateStage(RearrangeStage):
    """The words of a block are played one after another; the first waits until there is room for the block's results.

    Initiation interval: the words of all blocks or, if they are more, those of the input.  `busy` says that a word is
    played.
    """

    shape: InterpolateShape

    def __init__(self, *, shape: InterpolateShape, technology: Technology, name: str):
        super().__init__(shape=shape, technology=technology, name=name)
        self.rescalers = shape.rescalers(technology, name)
        self.results = shape.results(technology)

    def model(self, frames: IntArray) -> IntArray:
        """Beats at the output, [n, out_lanes]; frames are [n, height, width, channels]."""
        shape = self.shape
        words = shape.operand.decoded(shape.words_of(frames)[:, shape.order.addresses])
        columns, rows, blocks, width, height = shape.loops
        factors = [np.stack([axis.total - axis.weights, axis.weights]) if axis.taps > 1 else
                   np.ones((1, len(axis.weights)), np.int64) for axis in (shape.rows, shape.columns)]
        weights = np.einsum("ir,jc->rcij", *factors).reshape(height, width, 1, rows * columns, 1)
        sums = (words.reshape(-1, height, width, blocks, rows * columns, shape.lanes) * weights).sum(axis=4)
        parts = sums.reshape(-1, len(self.rescalers)).T
        return np.stack([unit.model(part) for unit, part in zip(self.rescalers, parts, strict=True)], axis=1)

    def elaborate(self, platform):
        m = Module()
        shape, technology = self.shape, self.technology
        nest = Nest(m, shape.loops, name="left")
        allowed, begins, ends = Signal(), Signal(init=1), Signal()
        start, word = self.play(m, allowed)
        nest.advance(start)
        m.d.comb += ends.eq(Cat(*nest.last[:2]).all())
        with m.If(start):
            m.d.sync += begins.eq(ends)
        waits = shape.weight_latency(technology)
        word = delay(m, word, waits - technology.timing.ram, "waits")
        weight = self.weight(m, nest)
        products = [self.product(m, lane, word, weight) for lane in range(shape.lanes)]
        until = shape.sum_latency(technology) - 1
        first, there = delay(m, begins, until, "first"), delay(m, start, until, "there", reset_less=False)
        sums = [Signal(shape.accumulator, name=f"sum{lane}", reset_less=True) for lane in range(shape.lanes)]
        with m.If(there):
            m.d.sync += [value.eq(product if shape.taps == 1 else Mux(first, 0, value) + product)
                         for value, product in zip(sums, products, strict=True)]
        ready = delay(m, start & ends, until + 1, "ready", reset_less=False)
        valid, values = drain(m, ready, sums, shape.parts, shape.step)
        valid, made = rescaled(m, self.rescalers, valid, values)
        credit = self.results.build(m, start & begins, valid, made, wiring.flipped(self.o),
                                    data.ArrayLayout(shape.output, shape.out_lanes))
        m.d.comb += allowed.eq(credit | ~begins)
        return m

    def product(self, m: Module, lane: int, word: Value, weight: Value) -> Value:
        """An element times its weight."""
        shape, width = self.shape, self.shape.element.width
        code = word[lane * width:(lane + 1) * width]
        value = Signal(holding(*shape.operand.range), name=f"element{lane}")
        number = Cat(1, ~code).as_signed() if shape.bipolar else (
            code.as_signed() if shape.element.signed else code)
        m.d.comb += value.eq(number)
        if shape.taps == 1:
            return value
        m.submodules[f"product{lane}"] = inside = Module()
        return shape.product.build(inside, value, weight, self.technology)

    def weight(self, m: Module, nest: Nest) -> Value:
        """The weight of a word, `weight_latency` cycles after its start."""
        shape, technology = self.shape, self.technology
        rows = self.factor(m, shape.rows, "rows", nest.left[4], nest.last[1])
        columns = self.factor(m, shape.columns, "columns", nest.left[3], nest.last[0])
        factors = [factor for factor in (rows, columns) if factor is not None]
        if len(factors) < 2:
            waits = shape.weight_latency(technology) - technology.timing.rom - 1
            return delay(m, factors[0], waits, "weight") if factors else Const(1)
        assert shape.weighing is not None
        m.submodules.weighing = inside = Module()
        weight = Signal(holding(0, shape.weight))
        m.d.comb += weight.eq(shape.weighing.build(inside, *factors, technology))
        return weight

    def factor(self, m: Module, axis: AxisWeights, name: str, left: Signal | None, second: Value) -> Value | None:
        """The weight of a row or a column, `timing.rom` + 1 cycles after the start of a word; None where it is 1."""
        if axis.taps == 1:
            return None
        latency = self.technology.timing.rom
        found = Signal(axis.shape, name=f"{name}_weight")
        if not axis.varies:
            m.d.comb += found.eq(int(axis.weights[0]))
        elif axis.in_rom:
            octets = -(-axis.shape.width // 8)
            contents = np.array([list(int(weight).to_bytes(octets, "little")) for weight in axis.stored], np.uint8)
            m.submodules[name] = rom = self.technology.rom(
                width=axis.shape.width, contents=contents, name=f"{self.name}_{name}")
            m.d.comb += [rom.addr.eq(left), found.eq(rom.data)]
        else:
            selected = Signal(axis.shape, name=f"{name}_selected")
            assert left is not None
            with m.Switch(left.as_unsigned()):
                for place, weight in enumerate(axis.stored.tolist()):
                    with m.Case(place):
                        m.d.comb += selected.eq(weight)
            m.d.comb += found.eq(delay(m, selected, latency, f"{name}_waits"))
        chosen = Signal(axis.shape, name=f"{name}_factor", reset_less=True)
        m.d.sync += chosen.eq(Mux(delay(m, second, latency, f"{name}_second"), found, axis.total - found))
        return chosen
