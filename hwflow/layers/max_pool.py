"""The largest element of a window, per channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hwflow.layers.base import Frame, IntArray, IntFormat, Layer, LayerGraph
from hwflow.layers.matrix import require
from hwflow.layers.window import Window

__all__ = ["MaxPool"]


@dataclass(frozen=True, eq=False)
class MaxPool(Layer):
    """y = max over the window of x, per channel.  Scale, zero point and format are the input's.

    Padding never wins: it is the lowest integer of `input_format`, and every window holds at least one real element
    (pads are smaller than the kernel).
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

    @property
    def window(self) -> Window:
        return Window(self.kernel, self.strides, self.dilations, self.pads)

    def output_frame(self, *inputs: Frame) -> Frame:
        (frame,) = inputs
        return Frame(*self.window.positions(frame), frame.channels)

    def evaluate(self, graph: LayerGraph, *inputs: IntArray) -> IntArray:
        (x,) = inputs
        require(f"layer '{self.name}': input", x, self.input_format)
        result: IntArray = self.window.view(x, self.input_format.low).max(axis=(3, 4))
        return result
