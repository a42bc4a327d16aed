"""A row of a table for each integer: the vectors that stand for words, bytes or classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hwflow.layers.base import Layer, LayerGraph
from hwflow.layers.formats import Frame, IntArray, IntFormat
from hwflow.layers.matrix import require
from hwflow.layers.planes import Planes, compact


@dataclass(frozen=True, eq=False)
class Embedding(Layer):
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
