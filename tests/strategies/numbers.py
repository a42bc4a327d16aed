"""Random number formats, and constants fitted to the integers that really come, so that no tensor is all the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hwflow.layers.formats import BIPOLAR, IntArray, IntFormat
from hwflow.layers.rescale import Requantize, Rescale, Rounding, Thresholds

#: numpy's generator, or `drawing.Drawing`.
Rng = Any

#: Far outside of every sum.
NEVER = 1 << 40


@dataclass(frozen=True)
class Elements:
    """What a layer is asked to make: format and zero point."""

    format: IntFormat
    zero_point: int


def any_format(rng: Rng, *, bipolar: bool = True, most_bits: int = 8) -> IntFormat:
    """Of 1 to `most_bits` bits; the ends, which are used most, more often than the others."""
    if bipolar and rng.random() < 0.1:
        return BIPOLAR
    bits = int(rng.integers(1, most_bits + 1)) if rng.random() < 0.6 else int(rng.choice([most_bits, 4]))
    return IntFormat(bits, bool(rng.integers(2)))


def any_zero_point(rng: Rng, format: IntFormat) -> int:
    """An integer of the format: one of its ends, its middle, or any.  0 for bipolar elements."""
    if format.bipolar:
        return 0
    usual = [format.low, format.high, (format.low + format.high + 1) // 2, max(format.low, 0)]
    return int(rng.choice(usual)) if rng.random() < 0.6 else int(rng.integers(format.low, format.high + 1))


def integers(rng: Rng, format: IntFormat, shape: tuple[int, ...]) -> IntArray:
    """Any integers of the format."""
    count = (format.high - format.low) // format.step + 1
    return format.low + format.step * rng.integers(0, count, shape)


def spread(values: IntArray) -> float:
    """How far `values` reach, at least 1."""
    return max(1.0, float(np.std(values)) * 2)


def factor(rng: Rng, ratio: float, shift: int) -> int:
    """About ratio * 2**shift, never 0: a power of two, or a number of a few, of 18 or of 26 significant bits."""
    exponent = np.log2(ratio) + shift
    bits = int(rng.choice([1, 3, 8, 18, 26]))
    mantissa = int(rng.integers(1 << (bits - 1), 1 << bits))
    return max(1, mantissa << max(0, round(exponent) - bits + 1) if exponent >= bits - 1
               else round(mantissa * 2.0 ** (exponent - bits + 1)))


def rescale(rng: Rng, sums: IntArray, y: IntFormat, zero_point: int) -> Rescale:
    """From sums like those of `sums` [..., channels] to elements of `y`: by multiplication or by thresholds."""
    sums = sums.reshape(-1, sums.shape[-1])
    if y.bipolar:
        return Thresholds(np.repeat(quantiles(rng, sums, 1), 2, axis=1), -1)
    if y.high - y.low <= 255 and rng.random() < 0.3:
        return thresholds(rng, sums, y)
    return requantize(rng, sums, y, zero_point)


def quantiles(rng: Rng, sums: IntArray, levels: int) -> IntArray:
    """Ascending levels [channels, levels] among the sums and beside them."""
    low, high = sums.min(axis=0) - 2, sums.max(axis=0) + 3
    values = rng.integers(low[:, None], high[:, None], (sums.shape[1], levels))
    return np.sort(values, axis=1)


def thresholds(rng: Rng, sums: IntArray, y: IntFormat) -> Thresholds:
    """Some levels coincide, some are never reached, some always."""
    most = y.high - y.low
    levels = most if rng.random() < 0.5 else int(rng.integers(1, most + 1))
    values = quantiles(rng, sums, levels)
    if rng.random() < 0.3:
        values[::2, : levels // 4] = -NEVER
        values[1::2, levels - levels // 4 :] = NEVER
    return Thresholds(values, y.low + int(rng.integers(0, most - levels + 1)))


def requantize(rng: Rng, sums: IntArray, y: IntFormat, zero_point: int) -> Requantize:
    """Ratios that bring the sums about into the range of `y`; a multiplier of 0 and powers of two are among them."""
    channels, fraction = sums.shape[1], int(rng.choice([0, 0, 0, 1, 4]))
    middle, reach = np.median(sums, axis=0).astype(np.int64), np.maximum(1, 2 * sums.std(axis=0))
    ratio = (y.high - y.low) / 2 / reach * rng.uniform(0.4, 2.5, channels)
    bits = int(rng.choice([1, 6, 18, 26 if np.abs(sums).max() < 1 << 26 else 18]))
    multiplier = rng.integers(1 << (bits - 1), 1 << bits, channels)
    shift = np.clip(np.round(np.log2(multiplier / ratio)), 0, 50).astype(np.int64)
    centre = (y.low + y.high) // 2 - zero_point  # what the middle of the sums shall become
    bias = np.round((centre / ratio - middle) * 2**fraction).astype(np.int64)
    if fraction:
        bias += rng.integers(0, 1 << fraction, channels)
    multiplier[rng.random(channels) < 0.03] = 0
    low = zero_point if rng.random() < 0.3 and zero_point < y.high else y.low
    high = y.high if rng.random() < 0.8 else int(rng.integers(low + 1, y.high + 1))
    return Requantize(bias, multiplier.astype(np.int64), shift + fraction, zero_point, low, high, fraction,
                      list(Rounding)[int(rng.integers(len(Rounding)))] if rng.random() < 0.4 else Rounding.HALF_EVEN)
