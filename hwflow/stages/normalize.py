"""The stage of a normalization of rows."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator

import numpy as np
from hwflow_rtl.rows.normalize import NormalizeShape
from hwflow_rtl.vendor import Technology

from hwflow.layers.normalize import Normalize
from hwflow.stages.codes import shape_of
from hwflow.stages.folding import Folding, row_foldings
from hwflow.stages.stage import LayerStage


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
