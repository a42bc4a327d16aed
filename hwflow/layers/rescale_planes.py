"""`Rescale.apply` for planes: the same integers, with arithmetic that numpy and the processor do quickly.

A comment at each shortcut says why it is exact; where that reason does not hold, `apply` itself is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from hwflow.layers.formats import IntFormat
from hwflow.layers.planes import Planes, compact
from hwflow.layers.rescale import Requantize, Rescale, Rounding, Thresholds

#: Integers below are exact in float64.
_EXACT = 1 << 53

#: Elements that are rescaled at once: their float64 fit the cache.
_BLOCK = 1 << 16

#: Up to this number, comparing all thresholds one after the other is quicker than a search.
_FEW = 24

#: A count of few thresholds and a start up to here stay inside int8.
_SMALL = 100

Floats = npt.NDArray[np.float64]


class PlanesRescaler:
    """`rescale.apply` for sums [channels, ...] of type `sums`, which hold integers inside `accumulator`."""

    def __init__(self, rescale: Rescale, accumulator: IntFormat, sums: npt.DTypeLike, output: IntFormat):
        self.dtype = compact(output)
        self._convert = _converter(rescale, accumulator, np.dtype(sums))

    def __call__(self, sums: npt.NDArray[Any]) -> Planes:
        """The elements of `sums`, in the narrowest type that holds the output."""
        flat = sums.reshape(len(sums), math.prod(sums.shape[1:]))
        made = np.empty(flat.shape, self.dtype)
        step = max(1, _BLOCK // max(len(flat), 1))
        for first in range(0, flat.shape[1], step):
            made[:, first : first + step] = self._convert(flat[:, first : first + step])
        return made.reshape(sums.shape)


def _converter(rescale: Rescale, accumulator: IntFormat, sums: np.dtype[Any]) -> Callable[[npt.NDArray[Any]], Planes]:
    """The function of a block [channels, elements]."""
    if isinstance(rescale, Thresholds):
        return _Counter(rescale, accumulator, sums)
    half = 1 << int(rescale.shift.max())
    if 2 * rescale.reach(accumulator) + half < _EXACT:
        return _Scaler(rescale)
    return lambda block: rescale.apply(block.T.astype(np.int64)).T


class _Scaler:
    """Requantization in float64.

    In units of 2**-shift the product is an integer, and with half a unit of the result added still is below 2**53, so
    every step is exact: powers of two move the binary point alone.
    """

    def __init__(self, q: Requantize):
        unit = np.ldexp(1.0, -q.shift)
        self.ratio = (q.multiplier * unit * (1 << q.fraction))[:, None]
        self.offset = (q.bias * q.multiplier * unit)[:, None]
        self.rounding = q.rounding
        self.outward = (q.moves * unit)[:, None] if q.outward else None
        self.low, self.high, self.zero_point = q.low - q.zero_point, q.high - q.zero_point, q.zero_point

    def __call__(self, sums: npt.NDArray[Any]) -> Floats:
        values: Floats = np.multiply(sums, self.ratio, dtype=np.float64)
        values += self.offset
        if self.outward is not None:
            values += np.where(values < 0, -self.outward, self.outward)
        round_exactly(values, self.rounding)
        np.clip(values, self.low, self.high, out=values)
        if self.zero_point:
            values += self.zero_point
        return values


class _Counter:
    """Thresholds, limited to one past the ends of the accumulator: no comparison changes, and a float holds them."""

    def __init__(self, t: Thresholds, accumulator: IntFormat, dtype: np.dtype[Any]):
        self.values = np.clip(t.values, accumulator.low, accumulator.high + 1)
        if dtype.kind == "f":
            self.values = self.values.astype(dtype)
        self.low = t.low

    def __call__(self, sums: npt.NDArray[Any]) -> npt.NDArray[Any]:
        levels = self.values.shape[1]
        if levels > _FEW:
            found = [np.searchsorted(ends, row, side="right") for ends, row in zip(self.values, sums, strict=True)]
            return np.stack(found) + self.low
        count = np.zeros(sums.shape, np.int8)
        for level in range(levels):
            count += sums >= self.values[:, level, None]
        return count.astype(np.int64) + self.low if abs(self.low) > _SMALL else count + np.int8(self.low)


def round_exactly(values: Floats, rounding: Rounding) -> None:
    """Round in place.  Halves are added exactly where 2 * |value| and the value's own fraction fit 53 bits."""
    if rounding is Rounding.HALF_EVEN:
        np.rint(values, out=values)
    elif rounding is Rounding.HALF_UP:
        np.floor(np.add(values, 0.5, out=values), out=values)
    elif rounding is Rounding.HALF_DOWN:
        np.ceil(np.subtract(values, 0.5, out=values), out=values)
    else:
        (np.floor if rounding is Rounding.FLOOR else np.ceil)(values, out=values)
