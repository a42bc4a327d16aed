"""The stage of a softmax of rows."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from hwflow_rtl.rows.softmax import SoftmaxShape
from hwflow_rtl.vendor import Technology

from hwflow.layers.softmax import Softmax
from hwflow.stages.codes import shape_of
from hwflow.stages.folding import Folding, row_foldings
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
