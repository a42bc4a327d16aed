"""Layers of tables: of values by the value of an element, and of rows by an index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hwflow.layers.base import Layer, LayerGraph
from hwflow.layers.formats import Frame, IntArray, IntFormat
from hwflow.layers.matrix import require
from hwflow.layers.planes import Planes, compact


@dataclass(frozen=True, eq=False)
class TableLayer(Layer):
    """A layer whose results are in a table of integers: `table` is int64 in the format of the output."""

    name: str
    inputs: tuple[str, ...]
    output: str
    input_format: IntFormat
    table: IntArray

    def check(self, graph: LayerGraph) -> None:
        super().check(graph)
        self.check_input_format(graph, self.input_format)
        if self.table.dtype != np.int64:
            raise ValueError(f"layer '{self.name}': the table must be int64, not {self.table.dtype}")
        require(f"layer '{self.name}': table", self.table, graph.tensors[self.output].format)

    def multiplications(self, graph: LayerGraph) -> int:
        return 0


@dataclass(frozen=True, eq=False)
class Lookup(TableLayer):
    """y = table[(x - input_format.low) / input_format.step], element by element.

    `table` is [2**input_format.bits]: the function's value for every integer of the input format, lowest first.  The
    step is 1; of a bipolar input, whose integers are -1 and +1, it is 2.
    Activation functions and changes of scale are both of this kind.
    """

    kind: ClassVar[str] = "lookup"

    def output_frame(self, *inputs: Frame) -> Frame:
        (frame,) = inputs
        if self.table.shape != (1 << self.input_format.bits,):
            raise ValueError(f"layer '{self.name}': the table must have {1 << self.input_format.bits} entries")
        return frame

    def compute(self, graph: LayerGraph, *inputs: Planes) -> Planes:
        (x,) = inputs
        table = self.table.astype(compact(graph.tensors[self.output].format))
        if x.itemsize > 1:
            return np.take(table, x.astype(np.intp) - self.input_format.low)  # not bipolar: the step is 1
        by_byte = np.zeros(256, table.dtype)  # x as an unsigned byte is the index, without arithmetic
        integers = np.arange(self.input_format.low, self.input_format.high + 1, self.input_format.step)
        by_byte[integers.astype(x.dtype).view(np.uint8)] = table
        return np.take(by_byte, x.view(np.uint8))

    @property
    def rises(self) -> bool:
        return bool((np.diff(self.table) >= 0).all())


@dataclass(frozen=True, eq=False)
class Embedding(TableLayer):
    """y[..., c * width + k] = table[x[..., c], k]: each integer becomes a row of the table.

    `table` is [rows, width].  The integers are numbers of rows, from 0 on, so the input's format is unsigned.
    `compute` raises ValueError for one that is no row.
    """

    kind: ClassVar[str] = "embedding"

    def output_frame(self, *inputs: Frame) -> Frame:
        (frame,) = inputs
        if self.table.ndim != 2 or not self.table.size:
            raise ValueError(f"layer '{self.name}': the table must be [rows, width], not {list(self.table.shape)}")
        return Frame(frame.height, frame.width, frame.channels * self.table.shape[1])

    def check(self, graph: LayerGraph) -> None:
        super().check(graph)
        if self.input_format.bipolar or self.input_format.signed:
            raise ValueError(f"layer '{self.name}': numbers of rows must be unsigned, not {self.input_format}")
        if len(self.table) > self.input_format.high + 1:
            raise ValueError(f"layer '{self.name}': the table must have at most {self.input_format.high + 1} rows for "
                             f"numbers of {self.input_format}, not {len(self.table)}")

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
