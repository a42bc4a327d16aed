"""The concatenation of tensors along the channels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from hwflow_rtl.stream.times import StageTimes, Times

from hwflow.layers.base import Folding, HardwareLayer, LayerGraph, Schedule, divisors
from hwflow.layers.formats import Frame
from hwflow.layers.planes import Planes
from hwflow.layers.sweep import Sweep, copied

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component
    from hwflow_rtl.vendor import Resources, Technology


@dataclass(frozen=True, eq=False)
class Concat(HardwareLayer):
    """y[..., :] = the channels of the first input, then those of the second, and so on.

    All tensors have one format, one scale and one zero point, so that the integers pass unchanged.
    """

    kind: ClassVar[str] = "concat"

    name: str
    inputs: tuple[str, ...]
    output: str

    def output_frame(self, *inputs: Frame) -> Frame:
        sizes = {(frame.height, frame.width) for frame in inputs}
        if len(sizes) != 1:
            raise ValueError(
                f"layer '{self.name}': the inputs must have one height and width, not {', '.join(map(str, inputs))}"
            )
        ((height, width),) = sizes
        return Frame(height, width, sum(frame.channels for frame in inputs))

    def check(self, graph: LayerGraph) -> None:
        super().check(graph)
        y = graph.tensors[self.output]
        for name in self.inputs:
            x = graph.tensors[name]
            if (x.format, x.scale, x.zero_point) != (y.format, y.scale, y.zero_point):
                raise ValueError(
                    f"layer '{self.name}': input '{name}' must have the output's format, scale and zero point "
                    f"({y.format}, {y.scale}, {y.zero_point}), not {x.format}, {x.scale}, {x.zero_point}"
                )

    def compute(self, graph: LayerGraph, *inputs: Planes) -> Planes:
        return np.concatenate(inputs)

    @property
    def rises(self) -> bool:
        return True

    def multiplications(self, graph: LayerGraph) -> int:
        return 0

    def shared_problem(self, graph: LayerGraph) -> str | None:
        return None

    def sweeps(self, graph: LayerGraph) -> tuple[Sweep, ...]:
        """A copy of each input."""
        y, first, found = graph.tensors[self.output], 0, []
        for name in self.inputs:
            x = graph.tensors[name]
            found.append(copied(self.name, x, y, first_channel=first))
            first += x.frame.channels
        return tuple(found)

    def foldings(self, graph: LayerGraph) -> Iterator[Folding]:
        """Any number of lanes that divides the channels of every input goes through at once."""
        common = math.gcd(*(graph.tensors[name].frame.channels for name in self.inputs))
        return (Folding(1, lanes, lanes) for lanes in divisors(common))

    def schedule(self, graph: LayerGraph, folding: Folding) -> Schedule:
        beats = graph.tensors[self.output].frame.elements // folding.lanes
        return Schedule(work=beats, interval=beats, multipliers=0, lanes_in=(folding.lanes,) * len(self.inputs))

    def cost(self, graph: LayerGraph, folding: Folding, technology: Technology) -> Resources:
        from hwflow_rtl.join.concat import ConcatStage

        return ConcatStage.cost(**self._arguments(graph, folding))

    def unit(self, graph: LayerGraph, folding: Folding, technology: Technology, name: str) -> Component:
        from hwflow_rtl.join.concat import ConcatStage

        return ConcatStage(**self._arguments(graph, folding))

    def times(self, graph: LayerGraph, folding: Folding, technology: Technology, *arrivals: Times,
              left: Times | None = None) -> StageTimes:
        from hwflow_rtl.join.concat import ConcatStage

        return ConcatStage.times(*arrivals, words=self._arguments(graph, folding)["words"], left=left)

    def _arguments(self, graph: LayerGraph, folding: Folding) -> dict[str, Any]:
        from hwflow.layers.hardware import shape_of

        return {
            "element": shape_of(graph.tensors[self.output].format), "lanes": folding.lanes,
            "words": [graph.tensors[name].frame.channels // folding.lanes for name in self.inputs]}
