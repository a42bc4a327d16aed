"""Activations as integers: the range that is worth its steps, its scale and zero point.

A histogram that widens as rows come in says how often which values occur in a tensor, in bounded memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hwflow.layers.formats import BIPOLAR, IntArray, IntFormat
from hwflow.onnx.model import Array
from hwflow.quantize.scale import activation_parameters
from hwflow.quantize.settings import ActivationSettings, RangeMethod

#: The most bins of a tensor, between its ends and 0; half of them and more are in use.
BINS = 4096

#: The narrowest bin, 2**this: what is closer together than that is one value.
_NARROWEST = -120


class Histogram:
    """Counts of values in bins of width 2**`exponent`, bin k from k * width on; `zeros` are counted apart.

    The bins span 0.  When a value falls outside of what `BINS` bins can span, pairs of them become one.  The result is
    the same as if the final width had been known from the start, so it does not depend on the order of the rows.
    """

    def __init__(self) -> None:
        self.low, self.high = math.inf, -math.inf
        self.zeros = 0
        self.exponent = 0
        self.first = 0
        self.counts: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        #: Ranges that were chosen of these counts, by the settings that asked.
        self.chosen: dict[ActivationSettings, tuple[float, float]] = {}

    @property
    def width(self) -> float:
        return math.ldexp(1.0, self.exponent)

    @property
    def centres(self) -> npt.NDArray[np.float64]:
        """The middle of each bin."""
        return np.asarray((self.first + np.arange(len(self.counts)) + 0.5) * self.width, np.float64)

    def add(self, values: Array) -> None:
        """Count the finite `values`, of any shape and at least one."""
        array = np.asarray(values, np.float64).ravel()
        self.chosen = {}
        self.low, self.high = min(self.low, float(array.min())), max(self.high, float(array.max()))
        some = array[array != 0]
        self.zeros += array.size - some.size
        if not some.size:
            return
        self._widen()
        places = np.floor(some * math.ldexp(1.0, -self.exponent)).astype(np.int64)
        self._span(int(places.min()), int(places.max()))
        self.counts += np.bincount(places - self.first, minlength=len(self.counts))

    def _widen(self) -> None:
        """Make bins just so wide that `BINS` of them hold everything from `low` to `high`, and 0."""
        low, high = min(self.low, 0.0), max(self.high, 0.0)
        if not len(self.counts):
            self.exponent = max(math.frexp((high - low) / BINS)[1] - 2, _NARROWEST)
        while self._bin(high) - self._bin(low) + 1 > BINS:
            self.exponent += 1
            self._halve()

    def _bin(self, value: float) -> int:
        return math.floor(math.ldexp(value, -self.exponent))

    def _halve(self) -> None:
        """Add up the bins 2k and 2k + 1."""
        if not len(self.counts):
            return
        start, end = self.first // 2, (self.first + len(self.counts) - 1) // 2
        padded = np.zeros(2 * (end - start + 1), np.int64)
        padded[self.first - 2 * start :][: len(self.counts)] = self.counts
        self.first, self.counts = start, padded.reshape(-1, 2).sum(axis=1)

    def _span(self, first: int, last: int) -> None:
        """Have bins for `first` to `last`, besides those that are there."""
        if not len(self.counts):
            self.first, self.counts = first, np.zeros(last - first + 1, np.int64)
            return
        ahead = max(0, self.first - first)
        behind = max(0, last - (self.first + len(self.counts) - 1))
        if ahead or behind:
            self.counts = np.pad(self.counts, (ahead, behind))
            self.first -= ahead


@dataclass(frozen=True)
class ActivationForm:
    """One scale and zero point for a tensor; its integers are inside `low` to `high`, a part of `format`."""

    scale: np.float32
    zero_point: int
    format: IntFormat
    low: int
    high: int

    def integers(self, values: npt.NDArray[np.floating[Any]]) -> IntArray:
        """The integers that `values`, of any float type and shape, become: as ONNX's QuantizeLinear, then limited."""
        if self.format.bipolar:
            return np.where(values >= 0, 1, -1).astype(np.int64)
        steps = np.rint(values / values.dtype.type(self.scale)) + self.zero_point  # float32 divides as runtimes do
        result: IntArray = np.clip(steps, self.low, self.high).astype(np.int64)
        return result

    def reals(self, integers: IntArray) -> npt.NDArray[np.float64]:
        """The reals that `integers` mean."""
        return np.asarray((integers - self.zero_point) * float(self.scale), np.float64)


