"""The interface of all stages (`Stage`), and the stage of one layer (`LayerStage`).

All steps of the planning (solver, links, queues, plan, hardware) use the interface `Stage`, never a layer.  A
`LayerStage` is one layer in a unit of its own; a shared stage (`hwflow.hls`) has several layers, which a program
computes one after the other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Generic, TypeVar

from amaranth.lib.wiring import Component
from hwflow_rtl.memory import WeightStream
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.stream.times import StageTimes, Times
from hwflow_rtl.stream.unit import UnitShape
from hwflow_rtl.vendor import Resources, Technology

from hwflow.layers.base import Layer, LayerGraph
from hwflow.layers.formats import IntArray, Tensor
from hwflow.stages.folding import Folding, Schedule, nearest_foldings
from hwflow.stages.sweep import Sweep

L_co = TypeVar("L_co", bound=Layer, covariant=True)


@dataclass(frozen=True)
class Life:
    """`words` words are needed for `tensor` from step `first` to step `last`, both included.

    `of` says for people what makes the tensor.  From step `again` on they are needed for the next frame's tensor.
    """

    tensor: str
    words: int
    first: int
    last: int
    of: str = ""
    again: int | None = None

    def meets(self, other: Life) -> bool:
        return ((self.first <= other.last and other.first <= self.last) or self.again is not None is not other.again
                or self.needed_again(other.last) or other.needed_again(self.last))

    def needed_again(self, step: int) -> bool:
        return self.again is not None and step >= self.again

    def needed(self, step: int) -> bool:
        return self.first <= step <= self.last or self.needed_again(step)


@dataclass(frozen=True)
class Place(Life):
    """A tensor in the words from `base` on."""

    base: int = 0


@dataclass(frozen=True)
class StepPlan:
    """The work that a shared stage does for one layer, or for an input (`load`) or its output (`store`).

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
    layers: tuple[Layer, ...]
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
        """A key, equal for stages of one graph that have the same foldings, schedules and weight streams."""

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
        """The styles that it can have on `technology`; `cost` and `unit` raise ValueError for another style."""

    @property
    @abstractmethod
    def rescale_styles(self) -> tuple[MultiplierStyle, ...]:
        """The values of `Folding.rescale` that it can have besides None."""

    @abstractmethod
    def folding_problem(self, folding: Folding, technology: Technology) -> str | None:
        """None if `folding` is possible on `technology`, else a message: what is wrong and what is possible."""

    @abstractmethod
    def weight_rows(self, folding: Folding) -> tuple[int, ...]:
        """The values of `weight_rows` other than 0 that it can have with `folding`, the best first.

        `folding.weight_rows` itself is ignored.
        """

    @abstractmethod
    def weight_stream(self, folding: Folding) -> WeightStream | None:
        """The words that its stream of weights brings for a frame; None where it has none."""

    @abstractmethod
    def weight_beats(self, folding: Folding) -> IntArray:
        """The weights in the order of `weight_stream`: int64[beats, lanes]."""

    def steps(self, folding: Folding, technology: Technology) -> tuple[StepPlan, ...]:
        """The steps that it takes with a frame, one after another; () where all its parts work at the same time."""
        return ()

    def step_times(self, folding: Folding, technology: Technology, *arrivals: Times,
                   left: Sequence[Times] | None = None) -> tuple[StepTimes, ...]:
        """When it does what `steps` has, if beats arrive and leave as `times` has them; () as there."""
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
              left: Sequence[Times] | None = None) -> StageTimes:
        """The cycles in which it takes input beats and offers output beats.

        `arrivals` has, for each input, the cycles in which the beats of one or more whole frames arrive, at most one a
        cycle.  `left` has, for each output, the cycles in which the reader takes its beats (backpressure); None: it
        takes each beat at once.  The result is exact, to the cycle.  With `weight_rows` it is a bound: it assumes that
        an idle stage has its weights, and that they then arrive every `weight_interval` cycles.
        """

    @abstractmethod
    def unit(self, folding: Folding, technology: Technology) -> Component:
        """The component, with the streams `i` and `o` and the output port `busy`.

        With several inputs it has the streams `i0`, `i1`, ... instead of `i`.  With `weight_rows` it also has the
        stream `weights`.
        """


