"""From an exact sum to a quantized element: bias, multiplier, shift with round half to even, zero point, clamp."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .pipeline import delay
from .requantize_numbers import RequantizerNumbers
from .shift_add import ShiftAdd
from .vendor.base import Resources, Technology

__all__ = ["Requantizer", "RequantizerStyle"]

IntArray = npt.NDArray[np.int64]

#: Operand of a multiplier block, signed.
OPERAND = 18
#: Bits of the low part of a sum that does not fit the operand: one less, for they have no sign.
LOW_PART = OPERAND - 1
#: Bits that one OR reduces in a cycle: two levels of 4-input tables.
OR_BITS = 16
#: Bits of the shift distance that one cycle handles: a 4-to-1 multiplexer.
SHIFT_BITS = 2


class RequantizerStyle(enum.Enum):
    """What multiplies: the family's multiplier blocks, or tables and carry chains."""

    DSP = "dsp"
    FABRIC = "fabric"


class Requantizer(wiring.Component):
    """o_value = clamp(rhe((i_value + bias) * multiplier / 2**shift) + zero_point, low, high), exactly.

    `rhe` rounds half to even.  The values of the channels come in order, channel 0 first, and begin again after the
    last; the unit counts them.  There is no back-pressure.

    Parameters
    ----------
    accumulator, output
        Shapes of `i_value` and `o_value`.
    bias, multiplier, shift
        Integer arrays, one entry for each channel; multipliers of 0 to 18 bits, shifts of 0 to 62.  What is the same
        in all channels is not stored; a multiplier of 1 (or powers of two) needs none.
    zero_point, low, high
        Integers; `low` and `high` in the range of `output`.
    interval
        Least cycles from one `i_valid` to the next.  With 2 or more one multiplier block takes a sum of up to 35 bits
        in two parts; in the fabric it decides how many bits of the multiplier are taken in a cycle.
    style, technology
        What multiplies, and who makes it.
    name
        Of the ROM: unique in the design.

    Latency `latency`, constant.  The first `i_valid` comes no earlier than `technology.timing.rom` cycles after reset.
    """

    def __init__(self, *, accumulator: Shape, bias: IntArray, multiplier: IntArray, shift: IntArray, zero_point: int,
                 low: int, high: int, output: Shape, interval: int, style: RequantizerStyle, technology: Technology,
                 name: str):
        self.plan = _Plan.of(
            accumulator=accumulator, bias=bias, multiplier=multiplier, shift=shift, zero_point=zero_point, low=low,
            high=high, output=output, interval=interval, style=style, technology=technology)
        self.name = name
        self.constants = (np.atleast_1d(bias), np.atleast_1d(multiplier), np.atleast_1d(shift))
        super().__init__({
            "i_valid": In(1), "i_value": In(accumulator), "o_valid": Out(1), "o_value": Out(output)})

    @property
    def latency(self) -> int:
        """Cycles from `i_valid` to `o_valid`."""
        return self.plan.latency

    @staticmethod
    def cost(*, accumulator: Shape, bias: IntArray, multiplier: IntArray, shift: IntArray, zero_point: int, low: int,
             high: int, output: Shape, interval: int, style: RequantizerStyle, technology: Technology) -> Resources:
        """DSP and RAM exact, LUT and FF estimated."""
        return _Plan.of(
            accumulator=accumulator, bias=bias, multiplier=multiplier, shift=shift, zero_point=zero_point, low=low,
            high=high, output=output, interval=interval, style=style, technology=technology).cost()

    @staticmethod
    def latency_of(**arguments) -> int:
        """The `latency` of a requantizer with these arguments (all but `name`)."""
        return _Plan.of(**arguments).latency

    def model(self, values: IntArray) -> IntArray:
        """What comes out for the values [n] that come in after reset."""
        numbers = self.plan.numbers
        channel = np.arange(len(values)) % numbers.channels
        bias, multiplier, shift = (np.asarray(constant, dtype=np.int64)[channel] for constant in self.constants)
        product = (np.asarray(values, dtype=np.int64) + bias) * multiplier
        half = np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 0)
        rounded = (product + half) >> shift
        tie = (shift > 0) & (((product + half) & ((np.int64(1) << shift) - 1)) == 0)
        rounded = np.where(tie, rounded & ~1, rounded)
        return np.clip(rounded + numbers.zero_point, numbers.low, numbers.high)

    def elaborate(self, platform):
        m = Module()
        plan, numbers = self.plan, self.plan.numbers
        constants = self.read_constants(m)
        valid = delay(m, self.i_valid, plan.lead, "valid", reset_less=False)
        value = delay(m, self.i_value, plan.lead, "value")
        total = Signal(numbers.sum_shape, name="sum", reset_less=True)
        factor = Signal(unsigned(numbers.factor_bits), reset_less=True)
        extra = Signal(constants["extra"].shape(), reset_less=True)
        with m.If(valid):
            m.d.sync += [total.eq(value + constants["bias"]), factor.eq(constants["factor"]),
                         extra.eq(constants["extra"])]
        valid = delay(m, valid, 1, "sum_valid", reset_less=False)
        if len(set(numbers.factor)) == 1:
            factor = constants["factor"]
        if len(set(numbers.extra)) == 1:
            extra = constants["extra"]
        if plan.multiplier is None:
            product, sticky = total, Const(0, 1)
        elif isinstance(plan.multiplier, ShiftAddArguments):
            valid, product, sticky, extra = self.shift_add(m, valid, total, factor, extra)
        else:
            product, sticky = self.multiply(m, valid, total, factor), Const(0, 1)
            valid = delay(m, valid, plan.multiply_latency, "product_valid", reset_less=False)
            extra = delay(m, extra, plan.multiply_latency, "product_extra")
        self.round_and_clamp(m, valid, product, sticky, extra)
        return m

    def read_constants(self, m: Module) -> dict[str, Value]:
        """The constants of the channel whose value is `plan.lead` cycles old."""
        numbers = self.plan.numbers
        constants: dict[str, Value] = {
            name: Const(values[0], shape) for name, (shape, values) in numbers.fields.items()}
        if not numbers.stored:
            return constants
        m.submodules.constants = rom = self.plan.technology.rom(
            width=numbers.word_bits, contents=numbers.rom(), name=self.name)
        channel = Signal(range(numbers.channels))
        with m.If(self.i_valid):
            m.d.sync += channel.eq(Mux(channel == numbers.channels - 1, 0, channel + 1))
        m.d.comb += rom.addr.eq(channel)
        place = 0
        for name, shape in numbers.stored.items():
            bits = rom.data[place:place + shape.width]
            constants[name] = bits.as_signed() if shape.signed else bits
            place += shape.width
        return constants

    def multiply(self, m: Module, valid: Value, total: Value, factor: Value) -> Value:
        """The product, `plan.multiply_latency` cycles later, in multiplier blocks."""
        plan = self.plan
        m.submodules.multiplier = block = plan.technology.multipliers(**plan.multiplier)
        for n in range(plan.multiplier["count"]):
            m.d.comb += block.b[n].eq(factor)
        if plan.passes == 1 and plan.multiplier["count"] == 1:
            m.d.comb += block.a[0].eq(total)
            return block.p[0]
        low, high = Cat(total[:LOW_PART], Const(0, 1)).as_signed(), total[LOW_PART:].as_signed()
        if plan.passes == 1:
            m.d.comb += [block.a[0].eq(low), block.a[1].eq(high)]
            first, second = block.p[0], block.p[1]
        else:  # the sum stays until the next one comes
            m.d.comb += block.a[0].eq(Mux(valid, low, high))
            first, second = delay(m, block.p[0], 1, "low_product"), block.p[0]
        product = Signal(plan.numbers.product_shape, reset_less=True)
        m.d.sync += product.eq(Cat(first[:LOW_PART], (first[LOW_PART:] + second)).as_signed())
        return product

    def shift_add(self, m: Module, valid: Value, total: Value, factor: Value, extra: Value):
        arguments = self.plan.multiplier
        m.submodules.multiplier = unit = ShiftAdd(**arguments)
        m.d.comb += [unit.i_valid.eq(valid), unit.i_value.eq(total), unit.i_factor.eq(factor), unit.i_tag.eq(extra)]
        return unit.o_valid, unit.o_product, unit.o_sticky, unit.o_tag

    def round_and_clamp(self, m: Module, valid: Value, product: Value, sticky: Value, extra: Value) -> None:
        """Halves and whether anything was below them; the variable shift; one addition; the clamp."""
        plan, numbers = self.plan, self.plan.numbers
        drop = numbers.drop - plan.dropped
        halves = Signal(numbers.halves_after(0), reset_less=True)
        below = Signal(len(plan.or_groups), reset_less=True)
        m.d.sync += halves.eq(product << 1 if numbers.base == 0 else product >> drop)
        m.d.sync += below.eq(Cat(product[start:stop].any() for start, stop in plan.or_groups) | sticky)
        extra = delay(m, extra, 1, "extra0") if plan.shifts else extra
        for number in range(plan.shifts):
            halves, below, extra = self.shift(m, number, halves, below, extra)

        up = halves[0] & (below.any() | halves[1])
        above = Signal(plan.above_shape, reset_less=True)
        offset = numbers.zero_point - numbers.low
        # One carry chain: the lowest bit of both operands makes the carry.
        addend = Cat(up, Const(offset, plan.above_shape)).as_signed()
        m.d.sync += above.eq((Cat(1, halves[1:]).as_signed() + addend) >> 1)

        least, most = numbers.above_low
        reach = numbers.high - numbers.low
        under, over = Signal(reset_less=True), Signal(reset_less=True)
        rest = Signal(max(1, reach.bit_length()), reset_less=True)
        m.d.sync += rest.eq(above)
        if least < 0:
            m.d.sync += under.eq(above[-1])
        if most > reach:
            power = reach & (reach + 1) == 0
            m.d.sync += over.eq(~above[-1] & (above[reach.bit_length():].any() if power else (reach - above)[-1]))
        half_range = 1 << (numbers.output.width - 1)
        result = rest + numbers.low if numbers.low % half_range else rest ^ (numbers.low % (2 * half_range))
        m.d.sync += self.o_value.eq(Mux(over, numbers.high, Mux(under, numbers.low, result)))
        m.d.comb += self.o_valid.eq(delay(m, valid, plan.tail_latency, "result_valid", reset_less=False))

    def shift(self, m: Module, number: int, halves: Value, below: Value, extra: Value):
        """Shift by the next two bits of `extra`; what falls out goes to `below`."""
        numbers = self.plan.numbers
        distance, step = extra[:SHIFT_BITS], 1 << (number * SHIFT_BITS)
        shifted = Signal(numbers.halves_after((number + 1) * SHIFT_BITS), name=f"halves{number + 1}", reset_less=True)
        fallen = Signal(name=f"below{number + 1}", reset_less=True)
        with m.Switch(distance):
            for n in range(1 << len(distance)):
                with m.Case(n):
                    m.d.sync += shifted.eq(halves >> (n * step))
                    m.d.sync += fallen.eq(below.any() | halves[:n * step].any())
        return shifted, fallen, delay(m, extra[SHIFT_BITS:], 1, f"extra{number + 1}")


