"""Layers of windows without weights: their largest or smallest element, and their mean."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from hwflow.layers.base import Layer, LayerGraph
from hwflow.layers.formats import Frame, IntFormat
from hwflow.layers.matrix import check_padding, errors_of
from hwflow.layers.planes import Planes, compact
from hwflow.layers.rescale import Requantize, Rescale
from hwflow.layers.rescale_planes import PlanesRescaler
from hwflow.layers.threshold_fit import as_multiplication
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


@dataclass(frozen=True, eq=False)
class AveragePool(Layer):
    """y = requantize(sum over the window of x), per channel.

    The division is part of the requantization: its ratio is s_x / (s_y * count), its bias -zero_point * count, where
    count = kernel height * kernel width.  Padding is the input's zero point and counts (ONNX count_include_pad = 1).

    Where windows at the edges count fewer elements than others, `row_classes` and `column_classes` say of which class
    each row and each column of the output is.  Then padding adds nothing to a sum, and pixel (y, x) has the constants
    of class row_classes[y] * (classes of columns) + column_classes[x]: `requantize` has those of all channels for each
    class, class 0 first, each with the count of its windows.
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
    dilations: tuple[int, int] = (1, 1)
    row_classes: tuple[int, ...] = ()
    column_classes: tuple[int, ...] = ()

    @property
    def window(self) -> Window:
        return Window(self.kernel, self.strides, self.dilations, self.pads)

    @property
    def classes(self) -> int:
        """The classes of pixels."""
        return (max(self.row_classes, default=0) + 1) * (max(self.column_classes, default=0) + 1)

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
        check_padding(self.name, self.pads, replace(x, zero_point=0) if self.row_classes else x)
        self._check_classes(y.frame)
        with errors_of(self.name):
            self.requantize.check(y.frame.channels * self.classes, self.accumulator, y.format)

    def _check_classes(self, frame: Frame) -> None:
        stated = (self.row_classes, self.column_classes)
        for what, classes, size in zip(("row", "column"), stated, (frame.height, frame.width), strict=True):
            if any(stated) and (len(classes) != size or min(classes) < 0):
                raise ValueError(
                    f"layer '{self.name}': {what}_classes must be a number of 0 or more for each of the {size} "
                    f"{what}s of '{self.output}', not {list(classes)}")

    def compute(self, graph: LayerGraph, *inputs: Planes) -> Planes:
        (x,) = inputs
        x = x.astype(compact(self.accumulator))  # which holds every partial sum
        padding = 0 if self.row_classes else graph.tensors[self.inputs[0]].zero_point
        sums = self.window.reduce(x, padding, np.add)
        format = graph.tensors[self.output].format
        if not self.row_classes:
            return PlanesRescaler(self.requantize, self.accumulator, sums.dtype, format)(sums)
        made = np.empty(sums.shape, compact(format))
        for row in set(self.row_classes):
            for column in set(self.column_classes):
                place = np.ix_(
                    np.arange(len(sums)), np.equal(self.row_classes, row), np.equal(self.column_classes, column))
                rescale = self.of_class(self.requantize, row, column, len(sums))
                made[place] = PlanesRescaler(rescale, self.accumulator, sums.dtype, format)(sums[place])
        return made

    @cached_property
    def multiplied(self) -> Requantize | None:
        """The multiplication that makes elements of sums as a multiplication, None where it is none."""
        return as_multiplication(self.requantize, self.accumulator)

    def of_class(self, q: Rescale, row: int, column: int, channels: int) -> Rescale:
        """The constants of one class, out of those of all."""
        first = (row * (max(self.column_classes, default=0) + 1) + column) * channels
        part = slice(first, first + channels)
        if isinstance(q, Requantize):
            return replace(q, bias=q.bias[part], multiplier=q.multiplier[part], shift=q.shift[part])
        return replace(q, values=q.values[part])

    @property
    def rises(self) -> bool:
        return isinstance(self.requantize, Requantize)

    def multiplications(self, graph: LayerGraph) -> int:
        return 0
