"""How often which values occur in a tensor: a histogram that widens as rows come in, in bounded memory."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hwflow.onnx.model import Array

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
