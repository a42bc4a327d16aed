"""How a requantizer computes with its constants: shared by the unit, its latency and its cost."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from amaranth.hdl import Shape, signed, unsigned

from ..multiply.shift_add import DigitShiftAddShape, ShiftAddShape
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from ..vendor.memory import Holds
from .ranges import RequantizerRanges

#: Operand of a multiplier block, signed.
OPERAND = 18
#: Bits of the low part of a sum that does not fit the operand: one less, for they have no sign.
LOW_PART = OPERAND - 1
#: Bits of a sum that two operands of multiplier blocks hold.
WIDEST_SUM = LOW_PART + OPERAND
#: Bits of the low part of a factor that does not fit the operand; it has no sign, nor has the high part.
FACTOR_PART = OPERAND
#: Bits that one OR reduces in a cycle: two levels of 4-input tables.
OR_BITS = 16
#: Bits of the shift distance that one cycle handles: a 4-to-1 multiplexer.
SHIFT_BITS = 2


class RequantizerStyle(enum.Enum):
    """The style of what multiplies: the family's multiplier blocks, or tables and carry chains."""

    DSP = "dsp"
    FABRIC = "fabric"


def shift_add_of(technology: Technology) -> type[ShiftAddShape]:
    return DigitShiftAddShape if technology.multiplies_by_digits else ShiftAddShape


