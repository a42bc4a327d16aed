"""Facts of the search about designs: what they cost, how far their outputs are off, how accurate they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from hwflow_rtl.vendor import Resources

from hwflow.search.widths.knobs import Bits

#: The part of a design that joins the stages; the other parts are named like their layer, or the stage of several.
LINKS = "links"


@dataclass(frozen=True)
class Design:
    """The cost of a design: `resources`, its `price` (share of the board, summed over the kinds), and by
    part."""

    resources: Resources
    price: float
    parts: Mapping[str, float]


@dataclass(frozen=True)
class Point:
    """A design with widths `bits`, measured on all rows.

    `noise` is the power of its outputs' error over the power of the float outputs; `accuracy` is the metric's value and
    `drop` what it lost against float, both in the metric's unit (points, per cent).  `tuned`: with the full tuning of
    the weights' rounding.
    """

    bits: Bits
    tuned: bool
    resources: Resources
    price: float
    noise: float
    accuracy: float
    drop: float

    def reaches(self, limit: float) -> bool:
        """Whether no more than `limit` is lost; shares of rows are not exact in binary."""
        return self.drop <= limit + 1e-9


class Evaluator(Protocol):
    """The questions of the search.  Each answer is a function of its arguments alone."""

    def design(self, bits: Bits) -> Design:
        """The cost, without a look at accuracy."""

    def probe(self, bits: Bits) -> float:
        """The noise at the outputs, on a few rows."""

    def measure(self, bits: Bits, *, tuned: bool = False) -> Point:
        """Everything, on all rows."""


def frontier(points: Iterable[Point]) -> tuple[Point, ...]:
    """The points that no other beats in price and drop, from the most expensive to the cheapest.

    Of points that are equal in both, the one that is not tuned, then the one with the most bits stands for all.
    """
    best: list[Point] = []
    for point in sorted(points, key=lambda p: (p.price, p.drop, p.tuned, -sum(p.bits), p.bits)):
        if not best or point.drop < best[-1].drop:
            best.append(point)
    return tuple(reversed(best))
