"""What the layers mean, in plain loops over Python integers: slow, and nothing shared with `hwflow.layers`."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def rounded(exact: Fraction, how: str) -> int:
    """`exact` to an integer; up is towards +infinity."""
    floor = exact.numerator // exact.denominator
    rest = exact - floor
    if how == "half_even":
        return round(exact)  # Python rounds a Fraction half to even
    half = Fraction(1, 2)
    return floor + {"half_up": rest >= half, "half_down": rest > half, "floor": False, "ceil": rest > 0}[how]


def clamp(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)


def rescale(q, a: int, c: int) -> int:
    """Accumulator `a` of channel `c` through a Requantize or Thresholds."""
    if hasattr(q, "values"):
        return q.low + sum(1 for level in q.values[c].tolist() if level <= a)
    bias, multiplier, shift = (int(values[c]) for values in (q.bias, q.multiplier, q.shift))
    exact, move = Fraction((a * 2**q.fraction + bias) * multiplier, 2**shift), Fraction(q.outward, 2**shift)
    if move < Fraction(1, 2):
        exact += move if exact >= 0 else -move
    return clamp(rounded(exact, str(q.rounding)) + q.zero_point, q.low, q.high)


def softmax(q, pixel: list[int]) -> list[int]:
    """docs/integer-functions.md, Softmax."""
    powers = [int(q.table[max(pixel) - x]) for x in pixel]
    reciprocal = q.numerator * 2**q.precision // sum(powers)
    return [clamp(round(Fraction(power * reciprocal, 2**q.shift)) + q.zero_point, q.low, q.high) for power in powers]


def normalize(q, pixel: list[int], row: int) -> list[int]:
    """docs/integer-functions.md, normalization: pixel number `row` of the frame."""
    n, p = len(pixel), q.precision
    u = [x - q.center for x in pixel]
    power, least, peak = sum(x * x for x in u), 1, 1
    if q.centred:
        power, least, peak = n * power - sum(u) ** 2, max(n - 1, 1), n - 1
        u = [n * x - sum(pixel) for x in pixel]
    power, least = 4**q.guard * power + q.epsilon, 4**q.guard * least + q.epsilon
    k = -40
    while max(power, least) >= 4 ** (k + 1) * Fraction(2) ** p:
        k += 1
    mantissa = power * Fraction(4) ** -k // 1
    root = min(math.isqrt(8**p // max(mantissa, 1)), 2**p - 1)
    margin = next(j for j in range(99) if peak * (1 + Fraction(1, 4096)) <= 4**j)
    place = p // 2 - 2 + q.guard - margin - k
    normal = [(x * Fraction(2) ** place // 1) * root // 2 ** (p - 1) for x in u]
    gamma, beta = (values[row % len(values)].tolist() for values in (q.gamma, q.beta))
    return [clamp(round(Fraction(z * gamma[j % len(gamma)], 2**q.shift) + Fraction(beta[j % len(beta)], 256))
                  + q.zero_point, q.low, q.high) for j, z in enumerate(normal)]
