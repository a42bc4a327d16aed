"""A kind of layer that multiplies by constant weights: what convolution and dense share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from hwflow_rtl.stream.times import StageTimes, Times

from hwflow.layers.base import Folding, HardwareLayer, LayerGraph, Schedule
from hwflow.layers.formats import IntArray, IntFormat, Tensor
from hwflow.layers.rescale import Requantize, Rescale
from hwflow.layers.sweep import multiplied, rescale_problem, weight_problem

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component
    from hwflow_rtl.memory import WeightStream
    from hwflow_rtl.multiply.style import MultiplierStyle
    from hwflow_rtl.vendor import Resources, Technology

    from hwflow.layers.matrix_stage import MatrixHardware


class MatrixLayer(HardwareLayer):
    """A kind of layer whose hardware is a `MatrixHardware`."""

    weights: IntArray
    requantize: Rescale

    @cached_property
    @abstractmethod
    def accumulator(self) -> IntFormat:
        """The format of the exact sums."""

    @cached_property
    def multiplied(self) -> Requantize | None:
        """What makes elements of sums as a multiplication, None where it is none."""
        return multiplied(self.requantize, self.accumulator)

    @abstractmethod
    def hardware(self, x: Tensor, y: Tensor) -> MatrixHardware:
        """The layer, from tensor `x` to tensor `y`, as weights that a window carries over frames."""

    @cached_property
    def _hardware(self) -> dict[tuple[Tensor, Tensor], MatrixHardware]:
        """The results of `hardware`: they depend on the layer and the two tensors alone."""
        return {}

    def hardware_of(self, graph: LayerGraph) -> MatrixHardware:
        """`hardware` between the layer's tensors in `graph`, made once."""
        key = x, y = graph.tensors[self.inputs[0]], graph.tensors[self.output]
        found = self._hardware.get(key)
        if found is None:
            found = self._hardware[key] = self.hardware(x, y)
        return found

    def hardware_problem(self, graph: LayerGraph) -> str | None:
        from hwflow.layers.hardware import rescale_problem

        return rescale_problem(self.hardware_of(graph).requantize, graph.tensors[self.output].format)

    def shared_problem(self, graph: LayerGraph) -> str | None:
        return rescale_problem(self.multiplied) or weight_problem(self.weights)

    @property
    def rises(self) -> bool:
        return isinstance(self.requantize, Requantize) and bool((self.weights >= 0).all())

    def multiplications(self, graph: LayerGraph) -> int:
        return self.hardware_of(graph).multiplications()

    def likeness(self, graph: LayerGraph) -> Hashable:
        return self.hardware_of(graph).likeness

    def foldings(self, graph: LayerGraph) -> Iterator[Folding]:
        return self.hardware_of(graph).foldings()

    @property
    def rescale_styles(self) -> tuple[MultiplierStyle, ...]:
        from hwflow_rtl.multiply.style import MultiplierStyle

        return (MultiplierStyle.LOGIC,)

    def styles(self, graph: LayerGraph, technology: Technology) -> tuple[MultiplierStyle, ...]:
        return self.hardware_of(graph).products.styles(technology)

    def weight_rows(self, graph: LayerGraph, folding: Folding) -> tuple[int, ...]:
        return self.hardware_of(graph).weight_rows(folding)

    def weight_stream(self, graph: LayerGraph, folding: Folding) -> WeightStream | None:
        return self.hardware_of(graph).weight_stream(folding)

    def weight_beats(self, graph: LayerGraph, folding: Folding) -> IntArray:
        return self.hardware_of(graph).weight_beats(folding)

    def schedule(self, graph: LayerGraph, folding: Folding) -> Schedule:
        return self.hardware_of(graph).schedule(folding)

    def cost(self, graph: LayerGraph, folding: Folding, technology: Technology) -> Resources:
        return self.hardware_of(graph).cost(folding, technology)

    def unit(self, graph: LayerGraph, folding: Folding, technology: Technology, name: str) -> Component:
        return self.hardware_of(graph).unit(folding, technology, name)

    def times(self, graph: LayerGraph, folding: Folding, technology: Technology, *arrivals: Times,
              left: Times | None = None) -> StageTimes:
        return self.hardware_of(graph).times(folding, technology, arrivals[0], left)
