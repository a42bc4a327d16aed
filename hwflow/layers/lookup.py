"""Any function of one small integer, as a table."""

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
from hwflow.layers.sweep import Line, Sweep, identity

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component
    from hwflow_rtl.vendor import Resources, Technology


@dataclass(frozen=True, eq=False)
class Lookup(HardwareLayer):
    """y = table[(x - input_format.low) / input_format.step], element by element.

    `table` is [2**input_format.bits]: the function's value for every integer of the input format, lowest first.  The
    step is 1; of a bipolar input, whose integers are -1 and +1, it is 2.
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
        self.check_input_format(graph, self.input_format)
        if self.table.dtype != np.int64:
            raise ValueError(f"layer '{self.name}': the table must be int64, not {self.table.dtype}")
        require(f"layer '{self.name}': table", self.table, graph.tensors[self.output].format)

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

    def multiplications(self, graph: LayerGraph) -> int:
        return 0

    def shared_problem(self, graph: LayerGraph) -> str | None:
        return None

    def sweeps(self, graph: LayerGraph) -> tuple[Sweep, ...]:
        x, y = graph.tensors[self.inputs[0]], graph.tensors[self.output]
        return (Sweep(layer=self.name, inputs=(x,), output=y, rescale=identity(x.format, x.frame.channels),
                      table=self.table, rows=Line(0, y.frame.height), columns=Line(0, y.frame.width)),)

    def foldings(self, graph: LayerGraph) -> Iterator[Folding]:
        """Any divisor of the channels goes through at once."""
        return (Folding(1, lanes, lanes) for lanes in divisors(graph.tensors[self.output].frame.channels))

    def schedule(self, graph: LayerGraph, folding: Folding) -> Schedule:
        beats = graph.tensors[self.output].frame.elements // folding.cols
        return Schedule(work=beats, interval=beats, multipliers=0, lanes_in=(folding.cols,))

    def cost(self, graph: LayerGraph, folding: Folding, technology: Technology) -> Resources:
        from hwflow_rtl.lookup import LookupStage

        return LookupStage.cost(**self._arguments(graph, folding, technology))

    def unit(self, graph: LayerGraph, folding: Folding, technology: Technology, name: str) -> Component:
        from hwflow_rtl.lookup import LookupStage

        from hwflow.layers.hardware import codes_of

        table = codes_of(self.table, graph.tensors[self.output].format)
        return LookupStage(**self._arguments(graph, folding, technology), table=table, name=name)

    def times(self, graph: LayerGraph, folding: Folding, technology: Technology, *arrivals: Times,
              left: Times | None = None) -> StageTimes:
        from hwflow_rtl.lookup import LookupStage

        return LookupStage.times(arrivals[0], technology, left)

    def _arguments(self, graph: LayerGraph, folding: Folding, technology: Technology) -> dict[str, Any]:
        from hwflow.layers.hardware import shape_of

        return {
            "shape_in": shape_of(self.input_format), "shape_out": shape_of(graph.tensors[self.output].format),
            "lanes": folding.cols, "technology": technology}
