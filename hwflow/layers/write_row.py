"""A tensor of rows of which one, whose number is computed, is replaced: what a cache of keys and values does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hwflow.layers.base import Layer, LayerGraph
from hwflow.layers.formats import Frame
from hwflow.layers.planes import Planes


@dataclass(frozen=True, eq=False)
class WriteRow(Layer):
    """y = x, but for row number `position` of each block, which is that of `row`.

    The inputs are x, row and position.  The raster of x and y is [blocks, rows, elements of a row], that of `row`
    [blocks, elements of a row]; position is one unsigned integer.  x, row and y have one format, scale and zero point,
    so that the integers pass unchanged.  `compute` raises ValueError for a position that is no row.
    """

    kind: ClassVar[str] = "write_row"

    name: str
    inputs: tuple[str, ...]
    output: str
    blocks: int
    rows: int

    def output_frame(self, *inputs: Frame) -> Frame:
        x, row, position = inputs
        if self.blocks < 1 or self.rows < 1 or x.elements % (self.blocks * self.rows):
            raise ValueError(f"layer '{self.name}': the input must be {self.blocks} x {self.rows} rows, not {x}")
        if row.elements * self.rows != x.elements:
            raise ValueError(f"layer '{self.name}': a row in each of {self.blocks} blocks must have "
                             f"{x.elements // self.rows} elements, not {row}")
        if position.elements != 1:
            raise ValueError(f"layer '{self.name}': the position must be one integer, not {position}")
        return x

    def check(self, graph: LayerGraph) -> None:
        super().check(graph)
        self.check_as_output(graph, self.inputs[:2])
        position = graph.tensors[self.inputs[2]].format
        if position.bipolar or position.signed:
            raise ValueError(f"layer '{self.name}': positions must be unsigned, not {position}")

    def compute(self, graph: LayerGraph, *inputs: Planes) -> Planes:
        x, row, position = inputs
        highest = int(position.max(initial=0))
        if highest >= self.rows:
            raise ValueError(f"layer '{self.name}': positions must be at most {self.rows - 1}, not {highest}")
        count, frame = x.shape[3], graph.tensors[self.output].frame
        width = frame.elements // (self.blocks * self.rows)
        whole, rows = (planes.transpose(3, 1, 2, 0).reshape(count, self.blocks, lines, width)
                       for planes, lines in ((x, self.rows), (row, 1)))
        written = np.arange(self.rows)[:, None] == position.reshape(count, 1, 1, 1)
        made = np.where(written, rows, whole).reshape(count, frame.height, frame.width, frame.channels)
        return np.ascontiguousarray(made.transpose(3, 1, 2, 0))

    def multiplications(self, graph: LayerGraph) -> int:
        return 0