#: The smallest scale: the product with a weight's scale must not be flushed to zero.
_SMALLEST = np.float32(2.0**-60)


def activation_form(low: float, high: float, bits: int = 8, symmetric: bool = False) -> ActivationForm:
    """Integers of `bits` bits (1 to 16) for the reals from `low` to `high`; 0 is always inside and always exact.

    Asymmetric: signed with a zero point, `low` and `high` at the ends.  Symmetric: zero point 0, unsigned where no
    value is negative.  One symmetric bit with negative values is bipolar, -high or +high (or -low, if larger): the one
    form without an exact 0.  A range of nothing but 0 has scale 1.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    if not symmetric:
        return _asymmetric(low, high, IntFormat(bits, signed=True))
    if bits == 1 and low < 0:
        return ActivationForm(_scale(max(-low, high)), 0, BIPOLAR, -1, 1)
    format = IntFormat(bits, signed=low < 0)
    scale = _scale(max(low / format.low if format.low else 0.0, high / format.high))
    return ActivationForm(scale, 0, format, format.low, format.high)


def _asymmetric(low: float, high: float, format: IntFormat) -> ActivationForm:
    if format.bits == 1:  # 0 and the end that is farther away
        upwards = high >= -low
        return ActivationForm(_scale(high if upwards else -low), -1 if upwards else 0, format, -1, 0)
    scale, zero_point = activation_parameters(low, high, format)
    if scale < _SMALLEST:
        scale, zero_point = _SMALLEST, round(format.low - low / float(_SMALLEST))
    return ActivationForm(scale, zero_point, format, format.low, format.high)


def _scale(wish: float) -> np.float32:
    return max(np.float32(wish), _SMALLEST) if wish > 0 else np.float32(1)


# Ranges of activations from the histograms of their values: which outliers are worth their steps.


Floats: TypeAlias = npt.NDArray[np.float64]

#: What values (the middles of bins), seen so many times each, lose in a form.
Cost: TypeAlias = Callable[[Floats, Floats, ActivationForm], float]

#: Shares of the ends of the range that searches try, coarse first and then around the best.
_COARSE, _FINE, _LEAST = 24, 9, 0.02

#: The share of values that entropy may clip.  Where few different values were seen, divergence alone would clip all.
_CLIPPED = 0.02


def resolved_method(settings: ActivationSettings) -> RangeMethod:
    """The method that automatic means, by the accuracies of docs/quantization.md.

    From 7 bits on the whole range: no method is better on all networks, and clipping costs 6 dB on one.  At 6 bits the
    smallest squared error.  At 5 and 4 entropy, which lets go of few large values that squares hold on to: keyword
    spotting keeps 90 instead of 77 of 92 % at 5 bits, 74 instead of 40 at 4.  Below, squared error again.
    """
    if settings.method is not RangeMethod.AUTO:
        return settings.method
    if settings.bits >= 7:
        return RangeMethod.MINMAX
    return RangeMethod.ENTROPY if settings.bits in (4, 5) else RangeMethod.MSE


def choose_range(seen: Histogram, settings: ActivationSettings) -> tuple[float, float]:
    """The range of values that integers should cover; `settings.range`, where it is set, is that range.

    minmax: all that was seen.  percentile: so that `percentile` % of the absolute values are inside.  mse: the smallest
    mean squared error of integers that cover it.  entropy: the smallest Kullback-Leibler divergence of the distribution
    after quantization from the one before (Migacz, 8-bit inference with TensorRT, GTC 2017).  learned: where learning
    begins, what automatic means.
    """
    if settings.range is not None:
        return settings.range
    if settings not in seen.chosen:
        seen.chosen[settings] = _chosen_range(seen, settings)
    return seen.chosen[settings]


def _chosen_range(seen: Histogram, settings: ActivationSettings) -> tuple[float, float]:
    if settings.method is RangeMethod.LEARNED:
        settings = replace(settings, method=RangeMethod.AUTO)
    low, high = min(seen.low, 0.0), max(seen.high, 0.0)
    method = resolved_method(settings)
    if low == high or method is RangeMethod.MINMAX:
        return low, high
    if method is RangeMethod.PERCENTILE:
        limit = _percentile(seen, settings.percentile)
        return max(low, -limit), min(high, limit)
    return _search(seen, low, high, settings, _squared_error if method is RangeMethod.MSE else _divergence)


def _percentile(seen: Histogram, percent: float) -> float:
    """The absolute value that `percent` % of the values do not pass, interpolated inside its bin."""
    places = seen.first + np.arange(len(seen.counts))
    distances = np.where(places >= 0, places, -1 - places)
    counts = np.bincount(distances, weights=seen.counts)
    inside = seen.zeros + np.cumsum(counts)
    rank = percent / 100 * inside[-1]
    bin = min(int(np.searchsorted(inside, rank)), len(counts) - 1)
    before = inside[bin] - counts[bin]
    return float((bin + (rank - before) / max(counts[bin], 1)) * seen.width)


def _search(
    seen: Histogram, low: float, high: float, settings: ActivationSettings, cost: Cost
) -> tuple[float, float]:
    """The ends, as shares of `low` and `high`, with the least `cost`; of equals the widest."""
    values, counts = seen.centres[seen.counts > 0], seen.counts[seen.counts > 0].astype(np.float64)
    best, least = (low, high), np.inf

    def attempt(shares: Iterator[tuple[float, float]]) -> tuple[float, float]:
        nonlocal best, least
        chosen = (1.0, 1.0)
        for a, b in shares:
            form = activation_form(a * low, b * high, settings.bits, settings.symmetric)
            costs = cost(values, counts, form)
            if costs < least:
                best, least, chosen = (a * low, b * high), costs, (a, b)
        return chosen

    coarse = np.linspace(1.0, _LEAST, _COARSE)
    one = settings.symmetric or low == 0 or high == 0
    a, b = attempt(_pairs(coarse, coarse, one))
    step = (1.0 - _LEAST) / (_COARSE - 1)
    around = np.linspace(step, -step, _FINE)
    attempt(_pairs(np.clip(a + around, _LEAST, 1.0), np.clip(b + around, _LEAST, 1.0), one))
    return best


def _pairs(a: Floats, b: Floats, one: bool) -> Iterator[tuple[float, float]]:
    """Shares of both ends: independent of each other, or (`one`) the same."""
    return ((float(x), float(y)) for x, y in (zip(a, b, strict=True) if one else product(a, b)))


def _squared_error(values: Floats, counts: Floats, form: ActivationForm) -> float:
    return float(counts @ np.square(values - form.reals(form.integers(values))))


def _divergence(values: Floats, counts: Floats, form: ActivationForm) -> float:
    """KL(P || Q): P has what was seen, with what is clipped at the ends; Q what is left when levels are all one knows.

    Q spreads the count of a level evenly over its bins in which something was seen, but knows nothing of what is
    clipped: so clipping costs.
    """
    integers = form.integers(values)
    reals = form.reals(integers)
    inside = np.flatnonzero(np.abs(values - reals) <= 0.5 * float(form.scale) * (1 + 1e-9))
    if counts[inside].sum() < (1 - _CLIPPED) * counts.sum():
        return np.inf
    first, last = inside[0], inside[-1]
    covered = counts[first : last + 1]
    p = covered.copy()
    p[0] += counts[:first].sum()
    p[-1] += counts[last + 1 :].sum()
    level = integers[first : last + 1] - form.low
    sums, bins = np.bincount(level, weights=covered), np.bincount(level)
    q = sums[level] / bins[level]
    p, q = p / p.sum(), q / q.sum()
    return float(np.sum(p * np.log(p / q)))
