"""The stages that join two tensors element by element: their sum and their product."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

import numpy as np
from hwflow_rtl.join.add import AddFunction
from hwflow_rtl.join.join import JoinFunction, JoinShape, JoinStageShape
from hwflow_rtl.join.multiply import MultiplyFunction
from hwflow_rtl.multiply.products import Operand
from hwflow_rtl.vendor import Technology

from hwflow.layers.elementwise import Add, Elementwise, Multiply
from hwflow.layers.formats import Tensor
from hwflow.layers.rescale import MULTIPLIER_BITS, Requantize
from hwflow.stages.codes import shape_of
from hwflow.stages.folding import Folding, lane_foldings
from hwflow.stages.stage import LayerStage
from hwflow.stages.sweep import Line, Sweep, copied, zero_point_problem

E_co = TypeVar("E_co", bound=Elementwise, covariant=True)


class ElementwiseStage(LayerStage[E_co]):
    """A join: both operands go in side by side, the results come out."""

    @abstractmethod
    def function(self) -> JoinFunction:
        """The function that the stage computes in each lane."""

    def foldings(self) -> Iterator[Folding]:
        return lane_foldings(self.y.frame.channels)

    def shape(self, folding: Folding, technology: Technology) -> JoinStageShape:
        """An operand of one element has one lane; of others as many go in as come out."""
        a, b = (x.frame.elements for x in self.operands)
        lanes = folding.lanes
        lanes_in = (1 if a == 1 else lanes, 1 if b == 1 else lanes)
        streams = JoinShape(beats=max(a, b) // lanes, lanes=lanes, words=(a // lanes_in[0], b // lanes_in[1]),
                            lanes_in=lanes_in)
        return JoinStageShape(streams=streams, function=self.function())

    def whole_operands(self) -> tuple[list[Sweep], tuple[Tensor, Tensor]]:
        """For a shared stage, operands of the output's frame, and the sweeps that repeat one that has a smaller one."""
        copies, whole = [], []
        for x in self.operands:
            if x.frame != self.y.frame:
                repeated = replace(x, name=f"{self.layer.name}/{x.name}", frame=self.y.frame)
                copies.append(copied(self.layer.name, x, repeated, stretch=True))
                x = repeated
            whole.append(x)
        return copies, (whole[0], whole[1])

    @property
    def operand_bits(self) -> tuple[Operand, Operand]:
        """The meaning of the bits of the inputs' elements mean."""
        a, b = (Operand(shape_of(x.format), x.format.bipolar) for x in self.operands)
        return a, b

    @property
    def zero_points(self) -> tuple[int, int]:
        """The zero points of the inputs."""
        a, b = (x.zero_point for x in self.operands)
        return a, b


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
        """The sweep of the sum: what divides both multipliers multiplies it."""
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
