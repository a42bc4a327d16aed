"""Convolution of a frame with integer weights: any stride, dilation, padding and number of groups."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from hwflow.layers.base import LayerGraph
from hwflow.layers.formats import Frame, IntArray, IntFormat
from hwflow.layers.matrix import accumulator_format, check_padding, errors_of, require
from hwflow.layers.matrix_layer import MatrixLayer, Product
from hwflow.layers.planes import Planes
from hwflow.layers.rescale import Rescale, accumulator_of
from hwflow.layers.window import Window

#: The convolution computes rows in blocks of about this many window entries: 2 MB of float32, which fit the cache.
_BLOCK = 1 << 19


@dataclass(frozen=True, eq=False)
class Conv(MatrixLayer):
    """y[o] = requantize(sum over the window and the group's channels of w[o, i, j, c] * x[i, j, c]).

    The products use the raw input integers.  ONNX subtracts the input's zero point z first, but
    sum(w * (x - z)) = sum(w * x) - z * sum(w).  So `requantize.bias` is the layer's own bias plus -z * sum(w), and
    the padding is the integer z, whose real value is 0.

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
        """The format of the exact sums: as wide as the worst case of these weights and the bias needs.

        With room for other weights (`hwflow reweight`) it is as wide as that room.
        """
        needed = accumulator_format(self.weights, self.requantize.whole_bias, self.input_format)
        return accumulator_of(self.requantize, needed)

    def output_frame(self, *inputs: Frame) -> Frame:
        (frame,) = inputs
        cout, _, _, depth = self.weights.shape
        if frame.channels != depth * self.groups or cout % self.groups:
            raise ValueError(
                f"layer '{self.name}': {self.groups} groups of {depth} channels must make up the input's "
                f"{frame.channels}, and divide the {cout} output channels"
            )
        return Frame(*self.window.positions(frame), cout)

    def check(self, graph: LayerGraph) -> None:
        super().check(graph)
        x, y = graph.tensors[self.inputs[0]], graph.tensors[self.output]
        self.check_input_format(graph, self.input_format)
        require(f"layer '{self.name}': weights", self.weights, self.weight_format)
        check_padding(self.name, self.pads, x)
        with errors_of(self.name):
            self.requantize.check(len(self.weights), self.accumulator, y.format)

    @cached_property
    def product(self) -> Product:
        return Product(self.name, self.weights, self.groups, self.weight_format, self.input_format, self.accumulator)

    def compute(self, graph: LayerGraph, *inputs: Planes) -> Planes:
        (x,) = inputs
        windows = self.window.windows(x, graph.tensors[self.inputs[0]].zero_point)
        rows, *ahead = windows.shape[3:]
        rescale = self.product.planes_rescaler(self.requantize, graph.tensors[self.output].format)
        y = np.empty((len(self.weights), rows, *ahead), rescale.dtype)
        step = self._rows_at_once(windows.shape)
        buffer = np.empty((*windows.shape[:3], step, *ahead), self.product.dtype)
        for first in range(0, rows, step):
            block = windows[:, :, :, first : first + step]
            columns = buffer[:, :, :, : block.shape[3]]
            np.copyto(columns, block)
            sums = self.product.of(columns.reshape(self.groups, self.product.depth, math.prod(block.shape[3:])))
            y[:, first : first + step] = rescale(sums).reshape(len(y), *block.shape[3:])
        return y

    def _rows_at_once(self, windows: tuple[int, ...]) -> int:
        """How many rows of `windows` [c, kh, kw, rows, columns, n] have at most `_BLOCK` entries and results."""
        c, height, width, rows, *ahead = windows
        entries = max(c * height * width, len(self.weights)) * math.prod(ahead)
        return max(1, min(rows, _BLOCK // max(entries, 1)))

    def multiplications(self, graph: LayerGraph) -> int:
        height, width = self.window.positions(graph.tensors[self.inputs[0]].frame)
        return height * width * int(self.weights.size)
