"""The stage of rows of a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amaranth.lib.wiring import Component
from hwflow_rtl.embedding import EmbeddingStage as EmbeddingUnit
from hwflow_rtl.stream.times import StageTimes, Times
from hwflow_rtl.vendor import Resources, Technology

from hwflow.layers.embedding import Embedding
from hwflow.stages.codes import codes_of, shape_of
from hwflow.stages.folding import Folding, Schedule, divisors
from hwflow.stages.stage import LayerStage


class EmbeddingStage(LayerStage[Embedding]):
    """A number of a row comes, the words of the row leave."""

    def foldings(self) -> Iterator[Folding]:
        """One integer comes at a time; any divisor of the table's width leaves at once."""
        return (Folding(1, 1, lanes) for lanes in divisors(self.layer.table.shape[1]))

    def schedule(self, folding: Folding, technology: Technology) -> Schedule:
        beats = EmbeddingUnit.cycles(
            numbers=self.x.frame.elements, width=self.layer.table.shape[1], lanes=folding.lanes)
        return Schedule(work=beats, interval=beats, multipliers=0, lanes_in=(1,))

    def cost(self, folding: Folding, technology: Technology) -> Resources:
        return EmbeddingUnit.cost(**self._arguments(folding, technology), width=self.layer.table.shape[1],
                                  rows=len(self.layer.table))

    def unit(self, folding: Folding, technology: Technology) -> Component:
        table = codes_of(self.layer.table, self.y.format)
        return EmbeddingUnit(**self._arguments(folding, technology), table=table, name=self.unit_name)

    def times(self, folding: Folding, technology: Technology, *arrivals: Times,
              left: Times | None = None) -> StageTimes:
        beats = self.layer.table.shape[1] // folding.lanes
        return EmbeddingUnit.times(arrivals[0], beats=beats, technology=technology, left=left)

    def _arguments(self, folding: Folding, technology: Technology) -> dict[str, Any]:
        return {"shape_in": shape_of(self.layer.input_format), "shape_out": shape_of(self.y.format),
                "lanes": folding.lanes, "technology": technology}
