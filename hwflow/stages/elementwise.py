"""What the stages that join two tensors element by element share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeVar

from amaranth.lib.wiring import Component
from hwflow_rtl.join.join import JoinFunction, JoinShape
from hwflow_rtl.join.join import JoinStage as JoinUnit
from hwflow_rtl.multiply.products import Operand
from hwflow_rtl.stream.times import StageTimes, Times
from hwflow_rtl.vendor import Resources, Technology

from hwflow.layers.elementwise import Elementwise
from hwflow.layers.formats import Tensor
from hwflow.stages.codes import shape_of
from hwflow.stages.folding import Folding, Schedule, lane_foldings
from hwflow.stages.stage import LayerStage
from hwflow.stages.sweep import Sweep, copied

E_co = TypeVar("E_co", bound=Elementwise, covariant=True)


class ElementwiseStage(LayerStage[E_co]):
    """A join: both operands go in side by side, the results come out."""

    @abstractmethod
    def function(self) -> JoinFunction:
        """What the stage computes in each lane."""

    def foldings(self) -> Iterator[Folding]:
        return lane_foldings(self.y.frame.channels)

    def schedule(self, folding: Folding, technology: Technology) -> Schedule:
        shape = self._shape(folding)
        multipliers = folding.lanes if self.multiplications else 0
        return Schedule(work=shape.beats, interval=shape.beats, multipliers=multipliers, lanes_in=shape.lanes_in)

    def cost(self, folding: Folding, technology: Technology) -> Resources:
        return JoinUnit.cost(**self._arguments(folding, technology))

    def unit(self, folding: Folding, technology: Technology) -> Component:
        return JoinUnit(**self._arguments(folding, technology))

    def times(self, folding: Folding, technology: Technology, *arrivals: Times,
              left: Times | None = None) -> StageTimes:
        return JoinUnit.times(*arrivals, **self._arguments(folding, technology), left=left)

    def _arguments(self, folding: Folding, technology: Technology) -> dict[str, Any]:
        return {"shape": self._shape(folding), "function": self.function(), "technology": technology}

    def _shape(self, folding: Folding) -> JoinShape:
        """An operand of one element has one lane; of others as many go in as come out."""
        a, b = (x.frame.elements for x in self.operands)
        lanes = folding.lanes
        lanes_in = (1 if a == 1 else lanes, 1 if b == 1 else lanes)
        return JoinShape(beats=max(a, b) // lanes, lanes=lanes, words=(a // lanes_in[0], b // lanes_in[1]),
                         lanes_in=lanes_in)

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
        """What the bits of the inputs' elements mean."""
        a, b = (Operand(shape_of(x.format), x.format.bipolar) for x in self.operands)
        return a, b

    @property
    def zero_points(self) -> tuple[int, int]:
        """Of the inputs."""
        a, b = (x.zero_point for x in self.operands)
        return a, b
