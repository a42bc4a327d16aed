"""The stages that look at rows of elements: softmax, normalization, the largest elements and running sums."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator

import numpy as np
from hwflow_rtl.multiply.products import Operand
from hwflow_rtl.rows.normalize import NormalizeShape
from hwflow_rtl.rows.running_sum import MOST_LANES, RunningSumShape
from hwflow_rtl.rows.softmax import SoftmaxShape
from hwflow_rtl.rows.top_k import MOST, TopKShape
from hwflow_rtl.vendor import Technology

from hwflow.layers.normalize import Normalize
from hwflow.layers.pixels import RunningSum, TopK
from hwflow.layers.softmax import Softmax
from hwflow.stages.codes import shape_of
from hwflow.stages.folding import Folding, divisors, row_foldings
from hwflow.stages.stage import LayerStage


class SoftmaxStage(LayerStage[Softmax]):
    """Three rows are in it at a time."""

    @property
    def likeness(self) -> Hashable:
        return self.kind, self.x.frame, self.x.format, self.y.format, self.layer.elements

    def foldings(self) -> Iterator[Folding]:
        return row_foldings(self.y.frame, self.layer.elements)

    def shape(self, folding: Folding, technology: Technology) -> SoftmaxShape:
        layer, y = self.layer, self.y
        return SoftmaxShape(
            rows=y.frame.elements // layer.elements, elements=layer.elements, lanes=folding.lanes,
            element=shape_of(layer.input_format), output=shape_of(y.format), exponentials=tuple(layer.table.tolist()),
            numerator=layer.numerator, precision=layer.precision, shift=layer.shift, zero_point=layer.zero_point,
            low=layer.low, high=layer.high)


class NormalizeStage(LayerStage[Normalize]):
    """Sums, a reciprocal root, products."""

    @property
    def likeness(self) -> Hashable:
        layer = self.layer
        return (self.kind, self.x.frame, self.x.format, self.y.format, layer.elements, layer.gamma.shape, layer.centred)

    def foldings(self) -> Iterator[Folding]:
        return row_foldings(self.y.frame, self.layer.elements)

    def shape(self, folding: Folding, technology: Technology) -> NormalizeShape:
        layer, elements = self.layer, self.y.frame.elements
        period = layer.gamma.shape[1]  # constants of a beat are a word, unless they are all the same
        repeats = (1, 1 if period == 1 else math.lcm(period, folding.lanes) // period)
        return NormalizeShape(
            rows=elements // layer.elements, elements=layer.elements, lanes=folding.lanes,
            element=shape_of(layer.input_format), output=shape_of(self.y.format), gamma=np.tile(layer.gamma, repeats),
            beta=np.tile(layer.beta, repeats), centred=layer.centred, center=layer.center, guard=layer.guard,
            epsilon=layer.epsilon, precision=layer.precision, shift=layer.shift, zero_point=layer.zero_point,
            low=layer.low, high=layer.high)


class TopKStage(LayerStage[TopK]):
    """Comparisons, and a chain of the best so far."""

    def hardware_problem(self) -> str | None:
        k = self.layer.k
        return None if k <= MOST else f"k must be at most {MOST} in hardware, not {k}; leave it to the host"

    def shared_problem(self) -> str | None:
        return "a shared stage compares elements of one channel, not channels with each other"

    def foldings(self) -> Iterator[Folding]:
        """Any divisor of the channels comes at once where one is looked for, else one channel; all k leave at once."""
        k = self.layer.k
        return (Folding(1, cols, k) for cols in (divisors(self.x.frame.channels) if k == 1 else [1]))

    def shape(self, folding: Folding, technology: Technology) -> TopKShape:
        layer, frame = self.layer, self.x.frame
        return TopKShape(
            pixels=frame.height * frame.width, channels=frame.channels, lanes=folding.cols,
            element=shape_of(layer.input_format), output=shape_of(self.y.format), k=layer.k, largest=layer.largest,
            gives_indices=layer.gives_indices, last_index=layer.last_index)


class RunningSumStage(LayerStage[RunningSum]):
    """Adders in a row, and the sum of the beats before."""

    def shared_problem(self) -> str | None:
        return "a shared stage gives elements of 8 bits, and sums of the channels so far have more"

    def foldings(self) -> Iterator[Folding]:
        """Any divisor of the channels comes and leaves at once, up to `MOST_LANES`."""
        lanes = (lanes for lanes in divisors(self.x.frame.channels) if lanes <= MOST_LANES)
        return (Folding(1, count, count) for count in lanes)

    def shape(self, folding: Folding, technology: Technology) -> RunningSumShape:
        frame, format = self.x.frame, self.layer.input_format
        return RunningSumShape(
            name=self.name, pixels=frame.height * frame.width, channels=frame.channels, lanes=folding.cols,
            operand=Operand(shape_of(format), format.bipolar), output=shape_of(self.y.format),
            zero_point=self.x.zero_point, exclusive=self.layer.exclusive)