class ShiftAddArguments(dict):
    """Arguments of `ShiftAdd`."""


@dataclass(frozen=True, eq=False)
class _Plan:
    """How the constants are computed with: shared by the unit, its latency and its cost."""

    numbers: RequantizerNumbers
    interval: int
    style: RequantizerStyle
    technology: Technology

    @staticmethod
    def of(*, interval: int, style: RequantizerStyle, technology: Technology, **constants) -> _Plan:
        if interval < 1:
            raise ValueError(f"interval of a Requantizer must be at least 1 cycle, not {interval}")
        numbers = RequantizerNumbers.of(**constants)
        aligned = numbers.aligned()
        if style is RequantizerStyle.DSP:
            align = numbers.multiplies and aligned.factor_bits <= OPERAND
        else:
            align = numbers.multiplies and len(ShiftAdd.split(aligned.factor_bits, interval)) == len(
                ShiftAdd.split(numbers.factor_bits, interval))
        return _Plan(aligned if align else numbers, interval, style, technology)

    @property
    def lead(self) -> int:
        """Cycles that a value waits for its constants; with time between the values they are read ahead."""
        rom = self.technology.timing.rom
        return rom if self.numbers.stored and self.interval <= rom else 0

    @property
    def split(self) -> bool:
        """The sum is too wide for a multiplier block."""
        return self.numbers.sum_shape.width > OPERAND

    @property
    def passes(self) -> int:
        return 2 if self.split and self.interval > 1 else 1

    @cached_property
    def multiplier(self) -> dict | None:
        """Arguments of what multiplies; None where nothing does."""
        numbers = self.numbers
        if not numbers.multiplies:
            return None
        width = numbers.sum_shape.width
        if self.style is RequantizerStyle.DSP:
            if width > LOW_PART + OPERAND:
                raise ValueError(f"a + bias of a Requantizer must be at most {LOW_PART + OPERAND} bits for two "
                                 f"multiplier operands, not {width}; multiply in the fabric")
            return {"count": 2 if self.split and self.passes == 1 else 1, "a": signed(OPERAND if self.split else width),
                    "b": unsigned(numbers.factor_bits)}
        mask = (1 << numbers.factor_bits) - 1
        ones, zeros = mask, mask
        for factor in numbers.factor:
            ones, zeros = ones & factor, zeros & ~factor
        return ShiftAddArguments(
            value=numbers.sum_shape, factor_bits=numbers.factor_bits, drop=numbers.drop, interval=self.interval,
            tag_bits=numbers.fields["extra"][0].width if "extra" in numbers.stored else 0, ones=ones, zeros=zeros)

    @property
    def multiply_latency(self) -> int:
        if self.multiplier is None:
            return 0
        if isinstance(self.multiplier, ShiftAddArguments):
            return ShiftAdd.latency_for(self.multiplier["factor_bits"], self.multiplier["interval"])
        return self.technology.timing.multiply + self.passes - 1 + self.split

    @property
    def dropped(self) -> int:
        """Bits that the multiplier has dropped already."""
        if isinstance(self.multiplier, ShiftAddArguments):
            return min(self.numbers.drop, self.numbers.factor_bits)
        return 0

    @property
    def or_groups(self) -> list[tuple[int, int]]:
        """Slices of the product below the halves; at least one, be it empty."""
        width = self.numbers.product_shape.width if self.multiplier is None or not self.dropped else (
            self.numbers.sum_shape.width + self.numbers.factor_bits - self.dropped)
        stop = min(self.numbers.drop - self.dropped, width)
        return [(start, min(start + OR_BITS, stop)) for start in range(0, max(stop, 1), OR_BITS)]

    @property
    def shifts(self) -> int:
        """Cycles of the variable shift."""
        return -(-max(self.numbers.extra).bit_length() // SHIFT_BITS)

    @property
    def above_shape(self) -> Shape:
        """Holds the result above `low`, and the operands of the addition that makes it."""
        numbers = self.numbers
        halves = numbers.halves_after(max(numbers.extra).bit_length()).width - 1
        offset = (numbers.zero_point - numbers.low).bit_length() + 1
        results = max(abs(bound) for bound in numbers.above_low).bit_length() + 1
        return signed(max(halves, offset, results))

    @property
    def tail_latency(self) -> int:
        return 1 + self.shifts + 3

    @property
    def latency(self) -> int:
        return self.lead + 1 + self.multiply_latency + self.tail_latency

    def cost(self) -> Resources:
        numbers, technology = self.numbers, self.technology
        total, result = numbers.sum_shape.width, self.above_shape.width
        extra = numbers.fields["extra"][0].width if "extra" in numbers.stored else 0
        factor = numbers.factor_bits if "factor" in numbers.stored else 0
        halves = numbers.halves_after(0).width
        resources = Resources(
            lut=(total if any(numbers.bias) else 0) + 3 * result // 2 + 2 * numbers.output.width + numbers.drop // 3
            + 4,
            ff=self.lead * numbers.accumulator.width + total + factor + extra + halves + result
            + 2 * numbers.output.width + self.latency + 4)
        if numbers.stored:
            counter = (numbers.channels - 1).bit_length()
            resources += technology.rom_cost(width=numbers.word_bits, depth=numbers.channels)
            resources += Resources(lut=2 * counter, ff=counter)
        for number in range(self.shifts):
            width = numbers.halves_after((number + 1) * SHIFT_BITS).width
            resources += Resources(lut=2 * width + 4, ff=width + extra + 1)
        if isinstance(self.multiplier, ShiftAddArguments):
            resources += ShiftAdd.cost(**self.multiplier)
        elif self.multiplier is not None:
            resources += technology.multipliers_cost(**self.multiplier)
            high = numbers.product_shape.width - LOW_PART
            if self.split:
                resources += Resources(lut=high, ff=numbers.product_shape.width)
            if self.passes == 2:
                resources += Resources(lut=OPERAND, ff=numbers.factor_bits + OPERAND)
            resources += Resources(ff=extra * self.multiply_latency)
        return resources
