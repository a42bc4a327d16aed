"""What all requantizers have in common: the sum with its bias, the product, the variable shift, and the rounding."""

from __future__ import annotations

from abc import abstractmethod

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed, unsigned
from amaranth.lib import wiring

from ..stream.pipeline import delay
from .plan import FACTOR_PART, LOW_PART, SHIFT_BITS, RequantizerPlan, ShiftAddArguments

__all__ = ["RequantizerDatapath"]


class RequantizerDatapath(wiring.Component):
    """Rounds (i_value * 2**fraction + bias) * factor / 2**(base + extra), as `plan` says.

    A unit says where the constants of a value are from (`constants_read`), and what it makes of the rounded results
    (`finish`).  Its ports have `i_valid` and `i_value` among them.
    """

    plan: RequantizerPlan

    @abstractmethod
    def constants_read(self, m: Module) -> dict[str, Value]:
        """bias, factor and extra of the value that is `plan.lead` cycles old."""

    @abstractmethod
    def finish(self, m: Module, valid: Value, halves: Value, up: Value) -> None:
        """Makes results, `plan.tail_latency` cycles after `valid`, of halves and of whether they are rounded up."""

    def elaborate(self, platform):
        m = Module()
        plan, ranges = self.plan, self.plan.ranges
        constants = self.constants_read(m)
        valid = delay(m, self.i_valid, plan.lead, "valid", reset_less=False)
        value = delay(m, self.i_value, plan.lead, "value")
        total = Signal(ranges.sum_shape, name="sum", reset_less=True)
        factor = Signal(unsigned(ranges.factor_bits), reset_less=True)
        extra = Signal(constants["extra"].shape(), reset_less=True)
        with m.If(valid | (plan.passes == 1)):  # later passes want the same sum; else no enable: they part tiles
            m.d.sync += [total.eq(biased(value, constants["bias"], ranges.fraction)), factor.eq(constants["factor"]),
                         extra.eq(constants["extra"])]
        valid = delay(m, valid, 1, "sum_valid", reset_less=False)
        if "factor" not in ranges.stored:
            factor = constants["factor"]
        if "extra" not in ranges.stored:
            extra = constants["extra"]
        if plan.multiplier is None:
            product, sticky = total, Const(0, 1)
        elif isinstance(plan.multiplier, ShiftAddArguments):
            valid, product, sticky, extra = self.shift_add(m, valid, total, factor, extra)
        else:
            product, sticky = self.multiply(m, valid, total, factor), Const(0, 1)
            valid = delay(m, valid, plan.multiply_latency, "product_valid", reset_less=False)
            extra = delay(m, extra, plan.multiply_latency, "product_extra")
        halves, up = self.round(m, product, sticky, extra)
        self.finish(m, valid, halves, up)
        return m

    def multiply(self, m: Module, valid: Value, total: Value, factor: Value) -> Value:
        """The product, `plan.multiply_latency` cycles later, in multiplier blocks.

        Low and high parts of the sum make the product of the sum with a part of the factor; with two parts of the
        factor there are two of these, one of each group of blocks or one after the other.
        """
        plan = self.plan
        m.submodules.multiplier = block = plan.technology.multipliers(**plan.multiplier)
        sums, factors = self.operands(m, valid, total, factor)
        pairs = [(a, b) for b in factors for a in sums]
        m.d.comb += [block.a[n].eq(a) for n, (a, _) in enumerate(pairs)]
        m.d.comb += [block.b[n].eq(b) for n, (_, b) in enumerate(pairs)]
        joined = []
        for group in range(len(factors)):
            parts = [block.p[group * len(sums) + n] for n in range(len(sums))]
            if plan.sum_passes == 2:
                parts.insert(0, delay(m, parts[0], 1, "low_product"))
            shape = signed(len(total) + len(factors[0])) if plan.factor_split else plan.ranges.product_shape
            joined.append(added(m, *parts, LOW_PART, shape, f"product{group or ''}") if plan.split else parts[0])
        if not plan.factor_split:
            return joined[0]
        if plan.factor_passes == 2:
            joined.insert(0, delay(m, joined[0], plan.sum_passes, "low_part"))
        return added(m, *joined, FACTOR_PART, plan.ranges.product_shape, "whole_product")

    def operands(self, m: Module, valid: Value, total: Value, factor: Value) -> tuple[list[Value], list[Value]]:
        """The operands of the blocks: of the sum, and of the factor.  A sum stays until the next one comes."""
        plan = self.plan
        sums, factors = [total], [factor]
        if plan.split:
            sums = [Cat(total[:LOW_PART], Const(0, 1)).as_signed(), total[LOW_PART:].as_signed()]
        if plan.factor_split:
            factors = [factor[:FACTOR_PART], factor[FACTOR_PART:]]
        if plan.passes == 1:
            return sums, factors
        shape = plan.multiplier["a"]  # the way to the block has its own cycle
        if plan.sum_passes == 2:
            again = delay(m, valid, 2, "second_part", reset_less=False) if plan.factor_passes == 2 else Const(0, 1)
            part = Signal(shape, name="part", reset_less=True)
            m.d.sync += part.eq(Mux(valid | again, *sums))
            sums = [part]
        else:
            sums = [delay(m, each, 1, f"part{n}") for n, each in enumerate(sums)]
        if plan.factor_passes == 2:
            again = delay(m, valid, 1, "first_part", reset_less=False) if plan.sum_passes == 2 else Const(0, 1)
            part = Signal(plan.multiplier["b"], name="factor_part", reset_less=True)
            m.d.sync += part.eq(Mux(valid | again, *factors))
            factors = [part]
        elif "factor" in plan.ranges.stored:
            factors = [delay(m, factor, 1, "factor_late")]
        return sums, factors

    def shift_add(self, m: Module, valid: Value, total: Value, factor: Value, extra: Value):
        arguments = self.plan.multiplier
        m.submodules.multiplier = unit = self.plan.shift_add(**arguments)
        m.d.comb += [unit.i_valid.eq(valid), unit.i_value.eq(total), unit.i_factor.eq(factor), unit.i_tag.eq(extra)]
        return unit.o_valid, unit.o_product, unit.o_sticky, unit.o_tag

    def round(self, m: Module, product: Value, sticky: Value, extra: Value) -> tuple[Value, Value]:
        """The shifted product in halves, and whether it is rounded up, `1 + plan.shifts` cycles later."""
        plan, ranges = self.plan, self.plan.ranges
        drop = ranges.drop - plan.dropped
        halves = Signal(ranges.halves_after(0), reset_less=True)
        below = Signal(len(plan.or_groups), reset_less=True)
        m.d.sync += halves.eq(product << 1 if ranges.base == 0 else product >> drop)
        m.d.sync += below.eq(Cat(product[start:stop].any() for start, stop in plan.or_groups) | sticky)
        extra = delay(m, extra, 1, "extra0") if plan.shifts else extra
        for number in range(plan.shifts):
            halves, below, extra = self.shift(m, number, halves, below, extra)
        return halves, ranges.rounding.up(halves[0], halves[1], below.any())

    def shift(self, m: Module, number: int, halves: Value, below: Value, extra: Value):
        """Shift by the next two bits of `extra`; what falls out goes to `below`."""
        ranges = self.plan.ranges
        distance, step = extra[:SHIFT_BITS], 1 << (number * SHIFT_BITS)
        shifted = Signal(ranges.halves_after((number + 1) * SHIFT_BITS), name=f"halves{number + 1}", reset_less=True)
        fallen = Signal(name=f"below{number + 1}", reset_less=True)
        with m.Switch(distance):
            for n in range(1 << len(distance)):
                with m.Case(n):
                    m.d.sync += shifted.eq(halves >> (n * step))
                    m.d.sync += fallen.eq(below.any() | halves[:n * step].any())
        return shifted, fallen, delay(m, extra[SHIFT_BITS:], 1, f"extra{number + 1}")


def added(m: Module, low: Value, high: Value, place: int, shape: Shape, name: str) -> Value:
    """low + high * 2**place, a cycle later."""
    total = Signal(shape, name=name, reset_less=True)
    m.d.sync += total.eq(Cat(low[:place], (low[place:].as_signed() + high)).as_signed())
    return total


def biased(value: Value, bias: Value, fraction: int) -> Value:
    """value * 2**fraction + bias: the low bits are those of the bias."""
    if fraction == 0:
        return value + bias
    wide = Cat(bias, bias[-1].replicate(max(0, fraction + 1 - len(bias)))).as_signed()
    return Cat(wide[:fraction], value + wide[fraction:].as_signed()).as_signed()
