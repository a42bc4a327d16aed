"""From an exact sum to a quantized element: bias, multiplier, shift with rounding, zero point, clamp."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed, unsigned
from amaranth.lib import wiring

from ..multiply.shift_add import ShiftAddShape
from ..stream.pipeline import delay
from ..vendor.base import Resources, Technology
from ..vendor.blocks import bits_of
from .order import Order
from .plan import FACTOR_PART, LOW_PART, SHIFT_BITS, RequantizerPlan, RequantizerStyle
from .ranges import RequantizerRoom, RequantizerRounding
from .rescaler import Rescaler, RescalerConstants, channels_cost, count_channels

# What all requantizers have in common: the sum with its bias, the product, the variable shift, and the rounding.


class RequantizerDatapath(wiring.Component):
    """Rounds (i_value * 2**fraction + bias) * factor / 2**(base + extra), as `plan` says: also whether products move
    away from zero first.

    A unit says where the constants of a value are from (`constants_read`), and what it makes of the rounded results
    (`finish`).  Its ports have `i_valid` and `i_value` among them.
    """

    plan: RequantizerPlan

    @abstractmethod
    def constants_read(self, m: Module) -> dict[str, Value]:
        """bias, factor, extra and moves of the value that is `plan.lead` cycles old."""

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
        tag = Cat(constants[name] for name in ("extra", "moves") if name in ranges.stored)
        extra = Signal(len(tag), name="extra", reset_less=True)
        with m.If(valid | (plan.passes == 1)):  # later passes want the same sum; else no enable: they part tiles
            m.d.sync += [total.eq(biased(value, constants["bias"], ranges.fraction)), factor.eq(constants["factor"]),
                         extra.eq(tag)]
        valid = delay(m, valid, 1, "sum_valid", reset_less=False)
        if "factor" not in ranges.stored:
            factor = constants["factor"]
        if plan.multiplier is None:
            product, sticky = total, Const(0, 1)
        elif isinstance(plan.multiplier, ShiftAddShape):
            m.submodules.multiplier = unit = plan.multiplier.build()
            m.d.comb += [unit.i_valid.eq(valid), unit.i_value.eq(total), unit.i_factor.eq(factor), unit.i_tag.eq(extra)]
            valid, product, sticky, extra = unit.o_valid, unit.o_product, unit.o_sticky, unit.o_tag
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

    def round(self, m: Module, product: Value, sticky: Value, extra: Value) -> tuple[Value, Value]:
        """The shifted product in halves, and whether it is rounded up, `1 + plan.shifts` cycles later."""
        plan, ranges = self.plan, self.plan.ranges
        drop = ranges.drop - plan.dropped
        if ranges.outward:
            bits = len(extra) - ("moves" in ranges.stored)
            moves = extra[bits] if "moves" in ranges.stored else Const(ranges.moves[0], 1)
            product, extra = moved(product, moves, ranges.moving_bit - plan.dropped), extra[:bits]
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


def moved(product: Value, moves: Value, place: int) -> Value:
    """product, 2**place farther away from zero where it `moves`: less where it is negative, else more."""
    sign = product[-1]
    step = Cat(moves, (moves & sign).replicate(len(product) - place)).as_signed()
    return Cat(product[:place], product[place:].as_signed() + step).as_signed()


def biased(value: Value, bias: Value, fraction: int) -> Value:
    """value * 2**fraction + bias: the low bits are those of the bias."""
    if fraction == 0:
        return value + bias
    wide = Cat(bias, bias[-1].replicate(max(0, fraction + 1 - len(bias)))).as_signed()
    return Cat(wide[:fraction], value + wide[fraction:].as_signed()).as_signed()


IntArray = npt.NDArray[np.int64]

@dataclass(frozen=True, eq=False)
class RequantizerConstants(RescalerConstants):
    """y = clamp(round((a * 2**fraction + bias) * multiplier / 2**shift) + zero_point, low, high), exactly.

    bias, multiplier, shift
        Integer arrays, one entry for each channel; multipliers of 0 to 32 bits, shifts of 0 to 62.  What is the same
        in all channels is not stored; a multiplier of 1 (or powers of two) needs none.
    zero_point, low, high
        Integers; `low` and `high` in the range of the output.
    style
        What multiplies.
    fraction, rounding, outward
        Fractional bits of `bias`; how the bits that are shifted out are rounded; by how much products move away from
        zero before (`RequantizerRanges`).
    order
        Only where classes of pixels, or passes, have constants of their own: the order in which they are used.
    room
        The widths that the unit is made for, so that a routed design can be given other constants.
    """

    bias: IntArray
    multiplier: IntArray
    shift: IntArray
    zero_point: int
    low: int
    high: int
    style: RequantizerStyle
    fraction: int = 0
    rounding: RequantizerRounding = RequantizerRounding.HALF_EVEN
    order: Order | None = None
    room: RequantizerRoom | None = None
    outward: int = 0

    @property
    def constants_count(self) -> int:
        return len(np.atleast_1d(self.bias))

    def picked(self, places: IntArray, order: Order | None) -> RequantizerConstants:
        return replace(self, order=order, **{
            name: np.asarray(getattr(self, name))[places] for name in ("bias", "multiplier", "shift")})

    def unit(self, *, accumulator: Shape, output: Shape, interval: int, technology: Technology,
             name: str) -> Requantizer:
        plan = self.plan(accumulator=accumulator, output=output, interval=interval, technology=technology)
        return Requantizer(constants=self, plan=plan, name=name)

    def cost(self, *, accumulator: Shape, output: Shape, interval: int, technology: Technology) -> Resources:
        plan = self.plan(accumulator=accumulator, output=output, interval=interval, technology=technology)
        return plan.cost() + (channels_cost(plan.ranges.channels, self.order) if plan.ranges.stored else Resources())

    def latency(self, *, accumulator: Shape, output: Shape, interval: int, technology: Technology) -> int:
        return self.plan(accumulator=accumulator, output=output, interval=interval, technology=technology).latency

    def plan(self, *, accumulator: Shape, output: Shape, interval: int, technology: Technology) -> RequantizerPlan:
        """How the unit computes, before it is built.

        `interval`: least cycles from one value to the next.  A block has operands of 18 bits: sums of up to 35 bits and
        multipliers of more than 18 have two parts.  With 2 or more cycles a block takes two parts one after the other,
        with 4 or more all four products; in the fabric it decides how many bits of the multiplier are taken in a cycle.
        """
        return RequantizerPlan.of(
            accumulator=accumulator, output=output, interval=interval, technology=technology, **self.constants())

    def constants(self) -> dict[str, Any]:
        """The fields but the order, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "order"}


