"""The product of two elements with one constant factor, rounded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, unsigned
from amaranth.lib import wiring

from ..multiply.products import Operand, ProductShape
from ..multiply.style import MultiplierStyle
from ..stream.pipeline import adder_luts, delay
from ..vendor.base import Resources, Technology, price
from .add import RoundedSum
from .join import JoinFunction
from .tree import SumPlan, Term, holding

#: Operands of multiplier blocks that every family has; what is wider is cut.
LIMB = 16


@dataclass(frozen=True)
class RowProduct:
    """a * b in tables and carry chains: a row for each bit of the narrower, an adder for every two rows.

    `ends` are the ranges of a and b.  The first adders choose and add at once.  Latency `latency`.
    """

    ends: tuple[tuple[int, int], tuple[int, int]]

    @cached_property
    def shapes(self) -> tuple[Shape, Shape]:
        """The shapes of a and b."""
        a, b = (holding(*each) for each in self.ends)
        return a, b

    @property
    def swapped(self) -> bool:
        """The rows are those of a."""
        return self.shapes[0].width < self.shapes[1].width

    @cached_property
    def plan(self) -> SumPlan:
        """A row per bit: the wide operand, or 0.  The sign of the narrow one subtracts."""
        wide, narrow = self.ends[::-1] if self.swapped else self.ends
        shape = holding(*narrow)
        low, high = min(wide[0], 0), max(wide[1], 0)
        rows = [Term(low, high, bit, negative=shape.signed and bit == shape.width - 1) for bit in range(shape.width)]
        if len(rows) == 1 and rows[0].negative:
            rows.append(Term(0, 0))
        return SumPlan(tuple(rows))

    def latency(self, technology: Technology) -> int:
        return self.plan.latency

    def cost(self, technology: Technology | None) -> Resources:
        gates = 0 if self.plan.latency else self.plan.terms[0].width
        return self.plan.cost(technology) + Resources(lut=gates)

    def build(self, m: Module, a: Value, b: Value, technology: Technology) -> Value:
        wide, narrow = (b, a) if self.swapped else (a, b)
        rows = [Mux(narrow[bit], wide, 0) for bit in range(len(narrow))]
        found = self.plan.build(m, rows + [Const(0, 1)] * (len(self.plan.terms) - len(rows)), "rows")
        return found << self.plan.result.place


@dataclass(frozen=True)
class BlockProduct:
    """a * b in multiplier blocks: operands are cut into parts of up to 16 bits, whose products are added.

    `ends` are the ranges of a and b.  Parts of one or two bits take no block.  Where a device has no blocks, or they
    are too narrow for a part, the whole product is a `RowProduct`.
    """

    ends: tuple[tuple[int, int], tuple[int, int]]

    @cached_property
    def shapes(self) -> tuple[Shape, Shape]:
        """The shapes of a and b."""
        a, b = (holding(*each) for each in self.ends)
        return a, b

    @cached_property
    def products(self) -> list[tuple[int, int, ProductShape]]:
        """Places of the parts of a and b, and how they are multiplied."""
        return [(i, j, ProductShape(Operand(one), Operand(two)))
                for i, one in limbs(self.shapes[0]) for j, two in limbs(self.shapes[1])]

    @cached_property
    def plan(self) -> SumPlan:
        terms = []
        for i, j, each in self.products:
            ends = [x * y for x in each.element.range for y in each.weight.range]
            terms.append(Term(min(ends), max(ends), i + j))
        return SumPlan(tuple(terms))

    @cached_property
    def rows(self) -> RowProduct:
        return RowProduct(self.ends)

    def in_blocks(self, technology: Technology) -> bool:
        """Whether there are multiplier blocks that take the parts."""
        return all(MultiplierStyle.BLOCKS in each.styles(technology) for _, _, each in self.products)

    def latency(self, technology: Technology) -> int:
        if not self.in_blocks(technology):
            return self.rows.latency(technology)
        return self.multiply_latency(technology) + self.plan.latency

    def multiply_latency(self, technology: Technology) -> int:
        return max(each.latency(technology) for _, _, each in self.products)

    def cost(self, technology: Technology) -> Resources:
        if not self.in_blocks(technology):
            return self.rows.cost(technology)
        slowest = self.multiply_latency(technology)
        total = self.plan.cost(technology)
        for _, _, each in self.products:
            waits = slowest - each.latency(technology)
            total += each.cost(1, technology) + Resources(ff=waits * each.shape.width)
        return total

    def build(self, m: Module, a: Value, b: Value, technology: Technology) -> Value:
        if not self.in_blocks(technology):
            return self.rows.build(m, a, b, technology)
        slowest, parts = self.multiply_latency(technology), []
        for n, (i, j, each) in enumerate(self.products):
            m.submodules[f"multiplier{n}"] = unit = each.unit(1, technology)
            m.d.comb += [
                Value.cast(unit.a).eq(a[i:i + each.element.width]), Value.cast(unit.b).eq(b[j:j + each.weight.width])]
            word = Signal(each.shape, name=f"part{n}")
            m.d.comb += word.eq(unit.p[0])
            parts.append(delay(m, word, slowest - each.latency(technology), f"part{n}_waits"))
        return self.plan.build(m, parts, "parts")


def limbs(shape: Shape) -> list[tuple[int, Shape]]:
    """Places and shapes of the parts of an operand, lowest first; the last one has the sign."""
    starts = range(0, shape.width, LIMB)
    return [(start, unsigned(LIMB) if start + LIMB < shape.width else Shape(shape.width - start, shape.signed))
            for start in starts]


def product_of(ends: tuple[tuple[int, int], tuple[int, int]]) -> RowProduct | BlockProduct:
    """Choose what is cheaper, by one price for all families with multiplier blocks, so that all of them choose the
    same."""
    rows, blocks = RowProduct(ends), BlockProduct(ends)
    count = sum(not each.in_logic for _, _, each in blocks.products)
    in_blocks = price(blocks.plan.cost(None) + Resources(dsp=count))
    return rows if not count or price(rows.cost(None)) <= in_blocks else blocks


@dataclass(frozen=True)
class MultiplyFunction(JoinFunction):
    """y = clamp(round_half_even((a - za) * (b - zb) * multiplier / 2**shift) + zero_point, low, high).

    The zero points are subtracted, the product is made in rows of adders or, of wide operands, in multiplier blocks if
    the device has them; the constant multiplies in tables, as in a sum.
    """

    zero_points: tuple[int, int]
    multiplier: int
    shift: int
    zero_point: int
    low: int
    high: int

    @property
    def multiplies(self) -> bool:
        return True

    def exactly(self, a: int, b: int) -> int:
        za, zb = self.zero_points
        return self.scaled.exactly((a - za) * (b - zb))

    @property
    def ends(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The ranges of the operands without their zero points."""
        (a, b), (za, zb) = (operand.range for operand in self.operands), self.zero_points
        return (a[0] - za, a[1] - za), (b[0] - zb, b[1] - zb)

    @cached_property
    def product(self) -> RowProduct | BlockProduct:
        return product_of(self.ends)

    @cached_property
    def scaled(self) -> RoundedSum:
        """Build what becomes of the product."""
        ends = [x * y for x in self.ends[0] for y in self.ends[1]]
        return RoundedSum((Operand(holding(min(ends), max(ends))),), (0,), (self.multiplier,), self.shift,
                          self.zero_point, self.low, self.high, self.output)

    @property
    def centres(self) -> bool:
        """A cycle in front of the product brings the operands to their zero points."""
        return any(self.zero_points) or any(operand.bipolar for operand in self.operands)

    def latency(self, technology: Technology) -> int:
        return self.centres + self.product.latency(technology) + self.scaled.latency

    def cost(self, technology: Technology) -> Resources:
        total = self.product.cost(technology) + self.scaled.cost(technology)
        if not self.centres:
            return total
        for operand, z, ends in zip(self.operands, self.zero_points, self.ends, strict=True):
            width = holding(*ends).width
            adds = z % (1 << (operand.width - 1)) != 0 and not operand.bipolar  # else only the highest bits change
            total += Resources(lut=adder_luts(width, technology) if adds else 1, ff=width)
        return total

    def unit(self, technology: Technology) -> wiring.Component:
        return Multiplier(self, technology)


class Multiplier(wiring.Component):
    """`y` = function(`a`, `b`), `function.latency(technology)` cycles later; a result in every cycle."""

    def __init__(self, function: MultiplyFunction, technology: Technology):
        self.function = function
        self.technology = technology
        super().__init__(function.ports)

    def elaborate(self, platform):
        m = Module()
        function = self.function
        factors = self.centred(m, [self.a, self.b])
        product = Signal(function.scaled.operands[0].shape)
        m.d.comb += [
            product.eq(function.product.build(m, *factors, self.technology)),
            Value.cast(self.y).eq(function.scaled.build(m, [product], "scaled")),
        ]
        return m

    def centred(self, m: Module, codes: Sequence[Value]) -> list[Value]:
        """The operands without their zero points."""
        centred = []
        for name, code, operand, z, ends in zip(
                "ab", codes, self.function.operands, self.function.zero_points, self.function.ends, strict=True):
            number = Cat(Const(1, 1), ~code).as_signed() if operand.bipolar else code  # +1 or -1
            value = Signal(holding(*ends), name=f"centred_{name}", reset_less=True)
            domain = m.d.sync if self.function.centres else m.d.comb
            domain += value.eq(number - z)
            centred.append(value)
        return centred
