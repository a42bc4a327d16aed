"""The stage of a normalization of rows."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator

import numpy as np
from amaranth.lib.wiring import Component
from hwflow_rtl.rows.normalize import NormalizeStage as NormalizeUnit
from hwflow_rtl.rows.normalize_shape import NormalizeShape
from hwflow_rtl.stream.times import StageTimes, Times
from hwflow_rtl.vendor import Resources, Technology

from hwflow.layers.normalize import Normalize
from hwflow.stages.codes import shape_of
from hwflow.stages.folding import Folding, Schedule, row_foldings
from hwflow.stages.stage import LayerStage


class NormalizeStage(LayerStage[Normalize]):
    """Sums, a reciprocal root, products."""

    @property
    def likeness(self) -> Hashable:
        layer = self.layer
        return (self.kind, self.x.frame, self.x.format, self.y.format, layer.elements, layer.gamma.shape, layer.centred)

    def foldings(self) -> Iterator[Folding]:
        return row_foldings(self.y.frame, self.layer.elements)

    def schedule(self, folding: Folding, technology: Technology) -> Schedule:
        beats = self.y.frame.elements // folding.lanes
        return Schedule(work=beats, interval=beats, multipliers=3 * folding.lanes, lanes_in=(folding.lanes,))

    def cost(self, folding: Folding, technology: Technology) -> Resources:
        return NormalizeUnit.cost(shape=self._shape(folding), technology=technology)

    def unit(self, folding: Folding, technology: Technology) -> Component:
        layer, shape = self.layer, self._shape(folding)
        repeats = (1, shape.constants[1] // layer.gamma.shape[1])
        return NormalizeUnit(shape=shape, gamma=np.tile(layer.gamma, repeats), beta=np.tile(layer.beta, repeats),
                             technology=technology, name=self.unit_name)

    def times(self, folding: Folding, technology: Technology, *arrivals: Times,
              left: Times | None = None) -> StageTimes:
        return NormalizeUnit.times(arrivals[0], shape=self._shape(folding), technology=technology, left=left)

    def _shape(self, folding: Folding) -> NormalizeShape:
        layer = self.layer
        rows, period = layer.gamma.shape  # constants of a beat are a word, unless they are all the same
        return NormalizeShape(
            elements=layer.elements, lanes=folding.lanes, element=shape_of(layer.input_format),
            output=shape_of(self.y.format), constants=(rows, 1 if period == 1 else math.lcm(period, folding.lanes)),
            beta_ends=(int(layer.beta.min()), int(layer.beta.max())), centred=layer.centred, center=layer.center,
            guard=layer.guard, epsilon=layer.epsilon, precision=layer.precision, shift=layer.shift,
            zero_point=layer.zero_point, low=layer.low, high=layer.high)
