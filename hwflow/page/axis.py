"""Axes of charts: where a value is, and the ticks with their texts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from .svg import short

__all__ = ["Axis", "Tick"]

#: Parts of a decade that are ticks: of a linear axis as its step, of a logarithmic one where few decades are there.
NICE = (1.0, 2.0, 5.0, 10.0)
#: Most ticks of an axis.
MOST = 8


@dataclass(frozen=True)
class Tick:
    """`share` is where it is between both ends of the axis, from 0 to 1."""

    value: float
    share: float
    text: str


@dataclass(frozen=True)
class Axis:
    """From `low` to `high`; `log` where equal distances are equal ratios."""

    label: str
    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"axis '{self.label}' must go from a number to a larger one, not from {self.low} to "
                             f"{self.high}")
        if self.log and self.low <= 0:
            raise ValueError(f"a logarithmic axis '{self.label}' must begin above 0, not at {self.low}")

    @classmethod
    def of(cls, label: str, values: Iterable[float], *, log: bool = False, zero: bool = True) -> Axis:
        """The axis with room for `values` that ends at ticks.

        It has 0 where `zero`, and it is not logarithmic.  ValueError for a value that is not finite, or not above 0 on
        a logarithmic axis.
        """
        known = [float(value) for value in values] or [1.0]
        if not all(map(math.isfinite, known)):
            raise ValueError(f"values of axis '{label}' must be finite")
        low, high = min(known), max(known)
        if log:
            if low <= 0:
                raise ValueError(f"values of a logarithmic axis '{label}' must be above 0, not {low}")
            return cls(label, below(low), above(max(high, low * 1.0001)), log=True)
        if zero:
            low, high = min(low, 0.0), max(high, 0.0)
        if low == high:
            low, high = (low, low + 1.0) if low >= 0 else (low - 1.0, low)
        step = step_of(low, high)
        return cls(label, math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step)

    def share(self, value: float) -> float:
        """Where `value` is: 0 at the low end, 1 at the high one, limited to these."""
        if self.log:
            value = max(value, self.low)
            found = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            found = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, found))

    def ticks(self) -> tuple[Tick, ...]:
        """With as many digits as tell them apart."""
        values = self.log_values() if self.log else self.linear_values()
        texts = next(found for figures in range(3, 17)
                     if len(set(found := [short(value, figures) for value in values])) == len(values))
        return tuple(Tick(value, self.share(value), text) for value, text in zip(values, texts, strict=True))

    def linear_values(self) -> list[float]:
        step = step_of(self.low, self.high)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(k * step, 12) for k in range(first, last + 1)]

    def log_values(self) -> list[float]:
        """Decades, or each n-th one; where there are one or two, their 1, 2 and 5."""
        first, last = math.floor(math.log10(self.low) + 1e-9), math.ceil(math.log10(self.high) - 1e-9)
        parts = NICE[:3] if last - first <= 2 else NICE[:1]
        skip = 1 + (last - first) // MOST
        found = [part * 10.0 ** decade for decade in range(first, last + 1, skip) for part in parts]
        edge = 1e-9
        return [value for value in found if self.low * (1 - edge) <= value <= self.high * (1 + edge)]


def step_of(low: float, high: float) -> float:
    """The smallest nice step with which an axis has at most `MOST` ticks."""
    rough = (high - low) / (MOST - 1)
    decade = 10.0 ** math.floor(math.log10(rough))
    return float(next(part * decade for part in NICE if part * decade >= rough * (1 - 1e-9)))


def below(value: float) -> float:
    """The largest 1, 2 or 5 of a decade that is not above `value`."""
    decade = 10.0 ** math.floor(math.log10(value))
    return float(max((part * decade for part in NICE if part * decade <= value * (1 + 1e-9)), default=decade))


def above(value: float) -> float:
    """The smallest 1, 2 or 5 of a decade that is not below `value`."""
    decade = 10.0 ** math.floor(math.log10(value))
    return float(min(part * decade for part in NICE if part * decade >= value * (1 - 1e-9)))
