"""The stage of a product of two tensors, element by element."""

from __future__ import annotations

import numpy as np
from hwflow_rtl.join.join import JoinFunction
from hwflow_rtl.join.multiply import MultiplyFunction

from hwflow.layers.multiply import Multiply
from hwflow.layers.rescale import MULTIPLIER_BITS, Requantize
from hwflow.stages.codes import shape_of
from hwflow.stages.elementwise import ElementwiseStage
from hwflow.stages.sweep import Line, Sweep, zero_point_problem


class MultiplyStage(ElementwiseStage[Multiply]):
    """One product, that with a constant, one rounding."""

    def function(self) -> JoinFunction:
        layer = self.layer
        return MultiplyFunction(
            operands=self.operand_bits, zero_points=self.zero_points, multiplier=layer.multiplier, shift=layer.shift,
            zero_point=layer.zero_point, low=layer.low, high=layer.high, output=shape_of(self.y.format))

    def shared_problem(self) -> str | None:
        for tensor in self.operands:
            if not tensor.format.low <= tensor.zero_point <= tensor.format.high:
                return (f"zero points of operands that a shared stage multiplies must be inside their format, not "
                        f"{tensor.zero_point} as that of '{tensor.name}' ({tensor.format})")
        multiplier, _ = self._ratio
        if not 0 <= multiplier < 1 << MULTIPLIER_BITS:
            return f"multipliers of a shared stage must be from 0 to {(1 << MULTIPLIER_BITS) - 1}, not {multiplier}"
        return zero_point_problem(self.layer.zero_point)

    @property
    def _ratio(self) -> tuple[int, int]:
        """Multiplier and shift without twos that both have."""
        multiplier, shift = self.layer.multiplier, self.layer.shift
        twos = (multiplier & -multiplier).bit_length() - 1
        spare = min(twos, shift) if multiplier else 0
        return multiplier >> spare, shift - spare

    def sweeps(self) -> tuple[Sweep, ...]:
        copies, operands = self.whole_operands()
        layer, y, (multiplier, shift) = self.layer, self.y, self._ratio
        channels = y.frame.channels
        rescale = Requantize(np.zeros(channels, np.int64), np.full(channels, multiplier, np.int64),
                             np.full(channels, shift, np.int64), layer.zero_point, layer.low, layer.high)
        return (*copies, Sweep(layer=layer.name, inputs=operands, output=y, rescale=rescale, product=True,
                               rows=Line(0, y.frame.height), columns=Line(0, y.frame.width)))
