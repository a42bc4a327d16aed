"""The stage of largest or smallest elements of windows."""

from __future__ import annotations

from collections.abc import Iterator

from hwflow_rtl.pool.fold import FoldShape
from hwflow_rtl.pool.fold_pool import FoldMaxPoolShape
from hwflow_rtl.pool.pool import MaxPoolShape
from hwflow_rtl.vendor import Technology
from hwflow_rtl.window.shape import WindowShape

from hwflow.layers.formats import Frame
from hwflow.layers.max_pool import MaxPool
from hwflow.layers.window import Window
from hwflow.stages.codes import shape_of
from hwflow.stages.folding import Folding, lane_foldings
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
