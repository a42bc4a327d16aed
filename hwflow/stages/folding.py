"""How parallel a stage is (`Folding`), and the cycles that it takes then (`Schedule`)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from hwflow_rtl.multiply.style import MultiplierStyle

from hwflow.layers.formats import Frame

#: Elements of a beat of layers that look at rows: the logic of sums, squares and products grows with them.
MOST_ROW_LANES = 16

@dataclass(frozen=True)
class Folding:
    """The parallelism of a stage: how much of a layer it computes in one cycle.

    `rows` is the number of output channels and `cols` the number of inputs that it multiplies in one cycle.  Inputs are
    input channels, or taps times input channels if `cols` spans a row of the kernel.  `lanes` is the number of results
    that leave in one beat.  Layers without multipliers have rows = 1.  `style` says what multiplies, if the stage has a
    choice.  `rescale` says what multiplies in the requantizers; with None the layer takes what is cheaper.
    `weight_rows` is the number of rows whose weights arrive in one beat of the stage's weight stream; 0: weights are in
    ROMs.  `weight_interval` is the number of cycles from one beat of that stream to the next.
    """

    rows: int
    cols: int
    lanes: int = 1
    style: MultiplierStyle = MultiplierStyle.BLOCKS
    rescale: MultiplierStyle | None = None
    weight_rows: int = 0
    weight_interval: Fraction = Fraction(1)


@dataclass(frozen=True)
class Schedule:
    """The timing of a stage with a certain folding.

    `work`: cycles of a frame in which the unit computes.  `interval`: initiation interval, the cycles from frame to
    frame without backpressure and with inputs that arrive in time.  `multipliers`: multiplications that it can do in
    one cycle.  `lanes_in`: for each input, the elements of a beat.
    """

    work: int
    interval: int
    multipliers: int
    lanes_in: tuple[int, ...]


def divisors(count: int) -> list[int]:
    """Every divisor of `count`, ascending."""
    return [n for n in range(1, count + 1) if count % n == 0]


def nearest_foldings(folding: Folding, possible: tuple[Folding, ...]) -> str:
    """The first of rows, cols, lanes and style that is wrong, and its possible values."""
    for each in ("rows", "cols", "lanes", "style"):
        values = {getattr(other, each) for other in possible}
        value = getattr(folding, each)
        if value not in values:
            if each == "style":
                named = ", ".join(sorted(style.value for style in values))
                return f"style must be one of {named} with these rows, cols and lanes, not {value.value}"
            return f"{each} must be one of {', '.join(map(str, sorted(values)))}, not {value}"
        possible = tuple(other for other in possible if getattr(other, each) == value)
    raise AssertionError("the folding is possible")


def lane_foldings(count: int) -> Iterator[Folding]:
    """Any divisor of `count` goes through at once, in and out."""
    return (Folding(1, lanes, lanes) for lanes in divisors(count))


def row_foldings(frame: Frame, elements: int) -> Iterator[Folding]:
    """Take as many elements at a time as divide the channels and a row, up to `MOST_ROW_LANES`."""
    common = math.gcd(frame.channels, elements)
    return (Folding(1, lanes, lanes) for lanes in divisors(common) if lanes <= MOST_ROW_LANES)
