"""What the stages that join two tensors element by element share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from hwflow_rtl.join.join import JoinFunction, JoinShape, JoinStageShape
from hwflow_rtl.multiply.products import Operand
from hwflow_rtl.vendor import Technology

from hwflow.layers.elementwise import Elementwise
from hwflow.layers.formats import Tensor
from hwflow.stages.codes import shape_of
from hwflow.stages.folding import Folding, lane_foldings
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
        """What the bits of the inputs' elements mean."""
        a, b = (Operand(shape_of(x.format), x.format.bipolar) for x in self.operands)
        return a, b

    @property
    def zero_points(self) -> tuple[int, int]:
        """Of the inputs."""
        a, b = (x.zero_point for x in self.operands)
        return a, b
