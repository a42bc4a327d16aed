"""The largest or the smallest element of a window, per channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hwflow.layers.base import Layer, LayerGraph
from hwflow.layers.formats import Frame, IntFormat
from hwflow.layers.planes import Planes
from hwflow.layers.window import Window


@dataclass(frozen=True, eq=False)
class MaxPool(Layer):
    """y = max over the window of x, per channel; with `smallest`, min.  Scale, zero point and format are the input's.

    Padding never wins: it is the lowest integer of `input_format` (the highest one for the smallest element), and in
    ONNX every window holds at least one real element (pads are smaller than the kernel).
    """

    kind: ClassVar[str] = "max_pool"

    name: str
    inputs: tuple[str, ...]
    output: str
    input_format: IntFormat
    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    smallest: bool = False

    @property
    def window(self) -> Window:
        return Window(self.kernel, self.strides, self.dilations, self.pads)

    def output_frame(self, *inputs: Frame) -> Frame:
        (frame,) = inputs
        return Frame(*self.window.positions(frame), frame.channels)

    def check(self, graph: LayerGraph) -> None:
        super().check(graph)
        self.check_input_format(graph, self.input_format)
        y = graph.tensors[self.output]
        if y.format != self.input_format:
            raise ValueError(f"layer '{self.name}': output '{y.name}' must be {self.input_format}, not {y.format}")

    def compute(self, graph: LayerGraph, *inputs: Planes) -> Planes:
        (x,) = inputs
        if self.smallest:
            return self.window.reduce(x, self.input_format.high, np.minimum)
        return self.window.reduce(x, self.input_format.low, np.maximum)

    @property
    def rises(self) -> bool:
        return True

    def multiplications(self, graph: LayerGraph) -> int:
        return 0
