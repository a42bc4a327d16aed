"""The stage of a function of one small integer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amaranth.lib.wiring import Component
from hwflow_rtl.lookup import LookupStage as LookupUnit
from hwflow_rtl.stream.times import StageTimes, Times
from hwflow_rtl.vendor import Resources, Technology

from hwflow.layers.lookup import Lookup
from hwflow.stages.codes import codes_of, shape_of
from hwflow.stages.folding import Folding, Schedule, lane_foldings
from hwflow.stages.stage import LayerStage
from hwflow.stages.sweep import Line, Sweep, identity


class LookupStage(LayerStage[Lookup]):
    """A table for each lane."""

    def shared_problem(self) -> str | None:
        return None

    def sweeps(self) -> tuple[Sweep, ...]:
        x, y = self.x, self.y
        return (Sweep(layer=self.layer.name, inputs=(x,), output=y, rescale=identity(x.format, x.frame.channels),
                      table=self.layer.table, rows=Line(0, y.frame.height), columns=Line(0, y.frame.width)),)

    def foldings(self) -> Iterator[Folding]:
        return lane_foldings(self.y.frame.channels)

    def schedule(self, folding: Folding, technology: Technology) -> Schedule:
        beats = self.y.frame.elements // folding.cols
        return Schedule(work=beats, interval=beats, multipliers=0, lanes_in=(folding.cols,))

    def cost(self, folding: Folding, technology: Technology) -> Resources:
        return LookupUnit.cost(**self._arguments(folding, technology))

    def unit(self, folding: Folding, technology: Technology) -> Component:
        table = codes_of(self.layer.table, self.y.format)
        return LookupUnit(**self._arguments(folding, technology), table=table, name=self.unit_name)

    def times(self, folding: Folding, technology: Technology, *arrivals: Times,
              left: Times | None = None) -> StageTimes:
        return LookupUnit.times(arrivals[0], technology, left)

    def _arguments(self, folding: Folding, technology: Technology) -> dict[str, Any]:
        return {"shape_in": shape_of(self.layer.input_format), "shape_out": shape_of(self.y.format),
                "lanes": folding.cols, "technology": technology}
