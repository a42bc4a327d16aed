"""Frames of another size whose elements lie between those of the input: sums of two rows and two columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from hwflow.layers.base import Layer, LayerGraph
from hwflow.layers.formats import Frame, IntArray, IntFormat
from hwflow.layers.matrix import errors_of
from hwflow.layers.planes import Planes, compact
from hwflow.layers.rescale import Requantize, Rescale
from hwflow.layers.rescale_planes import PlanesRescaler
from hwflow.layers.threshold_fit import as_multiplication

#: The largest total of the weights of two neighbours.
MOST_TOTAL = 1 << 12


class Between(NamedTuple):
    """Where the entries of the result lie along one axis: `weights[i]` of `total` parts of the way from entry
    `places[i]` of the input to the next one.

    Both are int64[entries].  With `total` 1 each is an entry of the input.
    """

    places: IntArray
    weights: IntArray
    total: int

    @property
    def taps(self) -> int:
        """Entries of the input that one of the result is made of."""
        return 2 if self.total > 1 else 1

    def problem(self, size: int) -> str | None:
        """What is wrong with it for an axis of `size` entries; None where nothing is."""
        shapes = {(array.dtype, array.ndim, len(array)) for array in (self.places, self.weights)}
        if len(shapes) > 1 or self.places.dtype != np.int64 or self.places.ndim != 1 or not self.places.size:
            return "places and weights must be int64 of one length"
        if not 1 <= self.total <= MOST_TOTAL:
            return f"the total must be from 1 to {MOST_TOTAL}, not {self.total}"
        last = size - self.taps
        if self.places.min() < 0 or self.places.max() > last:
            return f"places must be from 0 to {last}, not {self.places.min()} to {self.places.max()}"
        most = self.total if self.total > 1 else 0
        if self.weights.min() < 0 or self.weights.max() > most:
            return f"weights must be from 0 to {most}, not {self.weights.min()} to {self.weights.max()}"
        return None


@dataclass(frozen=True, eq=False)
class Interpolate(Layer):
    """y[r, c] = requantize(sum over both neighbours along both axes of x, times their weights), per channel.

    Along the rows these are x[p] and x[p + 1] with the weights t - w and w, where p is `rows[r]`, w `row_weights[r]`
    and t `row_total`; where `row_total` is 1, x[p] alone.  Likewise for columns.  The weights of an element always add
    up to `row_total` * `column_total`, by which the requantization divides.
    """

    kind: ClassVar[str] = "interpolate"

    name: str
    inputs: tuple[str, ...]
    output: str
    input_format: IntFormat
    requantize: Rescale
    rows: IntArray
    row_weights: IntArray
    row_total: int
    columns: IntArray
    column_weights: IntArray
    column_total: int

    @property
    def between(self) -> tuple[Between, Between]:
        """Along the rows and along the columns."""
        return (Between(self.rows, self.row_weights, self.row_total),
                Between(self.columns, self.column_weights, self.column_total))

    @property
    def total(self) -> int:
        """What the weights of an element add up to."""
        return self.row_total * self.column_total

    @cached_property
    def accumulator(self) -> IntFormat:
        """Exactly as wide as the sums of the ends of the input format need, bias included."""
        bias = self.requantize.whole_bias
        low = min(self.total * self.input_format.low, 0) + min(int(bias[0].min()), 0)
        high = max(self.total * self.input_format.high, 0) + max(int(bias[1].max()), 0)
        return IntFormat.covering(low, high)

    @cached_property
    def multiplied(self) -> Requantize | None:
        """The multiplication that makes elements of sums as a multiplication, None where it is none."""
        return as_multiplication(self.requantize, self.accumulator)

    def output_frame(self, *inputs: Frame) -> Frame:
        (frame,) = inputs
        for what, size, axis in zip(("rows", "columns"), (frame.height, frame.width), self.between, strict=True):
            problem = axis.problem(size)
            if problem:
                raise ValueError(f"layer '{self.name}': {what}: {problem}")
        return self.limited(Frame(len(self.rows), len(self.columns), frame.channels))

    def check(self, graph: LayerGraph) -> None:
        super().check(graph)
        self.check_input_format(graph, self.input_format)
        y = graph.tensors[self.output]
        with errors_of(self.name):
            self.requantize.check(y.frame.channels, self.accumulator, y.format)

    def compute(self, graph: LayerGraph, *inputs: Planes) -> Planes:
        (x,) = inputs
        sums = x.astype(compact(self.accumulator))  # which holds every partial sum
        for axis, between in enumerate(self.between, 1):
            sums = _along(sums, between, axis)
        format = graph.tensors[self.output].format
        return PlanesRescaler(self.requantize, self.accumulator, sums.dtype, format)(sums)

    @property
    def rises(self) -> bool:
        return isinstance(self.requantize, Requantize)

    def multiplications(self, graph: LayerGraph) -> int:
        taps = [between.taps for between in self.between]
        return graph.tensors[self.output].frame.elements * taps[0] * taps[1] if max(taps) > 1 else 0


def _along(x: Planes, between: Between, axis: int) -> Planes:
    """The sums of both neighbours along `axis` of planes."""
    first: Planes = np.take(x, between.places, axis=axis)
    if between.taps == 1:
        return first
    shape = [-1 if other == axis else 1 for other in range(x.ndim)]
    first *= (between.total - between.weights).astype(x.dtype).reshape(shape)
    second: Planes = np.take(x, between.places + 1, axis=axis)
    second *= between.weights.astype(x.dtype).reshape(shape)
    first += second
    return first
