"""The stage of a concatenation along the channels."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from hwflow_rtl.join.concat import ConcatShape
from hwflow_rtl.vendor import Technology

from hwflow.layers.concat import Concat
from hwflow.layers.formats import IntArray
from hwflow.stages.codes import shape_of
from hwflow.stages.folding import Folding, lane_foldings
from hwflow.stages.stage import LayerStage
from hwflow.stages.sweep import Sweep, copied


class ConcatStage(LayerStage[Concat]):
    """The words of a pixel, from one input after the other."""

    def shared_problem(self) -> str | None:
        return None

    def sweeps(self) -> tuple[Sweep, ...]:
        """A copy of each input."""
        first, sweeps = 0, []
        for x in self.operands:
            sweeps.append(copied(self.layer.name, x, self.y, first_channel=first))
            first += x.frame.channels
        return tuple(sweeps)

    def sources(self) -> IntArray:
        """The elements of each operand pixel by pixel."""
        first, parts = 0, []
        for x in self.operands:
            parts.append(first + np.arange(x.frame.elements, dtype=np.int64).reshape(-1, x.frame.channels))
            first += x.frame.elements
        return np.concatenate(parts, axis=1).reshape(-1)

    def foldings(self) -> Iterator[Folding]:
        """Any number of lanes that divides the channels of every input goes through at once."""
        return lane_foldings(math.gcd(*(x.frame.channels for x in self.operands)))

    def shape(self, folding: Folding, technology: Technology) -> ConcatShape:
        frame = self.y.frame
        return ConcatShape(
            element=shape_of(self.y.format), lanes=folding.lanes, pixels=frame.height * frame.width,
            words=tuple(x.frame.channels // folding.lanes for x in self.operands))
