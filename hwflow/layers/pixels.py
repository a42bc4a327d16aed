"""Layers that look at the channels of each pixel: the largest or smallest of them, and their running sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hwflow.layers.base import Layer, LayerGraph
from hwflow.layers.formats import Frame, IntFormat, Tensor
from hwflow.layers.planes import Planes, compact


@dataclass(frozen=True, eq=False)
class TopK(Layer):
    """y[..., n] = the index, or the value, of the n-th of the k largest (or smallest) channels of each pixel.

    `gives_indices`: the indices, as integers of the output's format; else the values, whose format is the input's.
    Of equal channels the first comes first (ONNX TopK, ArgMax); with `last_index` the last (select_last_index 1).
    """

    kind: ClassVar[str] = "top_k"

    name: str
    inputs: tuple[str, ...]
    output: str
    input_format: IntFormat
    k: int = 1
    largest: bool = True
    gives_indices: bool = True
    last_index: bool = False

    def output_frame(self, *inputs: Frame) -> Frame:
        (frame,) = inputs
        if not 1 <= self.k <= frame.channels:
            raise ValueError(f"layer '{self.name}': k must be from 1 to the {frame.channels} channels, not {self.k}")
        return Frame(frame.height, frame.width, self.k)

    def check(self, graph: LayerGraph) -> None:
        super().check(graph)
        self.check_input_format(graph, self.input_format)
        x, y = graph.tensors[self.inputs[0]], graph.tensors[self.output]
        last = x.frame.channels - 1
        if self.gives_indices and (y.format.bipolar or not y.format.low <= 0 <= last <= y.format.high):
            raise ValueError(f"layer '{self.name}': output '{y.name}' must hold 0 to {last}, not be {y.format}")
        if not self.gives_indices and y.format != self.input_format:
            raise ValueError(f"layer '{self.name}': output '{y.name}' must be {self.input_format}, not {y.format}")

    def compute(self, graph: LayerGraph, *inputs: Planes) -> Planes:
        keys = inputs[0].astype(np.int64)
        keys = -keys if self.largest else keys
        if self.last_index:
            order = len(keys) - 1 - np.argsort(keys[::-1], axis=0, kind="stable")[: self.k]
        else:
            order = np.argsort(keys, axis=0, kind="stable")[: self.k]
        found = order if self.gives_indices else np.take_along_axis(inputs[0], order, axis=0)
        made: Planes = found.astype(compact(graph.tensors[self.output].format))
        return made

    def multiplications(self, graph: LayerGraph) -> int:
        return 0


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
