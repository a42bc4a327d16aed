"""From an exact sum to a quantized element: by multiplication and rounding, or by comparison with thresholds."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hwflow.layers.formats import EqualByValue, IntArray

__all__ = ["MAX_SHIFT", "MULTIPLIER_BITS", "Requantize", "Rescale", "Rounding", "Thresholds", "shift_right"]

#: The largest number of significant bits of a requantization multiplier: one port of an 18 x 18 multiplier.
MULTIPLIER_BITS = 18

#: The largest shift: with it, `rest << 1` in `shift_right` still fits int64.
MAX_SHIFT = 62


class Rounding(enum.StrEnum):
    """How the division by a power of two rounds.  Up is towards +infinity, down towards -infinity."""

    HALF_EVEN = "half_even"
    HALF_UP = "half_up"
    HALF_DOWN = "half_down"
    FLOOR = "floor"
    CEIL = "ceil"


@dataclass(frozen=True, eq=False)
class Requantize(EqualByValue):
    """y = clamp(round((a * 2**fraction + bias) * multiplier / 2**shift) + zero_point, low, high), per channel, exactly.

    `bias`, `multiplier` and `shift` are int64 arrays of one entry per output channel; multipliers have at most 18 bits
    and are not negative; shifts are from 0 to 62.  `bias` counts in units of 2**-fraction of the accumulator's: a
    fraction above 0 is for biases that are no multiple of the products' scale.
    """

    bias: IntArray
    multiplier: IntArray
    shift: IntArray
    zero_point: int
    low: int
    high: int
    fraction: int = 0
    rounding: Rounding = Rounding.HALF_EVEN

    def apply(self, accumulator: IntArray) -> IntArray:
        """Requantize `accumulator` of shape [..., channels]."""
        product = ((accumulator << self.fraction) + self.bias) * self.multiplier
        return np.clip(shift_right(product, self.shift, self.rounding) + self.zero_point, self.low, self.high)

    @property
    def whole_bias(self) -> tuple[IntArray, IntArray]:
        """The bias in whole units of the accumulator, rounded down and up."""
        return self.bias >> self.fraction, -(-self.bias >> self.fraction)


@dataclass(frozen=True, eq=False)
class Thresholds(EqualByValue):
    """y = low + (how many of the channel's thresholds are <= a), per channel.

    `values` is int64 [channels, levels], ascending along the levels; equal neighbours are levels that never occur.
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


#: How a layer's sums become elements.
Rescale = Requantize | Thresholds


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
