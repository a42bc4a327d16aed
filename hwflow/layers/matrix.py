"""Exact integer matrix products and their worst cases, shared by convolution and dense layers."""

from __future__ import annotations

import numpy as np

from hwflow.layers.formats import IntArray, IntFormat

__all__ = ["accumulator_format", "multiply", "require"]

#: Integers up to here are exact in float64, in every order of summation.
_EXACT = 1 << 53


def accumulator_format(weights: IntArray, bias: tuple[IntArray, IntArray], x: IntFormat) -> IntFormat:
    """The narrowest format of every partial sum of products, with or without the bias, over all inputs of format `x`.

    `weights` is [cout, ...] and `bias` the lower and upper ends [cout] of what is added.  A partial sum is the sum of
    the products of any subset of the taps, so the most negative one takes all the negative products at their worst and
    none of the positive ones.
    """
    flat = weights.reshape(weights.shape[0], -1)
    at_low, at_high = flat * x.low, flat * x.high
    lowest = np.minimum(np.minimum(at_low, at_high), 0).sum(axis=1)
    highest = np.maximum(np.maximum(at_low, at_high), 0).sum(axis=1)
    low = int((lowest + np.minimum(bias[0], 0)).min())
    high = int((highest + np.maximum(bias[1], 0)).max())
    return IntFormat.covering(low, high)


def multiply(x: IntArray, weights: IntArray, accumulator: IntFormat) -> IntArray:
    """`x` [..., p, k] times `weights` [..., cout, k] transposed: [..., p, cout], exact.

    The product runs in float64 (BLAS): every partial sum is inside `accumulator`, and integers below 2**53 are exact.
    """
    assert max(-accumulator.low, accumulator.high) < _EXACT, f"a product of {accumulator} must stay below 2**53"
    result: IntArray = (x.astype(np.float64) @ np.swapaxes(weights, -1, -2).astype(np.float64)).astype(np.int64)
    return result


def require(what: str, values: IntArray, format: IntFormat) -> None:
    """Raise ValueError where `values` leave `format`; `what` names them."""
    if not format.contains(values):
        low, high = int(values.min()), int(values.max())
        raise ValueError(f"{what} must be inside {format} ({format.low} to {format.high}), not {low} to {high}")
