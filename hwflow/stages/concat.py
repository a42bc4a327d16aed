"""The stage of a concatenation along the channels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from amaranth.lib.wiring import Component
from hwflow_rtl.join.concat import ConcatStage as ConcatUnit
from hwflow_rtl.stream.times import StageTimes, Times
from hwflow_rtl.vendor import Resources, Technology

from hwflow.layers.concat import Concat
from hwflow.stages.codes import shape_of
from hwflow.stages.folding import Folding, Schedule, lane_foldings
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

    def foldings(self) -> Iterator[Folding]:
        """Any number of lanes that divides the channels of every input goes through at once."""
        return lane_foldings(math.gcd(*(x.frame.channels for x in self.operands)))

    def schedule(self, folding: Folding, technology: Technology) -> Schedule:
        beats = self.y.frame.elements // folding.lanes
        return Schedule(work=beats, interval=beats, multipliers=0, lanes_in=(folding.lanes,) * len(self.operands))

    def cost(self, folding: Folding, technology: Technology) -> Resources:
        return ConcatUnit.cost(**self._arguments(folding))

    def unit(self, folding: Folding, technology: Technology) -> Component:
        return ConcatUnit(**self._arguments(folding))

    def times(self, folding: Folding, technology: Technology, *arrivals: Times,
              left: Times | None = None) -> StageTimes:
        return ConcatUnit.times(*arrivals, words=self._arguments(folding)["words"], left=left)

    def _arguments(self, folding: Folding) -> dict[str, Any]:
        return {"element": shape_of(self.y.format), "lanes": folding.lanes,
                "words": [x.frame.channels // folding.lanes for x in self.operands]}
