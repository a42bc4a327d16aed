"""Exact rounding in Python's integers, which never overflow; nothing shared with `hwflow.layers`."""

from __future__ import annotations

from typing import Any

import numpy as np

Ints = np.ndarray


def round_exactly(numerator: Ints, shift: Any, how: str = "half_even") -> Ints:
    """numerator / 2**shift to integers; both arrays of Python's integers."""
    unit = np.asarray(shift, object)
    unit = np.vectorize(lambda s: 1 << int(s), otypes=[object])(unit)
    floor = numerator // unit
    twice = 2 * (numerator - floor * unit)
    up = {
        "half_even": (twice > unit) | ((twice == unit) & (floor % 2 == 1)),
        "half_up": (twice >= unit), "half_down": twice > unit, "floor": twice < 0, "ceil": twice > 0}[how]
    return floor + up.astype(int)


def rescaled(q: Any, sums: Ints) -> Ints:
    """Sums [..., channels] of raw integers through a Requantize or Thresholds."""
    if hasattr(q, "values"):
        return q.low + (sums[..., None] >= q.values).sum(axis=-1)
    product = (sums.astype(object) * 2 ** int(q.fraction) + q.bias.astype(object)) * q.multiplier.astype(object)
    return np.clip(round_exactly(product, q.shift, str(q.rounding)) + q.zero_point, q.low, q.high).astype(np.int64)
