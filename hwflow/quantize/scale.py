"""From real scales to integers: fixed-point ratios, and the scale and zero point of a range of values."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from hwflow.layers.formats import IntArray, IntFormat
from hwflow.layers.rescale import BLOCK_BITS, MAX_PRODUCT, MAX_SHIFT, MULTIPLIER_BITS

#: The smallest normal float32: runtimes may flush scales below it, and products of scales, to zero.
SMALLEST_NORMAL = float(np.finfo(np.float32).tiny)


def fixed_point(ratio: Fraction, bits: int = BLOCK_BITS) -> tuple[int, int]:
    """(multiplier, shift) with multiplier / 2**shift nearest to `ratio` among multipliers of so many significant bits.

    The pair is in lowest terms, so a power of two has multiplier 1 (or shift 0).  A ratio whose shift would pass 62 has
    fewer bits.  One that is so small that it would with 18 turns every accumulator below 2**43 into 0; it becomes
    (0, 0), which does the same.

    ValueError: `ratio` is not positive, or 2**18 and more.
    """
    if ratio <= 0:
        raise ValueError(f"a ratio of scales must be positive, not {float(ratio)}")
    exponent = ratio.numerator.bit_length() - ratio.denominator.bit_length()
    if ratio < Fraction(2) ** exponent:
        exponent -= 1
    if exponent >= BLOCK_BITS:
        raise ValueError(f"a ratio of scales must be below 2**{BLOCK_BITS}, not {float(ratio)}")
    bits = max(BLOCK_BITS, min(bits, MAX_SHIFT + 1 + exponent))
    shift = bits - 1 - exponent  # with 18 bits: 2**17 <= ratio * 2**shift < 2**18
    multiplier = round(ratio * 2**shift)  # half to even; 2**18 is possible and reduces to a power of two
    while shift > 0 and multiplier % 2 == 0:
        multiplier, shift = multiplier // 2, shift - 1
    if multiplier.bit_length() > bits:
        raise ValueError(f"a ratio of scales must be below 2**{BLOCK_BITS}, not {float(ratio)}")
    return (multiplier, shift) if shift <= MAX_SHIFT else (0, 0)


def widest_multiplier(sums: int) -> int:
    """The bits that a multiplier may have at most, from 18 to 32, where it meets sums of up to this magnitude.

    Below 18 bits, sums are refused when the layer is checked.
    """
    return min(max(MAX_PRODUCT.bit_length() - 1 - sums.bit_length(), BLOCK_BITS), MULTIPLIER_BITS)


def fixed_points(ratios: Sequence[Fraction], bits: int = BLOCK_BITS) -> tuple[IntArray, IntArray]:
    """Multipliers and shifts of many ratios, as two int64 arrays."""
    pairs = [fixed_point(ratio, bits) for ratio in ratios]
    return np.array([m for m, _ in pairs], np.int64), np.array([k for _, k in pairs], np.int64)


def activation_parameters(low: float, high: float, format: IntFormat) -> tuple[np.float32, int]:
    """Scale and zero point that map the reals from `low` to `high` onto all of `format`.

    0 is always inside the range and always exact, because padding is 0.  A range of nothing but 0 has scale 1.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    scale = np.float32((high - low) / (format.high - format.low))
    if not scale > 0:
        return np.float32(1), format.low
    zero_point = round(format.low - low / float(scale))
    return scale, min(max(zero_point, format.low), format.high)
