"""Sums of the channels of a pixel from the first to each one: CumSum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hwflow.layers.base import Layer, LayerGraph
from hwflow.layers.formats import Frame, IntFormat, Tensor
from hwflow.layers.planes import Planes, compact


@dataclass(frozen=True, eq=False)
class RunningSum(Layer):
    """y[..., c] = sum of x[..., k] - zero_point over k <= c or, if `exclusive`, over k < c; exactly.

    `zero_point` is that of the input's tensor; the output has none, and the input's scale.
    """

    kind: ClassVar[str] = "running_sum"

    name: str
    inputs: tuple[str, ...]
    output: str
    input_format: IntFormat
    exclusive: bool = False

    @staticmethod
    def sums_of(x: Tensor) -> IntFormat:
        """The narrowest format of all sums of the channels of `x`."""
        ends = (x.format.low - x.zero_point, x.format.high - x.zero_point)
        return IntFormat.covering(min(0, x.frame.channels * ends[0]), max(0, x.frame.channels * ends[1]))

    def output_frame(self, *inputs: Frame) -> Frame:
        (frame,) = inputs
        return frame

    def check(self, graph: LayerGraph) -> None:
        super().check(graph)
        self.check_input_format(graph, self.input_format)
        x, y = graph.tensors[self.inputs[0]], graph.tensors[self.output]
        if y.format != self.sums_of(x) or y.zero_point:
            raise ValueError(f"layer '{self.name}': output '{y.name}' must be {self.sums_of(x)} with zero point 0, not "
                             f"{y.format} with {y.zero_point}")

    def compute(self, graph: LayerGraph, *inputs: Planes) -> Planes:
        tensor, y = graph.tensors[self.inputs[0]], graph.tensors[self.output]
        centred = inputs[0].astype(np.int64) - tensor.zero_point
        sums = np.cumsum(centred, axis=0)
        made: Planes = (sums - centred if self.exclusive else sums).astype(compact(y.format))
        return made

    def multiplications(self, graph: LayerGraph) -> int:
        return 0
