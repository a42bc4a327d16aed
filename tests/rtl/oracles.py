"""Rescaling by its definition, in exact fractions, element by element."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hwflow_rtl.rescale.ranges import RequantizerRounding
from hwflow_rtl.rescale.requantizer import RequantizerConstants

HALF = Fraction(1, 2)
#: Python's round() of a Fraction is half to even.
ROUNDED = {
    RequantizerRounding.HALF_EVEN: round,
    RequantizerRounding.HALF_UP: lambda x: math.floor(x + HALF),
    RequantizerRounding.HALF_DOWN: lambda x: math.ceil(x - HALF),
    RequantizerRounding.FLOOR: math.floor,
    RequantizerRounding.CEIL: math.ceil,
}


def rescaled(value: int, multiplier: int, shift: int, *, zero_point: int = 0, low: int, high: int,
             rounding: RequantizerRounding = RequantizerRounding.HALF_EVEN, outward: int = 0) -> int:
    """`value * multiplier / 2**shift`, moved outward where that is less than a half, rounded, with the zero point,
    clamped."""
    ratio, move = (Fraction(number, 1 << int(shift)) for number in (int(value) * int(multiplier), outward))
    if move < HALF:
        ratio += move if ratio >= 0 else -move
    return min(max(ROUNDED[rounding](ratio) + int(zero_point), low), high)


def requantized(sums: np.ndarray, q: RequantizerConstants, places: np.ndarray | None = None) -> np.ndarray:
    """Sums [..., channels]; `places` has the number of the constant of each, else it is that of the channel."""
    if places is None:
        places = np.arange(sums.shape[-1])
    places, out = np.broadcast_to(places, sums.shape), np.zeros(sums.shape, dtype=np.int64)
    for index, k in np.ndenumerate(places):
        out[index] = rescaled(int(sums[index]) + int(q.bias[k]), q.multiplier[k], q.shift[k],
                              zero_point=q.zero_point, low=q.low, high=q.high, outward=q.outward)
    return out
