"""The power of a row, for its normalization: its sum, and its power with epsilon."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from amaranth.hdl import Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..join.multiply import BlockProduct, RowProduct, product_of
from ..join.tree import SumPlan, Term, holding, signed_digits
from ..stream.pipeline import adder_luts, delay
from ..vendor.base import Resources, Technology
from .product import ExactProduct


@dataclass(frozen=True)
class PowerShape:
    """The power of rows of `elements`, times 4**guard, plus epsilon.

    Of u = x - center, that is elements * sum(u**2) - sum(u)**2 where `centred`, else sum(u**2).

    `ends`: the range of x.
    """

    elements: int
    lanes: int
    ends: tuple[int, int]
    center: int
    centred: bool
    guard: int
    epsilon: int

    @property
    def element_ends(self) -> tuple[int, int]:
        """The ends of u."""
        return self.ends[0] - self.center, self.ends[1] - self.center

    @cached_property
    def square(self) -> RowProduct | BlockProduct:
        return product_of((self.element_ends, self.element_ends))

    @property
    def largest_square(self) -> int:
        low, high = self.element_ends
        return max(low * low, high * high)

    @cached_property
    def lane_sums(self) -> tuple[SumPlan, SumPlan]:
        """The plans of the sums of the elements of a beat, and of their squares."""
        return (SumPlan((Term(*self.element_ends),) * self.lanes),
                SumPlan((Term(0, self.largest_square),) * self.lanes))

    @property
    def sum_ends(self) -> tuple[int, int]:
        """The ends of the sum of a row; nothing wants it where no mean is subtracted."""
        low, high = self.element_ends
        return (self.elements * low, self.elements * high) if self.centred else (0, 0)

    @property
    def squares_end(self) -> int:
        return self.elements * self.largest_square

    @cached_property
    def square_of_sum(self) -> RowProduct | BlockProduct:
        return product_of((self.sum_ends, self.sum_ends))

    @cached_property
    def combined(self) -> SumPlan:
        """count * squares in signed digits, less the square of the sum, plus epsilon."""
        place = 2 * self.guard
        epsilon = [Term(self.epsilon, self.epsilon)] if self.epsilon else []
        if not self.centred:
            return SumPlan((Term(0, self.squares_end, place), *epsilon))
        digits = [Term(0, self.squares_end, at + place, negative=sign < 0) for at, sign in signed_digits(self.elements)]
        largest = max(end * end for end in self.sum_ends)
        return SumPlan((*digits, Term(0, largest, place, negative=True), *epsilon))

    @property
    def largest(self) -> int:
        """The largest power."""
        low, high = self.element_ends
        power = self.elements**2 // 4 * (high - low) ** 2 if self.centred else self.squares_end
        return (max(power, 1) << 2 * self.guard) + self.epsilon

    @property
    def least(self) -> int:
        """The least power of a row that is not constant, or not 0."""
        return ((max(self.elements - 1, 1) if self.centred else 1) << 2 * self.guard) + self.epsilon

    def sums_latency(self, technology: Technology) -> int:
        """From a beat to sums with it: a register, the center, squares, those of a beat, those of the row."""
        return 1 + bool(self.center) + self.square.latency(technology) + self.lane_sums[1].latency + 1

    def combined_latency(self, technology: Technology) -> int:
        """From the sums to the power."""
        return (self.square_of_sum.latency(technology) if self.centred else 0) + self.combined.latency

    def latency(self, technology: Technology) -> int:
        """From the last beat of a row to its power."""
        return self.sums_latency(technology) + self.combined_latency(technology)

    def cost(self, technology: Technology) -> Resources:
        """DSP exact, LUT and FF estimated."""
        u, sums = holding(*self.element_ends).width, holding(*self.sum_ends).width
        squares = holding(0, self.squares_end).width
        total = Resources(lut=adder_luts(squares, technology), ff=squares + self.lanes * u)
        if self.center:
            total += Resources(lut=self.lanes * adder_luts(u, technology), ff=self.lanes * u)
        for _ in range(self.lanes):
            total += self.square.cost(technology)
        total += self.lane_sums[1].cost(technology) + self.combined.cost(technology)
        if self.centred:
            beat = self.lane_sums[0].result.width
            total += self.lane_sums[0].cost(technology) + self.square_of_sum.cost(technology)
            total += Resources(lut=adder_luts(sums, technology),
                               ff=sums * (1 + self.combined_latency(technology))
                               + beat * self.square.latency(technology)
                               + squares * self.square_of_sum.latency(technology))
        return total + Resources(ff=self.latency(technology) + 2)


class RowPower(wiring.Component):
    """Sums of rows whose beats come one a cycle at most.

    Ports
    -----
    valid, last, beat
        A beat comes, the last one of its row.
    made, total, power
        Sum and power of a row, `shape.latency(technology)` cycles after its last beat; total is 0 where no mean is
        subtracted.
    """

    def __init__(self, *, shape: PowerShape, element: Shape, technology: Technology):
        self.shape = shape
        self.element = element
        self.technology = technology
        super().__init__({
            "valid": In(1), "last": In(1), "beat": In(shape.lanes * element.width), "made": Out(1),
            "total": Out(holding(*shape.sum_ends)), "power": Out(holding(0, shape.largest))})

    def elaborate(self, platform):
        m = Module()
        shape, technology = self.shape, self.technology
        elements, squares = self.elements(m), []
        for lane, u in enumerate(elements):
            m.submodules[f"square{lane}"] = unit = ExactProduct(shape.square, technology)
            m.d.comb += [unit.a.eq(u), unit.b.eq(u)]
            squares.append(unit.p)
        waits = 1 + bool(shape.center) + shape.square.latency(technology) + shape.lane_sums[1].latency
        valid = delay(m, self.valid, waits, "beat_valid", reset_less=False)
        last = delay(m, self.valid & self.last, waits, "beat_last", reset_less=False)
        first = Signal(init=1)
        with m.If(valid):
            m.d.sync += first.eq(last)
        beat = shape.lane_sums[1].build(m, squares, "squares")
        power = self.summed(m, valid, first, beat, holding(0, shape.squares_end), "power_sum")
        total: Value = Const(0, self.total.shape())
        if shape.centred:
            beat = shape.lane_sums[0].build(m, elements, "elements")
            beat = delay(m, beat, shape.square.latency(technology), "elements_wait")
            total = self.summed(m, valid, first, beat, self.total.shape(), "total_sum")
        self.combine(m, power, total)
        m.d.comb += self.made.eq(
            delay(m, last, 1 + shape.combined_latency(technology), "made", reset_less=False))
        return m

    def elements(self, m: Module) -> list[Value]:
        """u of each lane."""
        shape, width, squares = self.shape, self.element.width, []
        for lane in range(shape.lanes):
            came = Signal(self.element, name=f"came{lane}", reset_less=True)
            m.d.sync += came.eq(self.beat.word_select(lane, width))
            u = Signal(holding(*shape.element_ends), name=f"u{lane}", reset_less=True)
            domain = m.d.sync if shape.center else m.d.comb
            domain += u.eq(came - shape.center)
            squares.append(u)
        return squares

    def summed(self, m: Module, valid: Value, first: Value, beat: Value, of: Shape, name: str) -> Signal:
        """The sum of a row's beats so far."""
        total = Signal(of, name=name, reset_less=True)
        with m.If(valid):
            m.d.sync += total.eq(Mux(first, 0, total) + beat)
        return total

    def combine(self, m: Module, squares: Value, total: Value) -> None:
        """The power of sums."""
        shape, technology = self.shape, self.technology
        waits, terms = 0, []
        if shape.centred:
            m.submodules.square_of_sum = unit = ExactProduct(shape.square_of_sum, technology)
            m.d.comb += [unit.a.eq(total), unit.b.eq(total)]
            waits = shape.square_of_sum.latency(technology)
            squares = delay(m, squares, waits, "squares_wait")
            terms += [squares] * len(signed_digits(shape.elements)) + [unit.p]
        else:
            terms += [squares]
        if shape.epsilon:
            terms.append(Const(shape.epsilon, holding(0, shape.epsilon)))
        combined = shape.combined.build(m, terms, "combined")
        m.d.comb += [
            self.power.eq(combined << shape.combined.result.place),
            self.total.eq(delay(m, total, waits + shape.combined.latency, "total_waits")),
        ]
