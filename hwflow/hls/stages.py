"""The stages of a graph: the layers of each stage, and its schedule and cost for any folding.

All steps of the planning (solver, links, queues, plan, hardware) use the interface `Stage`, never a layer.  A
`LayerStage` is one layer in a unit of its own; a `SharedStage` (`shared_stage`) has several layers, which a program
computes one after the other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from amaranth.lib.wiring import Component
from hwflow_rtl.memory import WeightStream
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.stream.times import StageTimes, Times
from hwflow_rtl.vendor import Resources, Technology

from ..layers.base import Folding, HardwareLayer, LayerGraph, Schedule
from ..layers.formats import IntArray
from .shared.frame_map import Place


@dataclass(frozen=True)
class StepPlan:
    """What a shared stage does for one layer, or for an input (`load`) or its output (`store`).

    `name` is what a stage of the layer alone would be called; `tensor` is what it makes; `cycles` of a frame, with
    those in which it waits for weights, `waits`; `multiplications` that are useful.
    """

    name: str
    tensor: str
    cycles: int
    waits: int
    multiplications: int


@dataclass(frozen=True, eq=False)
class StepTimes:
    """When a step of a shared stage begins and ends in each frame, in cycles, and the cycles in which it `waits` for
    weights; `name` as that of a `StepPlan`."""

    name: str
    begins: Times
    ends: Times
    waits: Times


@dataclass(frozen=True, eq=False)
class WrittenTensor:
    """A tensor that a stage writes into its memory, word by word.

    `steps` of the stage's program do.  `places`, int64[elements of all words], has for each element, in the order in
    which they are written, its place in the frame, -1 for one that belongs to no channel; the memory has it less
    `less`.
    """

    tensor: str
    steps: tuple[int, ...]
    places: IntArray
    less: int


@dataclass(frozen=True, eq=False)
class Stage(ABC):
    """The hardware of some layers of `graph`, before it has a folding.

    `name` is its name in the Verilog, `kind` its kind in tables.  `layers` are in the graph's order.  `inputs` are the
    tensors at its input ports, in order, `outputs` those at its output ports.  `boundaries` are the tensors that a
    simulation sees and compares, in the order in which they are computed; `outputs` are the last.
    """

    graph: LayerGraph
    name: str
    kind: str
    layers: tuple[HardwareLayer, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    boundaries: tuple[str, ...]

    @property
    @abstractmethod
    def multiplications(self) -> int:
        """Useful multiplications for one frame."""

    @property
    @abstractmethod
    def likeness(self) -> Hashable:
        """As `HardwareLayer.likeness`."""

    @property
    def takes_frames_at_once(self) -> bool:
        """It takes a frame as fast as it comes, and nothing while it computes."""
        return False

    def lets_in(self, folding: Folding) -> bool:
        """It takes frames only from a certain step of the frame before on, and then beside its computation."""
        return False

    def lanes_out(self, folding: Folding) -> tuple[int, ...]:
        """For each output the elements of a beat."""
        return (folding.lanes,) * len(self.outputs)

    def written(self, folding: Folding) -> tuple[WrittenTensor, ...]:
        """How its memory gets each of the boundaries that are not at an output."""
        return ()

    @abstractmethod
    def foldings(self) -> Iterator[Folding]:
        """Every folding that it can have."""

    @abstractmethod
    def styles(self, technology: Technology) -> tuple[MultiplierStyle, ...]:
        """The styles that it can have on `technology`."""

    @property
    @abstractmethod
    def rescale_styles(self) -> tuple[MultiplierStyle, ...]:
        """What can multiply where results are rescaled, beside what it takes by itself."""

    @abstractmethod
    def folding_problem(self, folding: Folding, technology: Technology) -> str | None:
        """None if `folding` is possible on `technology`, else a message: what is wrong and what is possible."""

    @abstractmethod
    def weight_rows(self, folding: Folding) -> tuple[int, ...]:
        """The `weight_rows` that it can have with `folding`, as `HardwareLayer.weight_rows`."""

    @abstractmethod
    def weight_stream(self, folding: Folding) -> WeightStream | None:
        """What its stream of weights brings for a frame; None where it has none."""

    @abstractmethod
    def weight_beats(self, folding: Folding) -> IntArray:
        """The weights in the order of `weight_stream`: int64[beats, lanes]."""

    def steps(self, folding: Folding, technology: Technology) -> tuple[StepPlan, ...]:
        """What it does with a frame, one after another; () where all its parts work at the same time."""
        return ()

    def step_times(self, folding: Folding, technology: Technology, *arrivals: Times) -> tuple[StepTimes, ...]:
        """When it does what `steps` has, if the beats of each input arrive as `arrivals` says; () as there."""
        return ()

    def frames(self, folding: Folding) -> tuple[Place, ...]:
        """Where tensors are in its frame memory."""
        return ()

    @abstractmethod
    def schedule(self, folding: Folding, technology: Technology) -> Schedule:
        """Its cycles with `folding`; fast, because the solver computes those of all foldings."""

    @abstractmethod
    def cost(self, folding: Folding, technology: Technology) -> Resources:
        """Its resources with `folding`."""

    @abstractmethod
    def times(self, folding: Folding, technology: Technology, *arrivals: Times,
              left: Times | None = None) -> StageTimes:
        """The cycles in which it takes and gives beats, as `HardwareLayer.times`."""

    @abstractmethod
    def unit(self, folding: Folding, technology: Technology) -> Component:
        """The component, as `HardwareLayer.unit`."""


class LayerStage(Stage):
    """A stage of one layer."""

    @classmethod
    def of(cls, graph: LayerGraph, name: str, layer: HardwareLayer) -> LayerStage:
        return cls(graph, name, layer.kind, (layer,), layer.inputs, (layer.output,), (layer.output,))

    @property
    def layer(self) -> HardwareLayer:
        (only,) = self.layers
        return only

    @property
    def multiplications(self) -> int:
        return self.layer.multiplications(self.graph)

    @property
    def likeness(self) -> Hashable:
        return self.layer.likeness(self.graph)

    def foldings(self) -> Iterator[Folding]:
        return self.layer.foldings(self.graph)

    def styles(self, technology: Technology) -> tuple[MultiplierStyle, ...]:
        return self.layer.styles(self.graph, technology)

    @property
    def rescale_styles(self) -> tuple[MultiplierStyle, ...]:
        return self.layer.rescale_styles

    def folding_problem(self, folding: Folding, technology: Technology) -> str | None:
        return self.layer.folding_problem(self.graph, folding, technology)

    def weight_rows(self, folding: Folding) -> tuple[int, ...]:
        return self.layer.weight_rows(self.graph, folding)

    def weight_stream(self, folding: Folding) -> WeightStream | None:
        return self.layer.weight_stream(self.graph, folding)

    def weight_beats(self, folding: Folding) -> IntArray:
        return self.layer.weight_beats(self.graph, folding)

    def schedule(self, folding: Folding, technology: Technology) -> Schedule:
        return self.layer.schedule(self.graph, folding)

    def cost(self, folding: Folding, technology: Technology) -> Resources:
        return self.layer.cost(self.graph, folding, technology)

    def times(self, folding: Folding, technology: Technology, *arrivals: Times,
              left: Times | None = None) -> StageTimes:
        return self.layer.times(self.graph, folding, technology, *arrivals, left=left)

    def unit(self, folding: Folding, technology: Technology) -> Component:
        return self.layer.unit(self.graph, folding, technology, f"stage{self.name}")
