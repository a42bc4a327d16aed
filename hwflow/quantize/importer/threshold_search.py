"""Thresholds of any monotonous function of an accumulator, found by bisection of the function itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import Refusal

from hwflow.layers.formats import IntArray
from hwflow.layers.rescale import Thresholds
from hwflow.quantize.importer.affine_forms import Form
from hwflow.quantize.importer.choose_rescale import MAX_LEVELS, Accumulator
from hwflow.quantize.importer.states import Parameters
from hwflow.quantize.importer.steps import Function

#: The most sums of each channel that are tried to see whether a function is monotonous: all of them, or this many that
#: are evenly spread and as many near the sum whose real value is 0.
_SAMPLES = 4096

#: Steps outside every format; saturates them before the conversion to integers.
FAR = 2.0**40


class Turns(Refusal):
    """Raised for a function that rises and falls over the sums."""


class Levels(ValueError):
    """Raised for a function with more levels than thresholds are for."""


def quantized(values: npt.NDArray[np.float64], p: Parameters) -> IntArray:
    """The integers that a QuantizeLinear (with the Clip after it) makes of values: ONNX divides in float32."""
    with np.errstate(all="ignore"):
        steps = np.rint(np.clip(np.nan_to_num(values.astype(np.float32) / np.float32(p.scale)), -FAR, FAR))
    result: IntArray = np.clip(steps.astype(np.int64) + p.zero_point, p.low, p.high)
    return result


def search(start: Form, sums: Accumulator, function: Function, p: Parameters) -> tuple[IntArray, Thresholds]:
    """Thresholds of `function` of an accumulator of the form `start`; and -1 for channels that must be negated.

    ValueError where the function goes up and down, or has too many levels.
    """
    unit = np.array([float(u) for u in start.unit])
    offset = np.array([float(o) for o in start.offset])

    def results(a: IntArray, sign: IntArray) -> IntArray:
        """Levels of sums [n, channels], negated where `sign` is -1."""
        reals = (unit * (a * sign - sums.zero + start.whole) + offset).astype(np.float32)
        return quantized(function(reals), p)

    ones = np.ones(len(unit), np.int64)
    sign = _directions(_samples(start, sums), lambda a: results(a, ones))
    turned = sums.turned(sign)
    ends = results(np.stack([turned.low, turned.high]), sign)
    low, high = int(ends[0].min()), int(ends[1].max())
    if high - low > MAX_LEVELS:
        raise Levels(f"a function after a layer must have at most {MAX_LEVELS + 1} levels, not {high - low + 1}")
    if high == low:  # a constant needs a level, reached by all or by none
        low, high = (low, low + 1) if low < p.high else (low - 1, low)
    if p.format.bipolar:
        low, high = p.low, p.high
    levels = np.arange(low + 1, high + 1)[:, None]
    return sign, Thresholds(_bisect(levels, turned, lambda a: results(a, sign)), low)


def _samples(start: Form, sums: Accumulator) -> IntArray:
    """Sums [n, channels], ascending in each channel."""
    width = int((sums.high - sums.low).max())
    count = min(width + 1, _SAMPLES)
    spread = sums.low + np.rint(np.linspace(0, 1, count)[:, None] * (sums.high - sums.low)).astype(np.int64)
    if count == width + 1:
        return np.sort(spread, axis=0)
    zero = np.array(
        [int(z - w - round(o / u)) if u else 0 for z, w, o, u in
         zip(sums.zero.tolist(), start.whole.tolist(), start.offset, start.unit, strict=True)], object
    )  # fmt: skip
    middle = np.clip(zero, sums.low.astype(object), sums.high.astype(object)).astype(np.int64)
    steps = np.unique(np.rint(np.geomspace(1, width + 1, _SAMPLES // 2)).astype(np.int64))
    around = middle + np.concatenate([-steps, [0], steps])[:, None]
    return np.sort(np.concatenate([spread, np.clip(around, sums.low, sums.high)]), axis=0)


def _directions(a: IntArray, results: Callable[[IntArray], IntArray]) -> IntArray:
    """1 for channels in which the results never fall, -1 where they never rise."""
    change = np.diff(results(a), axis=0)
    rises, falls = (change > 0).any(axis=0), (change < 0).any(axis=0)
    both = np.flatnonzero(rises & falls)
    if len(both):
        raise Turns(
            f"a function after a layer must only rise or only fall over its sums, which it does not in channel "
            f"{both[0]}", "put a QuantizeLinear and DequantizeLinear in front of the function"
        )
    return np.where(falls, -1, 1).astype(np.int64)


def _bisect(levels: IntArray, sums: Accumulator, results: Callable[[IntArray], IntArray]) -> IntArray:
    """The smallest sum of each channel that reaches each of `levels` [levels, 1], or one more than there are."""
    low = np.broadcast_to(sums.low, (len(levels), len(sums.low))).copy()
    high = np.broadcast_to(sums.high + 1, low.shape).copy()
    while np.any(low < high):
        middle = (low + high) >> 1
        reached = results(np.minimum(middle, sums.high)) >= levels
        reached |= middle > sums.high
        high = np.where(reached, middle, high)
        low = np.where(reached, low, np.minimum(middle + 1, high))
    return np.ascontiguousarray(low.T)
