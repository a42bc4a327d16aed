"""The stage of a tensor of rows of which one is replaced."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hwflow_rtl.join.write_row import WriteRowShape
from hwflow_rtl.vendor import Technology

from hwflow.layers.write_row import WriteRow
from hwflow.stages.codes import shape_of
from hwflow.stages.folding import Folding, lane_foldings
from hwflow.stages.stage import LayerStage


class WriteRowStage(LayerStage[WriteRow]):
    """A row waits, and takes the place of one of those that pass."""

    @property
    def width(self) -> int:
        """Elements of a row."""
        return self.y.frame.elements // (self.layer.blocks * self.layer.rows)

    def foldings(self) -> Iterator[Folding]:
        """Any number of lanes that divides a row, and the channels of both inputs, goes through at once."""
        x, row, _ = self.operands
        return lane_foldings(math.gcd(self.width, x.frame.channels, row.frame.channels))

    def shape(self, folding: Folding, technology: Technology) -> WriteRowShape:
        return WriteRowShape(
            name=self.name, element=shape_of(self.y.format), lanes=folding.lanes, blocks=self.layer.blocks,
            rows=self.layer.rows, words=self.width // folding.lanes, position=shape_of(self.operands[2].format))
