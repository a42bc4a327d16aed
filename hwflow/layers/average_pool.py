"""The mean of a window, per channel; a window as large as the frame is a global average pool."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from amaranth.lib.wiring import Component
from hwflow_rtl.pool import AveragePoolStage
from hwflow_rtl.times import StageTimes, Times
from hwflow_rtl.vendor import Resources, Technology

from hwflow.layers.base import Folding, HardwareLayer, LayerGraph, Schedule
from hwflow.layers.formats import Frame, IntFormat
from hwflow.layers.hardware import divisors, pad_value, pool_window, rescale_problem, rescaling, shape_of
from hwflow.layers.matrix import check_padding, errors_of
from hwflow.layers.planes import Planes, compact
from hwflow.layers.rescale import Rescale
from hwflow.layers.rescale_planes import Rescaler
from hwflow.layers.window import Window

__all__ = ["AveragePool"]


@dataclass(frozen=True, eq=False)
class AveragePool(HardwareLayer):
    """y = requantize(sum over the window of x), per channel.

    The division is part of the requantization: its ratio is s_x / (s_y * count), its bias -zero_point * count, where
    count = kernel height * kernel width.  Padding is the input's zero point and counts (ONNX count_include_pad = 1).
    """

    kind: ClassVar[str] = "average_pool"

    name: str
    inputs: tuple[str, ...]
    output: str
    input_format: IntFormat
    requantize: Rescale
    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def window(self) -> Window:
        return Window(self.kernel, self.strides, (1, 1), self.pads)

    @cached_property
    def accumulator(self) -> IntFormat:
        """Exactly as wide as a whole window at the ends of the input format needs, bias included."""
        count, bias = self.kernel[0] * self.kernel[1], self.requantize.whole_bias
        low = min(count * self.input_format.low, 0) + min(int(bias[0].min()), 0)
        high = max(count * self.input_format.high, 0) + max(int(bias[1].max()), 0)
        return IntFormat.covering(low, high)

    def output_frame(self, *inputs: Frame) -> Frame:
        (frame,) = inputs
        return Frame(*self.window.positions(frame), frame.channels)

    def check(self, graph: LayerGraph) -> None:
        super().check(graph)
        x, y = graph.tensors[self.inputs[0]], graph.tensors[self.output]
        self.check_input_format(graph, self.input_format)
        check_padding(self.name, self.pads, x)
        with errors_of(self.name):
            self.requantize.check(y.frame.channels, self.accumulator, y.format)

    def compute(self, graph: LayerGraph, *inputs: Planes) -> Planes:
        (x,) = inputs
        x = x.astype(compact(self.accumulator))  # which holds every partial sum
        sums = self.window.reduce(x, graph.tensors[self.inputs[0]].zero_point, np.add)
        return Rescaler(self.requantize, self.accumulator, sums.dtype, graph.tensors[self.output].format)(sums)

    def hardware_problem(self, graph: LayerGraph) -> str | None:
        return rescale_problem(self.requantize, graph.tensors[self.output].format)

    def multiplications(self, graph: LayerGraph) -> int:
        return 0

    def foldings(self, graph: LayerGraph) -> Iterator[Folding]:
        """Any divisor of the channels is summed at once, and any divisor of these leaves at once."""
        channels = graph.tensors[self.output].frame.channels
        return (Folding(1, cols, lanes) for cols in divisors(channels) for lanes in divisors(cols))

    def schedule(self, graph: LayerGraph, folding: Folding) -> Schedule:
        window = pool_window(self.window, graph.tensors[self.inputs[0]].frame, folding.cols)
        interval = AveragePoolStage.cycles(window=window, lanes=folding.cols, out_lanes=folding.lanes)
        return Schedule(work=window.blocks * window.beats, interval=interval, multipliers=0, lanes_in=(folding.cols,))

    def cost(self, graph: LayerGraph, folding: Folding, technology: Technology) -> Resources:
        return AveragePoolStage.cost(**self._arguments(graph, folding, technology))

    def unit(self, graph: LayerGraph, folding: Folding, technology: Technology, name: str) -> Component:
        x = graph.tensors[self.inputs[0]]
        return AveragePoolStage(
            **self._arguments(graph, folding, technology), pad_value=pad_value(x), bipolar=x.format.bipolar, name=name)

    def times(self, graph: LayerGraph, folding: Folding, technology: Technology, *arrivals: Times) -> StageTimes:
        arguments = self._arguments(graph, folding, technology)
        del arguments["element"]
        return AveragePoolStage.times(arrivals[0], **arguments)

    def _arguments(self, graph: LayerGraph, folding: Folding, technology: Technology) -> dict[str, Any]:
        x, y = graph.tensors[self.inputs[0]], graph.tensors[self.output]
        return {
            "window": pool_window(self.window, x.frame, folding.cols), "lanes": folding.cols,
            "element": shape_of(self.input_format), "accumulator": shape_of(self.accumulator),
            "out_lanes": folding.lanes, "technology": technology,
            "output": shape_of(y.format),
            "rescaling": rescaling(self.requantize, self.accumulator, y.format, technology)}
