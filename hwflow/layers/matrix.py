"""Exact integer matrix products and their worst cases, shared by convolution and dense layers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import Refusal

from hwflow.layers.formats import IntArray, IntFormat, Tensor

#: Integers up to here are exact in float32 and in float64, in every order of summation.
_FLOAT32, _FLOAT64 = 1 << 24, 1 << 53


def accumulator_format(weights: IntArray, bias: tuple[IntArray, IntArray], x: IntFormat) -> IntFormat:
    """The narrowest format of every partial sum of products, with or without the bias, over all inputs of format `x`.

    `weights` is [cout, ...] and `bias` the lower and upper ends [cout] of what is added.  A partial sum is the sum of
    the products of any subset of the taps, so the most negative one takes all the negative products at their worst and
    none of the positive ones.  ValueError where sums could reach 2**53: floating-point products would not be exact.
    """
    flat = weights.reshape(weights.shape[0], -1)
    reach = np.abs(flat.astype(np.float64)).sum(axis=1) * max(-x.low, x.high)
    reach += np.abs(np.stack(bias).astype(np.float64)).max(axis=0)
    if reach.max() >= _FLOAT64:
        raise ValueError(f"sums of products with {x} must stay below 2**53 in magnitude, not reach {reach.max():.3g}")
    at_low, at_high = flat * x.low, flat * x.high
    lowest = np.minimum(np.minimum(at_low, at_high), 0).sum(axis=1)
    highest = np.maximum(np.maximum(at_low, at_high), 0).sum(axis=1)
    low = int((lowest + np.minimum(bias[0], 0)).min())
    high = int((highest + np.maximum(bias[1], 0)).max())
    return IntFormat.covering(low, high)


def exact_type(accumulator: IntFormat) -> np.dtype[Any]:
    """The floating-point type in which matrix products (BLAS) with sums inside `accumulator` are exact.

    Every partial sum is inside `accumulator`, whatever the order, so it is an integer that the type holds.
    """
    reach = max(-accumulator.low, accumulator.high)
    return np.dtype(np.float32 if reach <= _FLOAT32 else np.float64)


def require(what: str, values: npt.NDArray[Any], format: IntFormat) -> None:
    """Raise ValueError where `values` leave `format`; `what` names them."""
    if not format.contains(values):
        low, high = int(values.min()), int(values.max())
        raise ValueError(f"{what} must be inside {format} ({format.low} to {format.high}), not {low} to {high}")


@contextmanager
def errors_of(layer: str) -> Iterator[None]:
    """ValueError from inside names the layer."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"layer '{layer}': {error}") from None


def check_padding(layer: str, pads: tuple[int, int, int, int], x: Tensor) -> None:
    """ValueError where there is padding but no integer of the input that means zero to pad with."""
    if any(pads) and not x.format.contains(np.array(x.zero_point)):
        why = "whose integers are -1 and +1" if x.format.bipolar else f"{x.format.low} to {x.format.high}"
        raise Refusal(
            f"layer '{layer}': input '{x.name}' is {x.format}, {why}: there is no zero ({x.zero_point}) to pad with",
            "use a layer without padding"
        )
