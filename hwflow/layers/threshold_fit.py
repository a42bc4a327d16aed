"""Thresholds as a multiplication: where the levels of a channel are evenly spaced, a slope and a bias give the same."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hwflow.layers.formats import IntArray, IntFormat
from hwflow.layers.rescale import MAX_SHIFT, MULTIPLIER_BITS, Requantize, Rescale, Thresholds

Floats = npt.NDArray[np.float64]

#: Fractional bits of the bias that are tried: levels that need more are too close to each other to matter.
FRACTIONS = range(9)
#: Steps of the search for the best slope; each leaves two thirds of the range of its logarithm.
STEPS = 100
#: The largest slope is two to this power: many levels for a sum.  The smallest has a level for all sums together.
STEEPEST = 10.0


def as_multiplication(rescale: Rescale, sums: IntFormat) -> Requantize | None:
    """Find what makes elements of sums of format `sums`, as a multiplication; None for thresholds that are none."""
    return as_requantize(rescale, sums) if isinstance(rescale, Thresholds) else rescale


def as_requantize(thresholds: Thresholds, sums: IntFormat) -> Requantize | None:
    """A Requantize that makes the same element of every sum inside `sums`; None where none is found.

    Level i of a channel is reached from sum t on: with a slope s and an offset c, s * t + c must be at least i - 1/2,
    and s * (t - 1) + c less.  The room that is left for c is a concave function of s.  A tie goes to every other level:
    to those that are an even number of steps from the zero point, which may be the lowest level or the one above it.
    """
    if thresholds.low == thresholds.high:
        return None
    return next((found for above in (0, 1) if (found := fitted(thresholds, sums, above)) is not None), None)


def fitted(thresholds: Thresholds, sums: IntFormat, above: int) -> Requantize | None:
    """Fit thresholds as `as_requantize` does, with a zero point so many steps above the lowest level."""
    low, high = thresholds.low, thresholds.high
    ends = np.clip(thresholds.values, sums.low, sums.high + 1)
    slope = best_slope(ends, sums)
    found = np.zeros((3, len(ends)), np.int64)
    left = np.arange(len(ends))  # the channels for which nothing is found yet
    for fraction in FRACTIONS:
        for bits in range(1, MULTIPLIER_BITS + 1):  # the fewest: a slope with few bits is meant to be exact
            tried = candidates(slope[left], bits, ends[left], sums, fraction, above)
            good = same(Requantize(*tried, low + above, low, high, fraction), thresholds.values[left], ends[left], sums)
            found[:, left[good]] = np.stack(tried)[:, good]
            left = left[~good]
            if not left.size:
                return Requantize(found[0], found[1], found[2], low + above, low, high, fraction)
        found[0] <<= 1  # the same in the next fraction
        found[2] += 1
    return None


def candidates(slope: Floats, bits: int, ends: IntArray, sums: IntFormat, fraction: int, above: int,
               ) -> tuple[IntArray, IntArray, IntArray]:
    """Bias, multiplier of so many bits, and shift, next to these slopes: int64[channels] each; `above` of `fitted`."""
    _, exponent = np.frexp(slope)
    shift = np.clip(bits - exponent, 0, MAX_SHIFT - fraction).astype(np.int64)
    multiplier = np.clip(np.rint(np.ldexp(slope, shift)), 1, (1 << MULTIPLIER_BITS) - 1).astype(np.int64)
    least, most = room(ends, np.ldexp(multiplier.astype(np.float64), -shift), sums)
    bias = np.floor(np.ldexp(least + most, fraction - 1) + 0.5).astype(np.int64)
    step = np.rint(np.ldexp(1.0, shift + fraction) / multiplier).astype(np.int64)
    return bias - above * step, multiplier, shift + fraction


def best_slope(ends: IntArray, sums: IntFormat) -> Floats:
    """The slope of each channel that leaves the most room for the bias, float64[channels]."""
    first, last = np.full(len(ends), -3.0 - sums.bits), np.full(len(ends), STEEPEST)
    for _ in range(STEPS):
        third = (last - first) / 3
        left, right = first + third, last - third
        widths = [most - least for least, most in (room(ends, np.exp2(at), sums) for at in (left, right))]
        better = widths[0] > widths[1]
        first, last = np.where(better, first, left), np.where(better, right, last)
    best: Floats = np.exp2((first + last) / 2)
    return best


def room(ends: IntArray, slope: Floats, sums: IntFormat) -> tuple[Floats, Floats]:
    """The least and the most that may be added to a sum, with these slopes: float64[channels] each."""
    targets = (np.arange(ends.shape[1]) + 0.5) / slope[:, None]  # from level i on: sum + bias is at least this
    least = np.where(ends <= sums.high, targets - ends, -np.inf).max(axis=1)
    most = np.where(ends > sums.low, targets - (ends - 1), np.inf).min(axis=1)
    none, every = np.isinf(least), np.isinf(most)
    return np.where(none, most - 1, least), np.where(every, np.where(none, 0, least + 1), most)


def same(found: Requantize, values: IntArray, ends: IntArray, sums: IntFormat) -> npt.NDArray[np.bool_]:
    """In which channels both make the same of all sums: both only rise, so thresholds and ends are enough."""
    corners = np.array([sums.low, sums.high])[:, None] + np.zeros((1, len(ends)), np.int64)
    tried = np.clip(np.concatenate([corners, ends.T, ends.T - 1]), sums.low, sums.high)
    reach = (float(max(-sums.low, sums.high) << found.fraction) + np.abs(found.bias)) * found.multiplier
    equal: npt.NDArray[np.bool_] = (found.apply(tried) == Thresholds(values, found.low).apply(tried)).all(axis=0)
    return equal & (reach < float(1 << MAX_SHIFT))
