"""Products with an operand that may be wider than those of a multiplier block: in two parts then."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Shape, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..stream.pipeline import adder_luts, delay
from ..vendor.base import WIDEST_IN_LOGIC, Resources, Technology, product_shape
from .logic_multiplier import LogicMultipliers

__all__ = ["WideMultipliers"]


class WideMultipliers(wiring.Component):
    """`count` products a cycle: p[n] = a[n] * b[n], `latency` cycles later, of signed operands.  Never stalls.

    `b` fits an operand of the family's multiplier blocks, or, where it has none, of a multiplier in logic; `a` has up
    to twice the bits, less one.  A wider `a` is two numbers, the lower one without a sign.
    """

    def __init__(self, *, count: int, a: Shape, b: Shape, technology: Technology):
        self.count = count
        self.shape_a, self.shape_b = a, b
        self.technology = technology
        check(a, b, technology)
        super().__init__({
            "a": In(data.ArrayLayout(a, count)), "b": In(data.ArrayLayout(b, count)),
            "p": Out(data.ArrayLayout(product_shape(a, b), count))})

    @staticmethod
    def latency(a: Shape, b: Shape, technology: Technology) -> int:
        """Cycles."""
        return max(part_latency(part, b, technology) for part in parts(a, technology)) + is_split(a, technology)

    @staticmethod
    def cost(*, count: int, a: Shape, b: Shape, technology: Technology) -> Resources:
        """DSP exact; LUT and FF estimated."""
        check(a, b, technology)
        total = Resources()
        for part in parts(a, technology):
            if technology.operand_bits:
                total += technology.multipliers_cost(count=count, a=part, b=b)
            else:
                total += LogicMultipliers.cost(count=count, elements=count, a=part, b=b, technology=technology)
        if is_split(a, technology):
            high = a.width + b.width - widest(technology) + 1
            total += Resources(lut=count * adder_luts(high, technology), ff=count * (a.width + b.width))
        return total

    def elaborate(self, platform):
        m = Module()
        cut = widest(self.technology) - 1
        made = []
        waits = [part_latency(part, self.shape_b, self.technology) for part in parts(self.shape_a, self.technology)]
        for k, part in enumerate(parts(self.shape_a, self.technology)):
            m.submodules[f"part{k}"] = unit = self.unit(part)
            for n in range(self.count):
                a = Value.cast(self.a[n])
                if is_split(self.shape_a, self.technology):
                    a = a[cut:].as_signed() if k else Cat(a[:cut], Const(0, 1)).as_signed()
                m.d.comb += [unit.a[n].eq(a), unit.b[n].eq(self.b[n])]
            made.append(unit)
        for n in range(self.count):
            if len(made) == 1:
                m.d.comb += self.p[n].eq(made[0].p[n])
                continue
            # In logic a narrow part is ready sooner.
            low, high = (delay(m, Value.cast(unit.p[n]).as_signed(), max(waits) - wait, f"part{k}_{n}")
                         for k, (unit, wait) in enumerate(zip(made, waits, strict=True)))
            total = Signal(self.p[n].shape(), name=f"product{n}", reset_less=True)
            m.d.sync += total.eq(Cat(low[:cut], low[cut:].as_signed() + high).as_signed())
            m.d.comb += self.p[n].eq(total)
        return m

    def unit(self, part: Shape) -> wiring.Component:
        if self.technology.operand_bits:
            return self.technology.multipliers(count=self.count, a=part, b=self.shape_b)
        return LogicMultipliers(count=self.count, a=part, b=self.shape_b, technology=self.technology)


def widest(technology: Technology) -> int:
    """Bits of an operand."""
    return technology.operand_bits or WIDEST_IN_LOGIC


def is_split(a: Shape, technology: Technology) -> bool:
    return a.width > widest(technology)


def parts(a: Shape, technology: Technology) -> list[Shape]:
    """Of the operands that `a` becomes, the lower one first."""
    limit = widest(technology)
    return [signed(limit), signed(a.width - limit + 1)] if is_split(a, technology) else [a]


def part_latency(part: Shape, b: Shape, technology: Technology) -> int:
    return technology.timing.multiply if technology.operand_bits else LogicMultipliers.latency(part, b)


def check(a: Shape, b: Shape, technology: Technology) -> None:
    limit = widest(technology)
    if not (a.signed and b.signed) or b.width > limit or a.width > 2 * limit - 1:
        raise ValueError(f"operands of a wide multiplier must be signed, of at most {2 * limit - 1} and {limit} bits "
                         f"on {technology.name}, not {a!r} and {b!r}")
