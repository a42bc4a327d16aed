"""The hardware of layers that multiply by constant weights: what convolution and dense share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from amaranth.lib.wiring import Component
from hwflow_rtl.matrix import MatrixShape, MatrixStage
from hwflow_rtl.rescaling import Rescaling
from hwflow_rtl.times import StageTimes, Times
from hwflow_rtl.vendor import Resources, Technology
from hwflow_rtl.window import WindowShape

from hwflow.layers.base import Folding, HardwareLayer, LayerGraph, Schedule
from hwflow.layers.formats import Frame, IntArray, IntFormat, Tensor
from hwflow.layers.hardware import divisors, pad_value, rescale_problem, rescaling, shape_of
from hwflow.layers.rescale import Rescale
from hwflow.layers.window import Window

__all__ = ["MatrixHardware", "MatrixLayer"]


class MatrixHardware:
    """A layer with `weights` [cout, kh, kw, cin / groups] that a window carries over frames `x`."""

    def __init__(self, *, x: Tensor, y: Tensor, frame: Frame, window: Window, groups: int, weights: IntArray,
                 weight_format: IntFormat, accumulator: IntFormat, requantize: Rescale):
        self.x, self.y = x, y
        self.frame = frame
        self.window = window
        self.groups = groups
        self.weights = weights
        self.weight_format = weight_format
        self.accumulator = accumulator
        self.requantize = requantize

    def multiplications(self) -> int:
        height, width = self.window.positions(self.frame)
        return height * width * int(self.weights.size)

    def foldings(self) -> Iterator[Folding]:
        """Rows divide the outputs of a group; cols divide the inputs of a group, or span a row of the kernel."""
        outputs, depth = self.weights.shape[0] // self.groups, self.weights.shape[3]
        cols = divisors(depth)
        if self.groups == 1 and self.window.kernel[1] > 1:
            cols.append(self.window.kernel[1] * depth)
        for rows in divisors(outputs):
            for lanes in divisors(rows):
                for columns in cols:
                    yield Folding(rows, columns, lanes)

    def spans_taps(self, folding: Folding) -> bool:
        return bool(folding.cols > self.weights.shape[3])

    def shape(self, folding: Folding) -> MatrixShape:
        patch = self.spans_taps(folding)
        lanes = folding.cols // self.window.kernel[1] if patch else folding.cols
        window = WindowShape(
            height=self.frame.height, width=self.frame.width, words=self.frame.channels // lanes,
            kernel=self.window.kernel, stride=self.window.strides, dilation=self.window.dilations,
            pads=self.window.pads, groups=self.groups,
            tiles_per_group=self.weights.shape[0] // self.groups // folding.rows)
        return MatrixShape(
            window=window, lanes=lanes, rows=folding.rows, out_lanes=folding.lanes, element=shape_of(self.x.format),
            weight=shape_of(self.weight_format), accumulator=shape_of(self.accumulator),
            output=shape_of(self.y.format), patch=patch, bipolar_element=self.x.format.bipolar,
            bipolar_weight=self.weight_format.bipolar)

    def schedule(self, folding: Folding) -> Schedule:
        shape = self.shape(folding)
        return Schedule(work=shape.work, interval=shape.cycles(), multipliers=folding.rows * folding.cols,
                        lanes_in=(shape.lanes,))

    def cost(self, folding: Folding, technology: Technology) -> Resources:
        return MatrixStage.cost(shape=self.shape(folding), rescaling=self.rescaling(technology), technology=technology)

    def times(self, folding: Folding, technology: Technology, arrivals: Times) -> StageTimes:
        return MatrixStage.times(
            arrivals, shape=self.shape(folding), rescaling=self.rescaling(technology), technology=technology)

    def unit(self, folding: Folding, technology: Technology, name: str) -> Component:
        shape = self.shape(folding)
        return MatrixStage(
            window=shape.window, lanes=shape.lanes, rows=shape.rows, weights=self.weights, element=shape.element,
            weight=shape.weight, accumulator=shape.accumulator, output=shape.output, out_lanes=shape.out_lanes,
            pad_value=pad_value(self.x), rescaling=self.rescaling(technology), technology=technology, name=name,
            patch=shape.patch, bipolar_element=shape.bipolar_element, bipolar_weight=shape.bipolar_weight)

    def rescaling(self, technology: Technology) -> Rescaling:
        return rescaling(self.requantize, self.accumulator, self.y.format, technology)


class MatrixLayer(HardwareLayer):
    """A kind of layer whose hardware half is that of `hardware`."""

    @abstractmethod
    def hardware(self, graph: LayerGraph) -> MatrixHardware:
        """The layer as weights that a window carries over frames."""

    def hardware_problem(self, graph: LayerGraph) -> str | None:
        return rescale_problem(self.hardware(graph).requantize, graph.tensors[self.output].format)

    def multiplications(self, graph: LayerGraph) -> int:
        return self.hardware(graph).multiplications()

    def foldings(self, graph: LayerGraph) -> Iterator[Folding]:
        return self.hardware(graph).foldings()

    def schedule(self, graph: LayerGraph, folding: Folding) -> Schedule:
        return self.hardware(graph).schedule(folding)

    def cost(self, graph: LayerGraph, folding: Folding, technology: Technology) -> Resources:
        return self.hardware(graph).cost(folding, technology)

    def unit(self, graph: LayerGraph, folding: Folding, technology: Technology, name: str) -> Component:
        return self.hardware(graph).unit(folding, technology, name)

    def times(self, graph: LayerGraph, folding: Folding, technology: Technology, *arrivals: Times) -> StageTimes:
        return self.hardware(graph).times(folding, technology, *arrivals)
