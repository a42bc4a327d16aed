"""The mean of a window, per channel; a window as large as the frame is a global average pool."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from hwflow.layers.base import Frame, IntArray, IntFormat, Layer, LayerGraph, Requantize
from hwflow.layers.matrix import require
from hwflow.layers.window import Window

__all__ = ["AveragePool"]


@dataclass(frozen=True, eq=False)
class AveragePool(Layer):
    """y = requantize(sum over the window of x), per channel.

    The division is part of the requantization: its ratio is s_x / (s_y * count), its bias -zero_point * count, where
    count = kernel height * kernel width.  Padding is the input's zero point and counts (ONNX count_include_pad = 1).
    """

    kind: ClassVar[str] = "average_pool"

    name: str
    inputs: tuple[str, ...]
    output: str
    input_format: IntFormat
    requantize: Requantize
    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def window(self) -> Window:
        return Window(self.kernel, self.strides, (1, 1), self.pads)

    @cached_property
    def accumulator(self) -> IntFormat:
        """Exactly as wide as a whole window at the ends of the input format needs, bias included."""
        count, bias = self.kernel[0] * self.kernel[1], self.requantize.bias
        low = min(count * self.input_format.low, 0) + min(int(bias.min()), 0)
        high = max(count * self.input_format.high, 0) + max(int(bias.max()), 0)
        return IntFormat.covering(low, high)

    def output_frame(self, *inputs: Frame) -> Frame:
        (frame,) = inputs
        return Frame(*self.window.positions(frame), frame.channels)

    def evaluate(self, graph: LayerGraph, *inputs: IntArray) -> IntArray:
        (x,) = inputs
        require(f"layer '{self.name}': input", x, self.input_format)
        windows = self.window.view(x, graph.tensors[self.inputs[0]].zero_point)
        sums = windows.sum(axis=(3, 4), dtype=np.int64)
        require(f"layer '{self.name}': accumulator", sums, self.accumulator)
        return self.requantize.apply(sums)
