"""The stages of tables: of values by the value of an element, and of rows by an index."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from hwflow_rtl.tables.embedding import EmbeddingShape
from hwflow_rtl.tables.lookup import LookupShape
from hwflow_rtl.tables.segments import Octaves, SegmentsShape
from hwflow_rtl.vendor import Technology

from hwflow.layers.formats import IntArray
from hwflow.layers.segments import Segments
from hwflow.layers.tables import Embedding, Lookup
from hwflow.stages.codes import codes_of, shape_of
from hwflow.stages.folding import Folding, divisors, lane_foldings
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

    def shape(self, folding: Folding, technology: Technology) -> LookupShape:
        return LookupShape(
            name=self.name, element=shape_of(self.layer.input_format), output=shape_of(self.y.format), table=self.codes,
            lanes=folding.cols, beats=self.y.frame.elements // folding.cols)

    @cached_property
    def codes(self) -> IntArray:
        """The entries of the table as they are on the stream."""
        return codes_of(self.layer.table, self.y.format)


class SegmentsStage(LayerStage[Segments]):
    """Two tables and a product for each lane."""

    def shared_problem(self) -> str | None:
        return "a shared stage has tables for elements of up to 8 bits, and no straight segments"

    def foldings(self) -> Iterator[Folding]:
        return lane_foldings(self.y.frame.channels)

    def shape(self, folding: Folding, technology: Technology) -> SegmentsShape:
        layer, element = self.layer, self.layer.input_format
        octaves, blocks = None, layer.blocks
        if layer.octaves:
            octaves = Octaves((element.low, element.high), layer.origin)
            blocks = np.zeros_like(blocks)
            parts = (layer.signs, -1, 1 << layer.index_bits, 2)
            bits = np.arange(octaves.width + 1)
            blocks.reshape(parts)[:, octaves.number(bits)] = layer.blocks.reshape(parts)[:, bits]
        return SegmentsShape(
            name=self.name, element=shape_of(element), output=shape_of(self.y.format), octaves=octaves,
            index_bits=layer.index_bits, fraction_bits=layer.fraction_bits, blocks=blocks, lines=layer.lines,
            shift=layer.shift, lanes=folding.cols,
            beats=self.y.frame.elements // folding.cols)


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
