"""A row of a table for each integer: the vectors that stand for words, bytes or classes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from hwflow_rtl.stream.times import StageTimes, Times

from hwflow.layers.base import Folding, HardwareLayer, LayerGraph, Schedule, divisors
from hwflow.layers.formats import Frame, IntArray, IntFormat
from hwflow.layers.matrix import require
from hwflow.layers.planes import Planes, compact

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component
    from hwflow_rtl.vendor import Resources, Technology


@dataclass(frozen=True, eq=False)
class Embedding(HardwareLayer):
    """y[..., c * width + k] = table[x[..., c], k]: each integer becomes a row of the table.

    `table` is [rows, width].  The integers are numbers of rows, from 0 on, so the input's format is unsigned.
    `compute` raises ValueError for one that is no row.
    """

    kind: ClassVar[str] = "embedding"

    name: str
    inputs: tuple[str, ...]
    output: str
    input_format: IntFormat
    table: IntArray

    def output_frame(self, *inputs: Frame) -> Frame:
        (frame,) = inputs
        if self.table.ndim != 2 or not self.table.size:
            raise ValueError(f"layer '{self.name}': the table must be [rows, width], not {list(self.table.shape)}")
        return Frame(frame.height, frame.width, frame.channels * self.table.shape[1])

    def check(self, graph: LayerGraph) -> None:
        super().check(graph)
        self.check_input_format(graph, self.input_format)
        if self.input_format.bipolar or self.input_format.signed:
            raise ValueError(f"layer '{self.name}': numbers of rows must be unsigned, not {self.input_format}")
        if len(self.table) > self.input_format.high + 1:
            raise ValueError(f"layer '{self.name}': the table must have at most {self.input_format.high + 1} rows for "
                             f"numbers of {self.input_format}, not {len(self.table)}")
        if self.table.dtype != np.int64:
            raise ValueError(f"layer '{self.name}': the table must be int64, not {self.table.dtype}")
        require(f"layer '{self.name}': table", self.table, graph.tensors[self.output].format)

    def compute(self, graph: LayerGraph, *inputs: Planes) -> Planes:
        (x,) = inputs
        highest = int(x.max(initial=0))
        if highest >= len(self.table):
            raise ValueError(f"layer '{self.name}': numbers of rows must be at most {len(self.table) - 1}, not "
                             f"{highest}")
        channels, *rest = x.shape
        columns = self.table.T.astype(compact(graph.tensors[self.output].format))  # [width, rows]
        found = np.take(columns, x.astype(np.intp), axis=1)
        made: Planes = np.moveaxis(found, 0, 1).reshape(channels * len(columns), *rest)
        return made

    def multiplications(self, graph: LayerGraph) -> int:
        return 0

    def foldings(self, graph: LayerGraph) -> Iterator[Folding]:
        """One integer comes at a time; any divisor of the table's width leaves at once."""
        return (Folding(1, 1, lanes) for lanes in divisors(self.table.shape[1]))

    def schedule(self, graph: LayerGraph, folding: Folding) -> Schedule:
        from hwflow_rtl.embedding import EmbeddingStage

        numbers = graph.tensors[self.inputs[0]].frame.elements
        beats = EmbeddingStage.cycles(numbers=numbers, width=self.table.shape[1], lanes=folding.lanes)
        return Schedule(work=beats, interval=beats, multipliers=0, lanes_in=(1,))

    def cost(self, graph: LayerGraph, folding: Folding, technology: Technology) -> Resources:
        from hwflow_rtl.embedding import EmbeddingStage

        return EmbeddingStage.cost(**self._arguments(graph, folding, technology), rows=len(self.table))

    def unit(self, graph: LayerGraph, folding: Folding, technology: Technology, name: str) -> Component:
        from hwflow_rtl.embedding import EmbeddingStage

        from hwflow.layers.hardware import codes_of

        arguments = self._arguments(graph, folding, technology)
        del arguments["width"]  # that of the table
        table = codes_of(self.table, graph.tensors[self.output].format)
        return EmbeddingStage(**arguments, table=table, name=name)

    def times(self, graph: LayerGraph, folding: Folding, technology: Technology, *arrivals: Times,
              left: Times | None = None) -> StageTimes:
        from hwflow_rtl.embedding import EmbeddingStage

        beats = self.table.shape[1] // folding.lanes
        return EmbeddingStage.times(arrivals[0], beats=beats, technology=technology, left=left)

    def _arguments(self, graph: LayerGraph, folding: Folding, technology: Technology) -> dict[str, Any]:
        from hwflow.layers.hardware import shape_of

        return {
            "shape_in": shape_of(self.input_format), "shape_out": shape_of(graph.tensors[self.output].format),
            "width": self.table.shape[1], "lanes": folding.lanes, "technology": technology}
