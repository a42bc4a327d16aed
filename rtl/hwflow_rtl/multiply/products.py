"""Elements times weights: in multiplier blocks, alone or in pairs, or in tables and carry chains."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..rescale.ranges import shape_range, union
from ..stream.pipeline import adder_luts, delay
from ..vendor import pairs
from ..vendor.base import WIDEST_IN_LOGIC, MultiplyAccumulate, Resources, Technology, gated, product_shape
from .logic_multiplier import LogicMultipliers, LogicProductShape
from .style import MultiplierStyle

#: Inputs of a table.
TABLE_INPUTS = 4
#: A product with an operand of up to this width costs no more than an addition.
NARROW = 2


@dataclass(frozen=True)
class Operand:
    """The bits of `shape`; `bipolar`: one bit that means +1 where it is set, else -1."""

    shape: Shape
    bipolar: bool = False

    def __post_init__(self) -> None:
        if self.bipolar and self.shape != Shape(1):
            raise ValueError(f"a bipolar operand must have the shape {Shape(1)!r}, not {self.shape!r}")

    @property
    def width(self) -> int:
        return self.shape.width

    @property
    def range(self) -> tuple[int, int]:
        return (-1, 1) if self.bipolar else shape_range(self.shape)

    def decoded(self, codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The numbers that integers of `shape` mean."""
        return 2 * codes - 1 if self.bipolar else codes

    def encoded(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return (numbers + 1) >> 1 if self.bipolar else numbers

    def holds(self, numbers: npt.NDArray[np.int64]) -> bool:
        """Whether all of `numbers` can be written."""
        low, high = self.range
        return bool(((numbers >= low) & (numbers <= high) & ((numbers != 0) | (not self.bipolar))).all())

    def meaning(self, bits: int) -> int:
        """The number that the operand means when its wires carry `bits`."""
        value = bits - (1 << self.width) if self.shape.signed and bits >> (self.width - 1) else bits
        return 2 * value - 1 if self.bipolar else value


@dataclass(frozen=True)
class ProductShape:
    """How `element` times `weight` is made, and in which form it comes.

    The product of two bipolar operands comes as the bit that says whether they are equal (XNOR), so that a sum of
    products is a population count: with `counts` a product is 2 * p - 1, else it is p.

    `style` says what multiplies operands that are both wider than two bits.  Products 2k and 2k + 1 of PAIRS are of the
    same element; of MACS there are no single products, but sums of them: `sums_unit`.
    """

    element: Operand
    weight: Operand
    style: MultiplierStyle = MultiplierStyle.BLOCKS

    def __post_init__(self) -> None:
        if self.in_logic and self.style is not MultiplierStyle.BLOCKS:
            raise ValueError(f"style of products of {self.element.shape!r} and {self.weight.shape!r} must be blocks, "
                             f"not {self.style.value}: they are made in tables anyway")

    @property
    def counts(self) -> bool:
        return self.element.bipolar and self.weight.bipolar

    @property
    def in_logic(self) -> bool:
        return min(self.element.width, self.weight.width) <= NARROW

    @property
    def in_tables(self) -> bool:
        """Each bit of the product is one table."""
        return self.element.width + self.weight.width <= TABLE_INPUTS

    @cached_property
    def shape(self) -> Shape:
        """The shape of p."""
        if self.counts:
            return Shape(1)
        if not self.in_logic:
            return product_shape(self.element.shape, self.weight.shape)
        ends = [a * b for a in self.element.range for b in self.weight.range]
        low, high = min(ends), max(ends)
        return union([(low, high)]) if low < 0 else Shape(high.bit_length())

    @property
    def sharing(self) -> int:
        """Products of one element: p[n] is that of a[n // sharing] and b[n]."""
        return 2 if self.style is MultiplierStyle.PAIRS else 1

    @property
    def accumulates(self) -> bool:
        """Whether what makes the products adds them up, two in a cycle."""
        return self.style is MultiplierStyle.MACS

    def styles(self, technology: Technology) -> tuple[MultiplierStyle, ...]:
        """The styles that `technology` offers for these operands."""
        if self.in_logic:
            return (MultiplierStyle.BLOCKS,)
        return technology.styles(self.element.shape, self.weight.shape)

    def check_style(self, technology: Technology) -> None:
        """Raise ValueError where `technology` does not offer the style."""
        possible = self.styles(technology)
        if self.style is not MultiplierStyle.BLOCKS and self.style not in possible:
            raise ValueError(
                f"style of products of {self.element.shape!r} and {self.weight.shape!r} must be one of "
                f"{', '.join(style.value for style in possible)} on {technology.name}, not {self.style.value}")

    def check_single(self) -> None:
        if self.accumulates:
            raise ValueError("products of style macs must be asked for as sums, not one by one; use sums_unit and "
                             "sums_cost")

    def latency(self, technology: Technology) -> int:
        """From operands to products, or to their sums."""
        if self.in_logic:
            return 1
        if self.accumulates:
            return technology.timing.accumulate
        if self.style is MultiplierStyle.LOGIC:
            return LogicProductShape(self.element.shape, self.weight.shape).latency
        return technology.timing.multiply + (pairs.LATENCY if self.style is MultiplierStyle.PAIRS else 0)

    def unit(self, count: int, technology: Technology) -> wiring.Component:
        """`count` products a cycle: p[n] = a[n // sharing] * b[n], `latency` cycles later; a are elements, b weights.

        ValueError where `technology` does not offer the style.
        """
        if self.in_logic:
            return LogicProducts(shape=self, count=count, technology=technology)
        self.check_style(technology)
        self.check_single()
        a, b = self.element.shape, self.weight.shape
        if self.style is MultiplierStyle.LOGIC:
            return LogicMultipliers(shape=LogicProductShape(a, b), count=count, technology=technology)
        if self.style is MultiplierStyle.PAIRS:
            return technology.pair_multipliers(count=count, a=a, b=b)
        return technology.multipliers(count=count, a=a, b=b)

    def sums_unit(self, count: int, total: Shape, technology: Technology) -> MultiplyAccumulate:
        """`count` sums of shape `total`, each of two products a cycle, `latency` cycles later; a: elements, b: weights.

        ValueError where `technology` does not offer the style.
        """
        self.check_style(technology)
        return technology.multiply_accumulate(count=count, a=self.element.shape, b=self.weight.shape, total=total)

    def sums_cost(self, count: int, total: Shape, technology: Technology) -> Resources:
        """DSP and FF exact.  ValueError where `technology` has no such style."""
        self.check_style(technology)
        return technology.multiply_accumulate_cost(count=count, a=self.element.shape, b=self.weight.shape, total=total)

    def registers_elements(self, technology: Technology) -> bool:
        """Whether the first thing that a product does with an element is to put it into a register of the fabric."""
        return not self.in_logic and (
            self.style is MultiplierStyle.PAIRS or (self.style is MultiplierStyle.LOGIC and technology.gates_in_chains))

    def cost(self, count: int, technology: Technology, elements: int | None = None) -> Resources:
        """DSP exact; LUT and FF of products in logic estimated.  ValueError where `technology` has no such style.

        `elements` is how many of the `count` elements differ (all of them without it): synthesis makes equal registers
        once.
        """
        if not self.in_logic:
            self.check_style(technology)
            self.check_single()
            a, b = self.element.shape, self.weight.shape
            if self.style is MultiplierStyle.LOGIC:
                return LogicProductShape(a, b).cost(count, count if elements is None else elements, technology)
            if self.style is MultiplierStyle.PAIRS:
                chain = adder_luts(product_shape(a, b).width, technology)
                return pairs.PairMultipliers.cost(count=count, elements=count if elements is None else elements, a=a,
                                                  b=b, chain=chain)
            return technology.multipliers_cost(count=count, a=a, b=b)
        width, narrow = self.shape.width, min(self.element, self.weight, key=lambda operand: operand.width)
        gates = max(self.element.width, self.weight.width)  # one for each bit that is taken or not
        if self.in_tables:
            luts = width
        elif narrow == Operand(Shape(1)):
            luts = gates
        else:
            if narrow.width == 2:
                gates = 0 if technology.gates_in_chains else 2 * gates
            luts = gates + adder_luts(width, technology)
        return Resources(lut=count * luts, ff=count * width)


class LogicProducts(wiring.Component):
    """`count` products a cycle, one cycle later, without multiplier blocks.  Never stalls."""

    def __init__(self, *, shape: ProductShape, count: int, technology: Technology):
        self.shape = shape
        self.count = count
        self.technology = technology
        super().__init__({
            "a": In(data.ArrayLayout(shape.element.shape, count)),
            "b": In(data.ArrayLayout(shape.weight.shape, count)),
            "p": Out(data.ArrayLayout(shape.shape, count)),
        })

    def elaborate(self, platform):
        m = Module()
        for n in range(self.count):
            product = Signal(self.shape.shape, name=f"product{n}", reset_less=True)
            m.d.sync += product.eq(self.product(m, Value.cast(self.a[n]), Value.cast(self.b[n]), n))
            m.d.comb += Value.cast(self.p[n]).eq(product)
        return m

    def product(self, m: Module, a: Value, b: Value, n: int) -> Value:
        element, weight = self.shape.element, self.shape.weight
        if self.shape.counts:
            return ~(a ^ b)
        if self.shape.in_tables:
            ends, places = 1 << element.width, 1 << (element.width + weight.width)
            return table(m, Cat(a, b), [element.meaning(k % ends) * weight.meaning(k // ends) for k in range(places)],
                         self.shape.shape, f"table{n}")
        wide, narrow, operand = (a, b, weight) if weight.width <= element.width else (b, a, element)
        if operand.bipolar:
            return Mux(narrow[0], wide, -wide)
        if operand.width == 1:
            return -gated(wide, narrow[0]) if operand.shape.signed else gated(wide, narrow[0])
        return self.technology.gated_sum(m, wide, narrow, minus=operand.shape.signed, shape=self.shape.shape,
                                         name=f"sum{n}")


def table(m: Module, inputs: Value, results: list[int], shape: Shape, name: str) -> Signal:
    """results[inputs], each bit in one table of as many inputs."""
    found = Signal(shape, name=name)
    with m.Switch(inputs):
        for bits, result in enumerate(results):
            with m.Case(bits):
                m.d.comb += found.eq(Const(result, shape))
    return found


# Products with an operand that may be wider than those of a multiplier block: in two parts then.


@dataclass(frozen=True)
class WideProductShape:
    """The operands of a product, signed.

    `b` fits an operand of the family's multiplier blocks, or, where it has none, of a multiplier in logic; `a` has up
    to twice the bits, less one.  A wider `a` is two numbers, the lower one without a sign.
    """

    a: Shape
    b: Shape

    def check(self, technology: Technology) -> None:
        """Raise ValueError where `technology` has no such products."""
        limit = widest(technology)
        if not (self.a.signed and self.b.signed) or self.b.width > limit or self.a.width > 2 * limit - 1:
            raise ValueError(f"operands of a wide multiplier must be signed, of at most {2 * limit - 1} and {limit} "
                             f"bits on {technology.name}, not {self.a!r} and {self.b!r}")

    def is_split(self, technology: Technology) -> bool:
        return self.a.width > widest(technology)

    def parts(self, technology: Technology) -> list[Shape]:
        """The operands that `a` becomes, the lower one first."""
        limit = widest(technology)
        return [signed(limit), signed(self.a.width - limit + 1)] if self.is_split(technology) else [self.a]

    def part_latency(self, part: Shape, technology: Technology) -> int:
        return technology.timing.multiply if technology.operand_bits else LogicProductShape(part, self.b).latency

    def latency(self, technology: Technology) -> int:
        """Cycles."""
        return (max(self.part_latency(part, technology) for part in self.parts(technology))
                + self.is_split(technology))

    def cost(self, count: int, technology: Technology) -> Resources:
        """DSP exact; LUT and FF estimated."""
        self.check(technology)
        a, b, total = self.a, self.b, Resources()
        for part in self.parts(technology):
            if technology.operand_bits:
                total += technology.multipliers_cost(count=count, a=part, b=b)
            else:
                total += LogicProductShape(part, b).cost(count, count, technology)
        if self.is_split(technology):
            high = a.width + b.width - widest(technology) + 1
            total += Resources(lut=count * adder_luts(high, technology), ff=count * (a.width + b.width))
        return total


class WideMultipliers(wiring.Component):
    """`count` products a cycle: p[n] = a[n] * b[n], `WideProductShape.latency` cycles later.  Never stalls."""

    def __init__(self, *, shape: WideProductShape, count: int, technology: Technology):
        self.shape = shape
        self.count = count
        self.technology = technology
        shape.check(technology)
        super().__init__({
            "a": In(data.ArrayLayout(shape.a, count)), "b": In(data.ArrayLayout(shape.b, count)),
            "p": Out(data.ArrayLayout(product_shape(shape.a, shape.b), count))})

    def elaborate(self, platform):
        m = Module()
        shape, cut = self.shape, widest(self.technology) - 1
        products, parts = [], shape.parts(self.technology)
        waits = [shape.part_latency(part, self.technology) for part in parts]
        for k, part in enumerate(parts):
            m.submodules[f"part{k}"] = unit = self.unit(part)
            for n in range(self.count):
                a = Value.cast(self.a[n])
                if shape.is_split(self.technology):
                    a = a[cut:].as_signed() if k else Cat(a[:cut], Const(0, 1)).as_signed()
                m.d.comb += [unit.a[n].eq(a), unit.b[n].eq(self.b[n])]
            products.append(unit)
        for n in range(self.count):
            if len(products) == 1:
                m.d.comb += self.p[n].eq(products[0].p[n])
                continue
            # In logic a narrow part is ready sooner.
            low, high = (delay(m, Value.cast(unit.p[n]).as_signed(), max(waits) - wait, f"part{k}_{n}")
                         for k, (unit, wait) in enumerate(zip(products, waits, strict=True)))
            total = Signal(self.p[n].shape(), name=f"product{n}", reset_less=True)
            m.d.sync += total.eq(Cat(low[:cut], low[cut:].as_signed() + high).as_signed())
            m.d.comb += self.p[n].eq(total)
        return m

    def unit(self, part: Shape) -> wiring.Component:
        if self.technology.operand_bits:
            return self.technology.multipliers(count=self.count, a=part, b=self.shape.b)
        return LogicMultipliers(shape=LogicProductShape(part, self.shape.b), count=self.count,
                                technology=self.technology)


def widest(technology: Technology) -> int:
    """Bits of an operand."""
    return technology.operand_bits or WIDEST_IN_LOGIC
