"""The largest or the smallest element of a window, per channel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from hwflow_rtl.stream.times import StageTimes, Times

from hwflow.layers.base import Folding, HardwareLayer, LayerGraph, Schedule, divisors
from hwflow.layers.formats import Frame, IntFormat
from hwflow.layers.planes import Planes
from hwflow.layers.sweep import Sweep, identity, window_sweep
from hwflow.layers.window import Window

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component
    from hwflow_rtl.pool.fold_pool import FoldMaxPoolStage
    from hwflow_rtl.pool.pool import MaxPoolStage
    from hwflow_rtl.vendor import Resources, Technology


@dataclass(frozen=True, eq=False)
class MaxPool(HardwareLayer):
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

    def shared_problem(self, graph: LayerGraph) -> str | None:
        return "a shared stage finds the largest element of a window, not the smallest" if self.smallest else None

    def sweeps(self, graph: LayerGraph) -> tuple[Sweep, ...]:
        x, y = graph.tensors[self.inputs[0]], graph.tensors[self.output]
        return (window_sweep(
            self.name, x, y, identity(y.format, y.frame.channels), kernel=self.kernel, strides=self.strides,
            dilations=self.dilations, pads=self.pads, pad=self.input_format.low),)

    def foldings(self, graph: LayerGraph) -> Iterator[Folding]:
        """Any divisor of the channels goes through at once."""
        return (Folding(1, lanes, lanes) for lanes in divisors(graph.tensors[self.output].frame.channels))

    def schedule(self, graph: LayerGraph, folding: Folding) -> Schedule:
        window = self._sizes(graph, folding)["window"]
        stage = self._stage(graph)
        return Schedule(work=stage.work(window=window), interval=stage.cycles(window=window), multipliers=0,
                        lanes_in=(folding.cols,))

    def cost(self, graph: LayerGraph, folding: Folding, technology: Technology) -> Resources:
        return self._stage(graph).cost(**self._sizes(graph, folding), technology=technology)

    def unit(self, graph: LayerGraph, folding: Folding, technology: Technology, name: str) -> Component:
        return self._stage(graph)(**self._sizes(graph, folding), technology=technology)

    def times(self, graph: LayerGraph, folding: Folding, technology: Technology, *arrivals: Times,
              left: Times | None = None) -> StageTimes:
        return self._stage(graph).times(arrivals[0], **self._sizes(graph, folding), technology=technology,
                                        left=left)

    def _stage(self, graph: LayerGraph) -> type[MaxPoolStage] | type[FoldMaxPoolStage]:
        """Windows that do not overlap need no ring."""
        from hwflow_rtl.pool.fold import FoldShape
        from hwflow_rtl.pool.fold_pool import FoldMaxPoolStage
        from hwflow_rtl.pool.pool import MaxPoolStage

        from hwflow.layers.hardware import pool_window

        window = pool_window(self.window, graph.tensors[self.inputs[0]].frame, 1)
        return FoldMaxPoolStage if FoldShape.fits(window) else MaxPoolStage

    def _sizes(self, graph: LayerGraph, folding: Folding) -> dict[str, Any]:
        from hwflow.layers.hardware import pool_window, shape_of

        return {
            "window": pool_window(self.window, graph.tensors[self.inputs[0]].frame, folding.cols),
            "lanes": folding.cols, "element": shape_of(self.input_format), "smallest": self.smallest}
