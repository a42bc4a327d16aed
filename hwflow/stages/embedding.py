"""The stage of rows of a table."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from hwflow_rtl.tables.embedding import EmbeddingShape
from hwflow_rtl.vendor import Technology

from hwflow.layers.embedding import Embedding
from hwflow.layers.formats import IntArray
from hwflow.stages.codes import codes_of, shape_of
from hwflow.stages.folding import Folding, divisors
from hwflow.stages.stage import LayerStage


class EmbeddingStage(LayerStage[Embedding]):
    """A number of a row comes, the words of the row leave."""

    def foldings(self) -> Iterator[Folding]:
        """One integer comes at a time; any divisor of the table's width leaves at once."""
        return (Folding(1, 1, lanes) for lanes in divisors(self.layer.table.shape[1]))

    def shape(self, folding: Folding, technology: Technology) -> EmbeddingShape:
        return EmbeddingShape(
            name=self.name, numbers=self.x.frame.elements, element=shape_of(self.layer.input_format),
            output=shape_of(self.y.format), table=self.codes, lanes=folding.lanes)

    @cached_property
    def codes(self) -> IntArray:
        """The entries of the table as they are on the stream."""
        return codes_of(self.layer.table, self.y.format)
