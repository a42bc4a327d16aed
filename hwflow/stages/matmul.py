"""The stage of a product of two computed matrices."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import numpy as np
from hwflow_rtl.matmul.stage import Centred, MatMulShape, MatMulStageShape
from hwflow_rtl.multiply.products import Operand, ProductShape
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.rescale.order import PixelOrder
from hwflow_rtl.rescale.rescaler import RescalerConstants
from hwflow_rtl.vendor import FAMILIES, Technology

from hwflow.layers.matmul import MatMul, ends_of
from hwflow.stages.codes import shape_of
from hwflow.stages.folding import Folding, Schedule, divisors
from hwflow.stages.rescalers import rescale_problem, rescaler_constants
from hwflow.stages.stage import LayerStage

#: Bits of an operand of a multiplier that every family has.
WIDEST = 16


class MatMulStage(LayerStage[MatMul]):
    """One matrix is kept, the rows of the other meet it."""

    def hardware_problem(self) -> str | None:
        low, high = -(1 << (WIDEST - 1)), (1 << (WIDEST - 1)) - 1
        for x in self.operands:
            least, most = ends_of(x)
            if least < low or most > high:
                return f"elements of '{x.name}' less their zero point must have at most {WIDEST} bits, with a sign"
        return rescale_problem(self.layer.requantize, self.y.format)

    @property
    def likeness(self) -> Hashable:
        layer = self.layer
        return (self.kind, layer.heads, layer.rows, layer.depth, layer.columns, layer.interleaved, layer.order,
                *((x.format, x.zero_point) for x in self.operands))

    def foldings(self) -> Iterator[Folding]:
        """Rows of multipliers divide the columns, columns of multipliers the depth."""
        styles = self._all_styles()
        for rows in divisors(self.layer.columns):
            for lanes in divisors(rows):
                for cols in divisors(self.layer.depth):
                    for style in styles:
                        if style is not MultiplierStyle.MACS or cols % 2 == 0:
                            yield Folding(rows, cols, lanes, style)

    def styles(self, technology: Technology) -> tuple[MultiplierStyle, ...]:
        """Both factors change in every cycle, so no two products share one in a pair."""
        offered = self.products.styles(technology)
        return tuple(style for style in offered if style is not MultiplierStyle.PAIRS)

    @property
    def rescale_styles(self) -> tuple[MultiplierStyle, ...]:
        return (MultiplierStyle.LOGIC,)

    def schedule(self, folding: Folding, technology: Technology) -> Schedule:
        """The schedule of the shape, but without the constants."""
        product = self._product(folding)
        return Schedule(work=product.work, interval=product.cycles(), multipliers=folding.rows * folding.cols,
                        lanes_in=product.lanes_in)

    def shape(self, folding: Folding, technology: Technology) -> MatMulStageShape:
        product = self._product(folding)
        return MatMulStageShape(product=product, rescaler=self._rescaler(product, folding, technology))

    @property
    def centred_operands(self) -> tuple[Centred, Centred]:
        a, b = (Centred(Operand(shape_of(x.format), x.format.bipolar), x.zero_point) for x in self.operands)
        return a, b

    @property
    def products(self) -> ProductShape:
        a, b = self.centred_operands
        return ProductShape(Operand(a.shape), Operand(b.shape))

    def _all_styles(self) -> tuple[MultiplierStyle, ...]:
        """The styles that some family offers."""
        offered = {style for family in FAMILIES.values() for style in self.styles(family())}
        return tuple(style for style in MultiplierStyle if style in offered)

    def _product(self, folding: Folding) -> MatMulShape:
        layer, (a, b) = self.layer, self.centred_operands
        return MatMulShape(
            heads=layer.heads, rows=layer.rows, depth=layer.depth, columns=layer.columns,
            interleaved=layer.interleaved, order=layer.order, together=folding.rows, cols=folding.cols,
            lanes=folding.lanes, a=a, b=b, accumulator=shape_of(layer.accumulator(self.graph)),
            output=shape_of(self.y.format), style=folding.style)

    def _rescaler(self, shape: MatMulShape, folding: Folding, technology: Technology) -> RescalerConstants:
        """One constant for each lane; or those of the places of a head, which come again in the order of y."""
        layer = self.layer
        constants = rescaler_constants(layer.requantize, layer.accumulator(self.graph), self.y.format, technology,
                                       shape.matrix.drain_interval, folding.rescale)
        if layer.constants == 1:
            return constants.picked(np.zeros(folding.lanes, np.int64), None)
        heads = layer.heads if layer.interleaved else 1
        places = np.arange(layer.constants).reshape(layer.rows, 1, layer.columns)
        order = PixelOrder(tuple(range(layer.rows)), (0,), heads * layer.columns)
        return constants.picked(np.broadcast_to(places, (layer.rows, heads, layer.columns)).reshape(-1), order)
