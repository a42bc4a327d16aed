"""How the elements of a tensor are spread over the integers that it can hold, in the integer model and in reals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hwflow.layers.formats import IntArray, Tensor

#: A histogram has at most so many bins: 4 integers in each of an 8-bit tensor, and a picture's bars stay visible.
MOST_BINS = 64

Reals = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Histogram:
    """Bins of `width` integers each, from `low`, the smallest integer that can stand in the tensor, up to `high`.

    `integers` counts the elements of the integer model by bin.  `reals` counts those of the model in reals by the bin
    of the nearest integer, `below` and `above` those beyond `low` and `high`, which saturate; `smallest` and `largest`
    are their ends in real units.  Of a tensor without a counterpart in reals `reals` is empty, and the ends are None.
    A real value is `scale` * (integer - `zero_point`).
    """

    low: int
    high: int
    width: int
    scale: float
    zero_point: int
    integers: tuple[int, ...]
    reals: tuple[int, ...] = ()
    below: int = 0
    above: int = 0
    smallest: float | None = None
    largest: float | None = None

    @property
    def used(self) -> float:
        """The share of the bins, 0 to 1, that elements of the integer model are in."""
        return sum(count > 0 for count in self.integers) / len(self.integers)


class Tally:
    """Counts the elements of a tensor whose integers go from `low` to `high`."""

    def __init__(self, tensor: Tensor, low: int, high: int) -> None:
        self._tensor, self._low, self._high = tensor, low, high
        self._width = -(-(high - low + 1) // MOST_BINS)
        if tensor.format.bipolar:  # between -1 and +1 is nothing
            self._width = 2
        bins = -(-(high - low + 1) // self._width)
        self._integers, self._reals = np.zeros(bins, np.int64), np.zeros(bins, np.int64)
        self._below = self._above = 0
        self._smallest, self._largest = np.inf, -np.inf

    def add_integers(self, elements: IntArray) -> None:
        """Elements of the integer model, of any shape; all of them can stand in the tensor."""
        self._integers += self._bins(elements)

    def add_reals(self, values: Reals, nearest: Reals) -> None:
        """Elements [n] in reals, and the integer nearest to each, whether the tensor can hold it or not."""
        self._below += int(np.count_nonzero(nearest < self._low))
        self._above += int(np.count_nonzero(nearest > self._high))
        self._reals += self._bins(nearest[(nearest >= self._low) & (nearest <= self._high)].astype(np.int64))
        finite = values[np.isfinite(values)]
        self._smallest = min(self._smallest, float(finite.min(initial=np.inf)))
        self._largest = max(self._largest, float(finite.max(initial=-np.inf)))

    def _bins(self, integers: IntArray) -> npt.NDArray[np.int64]:
        places = (integers.reshape(-1) - self._low) // self._width
        return np.bincount(places, minlength=len(self._integers)).astype(np.int64)

    @property
    def histogram(self) -> Histogram:
        counts = tuple(self._integers.tolist())
        scale, zero = self._tensor.scale, self._tensor.zero_point
        if self._smallest > self._largest:  # no reals came
            return Histogram(self._low, self._high, self._width, scale, zero, counts)
        return Histogram(self._low, self._high, self._width, scale, zero, counts, tuple(self._reals.tolist()),
                         self._below, self._above, self._smallest, self._largest)  # fmt: skip