@dataclass(frozen=True, eq=False)
class RequantizerPlan:
    """Plans what multiplies, in how many cycles, and the stages of the pipeline after it."""

    ranges: RequantizerRanges
    interval: int
    style: RequantizerStyle
    technology: Technology

    @staticmethod
    def of(*, interval: int, style: RequantizerStyle, technology: Technology, **constants) -> RequantizerPlan:
        if interval < 1:
            raise ValueError(f"interval of a Requantizer must be at least 1 cycle, not {interval}")
        ranges = RequantizerRanges.of(**constants)
        aligned = ranges.aligned
        if style is RequantizerStyle.DSP:
            align = ranges.multiplies and factor_parts(aligned) == factor_parts(ranges)
        else:
            kind = shift_add_of(technology)
            segments = [len(kind(value=constants.sum_shape, factor_bits=constants.factor_bits, drop=0,
                                 interval=interval).segments) for constants in (aligned, ranges)]
            align = ranges.multiplies and segments[0] == segments[1]
        return RequantizerPlan(aligned if align else ranges, interval, style, technology)

    @property
    def lead(self) -> int:
        """Cycles that a value waits for its constants; with time between the values they are read ahead."""
        rom = self.technology.timing.rom
        if self.in_halves:
            return max(0, rom + 2 - self.interval)
        return rom if self.ranges.stored and self.interval <= rom else 0

    @cached_property
    def in_halves(self) -> bool:
        """Whether the constants of a channel are two words of the ROM, read one after the other.

        They are where that saves RAM blocks: 41 to 72 bits of 129 to 256 channels are in one block then.
        """
        if self.interval < 2 or not self.ranges.stored:
            return False
        word, bits = self.ranges.word_bits, -(-self.ranges.word_bits // 2)
        whole, halves = (self.technology.rom_cost(width=width, depth=depth, holds=Holds.CONSTANTS) for width, depth in (
            (word, self.ranges.channels), (bits, 2 * self.ranges.channels)))
        return halves.ram < whole.ram

    @property
    def rom_width(self) -> int:
        """Bits of a word of the ROM with the constants."""
        return -(-self.ranges.word_bits // 2) if self.in_halves else self.ranges.word_bits

    @property
    def split(self) -> bool:
        """The sum is too wide for a multiplier block."""
        return self.ranges.sum_shape.width > OPERAND

    @property
    def factor_split(self) -> bool:
        """The factor is too wide for a multiplier block."""
        return self.style is RequantizerStyle.DSP and self.ranges.factor_bits > FACTOR_PART

    @property
    def factor_passes(self) -> int:
        """Parts of the factor that a block takes one after the other."""
        return 2 if self.factor_split and self.interval > 1 else 1

    @property
    def sum_passes(self) -> int:
        """Parts of the sum that a block takes one after the other, for each part of the factor."""
        return 2 if self.split and self.interval // self.factor_passes > 1 and (
            not self.factor_split or self.factor_passes == 2) else 1

    @property
    def passes(self) -> int:
        """Products of a sum that a block makes, each in a cycle of its own: as many as the interval has time for."""
        return self.sum_passes * self.factor_passes

    @property
    def products(self) -> int:
        """The products of parts of the sum with parts of the factor."""
        return (1 + self.split) * (1 + self.factor_split)

    @cached_property
    def multiplier(self) -> dict[str, Any] | ShiftAddShape | None:
        """Arguments of the multiplier blocks, or what multiplies in the fabric; None where nothing does."""
        ranges = self.ranges
        if not ranges.multiplies:
            return None
        width = ranges.sum_shape.width
        if self.style is RequantizerStyle.DSP:
            if width > WIDEST_SUM:
                raise ValueError(f"a + bias of a Requantizer must be at most {WIDEST_SUM} bits for two "
                                 f"multiplier operands, not {width}; multiply in the fabric")
            if ranges.factor_bits > FACTOR_PART + OPERAND:
                raise ValueError(f"multiplier of a Requantizer must be at most {FACTOR_PART + OPERAND} bits for two "
                                 f"multiplier operands, not {ranges.factor_bits}; multiply in the fabric")
            return {"count": self.products // self.passes, "a": signed(OPERAND if self.split else width),
                    "b": unsigned(min(ranges.factor_bits, FACTOR_PART))}
        mask = (1 << ranges.factor_bits) - 1
        ones, zeros = mask, mask
        for factor in ranges.factor if ranges.room is None else (0, mask):
            ones, zeros = ones & factor, zeros & ~factor
        return shift_add_of(self.technology)(
            value=ranges.sum_shape, factor_bits=ranges.factor_bits, interval=self.interval, tag_bits=ranges.tag_bits,
            drop=min(ranges.drop, ranges.moving_bit) if ranges.outward else ranges.drop, ones=ones, zeros=zeros)

    @property
    def multiply_latency(self) -> int:
        if self.multiplier is None:
            return 0
        if isinstance(self.multiplier, ShiftAddShape):
            return self.multiplier.latency
        waits = self.passes if self.passes > 1 else 0  # the way to the block, and the passes after the first
        return self.technology.timing.multiply + waits + self.split + self.factor_split

    @property
    def dropped(self) -> int:
        """Bits that the multiplier has dropped already."""
        if isinstance(self.multiplier, ShiftAddShape):
            return self.multiplier.dropped
        return 0

    @property
    def or_groups(self) -> list[tuple[int, int]]:
        """Slices of the product below the halves; at least one, be it empty."""
        width = self.ranges.product_shape.width if self.multiplier is None or not self.dropped else (
            self.ranges.sum_shape.width + self.ranges.factor_bits - self.dropped)
        stop = min(self.ranges.drop - self.dropped, width)
        return [(start, min(start + OR_BITS, stop)) for start in range(0, max(stop, 1), OR_BITS)]

    @property
    def shifts(self) -> int:
        """Cycles of the variable shift."""
        return -(-self.ranges.most_extra.bit_length() // SHIFT_BITS)

    @property
    def above_shape(self) -> Shape:
        """Holds the result above `low`, and the operands of the addition that makes it."""
        ranges = self.ranges
        halves = ranges.halves_after(ranges.most_extra.bit_length()).width - 1
        offset = (ranges.zero_point - ranges.low).bit_length() + 1
        results = max(abs(bound) for bound in ranges.above_low).bit_length() + 1
        return signed(max(halves, offset, results))

    @property
    def tail_latency(self) -> int:
        return 1 + self.shifts + 3

    @property
    def latency(self) -> int:
        return self.lead + 1 + self.multiply_latency + self.tail_latency

    @property
    def bias_adder(self) -> int:
        """Bits that the addition of the bias changes: not those below the lowest of a constant that all channels share.
        """
        if self.ranges.room is None and not any(self.ranges.bias):
            return 0
        bias = self.ranges.bias[0]
        passed = 0 if "bias" in self.ranges.stored else (bias & -bias).bit_length() - 1
        return max(0, self.ranges.sum_shape.width - max(self.ranges.fraction, passed))

    def cost(self) -> Resources:
        """Without `channels_cost`."""
        return self.constants_cost() + self.datapath_cost()

    def constants_cost(self) -> Resources:
        """The cost of the ROM."""
        ranges, technology, resources = self.ranges, self.technology, Resources()
        if ranges.stored:
            resources += technology.rom_cost(width=self.rom_width, depth=ranges.channels << self.in_halves,
                                             holds=Holds.CONSTANTS)
            if self.in_halves:  # the low half waits for the high one
                resources += Resources(lut=1, ff=self.rom_width + technology.timing.rom + 1)
        return resources

    def rounding_cost(self) -> Resources:
        """The cost of rounding and clamp: what was fitted."""
        ranges = self.ranges
        return fitted("Requantizer", result_bits=self.above_shape.width, output_bits=ranges.output.width,
                      dropped_bits=ranges.drop if ranges.rounding.needs_rest else 0)

    def datapath_cost(self) -> Resources:
        """The cost of all but where the constants are from."""
        ranges, technology = self.ranges, self.technology
        total, result = ranges.sum_shape.width, self.above_shape.width
        extra = ranges.tag_bits
        factor = ranges.factor_bits if "factor" in ranges.stored else 0
        halves = ranges.halves_after(0).width
        resources = Resources(
            lut=self.bias_adder,
            ff=self.lead * ranges.accumulator.width + total + factor + extra + halves + result + self.latency)
        resources += self.rounding_cost()
        if ranges.outward:  # a carry chain from the bit that products move by, and the gate of that bit
            resources += Resources(lut=max(1, ranges.product_shape.width - ranges.moving_bit))
        for number in range(self.shifts):
            width = ranges.halves_after((number + 1) * SHIFT_BITS).width
            resources += fitted("Requantizer shift", value_bits=width) + Resources(ff=width + extra)
        if isinstance(self.multiplier, ShiftAddShape):
            resources += self.multiplier.cost()
        elif self.multiplier is not None:
            resources += technology.multipliers_cost(**self.multiplier) + self.parts_cost(factor)
            resources += Resources(ff=extra * self.multiply_latency)
        return resources

    def parts_cost(self, factor: int) -> Resources:
        """The cost of what joins the products of parts; `factor` bits of the factor come from a ROM."""
        ranges, resources = self.ranges, Resources()
        part_bits = min(ranges.factor_bits, FACTOR_PART)
        joined = ranges.product_shape.width if not self.factor_split else ranges.sum_shape.width + part_bits
        if self.split:
            groups = 2 if self.factor_split and self.passes == 1 else 1
            resources += Resources(lut=groups * (joined - LOW_PART), ff=groups * joined)
        if self.sum_passes == 2:
            waits = 0 if self.factor_split else factor
            resources += Resources(lut=OPERAND, ff=waits + part_bits + 2 * OPERAND)
        if self.factor_split:
            resources += Resources(lut=ranges.product_shape.width - FACTOR_PART, ff=ranges.product_shape.width)
        if self.factor_passes == 2:
            resources += Resources(lut=FACTOR_PART if factor else 0, ff=FACTOR_PART + self.sum_passes * joined)
            resources += Resources(ff=ranges.sum_shape.width if self.sum_passes == 1 else 0)
        return resources


def factor_parts(ranges: RequantizerRanges) -> int:
    """Operands of multiplier blocks that hold a factor."""
    return -(-ranges.factor_bits // FACTOR_PART)
