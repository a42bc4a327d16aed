"""From an exact sum to a quantized element: by multiplication and rounding, or by comparison with thresholds."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hwflow.layers.formats import EqualByValue, IntArray, IntFormat

#: The largest number of significant bits of a requantization multiplier.
MULTIPLIER_BITS = 32

#: Bits of a multiplier that one port of an 18 x 18 multiplier block takes.
BLOCK_BITS = 18

#: Products of a sum with its bias and a multiplier stay below this.
MAX_PRODUCT = 1 << 62

#: The largest shift: with it, `rest << 1` in `shift_right` still fits int64.
MAX_SHIFT = 62

#: Zero points stay inside 32 bits.
_WORD = (1 << 31) - 1


class Rounding(enum.StrEnum):
    """How the division by a power of two rounds.  Up is towards +infinity, down towards -infinity."""

    HALF_EVEN = "half_even"
    HALF_UP = "half_up"
    HALF_DOWN = "half_down"
    FLOOR = "floor"
    CEIL = "ceil"


#: To the nearest integer; they differ in ties alone.
NEAREST = (Rounding.HALF_EVEN, Rounding.HALF_UP, Rounding.HALF_DOWN)


@dataclass(frozen=True, eq=False)
class Requantize(EqualByValue):
    """y = clamp(round((a * 2**fraction + bias) * multiplier / 2**shift) + zero_point, low, high), per channel, exactly.

    `bias`, `multiplier` and `shift` are int64 arrays of one entry per output channel; multipliers have at most 32 bits
    and are not negative; shifts are from 0 to 62.  `bias` counts in units of 2**-fraction of the accumulator's: a
    fraction above 0 is for biases that are no multiple of the products' scale.

    `outward`, 0 or a power of two, is how far products move away from zero before they are rounded, in channels where
    that is less than half a step of the result: so kernels compute that first round to multiples of 2 * outward, and
    then to a step.  It is for roundings to the nearest integer.
    """

    bias: IntArray
    multiplier: IntArray
    shift: IntArray
    zero_point: int
    low: int
    high: int
    fraction: int = 0
    rounding: Rounding = Rounding.HALF_EVEN
    outward: int = 0

    def apply(self, accumulator: IntArray) -> IntArray:
        """Requantize `accumulator` of shape [..., channels]."""
        product = ((accumulator << self.fraction) + self.bias) * self.multiplier
        if self.outward:
            product = np.where(product < 0, product - self.moves, product + self.moves)
        return np.clip(shift_right(product, self.shift, self.rounding) + self.zero_point, self.low, self.high)

    @property
    def moves(self) -> IntArray:
        """By how much products of each channel move away from zero."""
        return np.where(self.shift > self.outward.bit_length(), self.outward, 0)

    @property
    def whole_bias(self) -> tuple[IntArray, IntArray]:
        """The bias in whole units of the accumulator, rounded down and up."""
        return self.bias >> self.fraction, -(-self.bias >> self.fraction)

    @property
    def bias_ends(self) -> tuple[int, int]:
        """The lowest and the highest bias that the hardware must hold."""
        return int(self.bias.min()), int(self.bias.max())

    def reach(self, accumulator: IntFormat) -> int:
        """No product (a * 2**fraction + bias) * multiplier is larger in magnitude, for `a` inside `accumulator`."""
        return largest_sum(accumulator, self.bias, self.fraction) * int(self.multiplier.max()) + self.outward

    def check(self, channels: int, accumulator: IntFormat, output: IntFormat) -> None:
        """ValueError where the fields contradict each other or the formats around them, or int64 could overflow."""
        for name in ("bias", "multiplier", "shift"):
            values = getattr(self, name)
            if values.dtype != np.int64 or values.shape != (channels,):
                raise ValueError(f"{name} must be int64 [{channels}], not {values.dtype} {list(values.shape)}")
        _inside("multipliers", self.multiplier, 0, (1 << MULTIPLIER_BITS) - 1)
        _inside("shifts", self.shift, 0, MAX_SHIFT)
        _inside("the fraction", self.fraction, 0, MAX_SHIFT)
        _inside("the zero point", self.zero_point, -_WORD, _WORD)
        _inside("outward", self.outward, 0, 1 << MAX_SHIFT)
        if self.outward & (self.outward - 1):
            raise ValueError(f"outward must be 0 or a power of two, not {self.outward}")
        if self.outward and self.rounding not in NEAREST:
            raise ValueError(f"the rounding must be to the nearest integer where products move, not {self.rounding}")
        if self.reach(accumulator) >= MAX_PRODUCT:
            raise ValueError(f"products of {accumulator} with the multipliers must stay below 2**62")
        _check_ends(self.low, self.high, output)
        if output.bipolar:
            raise ValueError("a bipolar output must be made by thresholds, not by rounding, which gives 0")


@dataclass(frozen=True, eq=False)
class Thresholds(EqualByValue):
    """y = low + (how many of the channel's thresholds are <= a), per channel.

    `values` is int64 [channels, levels], ascending along the levels; equal neighbours are levels that never occur.  A
    bipolar output (-1 or +1) has two equal levels and `low` -1.
    """

    values: IntArray
    low: int

    @property
    def high(self) -> int:
        return self.low + int(self.values.shape[1])

    def apply(self, accumulator: IntArray) -> IntArray:
        """Compare `accumulator` of shape [..., channels]."""
        found = np.empty_like(accumulator)
        for channel, ends in enumerate(self.values):
            found[..., channel] = np.searchsorted(ends, accumulator[..., channel], side="right")
        return found + self.low

    @property
    def whole_bias(self) -> tuple[IntArray, IntArray]:
        """Nothing is added to the accumulator."""
        zero = np.zeros(len(self.values), np.int64)
        return zero, zero

    def check(self, channels: int, accumulator: IntFormat, output: IntFormat) -> None:
        """ValueError where the fields contradict each other or the formats around them."""
        values = self.values
        if values.dtype != np.int64 or values.ndim != 2 or len(values) != channels:
            raise ValueError(f"thresholds must be int64 [{channels}, levels], not {values.dtype} {list(values.shape)}")
        if (values[:, 1:] < values[:, :-1]).any():
            raise ValueError("thresholds must ascend along the levels")
        _check_ends(self.low, self.high, output)
        if output.bipolar and not (values.shape[1] == 2 and (values[:, 0] == values[:, 1]).all()):
            raise ValueError("a bipolar output must have two equal thresholds for each channel")


@dataclass(frozen=True, eq=False)
class RoomyRequantize(Requantize):
    """A Requantize whose hardware has room for other constants, in sums of the format `room`.

    `factor_bits`, `base` and `extra` are those of the hardware's form
    (`hwflow_rtl.rescale.requantizer.RequantizerRoom`); biases have the bits of `room` and `fraction`.
    """

    room: IntFormat = field(kw_only=True)
    factor_bits: int = field(kw_only=True)
    base: int = field(kw_only=True)
    extra: int = field(kw_only=True)

    @property
    def bias_ends(self) -> tuple[int, int]:
        return self.room.low << self.fraction, ((self.room.high + 1) << self.fraction) - 1


@dataclass(frozen=True, eq=False)
class RoomyThresholds(Thresholds):
    """Thresholds whose hardware has room for other ones, in sums of the format `room`."""

    room: IntFormat = field(kw_only=True)


def accumulator_of(rescale: Requantize | Thresholds, needed: IntFormat) -> IntFormat:
    """The format of the sums that `rescale` takes: `needed`, or the one that there is room for.

    ValueError where that is too narrow.
    """
    if not isinstance(rescale, RoomyRequantize | RoomyThresholds):
        return needed
    if not rescale.room.contains(np.array([needed.low, needed.high])):
        raise ValueError(f"sums must be inside {rescale.room}, not {needed}: {rescale.room.low} to "
                         f"{rescale.room.high}, not {needed.low} to {needed.high}")
    return rescale.room


def largest_sum(accumulator: IntFormat, bias: IntArray, fraction: int) -> int:
    """No a * 2**fraction + bias is larger in magnitude, for `a` inside `accumulator`."""
    ends = abs(int(bias.min())), abs(int(bias.max()))
    return (max(-accumulator.low, accumulator.high) << fraction) + max(ends)


#: How a layer's sums become elements.
Rescale = Requantize | Thresholds


def _inside(what: str, values: IntArray | int, low: int, high: int) -> None:
    if np.any(np.less(values, low)) or np.any(np.greater(values, high)):
        raise ValueError(f"{what} must be from {low} to {high}, not {np.min(values)} to {np.max(values)}")


def _check_ends(low: int, high: int, output: IntFormat) -> None:
    """`low` and `high` are what a rescale can give at most."""
    if not output.low <= low <= high <= output.high:
        raise ValueError(f"the output must be inside {output} ({output.low} to {output.high}), not {low} to {high}")


def shift_right(value: IntArray, shift: IntArray, rounding: Rounding = Rounding.HALF_EVEN) -> IntArray:
    """value / 2**shift, rounded to an integer.  All int64, no intermediate overflow."""
    floor = value >> shift
    rest = value - (floor << shift)
    result: IntArray = floor + _up(rounding, floor, rest, np.int64(1) << shift)
    return result


def _up(rounding: Rounding, floor: IntArray, rest: IntArray, unit: IntArray) -> npt.NDArray[np.bool_]:
    """Whether floor + rest / unit becomes floor + 1."""
    twice = rest << 1
    up = {
        Rounding.HALF_EVEN: (twice > unit) | ((twice == unit) & ((floor & 1) == 1)),
        Rounding.HALF_UP: (twice >= unit) & (rest > 0),
        Rounding.HALF_DOWN: twice > unit,
        Rounding.FLOOR: np.zeros(rest.shape, bool),
        Rounding.CEIL: rest > 0,
    }
    return np.asarray(up[rounding], bool)
