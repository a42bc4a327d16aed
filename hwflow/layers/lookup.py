"""Any function of one small integer, as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hwflow.layers.base import Frame, IntArray, IntFormat, Layer, LayerGraph
from hwflow.layers.matrix import require

__all__ = ["Lookup"]


@dataclass(frozen=True, eq=False)
class Lookup(Layer):
    """y = table[x - input_format.low], element by element.

    `table` is [2**input_format.bits]: the function's value for every integer of the input format, lowest first.
    Activation functions and changes of scale are both of this kind.
    """

    kind: ClassVar[str] = "lookup"

    name: str
    inputs: tuple[str, ...]
    output: str
    input_format: IntFormat
    table: IntArray

    def output_frame(self, *inputs: Frame) -> Frame:
        (frame,) = inputs
        if self.table.shape != (1 << self.input_format.bits,):
            raise ValueError(f"layer '{self.name}': the table must have {1 << self.input_format.bits} entries")
        return frame

    def check(self, graph: LayerGraph) -> None:
        super().check(graph)
        require(f"layer '{self.name}': table", self.table, graph.tensors[self.output].format)

    def evaluate(self, graph: LayerGraph, *inputs: IntArray) -> IntArray:
        (x,) = inputs
        require(f"layer '{self.name}': input", x, self.input_format)
        return self.table[x - self.input_format.low]
