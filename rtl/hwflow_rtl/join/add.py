"""The sum of two elements with a constant factor each, rounded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import wiring

from ..multiply.products import TABLE_INPUTS, Operand, table
from ..stream.pipeline import adder_luts, delay
from ..vendor.base import Resources, Technology, price
from ..vendor.fitted import fitted
from .join import JoinFunction
from .tree import SumPlan, Term, holding, signed_digits, trailing_zeros

#: Bits that one OR reduces in a cycle: two levels of 4-input tables.
OR_BITS = 16
#: Cycles from the sum to the result.
TAIL = 3


def rounded_half_even(number: int, shift: int) -> int:
    """number / 2**shift to the nearest integer, ties to the even one."""
    down, rest = number >> shift, number & ((1 << shift) - 1)
    return down + (2 * rest + (down & 1) > 1 << shift)


@dataclass(frozen=True)
class _Table:
    """Places of up to four bits, (operand, bit), and what each of their patterns adds."""

    places: tuple[tuple[int, int], ...]
    entries: tuple[int, ...]

    @cached_property
    def term(self) -> Term:
        place = trailing_zeros(self.entries)
        return Term(min(self.entries) >> place, max(self.entries) >> place, place)

    @cached_property
    def codes(self) -> list[int]:
        place = self.term.place
        return [entry >> place for entry in self.entries]

    def cost(self) -> Resources:
        """Equal bits are made once; those of one input, or of none, take no table."""
        patterns = range(1 << len(self.places))
        wires = {tuple(pattern >> n & 1 for pattern in patterns) for n in range(len(self.places))}
        made = {tuple(code >> bit & 1 for code in self.codes) for bit in range(self.term.width)}
        made -= {tuple(value for _ in patterns) for value in (0, 1)}
        return Resources(lut=len(made - wires), ff=len(made))


@dataclass(frozen=True)
class _Digit:
    """The whole number of an operand, shifted or subtracted: wires."""

    operand: int
    term: Term


@dataclass(frozen=True)
class _Ways:
    """One way to make the sum: tables, digits and, where there are no tables, the constant."""

    tables: tuple[_Table, ...]
    digits: tuple[_Digit, ...]
    constant: int

    @cached_property
    def plan(self) -> SumPlan:
        terms = [each.term for each in (*self.tables, *self.digits)]
        if self.constant or all(term.negative for term in terms):
            terms.append(Term(self.constant, self.constant))
        return SumPlan(tuple(terms))

    @property
    def lead(self) -> int:
        """Cycles in front of the adders."""
        return 1 if self.tables else 0

    def cost(self, widths: Sequence[int], technology: Technology | None) -> Resources:
        waiting = {each.operand for each in self.digits} if self.tables else set()
        total = self.plan.cost(technology) + Resources(ff=sum(widths[k] for k in waiting))
        return sum((each.cost() for each in self.tables), total)


@dataclass(frozen=True)
class RoundedSum:
    """y = clamp(round_half_even(sum of factors[k] * (x[k] - zero_points[k]) / 2**shift) + zero_point, low, high).

    `operands` say what the bits of each x mean.  All integers are exact and of any size.  Which way the products are
    made does not depend on the technology, so that its cycles are the same in all of them.
    """

    operands: tuple[Operand, ...]
    zero_points: tuple[int, ...]
    factors: tuple[int, ...]
    shift: int
    zero_point: int
    low: int
    high: int
    output: Shape

    def exactly(self, *numbers: int) -> int:
        """Compute it by the definition."""
        total = sum(m * (x - z) for m, x, z in zip(self.factors, numbers, self.zero_points, strict=True))
        return min(max(rounded_half_even(total, self.shift) + self.zero_point, self.low), self.high)

    @cached_property
    def common(self) -> int:
        """Powers of two that all factors share with the divisor."""
        return min(trailing_zeros(self.factors), self.shift) if any(self.factors) else self.shift

    @property
    def drop(self) -> int:
        """The shift that is left."""
        return self.shift - self.common

    @property
    def weights(self) -> list[int]:
        """The weights that the lowest bit of each operand counts."""
        return [(m >> self.common) * (2 if operand.bipolar else 1)
                for m, operand in zip(self.factors, self.operands, strict=True)]

    @property
    def ties_up(self) -> bool:
        """A tie is rounded down first, and goes up where it must; the even results are the odd ones above `low`."""
        return bool((self.zero_point - self.low) & 1) and self.drop > 0

    @property
    def constant(self) -> int:
        """Zero points, the half of the rounding, the distance from `low`."""
        total = (self.zero_point - self.low) << self.drop
        if self.drop:
            total += (1 << (self.drop - 1)) - self.ties_up
        for m, z, operand in zip(self.factors, self.zero_points, self.operands, strict=True):
            total -= (m >> self.common) * (z + operand.bipolar)
        return total

    @property
    def ends(self) -> tuple[int, int]:
        """The range of the sum with the constant."""
        low = high = self.constant
        for weight, operand in zip(self.weights, self.operands, strict=True):
            ends = [weight * code for code in code_range(operand)]
            low, high = low + min(ends), high + max(ends)
        return low, high

    @property
    def ways(self) -> _Ways:
        """The cheapest way, each operand in tables or in digits."""
        return cheapest_way(self)

    def possible_ways(self) -> list[_Ways]:
        """Each operand in tables or in digits."""
        used = [k for k, weight in enumerate(self.weights) if weight]
        return [self.way([k for k, tabled in zip(used, choice, strict=True) if tabled])
                for choice in product((True, False), repeat=len(used))]

    def way(self, tabled: list[int]) -> _Ways:
        digits = tuple(
            _Digit(k, Term(*code_range(operand), place, negative=(sign < 0) != (weight < 0)))
            for k, (weight, operand) in enumerate(zip(self.weights, self.operands, strict=True))
            if weight and k not in tabled for place, sign in signed_digits(abs(weight)))
        groups = self.groups(tabled)
        if not groups:
            return _Ways((), digits, self.constant)
        tables = [self.table(group, self.constant if group is groups[-1] else 0) for group in groups]
        return _Ways(tuple(tables), digits, 0)

    def groups(self, tabled: list[int]) -> list[list[tuple[int, int]]]:
        """The bits of these operands, four at a time; what is left at their upper ends shares tables."""
        whole, rest = [], []
        for k in tabled:
            bits = [(k, bit) for bit in range(self.operands[k].width)]
            full = len(bits) // TABLE_INPUTS * TABLE_INPUTS
            whole += [bits[n:n + TABLE_INPUTS] for n in range(0, full, TABLE_INPUTS)]
            rest.append(bits[full:])
        for bits in filter(None, rest):
            if whole and len(whole[-1]) + len(bits) <= TABLE_INPUTS:
                whole[-1] += bits
            else:
                whole.append(bits)
        return whole

    def table(self, places: list[tuple[int, int]], constant: int) -> _Table:
        counts = []
        for k, bit in places:
            operand = self.operands[k].shape
            top = operand.signed and bit == operand.width - 1
            counts.append((-self.weights[k] if top else self.weights[k]) << bit)
        return _Table(tuple(places), tuple(
            constant + sum(count for n, count in enumerate(counts) if bits >> n & 1)
            for bits in range(1 << len(places))))

    @property
    def latency(self) -> int:
        return self.ways.lead + self.ways.plan.latency + TAIL

    def cost(self, technology: Technology) -> Resources:
        """LUT and FF estimated; there is nothing else."""
        widths = [operand.width for operand in self.operands]
        return self.tail_cost(technology) + self.ways.cost(widths, technology)

    def tail_cost(self, technology: Technology) -> Resources:
        """The cost of what divides, rounds and clamps a sum that is there: `finished`."""
        low, high = self.ends
        above, result = holding(low >> self.drop, high >> self.drop).width, self.output.width
        compare = 0 if is_mask(self.high - self.low) else adder_luts(above, technology)
        moves = result if self.low % (1 << (result - 1)) else 0
        tail = Resources(lut=compare + moves + result, ff=above + -(-self.drop // OR_BITS) + 2 * result)
        return tail + fitted("RoundedSum", dropped_bits=self.drop, result_bits=above)

    def build(self, m: Module, values: Sequence[Value], name: str) -> Value:
        """y of the operands' bits, `latency` cycles later."""
        return self.finished(m, self.total(m, values, name), name)

    def total(self, m: Module, values: Sequence[Value], name: str) -> Value:
        """The sum with the constant."""
        ways, words = self.ways, []
        for n, each in enumerate(ways.tables):
            inputs = Cat(values[k][bit] for k, bit in each.places)
            word = Signal(each.term.shape, name=f"{name}_product{n}", reset_less=True)
            m.d.sync += word.eq(table(m, inputs, each.codes, word.shape(), f"{name}_table{n}"))
            words.append(word)
        waited = {k: delay(m, values[k], ways.lead, f"{name}_operand{k}") for k in {d.operand for d in ways.digits}}
        for digit in ways.digits:
            shape = self.operands[digit.operand].shape
            words.append(waited[digit.operand].as_signed() if shape.signed else waited[digit.operand].as_unsigned())
        if len(words) < len(ways.plan.terms):
            words.append(Const(ways.constant, ways.plan.terms[-1].shape))
        assert not ways.plan.result.negative
        low, high = self.ends
        total = Signal(holding(min(low, -1), high), name=f"{name}_total")  # signed: no bit above differs from its last
        # Digits of one operand cannot all be at their ends at once: the sum may be narrower than they say.
        m.d.comb += total.eq(ways.plan.build(m, words, f"{name}_sum") << ways.plan.result.place)
        return total

    def finished(self, m: Module, total: Value, name: str) -> Value:
        """Divide, make ties even, clamp.

        The bits that are cut off say whether there was a tie, and the lowest of the others whether it must move: an
        even number above `low` was rounded up and must not be odd, so that bit is cleared; where the distance of the
        zero point from `low` is odd, the tie was rounded down and the bit is set.  No second addition carries.
        """
        low, high = (end >> self.drop for end in self.ends)
        above = Signal(holding(low, high), name=f"{name}_above", reset_less=True)
        cut = total[:self.drop] if self.drop < len(total) else total.as_unsigned()
        groups = [cut[n:n + OR_BITS] for n in range(0, len(cut), OR_BITS)]
        tied = Signal(max(1, len(groups)), name=f"{name}_tied", reset_less=True)
        m.d.sync += [
            above.eq(total.shift_right(self.drop)),
            tied.eq(Cat(group.all() if self.ties_up else ~group.any() for group in groups)),
        ]
        tie = tied.all() if groups else Const(0, 1)
        lowest = above[0] | tie if self.ties_up else above[0] & ~tie
        even = Cat(lowest, above[1:])
        even = even.as_signed() if above.shape().signed else even

        reach = self.high - self.low
        rest = Signal(max(1, reach.bit_length()), name=f"{name}_rest", reset_less=True)
        under, over = (Signal(name=f"{name}_{end}", reset_less=True) for end in ("under", "over"))
        negative = above[-1] if above.shape().signed else Const(0, 1)
        m.d.sync += [rest.eq(even), under.eq(negative)]
        if high + 1 > reach:
            beyond = even[reach.bit_length():].any() if is_mask(reach) else (reach - even)[-1]
            m.d.sync += over.eq(beyond & ~negative)
        result = Signal(self.output, name=f"{name}_result", reset_less=True)
        m.d.sync += result.eq(Mux(over, self.high, Mux(under, self.low, rest + self.low)))
        return result


