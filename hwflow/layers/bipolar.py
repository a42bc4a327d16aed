"""Sums of products of -1 and +1 by counting equal bits: XNOR and population count.

A bit is 1 for +1 and 0 for -1.  A product is +1 where the bits are equal.  If p of n products are +1, then n - p are
-1, and the sum is 2 * p - n (Courbariaux et al., "Binarized Neural Networks", 2016).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]


def pack(values: npt.NDArray[Any], *, rest: int) -> Words:
    """Integers -1 and +1 [n, p] along the first axis as bits of words [words, p]; unused bits hold `rest` (0 or 1)."""
    n, p = values.shape
    bits = np.full((p, -(-n // 64) * 64), rest, np.uint8)
    bits[:, :n] = (values > 0).T
    return np.ascontiguousarray(np.packbits(bits, axis=1).view(np.uint64).T)


def xnor_popcount(weights: Words, x: Words, n: int) -> npt.NDArray[np.int32]:
    """Sums [cout, p] of the products of n bipolar weights [words, cout] with n bipolar elements [words, p].

    Unused bits must be 1 in the one and 0 in the other, so that they are never equal.
    """
    equal = np.zeros((weights.shape[1], x.shape[1]), np.int32)
    for row, column in zip(weights, x, strict=True):
        equal += np.bitwise_count(~(row[:, None] ^ column[None]))
    return 2 * equal - n