class Requantizer(RequantizerDatapath, Rescaler):
    """o_value = clamp(round((i_value * 2**fraction + bias) * multiplier / 2**shift) + zero_point, low, high), exactly.

    `name` is that of the ROM, unique in the design.

    Latency `latency`, constant.  The first `i_valid` comes no earlier than `technology.timing.rom` cycles after reset,
    and one more where constants are read in halves.
    """

    def __init__(self, *, constants: RequantizerConstants, plan: RequantizerPlan, name: str):
        self.plan = plan
        self.name = name
        self.order = constants.order
        self.constants = tuple(np.atleast_1d(values) for values in (
            constants.bias, constants.multiplier, constants.shift))
        super().__init__(plan.ranges.accumulator, plan.ranges.output)

    @property
    def latency(self) -> int:
        return self.plan.latency

    def model(self, values: IntArray) -> IntArray:
        """The results of the values [n], the first values after reset."""
        ranges = self.plan.ranges
        channel = self.order.places(len(values)) if self.order else np.arange(len(values)) % ranges.channels
        bias, multiplier, shift = (np.asarray(constant, dtype=np.int64)[channel] for constant in self.constants)
        product = ((np.asarray(values, dtype=np.int64) << ranges.fraction) + bias) * multiplier
        rounded = ranges.rounding.of_quotient(ranges.outwards(product, shift), shift)
        return np.clip(rounded + ranges.zero_point, ranges.low, ranges.high)

    def constants_read(self, m: Module) -> dict[str, Value]:
        """The constants of the channel whose value is `plan.lead` cycles old."""
        ranges = self.plan.ranges
        constants: dict[str, Value] = {
            name: Const(values[0], shape) for name, (shape, values) in ranges.fields.items()}
        if not ranges.stored:
            return constants
        place = count_channels(m, self.i_valid, ranges.channels, self.order)
        word = self.read_halves(m, place) if self.plan.in_halves else self.read(m, ranges.rom(), place)
        start = 0
        for name, shape in ranges.stored.items():
            bits = word[start:start + shape.width]
            constants[name] = bits.as_signed() if shape.signed else bits
            start += shape.width
        return constants

    def read(self, m: Module, contents: npt.NDArray[np.uint8], place: Value) -> Value:
        m.submodules.constants = rom = self.plan.technology.rom(
            width=self.plan.rom_width, contents=contents, name=self.name)
        m.d.comb += rom.addr.eq(place)
        return rom.data

    def read_halves(self, m: Module, place: Value) -> Value:
        """The low half of a word is read in the cycle after a value, the high half from the next cycle on."""
        width, cycles = self.plan.rom_width, self.plan.technology.timing.rom
        bits = bits_of(self.plan.ranges.rom(), self.plan.ranges.word_bits)
        bits = np.pad(bits, ((0, 0), (0, 2 * width - bits.shape[1]))).reshape(-1, width)
        is_high, low = Signal(name="is_high"), Signal(width, name="low_half", reset_less=True)
        m.d.sync += is_high.eq(~self.i_valid)
        half = self.read(m, np.packbits(bits, axis=1, bitorder="little"), Cat(is_high, place))
        with m.If(delay(m, ~is_high, cycles, "low_there", reset_less=False)):
            m.d.sync += low.eq(half)
        return Cat(low, half)

    def finish(self, m: Module, valid: Value, halves: Value, up: Value) -> None:
        """One addition, then the clamp."""
        plan, ranges = self.plan, self.plan.ranges
        above = Signal(plan.above_shape, reset_less=True)
        offset = ranges.zero_point - ranges.low
        # One carry chain: the lowest bit of both operands makes the carry.
        addend = Cat(up, Const(offset, plan.above_shape)).as_signed()
        m.d.sync += above.eq((Cat(1, halves[1:]).as_signed() + addend) >> 1)

        least, most = ranges.above_low
        reach = ranges.high - ranges.low
        under, over = Signal(reset_less=True, name="under"), Signal(reset_less=True, name="over")
        rest = Signal(max(1, reach.bit_length()), reset_less=True)
        m.d.sync += rest.eq(above)
        if least < 0:
            m.d.sync += under.eq(above[-1])
        if most > reach:
            power = reach & (reach + 1) == 0
            m.d.sync += over.eq(~above[-1] & (above[reach.bit_length():].any() if power else (reach - above)[-1]))
        half_range = 1 << (ranges.output.width - 1)
        result = rest + ranges.low if ranges.low % half_range else rest ^ (ranges.low % (2 * half_range))
        m.d.sync += self.o_value.eq(Mux(over, ranges.high, Mux(under, ranges.low, result)))
        m.d.comb += self.o_valid.eq(delay(m, valid, plan.tail_latency, "result_valid", reset_less=False))
