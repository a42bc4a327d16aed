"""Softmax of rows: the largest element, exponentials of the distances to it, their sum, its reciprocal, products.

    i ─▶ ring of elements ─▶ distances ─▶ exponentials ─▶ ring of exponentials ─▶ products ─▶ Queue ─▶ o
         largest ──────────▶                   sum ─▶ Chain of Division ─▶ reciprocal

Three rows are in it at a time: one is taken, one becomes exponentials, one is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring

from ..join.add import TAIL, RoundedSum
from ..join.multiply import BlockProduct
from ..join.tree import SumPlan, Term, holding
from ..multiply.products import Operand
from ..pool.fold import larger
from ..stream.pipeline import Nest, adder_luts, delay
from ..stream.queue import Queue
from ..stream.streams import link
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from .chain import ChainShape
from .product import ExactProduct
from .reciprocal import Division
from .ring import RowRing, RowRingShape
from .shape import Phase, RowsShape, RowsStage, results_cost

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class SoftmaxShape(RowsShape):
    """The integers of the function.

    `exponentials[d]` is that of an element which is d below the largest: not above the first, not below 0.  The
    reciprocal of a sum is numerator * 2**precision / sum, rounded down; numerator is below exponentials[0].
    """

    exponentials: tuple[int, ...]
    numerator: int
    precision: int
    shift: int
    zero_point: int
    low: int
    high: int

    @property
    def exponential_bits(self) -> int:
        return self.exponentials[0].bit_length()

    @property
    def sum_bits(self) -> int:
        return (self.exponentials[0] * self.elements).bit_length()

    @cached_property
    def lane_sum(self) -> SumPlan:
        """The plan of the sum of the exponentials of a beat."""
        return SumPlan((Term(0, self.exponentials[0]),) * self.lanes)

    @cached_property
    def division(self) -> Division:
        return Division(self.sum_bits, self.precision)

    @cached_property
    def product(self) -> BlockProduct:
        """An exponential times the reciprocal."""
        return BlockProduct(((0, self.exponentials[0]), (0, (1 << self.precision) - 1)))

    @cached_property
    def rounded(self) -> RoundedSum:
        """The rounding of that product."""
        operand = Operand(unsigned(self.exponential_bits + self.precision))
        return RoundedSum((operand,), (0,), (1,), self.shift, self.zero_point, self.low, self.high, self.output)

    @property
    def tree_depth(self) -> int:
        """Cycles from a beat to its largest element."""
        return (self.lanes - 1).bit_length()

    def lookup_latency(self, technology: Technology) -> int:
        """From the start of a word to its exponentials: the ring, the distance, the table."""
        return technology.timing.ram + 1 + technology.timing.rom

    def result_latency(self, technology: Technology) -> int:
        """From the start of a word in the last phase to its result: the ring, the product, the constant, the rest."""
        return technology.timing.ram + self.product.latency(technology) + 1 + TAIL

    def phases(self, technology: Technology) -> tuple[Phase, Phase]:
        """The register of a beat, its largest element, that of the row; then exponentials, their sums, the division."""
        first = 2 + self.tree_depth
        second = self.lookup_latency(technology) + self.lane_sum.latency + 1 + self.division.count
        return Phase.of(self.words, first), Phase.of(self.words, second)

    @property
    def multipliers(self) -> int:
        return self.lanes

    def rings(self, technology: Technology) -> tuple[RowRingShape, RowRingShape]:
        """The rings of elements, and of exponentials."""
        first, second = self.phases(technology)
        return (RowRingShape(width=self.lanes * self.element.width, depth=first.depth, name="row"),
                RowRingShape(width=self.lanes * self.exponential_bits, depth=second.depth, name="exponentials"))

    def cost(self, technology: Technology) -> Resources:
        first, second = self.phases(technology)
        bits, width, lanes = self.exponential_bits, self.element.width, self.lanes
        rom = technology.rom_cost(width=bits, depth=1 << width, name="exp")
        total = rom.copies(lanes)
        for ring in self.rings(technology):
            total += ring.cost(technology)
        total += Queue.cost(width=width, depth=first.rows)
        total += Queue.cost(width=self.precision, depth=second.rows)
        # The largest of a row: a comparison for each lane.  Distances, delays of what is known of a row.
        largest = lanes * (width + adder_luts(width + 1, technology))
        distances = lanes * adder_luts(width, technology)
        ram = technology.timing.ram
        total += Resources(lut=largest + distances,
                           ff=2 * lanes * width + width + lanes * width + ram * (width + self.precision))
        total += self.lane_sum.cost(technology)
        total += Resources(lut=adder_luts(self.sum_bits, technology), ff=self.sum_bits)
        total += ChainShape(self.division, self.words).cost(technology)
        sums = Resources(lut=adder_luts(bits + self.precision, technology), ff=bits + self.precision)
        for _ in range(lanes):
            total += self.product.cost(technology) + sums + self.rounded.tail_cost(technology)
        latency = self.result_latency(technology)
        counters = 3 * Nest.bits((self.words,))
        return total + results_cost(self, latency, technology) + fitted("SoftmaxStage") + Resources(
            lut=counters, ff=counters + latency + self.lookup_latency(technology))

    def build(self, technology: Technology, name: str) -> SoftmaxStage:
        return SoftmaxStage(shape=self, technology=technology, name=name)


class SoftmaxStage(RowsStage):
    """Softmax of each row of `shape`.

    A word is taken, becomes exponentials and is given in three phases (`SoftmaxShape.phases`); in each of them a word
    a cycle.  A row waits for nothing but its own words and the rows before it.  `busy` says that a word of the last
    phase starts.
    """

    def model(self, beats: IntArray) -> IntArray:
        """Beats of whole rows, [beats, lanes], to as many; from the hardware's schedule, a row after the other."""
        shape, table = self.shape, self.shape.exponentials
        results: list[int] = []
        for row in np.asarray(beats).reshape(-1, shape.elements).tolist():
            top = max(row)
            powers = [table[top - each] for each in row]
            rest, divisor, quotient = shape.numerator, sum(powers), 0
            for _ in range(shape.precision):
                rest *= 2
                quotient = 2 * quotient + (rest >= divisor)
                rest -= divisor * (rest >= divisor)
            results += [shape.rounded.exactly(power * quotient) for power in powers]
        return np.array(results, np.int64).reshape(-1, shape.lanes)

    def contents(self) -> npt.NDArray[np.uint8]:
        """The ROM of the exponentials, by the bits of a distance."""
        octets = -(-self.shape.exponential_bits // 8)
        words = np.array(self.shape.exponentials, "<i8").view(np.uint8).reshape(-1, 8)
        return words[:, :octets].copy()

    def elaborate(self, platform):
        m = Module()
        shape, technology = self.shape, self.technology
        first, second = shape.phases(technology)
        rings = shape.rings(technology)
        m.submodules.row, m.submodules.powers = row, powers = [ring.build(technology) for ring in rings]
        m.submodules.tops = tops = Queue(shape=shape.element, depth=first.rows)
        m.submodules.reciprocals = reciprocals = Queue(shape=unsigned(shape.precision), depth=second.rows)
        latency = shape.result_latency(technology)
        queue, credit = self.results(m, latency)

        taken, looked, given = Signal(), Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(row.room), taken.eq(self.i.valid & row.room), row.reserve.eq(taken), row.write.eq(taken),
            row.written.eq(Value.cast(self.i.payload)),
            looked.eq(tops.o.valid & powers.room), row.read.eq(looked), powers.reserve.eq(looked),
            given.eq(reciprocals.o.valid & credit.credit), powers.read.eq(given), credit.taken.eq(given),
            self.busy.eq(given),
        ]
        self.find_top(m, taken, tops.i)
        self.look_up(m, looked, tops, row.word, powers, reciprocals.i)
        self.give(m, given, reciprocals, powers.word, queue.i)
        m.d.comb += credit.given.eq(delay(m, queue.o.valid & queue.o.ready, 1, "left", reset_less=False))
        link(m, queue.o, wiring.flipped(self.o))
        return m

    def find_top(self, m: Module, taken: Value, top) -> None:
        """The largest element of each row enters the queue `top`."""
        shape = self.shape
        last = self.last_word(m, taken, "taken")
        values = [Signal(shape.element, name=f"came{k}", reset_less=True) for k in range(shape.lanes)]
        m.d.sync += [value.eq(self.i.payload[k]) for k, value in enumerate(values)]
        level = 0
        while len(values) > 1:
            larger_ones = []
            for k in range(0, len(values), 2):
                value = Signal(shape.element, name=f"larger{level}_{k}", reset_less=True)
                pair = values[k:k + 2]
                m.d.sync += value.eq(larger(m, Const(0, 1), *pair, f"{level}_{k}") if len(pair) == 2 else pair[0])
                larger_ones.append(value)
            values, level = larger_ones, level + 1
        valid = delay(m, taken, 1 + level, "top_valid", reset_less=False)
        ends = delay(m, taken & last, 1 + level, "top_ends", reset_less=False)
        first, best = Signal(init=1, name="top_first"), Signal(shape.element, name="top", reset_less=True)
        with m.If(valid):
            m.d.sync += [first.eq(ends), best.eq(larger(m, first, best, values[0], "row"))]
        m.d.comb += [top.valid.eq(delay(m, ends, 1, "top_made", reset_less=False)), top.payload.eq(best)]

    def look_up(self, m: Module, looked: Value, tops: Queue, word: Value, powers: RowRing, reciprocal) -> None:
        """Exponentials enter the ring `powers`, the reciprocal of each row's sum the queue `reciprocal`."""
        shape, technology = self.shape, self.technology
        last = self.last_word(m, looked, "looked")
        m.d.comb += tops.o.ready.eq(looked & last)
        top = delay(m, tops.o.payload, technology.timing.ram, "top_of_row")
        elements = data.View(data.ArrayLayout(shape.element, shape.lanes), word)
        contents, exponentials = self.contents(), []
        for lane in range(shape.lanes):
            distance = Signal(unsigned(shape.element.width), name=f"distance{lane}", reset_less=True)
            m.d.sync += distance.eq(top - elements[lane])
            m.submodules[f"exp{lane}"] = rom = technology.rom(
                width=shape.exponential_bits, contents=contents, name=f"{self.name}_exp{lane}")
            m.d.comb += rom.addr.eq(distance)
            exponentials.append(rom.data)
        latency = shape.lookup_latency(technology)
        valid = delay(m, looked, latency, "power_valid", reset_less=False)
        ends = delay(m, looked & last, latency, "power_ends", reset_less=False)
        m.d.comb += [powers.write.eq(valid), powers.written.eq(Cat(*exponentials))]
        self.divide(m, valid, ends, exponentials, reciprocal)

    def divide(self, m: Module, valid: Value, ends: Value, exponentials: list[Value], reciprocal) -> None:
        """The sum of a row, and its reciprocal."""
        shape = self.shape
        beat = shape.lane_sum.build(m, exponentials, "powers")
        valid = delay(m, valid, shape.lane_sum.latency, "beat_valid", reset_less=False)
        ends = delay(m, ends, shape.lane_sum.latency, "beat_ends", reset_less=False)
        first, total = Signal(init=1, name="sum_first"), Signal(unsigned(shape.sum_bits), reset_less=True)
        with m.If(valid):
            m.d.sync += [first.eq(ends), total.eq(Mux(first, 0, total) + beat)]
        m.submodules.division = chain = ChainShape(shape.division, shape.words).build()
        m.d.comb += [
            chain.i_valid.eq(delay(m, ends, 1, "sum_made", reset_less=False)), chain.i_state.divisor.eq(total),
            chain.i_state.rest.eq(shape.numerator), chain.i_state.quotient.eq(0),
            reciprocal.valid.eq(chain.o_valid), reciprocal.payload.eq(chain.o_state.quotient),
        ]

    def give(self, m: Module, given: Value, reciprocals: Queue, word: Value, results) -> None:
        """The products of a row's exponentials with its reciprocal."""
        shape, technology = self.shape, self.technology
        last = self.last_word(m, given, "given")
        m.d.comb += reciprocals.o.ready.eq(given & last)
        factor = delay(m, reciprocals.o.payload, technology.timing.ram, "reciprocal")
        bits = shape.exponential_bits
        for lane in range(shape.lanes):
            m.submodules[f"product{lane}"] = unit = ExactProduct(shape.product, technology)
            total = Signal(holding(min(shape.rounded.ends[0], -1), shape.rounded.ends[1]), name=f"total{lane}",
                           reset_less=True)
            m.d.comb += [unit.a.eq(word.word_select(lane, bits)), unit.b.eq(factor)]
            m.d.sync += total.eq(unit.p + shape.rounded.constant)
            m.d.comb += Value.cast(results.payload[lane]).eq(shape.rounded.finished(m, total, f"result{lane}"))
        m.d.comb += results.valid.eq(
            delay(m, given, shape.result_latency(technology), "result_valid", reset_less=False))