@lru_cache(maxsize=1024)
def cheapest_way(rounded: RoundedSum) -> _Ways:
    """Asked for again for every folding of a layer."""
    widths = [operand.width for operand in rounded.operands]
    return min(rounded.possible_ways(), key=lambda way: price(way.cost(widths, None)))


def code_range(operand: Operand) -> tuple[int, int]:
    """The lowest and the highest integer on the wires."""
    return (0, 1) if operand.bipolar else operand.range


def is_mask(number: int) -> bool:
    """All its bits are set."""
    return number & (number + 1) == 0


@dataclass(frozen=True)
class AddFunction(JoinFunction):
    """y = clamp(round_half_even((m0 * (a - za) + m1 * (b - zb)) / 2**shift) + zero_point, low, high).

    No multiplier blocks: for two elements of 8 bits four tables of four inputs and three adders, less than half of what
    one block is worth.
    """

    sum: RoundedSum

    @staticmethod
    def of(*, operands: tuple[Operand, Operand], zero_points: tuple[int, int], multipliers: tuple[int, int], shift: int,
           zero_point: int, low: int, high: int, output: Shape) -> AddFunction:
        return AddFunction(operands, output, RoundedSum(
            operands, zero_points, multipliers, shift, zero_point, low, high, output))

    def exactly(self, a: int, b: int) -> int:
        return self.sum.exactly(a, b)

    def latency(self, technology: Technology) -> int:
        return self.sum.latency

    @property
    def begins_in_tables(self) -> bool:
        return not self.is_narrow and bool(self.sum.ways.tables)

    def cost(self, technology: Technology) -> Resources:
        return self.sum.cost(technology)

    def unit(self, technology: Technology) -> wiring.Component:
        return Adder(self)


class Adder(wiring.Component):
    """`y` = function(`a`, `b`), `function.sum.latency` cycles later; a result in every cycle."""

    def __init__(self, function: AddFunction):
        self.function = function
        super().__init__(function.ports)

    def elaborate(self, platform):
        m = Module()
        values = [Value.cast(self.a), Value.cast(self.b)]
        m.d.comb += Value.cast(self.y).eq(self.function.sum.build(m, values, "sum"))
        return m
