"""Affine functions of a layer's sums, the exact sums at which their elements change, and multipliers that meet them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hwflow.layers import IntFormat, Requantize
from hwflow.layers.formats import IntArray
from hwflow.layers.rescale import Rounding, Thresholds
from hwflow.quantize.importer.affine_forms import Bound
from hwflow.quantize.settings import DEFAULT_RESCALE_BITS

#: Of more levels not every sum is looked at.
_MOST_LEVELS = 1 << 12


@dataclass(frozen=True)
class Accumulator:
    """The sums of a layer, per channel: from `low` to `high`; `zero` is what the input's zero point adds to them."""

    zero: IntArray
    low: IntArray
    high: IntArray

    @property
    def format(self) -> IntFormat:
        """The narrowest one of all sums."""
        return IntFormat.covering(min(int(self.low.min()), 0), max(int(self.high.max()), 0))

    def turned(self, sign: IntArray) -> Accumulator:
        """With the sums of some channels negated (sign -1) or all zero (sign 0)."""
        ends = np.sort(np.stack([self.low * sign, self.high * sign]), axis=0)
        return Accumulator(self.zero * sign, ends[0], ends[1])


@dataclass(frozen=True)
class Affine:
    """clamp(round(ratio * (a + bias)) + zero_point, low, high) per channel, exactly; ratios are positive.

    `rescale_bits` is what a multiplication is made with (`LayerSettings.rescale_bits`).
    """

    ratio: tuple[Fraction, ...]
    bias: tuple[Fraction, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    zero_point: int
    rounding: Rounding
    rescale_bits: int | None = DEFAULT_RESCALE_BITS


def edges(a: Affine, channel: int, levels: range) -> list[Bound]:
    """The smallest sum that gives each of `levels` or more, exactly, ties included."""
    ratio, bias = a.ratio[channel], a.bias[channel]
    # ratio * (sum + bias) >= k + offset / 2, over one denominator: integers of any size, with no fraction to reduce
    unit, step = 2 * ratio.numerator * bias.denominator, ratio.denominator * bias.denominator
    start = 2 * ratio.numerator * bias.numerator
    offset = {Rounding.FLOOR: 0, Rounding.CEIL: -2}.get(a.rounding, -1)
    found: list[Bound] = []
    for level in levels:
        if not a.low[channel] < level <= a.high[channel]:
            found.append(-math.inf if level <= a.low[channel] else math.inf)
            continue
        k = level - a.zero_point
        inclusive = k % 2 == 0 if a.rounding is Rounding.HALF_EVEN else a.rounding in (Rounding.HALF_UP, Rounding.FLOOR)
        number = (2 * k + offset) * step - start
        found.append(-(-number // unit) if inclusive else number // unit + 1)
    return found


def within(rows: Sequence[Sequence[Bound]], low: int, accumulator: Accumulator) -> Thresholds:
    """Thresholds inside the range of the sums: what is always reached is the lowest, what never is, one too many."""
    ends = zip(accumulator.low.tolist(), accumulator.high.tolist(), strict=True)
    values = [
        [int(min(max(value, bottom), top + 1)) for value in row] for row, (bottom, top) in zip(rows, ends, strict=True)
    ]
    return Thresholds(np.array(values, np.int64).reshape(len(values), -1), low)


def fewest_bits(
    a: Affine, accumulator: Accumulator, made: Callable[[int, IntArray], Requantize], widths: range
) -> Requantize:
    """Per channel the multiplier of the fewest bits that gives the element of `a` for every sum that there can be.

    Where none of `widths` does, the one that is wrong at the fewest levels.  `made(bits, channels)` is the rescaling of
    these channels with multipliers of so many bits.
    """
    low, high = a.low[0], a.high[0]
    channels = np.arange(len(a.ratio))
    if not 0 < high - low <= _MOST_LEVELS:
        return made(widths[-1], channels)
    levels = range(low + 1, high + 1)
    ends = within([edges(a, int(channel), levels) for channel in channels], low, accumulator).values
    found = made(widths[0], channels)
    wrong = _wrong_levels(found, ends, accumulator, channels)
    multiplier, shift = found.multiplier.copy(), found.shift.copy()
    for bits in widths[1:]:
        left = channels[wrong > 0]
        if not left.size:
            break
        tried = made(bits, left)
        count = _wrong_levels(tried, ends, accumulator, left)
        better = count < wrong[left]
        chosen = left[better]
        multiplier[chosen], shift[chosen] = tried.multiplier[better], tried.shift[better]
        wrong[chosen] = count[better]
    return replace(found, multiplier=multiplier, shift=shift)


def _wrong_levels(tried: Requantize, ends: IntArray, accumulator: Accumulator, channels: IntArray) -> IntArray:
    """Levels that `tried`, the rescaling of `channels`, reaches at another sum than `ends` [all channels, levels] say.

    Both only rise with the sum, so the first sum of a level and the one before it are enough.
    """
    ends, low, high = ends[channels], accumulator.low[channels, None], accumulator.high[channels, None]
    levels = tried.low + 1 + np.arange(ends.shape[1])
    at, before = (tried.apply(np.clip(sums, low, high).T).T for sums in (ends, ends - 1))
    missed = (ends <= high) & (at < levels)
    early = (ends > low) & (before >= levels)
    count: IntArray = (missed | early).sum(axis=1)
    return count
