"""The constants of a sum of two tensors: both ratios of scales over one power of two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from hwflow.layers.elementwise import significant_bits
from hwflow.layers.formats import IntArray, Tensor
from hwflow.layers.rescale import BLOCK_BITS, MAX_SHIFT, MULTIPLIER_BITS, shift_right
from hwflow.quantize.scale import fixed_point

#: Multipliers stay below 2 to the power of this and the bits that they have more than 18, ...
_WIDEST = 34
#: ... and products below 2 to the power of this: their exact sum stays inside int64.
_PRODUCT = 60

#: One part in 2 to the power of this is what the rounding of a multiplier of 18 bits may move a result by, of a step.
_SUM_ERROR = 10

#: Of pairs of operands with more bits not every sum is looked at.
_MOST_BITS = 16


def common_ratio(
    ratios: Sequence[Fraction], xs: Sequence[Tensor], ends: tuple[int, int], bits: int | None
) -> tuple[tuple[int, int], int]:
    """The multipliers of two tensors with these `ratios`, of up to so many significant bits, and the shift of both.

    `ends` are those of the result without its zero point.  Without `bits` they are the fewest with which all pairs of
    integers give the element of the exact sum, or as many pairs as can be; the most, where there are too many pairs.
    """
    width = max(x.format.bits for x in xs)
    if bits is not None:
        return _common(ratios, width, bits)
    if sum(x.format.bits for x in xs) > _MOST_BITS:
        return _common(ratios, width, MULTIPLIER_BITS)
    a, b = (np.arange(x.format.low, x.format.high + 1, x.format.step, dtype=np.int64) - x.zero_point for x in xs)
    exact, best, least = np.clip(_exactly(ratios, a, b), *ends), None, a.size * b.size + 1
    for most in range(BLOCK_BITS, MULTIPLIER_BITS + 1):
        pair, shift = _common(ratios, width, most)
        results = shift_right(np.add.outer(pair[0] * a, pair[1] * b), np.asarray(shift, np.int64))
        wrong = int(np.count_nonzero(np.clip(results, *ends) != exact))
        if wrong < least:
            best, least = (pair, shift), wrong
        if not wrong:
            break
    assert best is not None
    return best


def _exactly(ratios: Sequence[Fraction], a: IntArray, b: IntArray) -> IntArray:
    """Every sum of an element of `a` and one of `b`, rounded half to even: int64 [a, b]."""
    whole = math.lcm(*(ratio.denominator for ratio in ratios))
    first, second = (
        np.array([int(ratio * whole) * value for value in values.tolist()], object)
        for ratio, values in zip(ratios, (a, b), strict=True)
    )
    total = np.add.outer(first, second)
    floor = total // whole
    twice = 2 * (total - floor * whole)
    up = (twice > whole) | ((twice == whole) & (floor % 2 == 1))
    rounded: IntArray = (floor + up).astype(np.int64)
    return rounded


def _common(ratios: Sequence[Fraction], width: int, bits: int) -> tuple[tuple[int, int], int]:
    """Both ratios over one power of two, with all `bits` of a multiplier where that takes no wide adder.

    The larger one always has them.  The smaller one has them too where the larger one needs fewer (equal scales, powers
    of two); else at least as many as keep the error of operands of `width` bits below `_SUM_ERROR`.
    """
    coarse, fine = sorted(_all_bits(abs(ratio), bits) for ratio in ratios)
    shift, pair = fine, [round(ratio * (1 << fine)) for ratio in ratios]
    more = bits - BLOCK_BITS
    limit = min(_WIDEST + more, _PRODUCT - width)
    if any(significant_bits(m) > bits or abs(m) >> limit for m in pair):
        widest = coarse + limit - bits
        shift = max(coarse, min(fine, widest, width + _SUM_ERROR + more))
        pair = [_nearest(ratio, shift, bits) for ratio in ratios]
    while shift > 0 and all(m % 2 == 0 for m in pair):
        pair, shift = [m // 2 for m in pair], shift - 1
    return (pair[0], pair[1]), shift


def _all_bits(ratio: Fraction, bits: int) -> int:
    """The shift that gives `ratio` all the bits of a multiplier."""
    multiplier, shift = fixed_point(ratio, bits)
    return min(shift + bits - multiplier.bit_length(), MAX_SHIFT)


def _nearest(ratio: Fraction, shift: int, bits: int) -> int:
    """ratio * 2**shift, to the bits that a multiplier has."""
    own = min(_all_bits(abs(ratio), bits), shift)
    return round(ratio * (1 << own)) << (shift - own)
