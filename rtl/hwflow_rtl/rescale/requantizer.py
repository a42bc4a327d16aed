"""From an exact sum to a quantized element: bias, multiplier, shift with rounding, zero point, clamp."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value

from ..stream.pipeline import delay
from ..vendor.base import Resources, Technology
from ..vendor.blocks import bits_of
from .datapath import RequantizerDatapath
from .order import Order
from .plan import WIDEST_SUM, RequantizerPlan, RequantizerStyle
from .ranges import RequantizerRoom, RequantizerRounding
from .rescaler import Rescaler, RescalerConstants, channels_cost, count_channels

__all__ = [
    "WIDEST_SUM", "Requantizer", "RequantizerConstants", "RequantizerRoom", "RequantizerRounding", "RequantizerStyle"]

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
    fraction, rounding
        Fractional bits of `bias`; how the bits that are shifted out are rounded.
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

    @property
    def constants_count(self) -> int:
        return len(np.atleast_1d(self.bias))

    def picked(self, places: IntArray, order: Order | None) -> RequantizerConstants:
        return replace(self, order=order, **{
            name: np.asarray(getattr(self, name))[places] for name in ("bias", "multiplier", "shift")})

    def unit(self, *, accumulator: Shape, output: Shape, interval: int, technology: Technology,
             name: str) -> Requantizer:
        return Requantizer(
            accumulator=accumulator, output=output, interval=interval, technology=technology, name=name,
            order=self.order, **self.constants())

    def cost(self, *, accumulator: Shape, output: Shape, interval: int, technology: Technology) -> Resources:
        plan = RequantizerPlan.of(
            accumulator=accumulator, output=output, interval=interval, technology=technology, **self.constants())
        return plan.cost() + (channels_cost(plan.ranges.channels, self.order) if plan.ranges.stored else Resources())

    def latency(self, *, accumulator: Shape, output: Shape, interval: int, technology: Technology) -> int:
        return RequantizerPlan.of(
            accumulator=accumulator, output=output, interval=interval, technology=technology,
            **self.constants()).latency

    def constants(self) -> dict[str, Any]:
        """The fields but the order, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "order"}


class Requantizer(RequantizerDatapath, Rescaler):
    """o_value = clamp(round((i_value * 2**fraction + bias) * multiplier / 2**shift) + zero_point, low, high), exactly.

    Parameters
    ----------
    accumulator, output
        Shapes of `i_value` and `o_value`.
    bias, multiplier, shift, zero_point, low, high, style, fraction, rounding, order, room
        See `RequantizerConstants`.
    interval
        Least cycles from one `i_valid` to the next.  A block has operands of 18 bits: sums of up to 35 bits and
        multipliers of more than 18 have two parts.  With 2 or more cycles a block takes two parts one after the other,
        with 4 or more all four products; in the fabric it decides how many bits of the multiplier are taken in a cycle.
    technology, name
        The family that makes the multipliers and the ROM; the ROM's name, unique in the design.

    Latency `latency`, constant.  The first `i_valid` comes no earlier than `technology.timing.rom` cycles after reset,
    and one more where constants are read in halves.
    """

    def __init__(self, *, accumulator: Shape, bias: IntArray, multiplier: IntArray, shift: IntArray, zero_point: int,
                 low: int, high: int, output: Shape, interval: int, style: RequantizerStyle, technology: Technology,
                 name: str, fraction: int = 0, rounding: RequantizerRounding = RequantizerRounding.HALF_EVEN,
                 order: Order | None = None, room: RequantizerRoom | None = None):
        self.plan = RequantizerPlan.of(
            accumulator=accumulator, bias=bias, multiplier=multiplier, shift=shift, zero_point=zero_point, low=low,
            high=high, output=output, interval=interval, style=style, technology=technology, fraction=fraction,
            rounding=rounding, room=room)
        self.name = name
        self.order = order
        self.constants = (np.atleast_1d(bias), np.atleast_1d(multiplier), np.atleast_1d(shift))
        super().__init__(accumulator, output)

    @property
    def latency(self) -> int:
        return self.plan.latency

    def model(self, values: IntArray) -> IntArray:
        """The results of the values [n], the first values after reset."""
        ranges = self.plan.ranges
        channel = self.order.places(len(values)) if self.order else np.arange(len(values)) % ranges.channels
        bias, multiplier, shift = (np.asarray(constant, dtype=np.int64)[channel] for constant in self.constants)
        product = ((np.asarray(values, dtype=np.int64) << ranges.fraction) + bias) * multiplier
        rounded = ranges.rounding.of_quotient(product, shift)
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
