"""The stage of a sum of two tensors."""

from __future__ import annotations

import math

import numpy as np
from hwflow_rtl.join.add import AddFunction
from hwflow_rtl.join.join import JoinFunction

from hwflow.layers.add import Add
from hwflow.layers.formats import Tensor
from hwflow.layers.rescale import Requantize
from hwflow.stages.codes import shape_of
from hwflow.stages.elementwise import ElementwiseStage
from hwflow.stages.sweep import Line, Sweep, zero_point_problem


class AddStage(ElementwiseStage[Add]):
    """Products with two constants, their sum, one rounding."""

    def function(self) -> JoinFunction:
        layer = self.layer
        return AddFunction.of(
            operands=self.operand_bits, zero_points=self.zero_points, multipliers=layer.multipliers, shift=layer.shift,
            zero_point=layer.zero_point, low=layer.low, high=layer.high, output=shape_of(self.y.format))

    def shared_problem(self) -> str | None:
        return zero_point_problem(self.layer.zero_point)

    def sweeps(self) -> tuple[Sweep, ...]:
        copies, (a, b) = self.whole_operands()
        return (*copies, self._sum(a, b, self.y))

    def _sum(self, a: Tensor, b: Tensor, y: Tensor) -> Sweep:
        """What divides both multipliers multiplies their sum."""
        layer = self.layer
        common = math.gcd(*layer.multipliers) or 1
        twos = (common & -common).bit_length() - 1
        spare = min(twos, layer.shift)
        m0, m1 = ((m // common) << (twos - spare) for m in layer.multipliers)
        channels = y.frame.channels
        rescale = Requantize(
            bias=np.full(channels, -(m0 * a.zero_point + m1 * b.zero_point), np.int64),
            multiplier=np.full(channels, common >> twos, np.int64),
            shift=np.full(channels, layer.shift - spare, np.int64), zero_point=layer.zero_point, low=layer.low,
            high=layer.high)
        return Sweep(layer=layer.name, inputs=(a, b), output=y, rescale=rescale, rows=Line(0, y.frame.height),
                     columns=Line(0, y.frame.width), multipliers=(m0, m1))
