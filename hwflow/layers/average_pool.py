"""The mean of a window, per channel; a window as large as the frame is a global average pool."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from hwflow_rtl.stream.times import StageTimes, Times

from hwflow.layers.base import Folding, HardwareLayer, LayerGraph, Schedule, divisors
from hwflow.layers.formats import Frame, IntFormat, Tensor
from hwflow.layers.matrix import check_padding, errors_of
from hwflow.layers.planes import Planes, compact
from hwflow.layers.rescale import Requantize, Rescale
from hwflow.layers.rescale_planes import PlanesRescaler
from hwflow.layers.sweep import Line, Sweep, multiplied, rescale_problem, window_sweep
from hwflow.layers.window import Window

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component
    from hwflow_rtl.pool.fold_pool import FoldAveragePoolStage
    from hwflow_rtl.pool.pool import AveragePoolStage
    from hwflow_rtl.rescale.rescaler import RescalerConstants
    from hwflow_rtl.vendor import Resources, Technology


@dataclass(frozen=True, eq=False)
class AveragePool(HardwareLayer):
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
        """Of pixels."""
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
                rescale = self._of_class(self.requantize, row, column, len(sums))
                made[place] = PlanesRescaler(rescale, self.accumulator, sums.dtype, format)(sums[place])
        return made

    @cached_property
    def multiplied(self) -> Requantize | None:
        """What makes elements of sums as a multiplication, None where it is none."""
        return multiplied(self.requantize, self.accumulator)

    def _of_class(self, q: Rescale, row: int, column: int, channels: int) -> Rescale:
        """The constants of one class, out of those of all."""
        first = (row * (max(self.column_classes, default=0) + 1) + column) * channels
        part = slice(first, first + channels)
        if isinstance(q, Requantize):
            return replace(q, bias=q.bias[part], multiplier=q.multiplier[part], shift=q.shift[part])
        return replace(q, values=q.values[part])

    def hardware_problem(self, graph: LayerGraph) -> str | None:
        from hwflow.layers.hardware import rescale_problem

        return rescale_problem(self.requantize, graph.tensors[self.output].format)

    def shared_problem(self, graph: LayerGraph) -> str | None:
        return rescale_problem(self.multiplied)

    def sweeps(self, graph: LayerGraph) -> tuple[Sweep, ...]:
        """Sums with weights of 1; one rectangle after the other where windows have constants of their own."""
        x, y = graph.tensors[self.inputs[0]], graph.tensors[self.output]
        assert self.multiplied is not None
        channels, found = y.frame.channels, []
        for row_class, rows in runs(self.row_classes or (0,) * y.frame.height):
            for column_class, columns in runs(self.column_classes or (0,) * y.frame.width):
                rescale = self._of_class(self.multiplied, row_class, column_class, channels)
                assert isinstance(rescale, Requantize)
                found.append(window_sweep(
                    self.name, x, y, rescale, kernel=self.kernel, strides=self.strides, dilations=self.dilations,
                    pads=self.pads, weights=np.ones((channels, *self.kernel, 1), np.int64),
                    channels=np.arange(channels)[:, None], rows=rows, columns=columns,
                    pad=x.zero_point if any(self.pads) and not self.row_classes else 0))
        return tuple(found)

    @property
    def rises(self) -> bool:
        return isinstance(self.requantize, Requantize)

    def multiplications(self, graph: LayerGraph) -> int:
        return 0

    def foldings(self, graph: LayerGraph) -> Iterator[Folding]:
        """Any divisor of the channels is summed at once, and any divisor of these leaves at once."""
        channels = graph.tensors[self.output].frame.channels
        return (Folding(1, cols, lanes) for cols in divisors(channels) for lanes in divisors(cols))

    def schedule(self, graph: LayerGraph, folding: Folding) -> Schedule:
        from hwflow.layers.hardware import pool_window

        window = pool_window(self.window, graph.tensors[self.inputs[0]].frame, folding.cols)
        stage = self._stage(graph, folding)
        interval = stage.cycles(window=window, lanes=folding.cols, out_lanes=folding.lanes)
        return Schedule(
            work=stage.work(window=window), interval=interval, multipliers=0, lanes_in=(folding.cols,))

    def cost(self, graph: LayerGraph, folding: Folding, technology: Technology) -> Resources:
        return self._stage(graph, folding).cost(**self._arguments(graph, folding, technology))

    def unit(self, graph: LayerGraph, folding: Folding, technology: Technology, name: str) -> Component:
        from hwflow_rtl.pool.fold_pool import FoldAveragePoolStage
        from hwflow_rtl.pool.pool import AveragePoolStage

        from hwflow.layers.hardware import pad_value

        x, arguments = graph.tensors[self.inputs[0]], self._arguments(graph, folding, technology)
        if self._stage(graph, folding) is FoldAveragePoolStage:
            return FoldAveragePoolStage(**arguments, bipolar=x.format.bipolar, name=name)
        padding = 0 if self.row_classes else pad_value(x)
        return AveragePoolStage(**arguments, pad_value=padding, bipolar=x.format.bipolar, name=name)

    def times(self, graph: LayerGraph, folding: Folding, technology: Technology, *arrivals: Times,
              left: Times | None = None) -> StageTimes:
        arguments = self._arguments(graph, folding, technology)
        return self._stage(graph, folding).times(arrivals[0], **arguments, left=left)

    def _stage(self, graph: LayerGraph, folding: Folding) -> type[AveragePoolStage] | type[FoldAveragePoolStage]:
        """Windows that do not overlap need no ring, where their sums leave as fast as they come."""
        from hwflow_rtl.pool.fold_pool import FoldAveragePoolStage
        from hwflow_rtl.pool.pool import AveragePoolStage

        from hwflow.layers.hardware import pool_window

        window = pool_window(self.window, graph.tensors[self.inputs[0]].frame, folding.cols)
        fits = FoldAveragePoolStage.fits(window, folding.cols, folding.lanes)
        return FoldAveragePoolStage if fits else AveragePoolStage

    def _arguments(self, graph: LayerGraph, folding: Folding, technology: Technology) -> dict[str, Any]:
        from hwflow.layers.hardware import pool_window, shape_of

        x, y = graph.tensors[self.inputs[0]], graph.tensors[self.output]
        return {
            "window": pool_window(self.window, x.frame, folding.cols), "lanes": folding.cols,
            "element": shape_of(self.input_format), "accumulator": shape_of(self.accumulator),
            "out_lanes": folding.lanes, "technology": technology,
            "output": shape_of(y.format),
            "rescaler": self._rescaler(y, technology)}

    def _rescaler(self, y: Tensor, technology: Technology) -> RescalerConstants:
        from hwflow_rtl.rescale.order import PixelOrder

        from hwflow.layers.hardware import rescaler_constants

        made = rescaler_constants(self.requantize, self.accumulator, y.format, technology)
        if self.classes > 1:
            order = PixelOrder(self.row_classes, self.column_classes, y.frame.channels)
            return replace(made, order=order)  # type: ignore[type-var]
        return made


def runs(classes: tuple[int, ...]) -> Iterator[tuple[int, Line]]:
    """Neighbours of one class."""
    first = 0
    for value, group in groupby(classes):
        count = len(list(group))
        yield value, Line(first, count)
        first += count
