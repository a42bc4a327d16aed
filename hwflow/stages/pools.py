"""The stages of windows without weights: their largest or smallest element, and their mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
from hwflow_rtl.pool.fold import FoldShape
from hwflow_rtl.pool.fold_pool import FoldAveragePoolShape, FoldMaxPoolShape
from hwflow_rtl.pool.pool import AveragePoolShape, MaxPoolShape
from hwflow_rtl.rescale.order import PixelOrder
from hwflow_rtl.rescale.rescaler import RescalerConstants
from hwflow_rtl.vendor import Technology
from hwflow_rtl.window.shape import WindowShape

from hwflow.layers.formats import Frame
from hwflow.layers.pools import AveragePool, MaxPool
from hwflow.layers.rescale import Requantize
from hwflow.layers.window import Window
from hwflow.stages.codes import pad_value, shape_of
from hwflow.stages.folding import Folding, divisors, lane_foldings
from hwflow.stages.rescalers import rescale_problem, rescaler_constants
from hwflow.stages.stage import LayerStage
from hwflow.stages.sweep import Line, Sweep, identity, multiplication_problem


class MaxPoolStage(LayerStage[MaxPool]):
    """Comparisons; no sum, no rescaling."""

    def shared_problem(self) -> str | None:
        return "a shared stage finds the largest element of a window, not the smallest" if self.layer.smallest else None

    def sweeps(self) -> tuple[Sweep, ...]:
        layer, y = self.layer, self.y
        sweep = Sweep(layer=layer.name, inputs=(self.x,), output=y, rescale=identity(y.format, y.frame.channels),
                      rows=Line(0, y.frame.height), columns=Line(0, y.frame.width), pad=layer.input_format.low)
        return (sweep.through(layer.window),)

    def foldings(self) -> Iterator[Folding]:
        return lane_foldings(self.y.frame.channels)

    def shape(self, folding: Folding, technology: Technology) -> MaxPoolShape | FoldMaxPoolShape:
        """Windows that do not overlap need no ring."""
        layer, window = self.layer, pool_window(self.layer.window, self.x.frame, folding.cols)
        kind = FoldMaxPoolShape if FoldShape.fits(window) else MaxPoolShape
        return kind(window=window, lanes=folding.cols, element=shape_of(layer.input_format), smallest=layer.smallest)


def pool_window(window: Window, frame: Frame, lanes: int) -> WindowShape:
    """A window that looks at `lanes` channels after the other."""
    words = frame.channels // lanes
    return WindowShape(
        height=frame.height, width=frame.width, words=words, groups=words, kernel=window.kernel, stride=window.strides,
        dilation=window.dilations, pads=window.pads)


class AveragePoolStage(LayerStage[AveragePool]):
    """Sums of windows, then what makes elements of sums."""

    def hardware_problem(self) -> str | None:
        return rescale_problem(self.layer.requantize, self.y.format)

    def shared_problem(self) -> str | None:
        return multiplication_problem(self.layer.multiplied)

    def sweeps(self) -> tuple[Sweep, ...]:
        """Sums with weights of 1; one rectangle after the other where windows have constants of their own."""
        layer, x, y = self.layer, self.x, self.y
        assert layer.multiplied is not None
        channels, sweeps = y.frame.channels, []
        for row_class, rows in runs(layer.row_classes or (0,) * y.frame.height):
            for column_class, columns in runs(layer.column_classes or (0,) * y.frame.width):
                rescale = layer.of_class(layer.multiplied, row_class, column_class, channels)
                assert isinstance(rescale, Requantize)
                sweep = Sweep(
                    layer=layer.name, inputs=(x,), output=y, rescale=rescale, rows=rows, columns=columns,
                    weights=np.ones((channels, *layer.kernel, 1), np.int64), channels=np.arange(channels)[:, None],
                    pad=x.zero_point if any(layer.pads) and not layer.row_classes else 0)
                sweeps.append(sweep.through(layer.window))
        return tuple(sweeps)

    def foldings(self) -> Iterator[Folding]:
        """Any divisor of the channels is summed at once, and any divisor of these leaves at once."""
        channels = self.y.frame.channels
        return (Folding(1, cols, lanes) for cols in divisors(channels) for lanes in divisors(cols))

    def shape(self, folding: Folding, technology: Technology) -> AveragePoolShape | FoldAveragePoolShape:
        """Windows that do not overlap need no ring, where their sums leave as fast as they come."""
        window = pool_window(self.layer.window, self.x.frame, folding.cols)
        sizes: dict[str, Any] = {
            "window": window, "lanes": folding.cols, "element": shape_of(self.layer.input_format),
            "accumulator": shape_of(self.layer.accumulator), "out_lanes": folding.lanes,
            "output": shape_of(self.y.format), "rescaler": self._rescaler(technology),
            "bipolar": self.x.format.bipolar}
        if FoldAveragePoolShape.fits(window, folding.cols // folding.lanes):
            return FoldAveragePoolShape(**sizes)
        return AveragePoolShape(**sizes, pad_value=0 if self.layer.row_classes else pad_value(self.x))

    @cached_property
    def _rescalers(self) -> dict[Technology, RescalerConstants]:
        """Keeps what `_rescaler` has given."""
        return {}

    def _rescaler(self, technology: Technology) -> RescalerConstants:
        if technology not in self._rescalers:
            self._rescalers[technology] = self._constants(technology)
        return self._rescalers[technology]

    def _constants(self, technology: Technology) -> RescalerConstants:
        layer = self.layer
        constants = rescaler_constants(layer.requantize, layer.accumulator, self.y.format, technology)
        if layer.classes > 1:
            order = PixelOrder(layer.row_classes, layer.column_classes, self.y.frame.channels)
            return replace(constants, order=order)  # type: ignore[type-var]
        return constants


def runs(classes: tuple[int, ...]) -> Iterator[tuple[int, Line]]:
    """Neighbours of one class."""
    first = 0
    for value, group in groupby(classes):
        count = len(list(group))
        yield value, Line(first, count)
        first += count
