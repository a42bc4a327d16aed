"""Convolution of a frame with integer weights: any stride, dilation, padding and number of groups."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from hwflow.layers.base import LayerGraph
from hwflow.layers.formats import Frame, IntArray, IntFormat
from hwflow.layers.matrix import accumulator_format, multiply, require
from hwflow.layers.matrix_stage import MatrixHardware, MatrixLayer
from hwflow.layers.rescale import Rescale
from hwflow.layers.window import Window

__all__ = ["Conv"]

#: Frames go through the convolution in blocks of about this many window entries (64 MB of float64).
_BLOCK = 1 << 23


@dataclass(frozen=True, eq=False)
class Conv(MatrixLayer):
    """y[o] = requantize(sum over the window and the group's channels of w[o, i, j, c] * x[i, j, c]).

    The products take the raw input integers.  The ONNX meaning subtracts the input's zero point z first, and
    sum(w * (x - z)) = sum(w * x) - z * sum(w): `requantize.bias` holds -z * sum(w) beside the layer's own bias, and
    padding is the integer z, whose real value is 0.

    `weights` is [cout, kernel height, kernel width, cin / groups]; output channel o belongs to group
    o // (cout / groups).  `input_format` is the format of the input tensor, which bounds the accumulator.
    """

    kind: ClassVar[str] = "conv"

    name: str
    inputs: tuple[str, ...]
    output: str
    weights: IntArray
    weight_format: IntFormat
    input_format: IntFormat
    requantize: Rescale
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    groups: int = 1

    @property
    def window(self) -> Window:
        height, width = self.weights.shape[1:3]
        return Window((height, width), self.strides, self.dilations, self.pads)

    @cached_property
    def accumulator(self) -> IntFormat:
        """Exactly as wide as the worst case of these weights needs, bias included."""
        return accumulator_format(self.weights, self.requantize.whole_bias, self.input_format)

    def output_frame(self, *inputs: Frame) -> Frame:
        (frame,) = inputs
        cout, _, _, depth = self.weights.shape
        if frame.channels != depth * self.groups or cout % self.groups:
            raise ValueError(
                f"layer '{self.name}': {self.groups} groups of {depth} channels must make up the input's "
                f"{frame.channels}, and divide the {cout} output channels"
            )
        return Frame(*self.window.positions(frame), cout)

    def evaluate(self, graph: LayerGraph, *inputs: IntArray) -> IntArray:
        (x,) = inputs
        zero_point = graph.tensors[self.inputs[0]].zero_point
        require(f"layer '{self.name}': weights", self.weights, self.weight_format)
        require(f"layer '{self.name}': input", x, self.input_format)
        height, width = self.window.positions(graph.tensors[self.inputs[0]].frame)
        block = max(1, _BLOCK // (height * width * self.weights.shape[1] * self.weights.shape[2] * x.shape[3]))
        parts = [self._sums(x[k : k + block], zero_point) for k in range(0, max(len(x), 1), block)]
        sums = np.concatenate(parts)
        require(f"layer '{self.name}': accumulator", sums, self.accumulator)
        return self.requantize.apply(sums)

    def _sums(self, x: IntArray, zero_point: int) -> IntArray:
        """The products with the raw inputs, summed: [n, out_h, out_w, cout]."""
        cout, depth = self.weights.shape[0], self.weights.shape[3]
        windows = self.window.view(x, zero_point)
        n, height, width = windows.shape[:3]
        split = windows.reshape(n, height, width, *self.weights.shape[1:3], self.groups, depth)
        taps = self.weights[0].size
        columns = np.moveaxis(split, 5, 0).reshape(self.groups, n * height * width, taps)
        weights = self.weights.reshape(self.groups, cout // self.groups, -1)
        sums = multiply(columns, weights, self.accumulator)
        return np.moveaxis(sums, 0, 1).reshape(n, height, width, cout)

    def hardware(self, graph: LayerGraph) -> MatrixHardware:
        x, y = graph.tensors[self.inputs[0]], graph.tensors[self.output]
        return MatrixHardware(
            x=x, y=y, frame=x.frame, window=self.window, groups=self.groups, weights=self.weights,
            weight_format=self.weight_format, accumulator=self.accumulator, requantize=self.requantize)
