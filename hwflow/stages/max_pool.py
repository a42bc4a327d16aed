"""The stage of largest or smallest elements of windows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amaranth.lib.wiring import Component
from hwflow_rtl.pool.fold import FoldShape
from hwflow_rtl.pool.fold_pool import FoldMaxPoolStage as FoldMaxPoolUnit
from hwflow_rtl.pool.pool import MaxPoolStage as MaxPoolUnit
from hwflow_rtl.stream.times import StageTimes, Times
from hwflow_rtl.vendor import Resources, Technology
from hwflow_rtl.window.shape import WindowShape

from hwflow.layers.formats import Frame
from hwflow.layers.max_pool import MaxPool
from hwflow.layers.window import Window
from hwflow.stages.codes import shape_of
from hwflow.stages.folding import Folding, Schedule, lane_foldings
from hwflow.stages.stage import LayerStage
from hwflow.stages.sweep import Line, Sweep, identity


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

    def schedule(self, folding: Folding, technology: Technology) -> Schedule:
        window = self._sizes(folding)["window"]
        return Schedule(work=self._unit.work(window=window), interval=self._unit.cycles(window=window), multipliers=0,
                        lanes_in=(folding.cols,))

    def cost(self, folding: Folding, technology: Technology) -> Resources:
        return self._unit.cost(**self._sizes(folding), technology=technology)

    def unit(self, folding: Folding, technology: Technology) -> Component:
        return self._unit(**self._sizes(folding), technology=technology)

    def times(self, folding: Folding, technology: Technology, *arrivals: Times,
              left: Times | None = None) -> StageTimes:
        return self._unit.times(arrivals[0], **self._sizes(folding), technology=technology, left=left)

    @property
    def _unit(self) -> type[MaxPoolUnit] | type[FoldMaxPoolUnit]:
        """Windows that do not overlap need no ring."""
        return FoldMaxPoolUnit if FoldShape.fits(pool_window(self.layer.window, self.x.frame, 1)) else MaxPoolUnit

    def _sizes(self, folding: Folding) -> dict[str, Any]:
        return {
            "window": pool_window(self.layer.window, self.x.frame, folding.cols), "lanes": folding.cols,
            "element": shape_of(self.layer.input_format), "smallest": self.layer.smallest}


def pool_window(window: Window, frame: Frame, lanes: int) -> WindowShape:
    """A window that looks at `lanes` channels after the other."""
    words = frame.channels // lanes
    return WindowShape(
        height=frame.height, width=frame.width, words=words, groups=words, kernel=window.kernel, stride=window.strides,
        dilation=window.dilations, pads=window.pads)