@dataclass(frozen=True, eq=False)
class LayerStage(Stage, Generic[L_co]):
    """A stage of one `layer`; each kind of layer has a class of its own, in a file of its own.

    A class says which foldings there are, and what the unit of a folding is (`shape`); all else follows from these.
    """

    layer: L_co

    @cached_property
    def operands(self) -> tuple[Tensor, ...]:
        """The tensors that the layer reads."""
        return tuple(self.graph.tensors[name] for name in self.layer.inputs)

    @cached_property
    def x(self) -> Tensor:
        """The first tensor that the layer reads."""
        return self.operands[0]

    @cached_property
    def y(self) -> Tensor:
        """The tensor that the layer makes."""
        return self.graph.tensors[self.layer.output]

    @property
    def multiplications(self) -> int:
        return self.layer.multiplications(self.graph)

    def hardware_problem(self) -> str | None:
        """None if the layer can become a stage, else the reason why it cannot."""
        return None

    def shared_problem(self) -> str | None:
        """None if a shared stage can compute the layer, else the reason why it cannot; whatever its tensors are."""
        return f"a shared stage has no {self.kind}"

    def sweeps(self) -> tuple[Sweep, ...]:
        """The layer as a shared stage computes it, where `shared_problem` is None."""
        raise NotImplementedError(f"{self.kind} has no sweeps")

    def sources(self) -> IntArray | None:
        """Where each element of the output comes from, where none is computed: its number in the rasters of the
        operands, one after another; int64[elements].  None: some element is computed, or padding."""
        return None

    @property
    def likeness(self) -> Hashable:
        return self.layer.name

    @abstractmethod
    def shape(self, folding: Folding, technology: Technology) -> UnitShape:
        """The unit that computes the layer with `folding`, before it is built.  ValueError for an impossible one."""

    def styles(self, technology: Technology) -> tuple[MultiplierStyle, ...]:
        return (MultiplierStyle.BLOCKS,)

    @property
    def rescale_styles(self) -> tuple[MultiplierStyle, ...]:
        return ()

    def foldings_on(self, technology: Technology) -> Iterator[Folding]:
        """The foldings in styles that `technology` has."""
        styles = self.styles(technology)
        return (folding for folding in self.foldings() if folding.style in styles)

    def folding_problem(self, folding: Folding, technology: Technology | None = None) -> str | None:
        """None if `folding` is possible (on `technology` if given), else a message that lists the possible values."""
        possible = tuple(self.foldings())
        if technology is not None:
            styles = self.styles(technology)
            if folding.style not in styles:
                named = ", ".join(style.value for style in styles)
                return f"style must be one of {named} on {technology.name}, not {folding.style.value}"
            possible = tuple(other for other in possible if other.style in styles)
        if folding.rescale is not None and folding.rescale not in self.rescale_styles:
            return (f"rescale must not be {folding.rescale.value} for a {self.kind}: this kind of layer has no choice "
                    "there")
        plain = replace(folding, rescale=None, weight_rows=0, weight_interval=Fraction(1))
        if plain not in possible:
            return nearest_foldings(plain, possible)
        rows = (0, *self.weight_rows(plain))
        if folding.weight_rows not in rows:
            allowed = f"one of {', '.join(map(str, sorted(rows)))}" if len(rows) > 1 else "0 (or missing)"
            return f"weight_rows must be {allowed} with these rows, cols and lanes, not {folding.weight_rows}"
        return None

    def weight_rows(self, folding: Folding) -> tuple[int, ...]:
        return ()

    def weight_stream(self, folding: Folding) -> WeightStream | None:
        return None

    def weight_beats(self, folding: Folding) -> IntArray:
        raise NotImplementedError(f"{self.kind} has no stream of weights")

    def schedule(self, folding: Folding, technology: Technology) -> Schedule:
        shape = self.shape(folding, technology)
        return Schedule(shape.work, shape.cycles, shape.multipliers, shape.lanes_in)

    def cost(self, folding: Folding, technology: Technology) -> Resources:
        return self.shape(folding, technology).cost(technology)

    def times(self, folding: Folding, technology: Technology, *arrivals: Times,
              left: Sequence[Times] | None = None) -> StageTimes:
        return self.shape(folding, technology).times(technology, *arrivals, left=None if left is None else left[0])

    def unit(self, folding: Folding, technology: Technology) -> Component:
        return self.shape(folding, technology).build(technology, self.unit_name)

    @property
    def unit_name(self) -> str:
        """The beginning of the names of its ROMs."""
        return f"stage{self.name}"
