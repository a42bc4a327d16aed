"""What every integer layer shares: foldings, schedules, the `Layer` interface, and the graph of layers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hwflow_base.short_repr import screen
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.stream.times import StageTimes, Times

from hwflow.layers.formats import EqualByValue, Frame, IntArray, IntFormat, Tensor
from hwflow.layers.matrix import require
from hwflow.layers.planes import Planes, to_frames, to_planes

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component
    from hwflow_rtl.vendor import Resources, Technology

__all__ = ["Folding", "HardwareLayer", "Layer", "LayerGraph", "Schedule", "divisors"]


@dataclass(frozen=True)
class Folding:
    """How much of a layer is computed in one cycle.

    `rows` outputs (channels) by `cols` inputs (input channels, or taps times input channels where `cols` spans a row of
    the kernel).  `lanes` results leave the stage at once.  Layers without multipliers use rows = 1.  `style` says what
    multiplies, where a stage has the choice.
    """

    rows: int
    cols: int
    lanes: int = 1
    style: MultiplierStyle = MultiplierStyle.BLOCKS


@dataclass(frozen=True)
class Schedule:
    """What a folding of a layer does in time.

    `work`: cycles of a frame in which its unit computes; `interval`: cycles between frames when neighbours never wait;
    `multipliers`: multiplications it can make in one cycle; `lanes_in`: elements its stage takes in one cycle, for each
    of its inputs.
    """

    work: int
    interval: int
    multipliers: int
    lanes_in: tuple[int, ...]


class Layer(EqualByValue, ABC):
    """One integer layer; each kind is a frozen dataclass in a file of its own.

    Fields shared by all kinds: `name` (from the ONNX node), `inputs` (tensor names), `output` (tensor name).
    """

    kind: ClassVar[str]
    name: str
    inputs: tuple[str, ...]
    output: str

    def evaluate(self, graph: LayerGraph, *inputs: IntArray) -> IntArray:
        """The exact meaning: [n, h, w, c] integers in, [n, h, w, c] integers out.

        ValueError where an input leaves its tensor's format.
        """
        planes = []
        for name, frames in zip(self.inputs, inputs, strict=True):
            require(f"layer '{self.name}': input '{name}'", frames, graph.tensors[name].format)
            planes.append(to_planes(frames, graph.tensors[name].format))
        return to_frames(self.compute(graph, *planes))

    @abstractmethod
    def compute(self, graph: LayerGraph, *inputs: Planes) -> Planes:
        """As `evaluate`, for planes that are inside their tensors' formats; gives planes of the output's."""

    @abstractmethod
    def multiplications(self, graph: LayerGraph) -> int:
        """Useful multiplications for one frame."""

    @abstractmethod
    def output_frame(self, *inputs: Frame) -> Frame:
        """The frame that the layer makes of its input frames; raises ValueError where they do not fit its fields."""

    def check(self, graph: LayerGraph) -> None:
        """Raise ValueError where the fields and the tensors of `graph` contradict each other."""
        frames = [graph.tensors[name].frame for name in self.inputs]
        made, stated = self.output_frame(*frames), graph.tensors[self.output].frame
        if made != stated:
            raise ValueError(f"layer '{self.name}': output '{self.output}' must be {made}, not {stated}")

    def check_input_format(self, graph: LayerGraph, stated: IntFormat) -> None:
        """Raise ValueError where the field `input_format` is not the format of the input's tensor."""
        format = graph.tensors[self.inputs[0]].format
        if stated != format:
            raise ValueError(f"layer '{self.name}': input_format must be {format} as '{self.inputs[0]}', not {stated}")


class HardwareLayer(Layer):
    """A kind of layer that can become a stage."""

    def hardware_problem(self, graph: LayerGraph) -> str | None:
        """None where this layer can become a stage, else what stands in the way."""
        return None

    @abstractmethod
    def foldings(self, graph: LayerGraph) -> Iterator[Folding]:
        """Every folding that the layer's stage can have."""

    def folding_problem(self, graph: LayerGraph, folding: Folding, technology: Technology | None = None) -> str | None:
        """None where `folding` is possible (on `technology` if given), else what is wrong and what is possible."""
        possible = tuple(self.foldings(graph))
        if technology is not None:
            styles = self.styles(graph, technology)
            if folding.style not in styles:
                named = ", ".join(style.value for style in styles)
                return f"style must be one of {named} on {technology.name}, not {folding.style.value}"
            possible = tuple(other for other in possible if other.style in styles)
        return None if folding in possible else nearest_foldings(folding, possible)

    def styles(self, graph: LayerGraph, technology: Technology) -> tuple[MultiplierStyle, ...]:
        """What can multiply on `technology`; `cost` and `unit` of foldings of another style raise ValueError."""
        return (MultiplierStyle.BLOCKS,)

    @abstractmethod
    def schedule(self, graph: LayerGraph, folding: Folding) -> Schedule:
        """The cycles of the stage with `folding`; quick, because solvers ask for all of them."""

    @abstractmethod
    def cost(self, graph: LayerGraph, folding: Folding, technology: Technology) -> Resources:
        """The resources of the stage with `folding`."""

    @abstractmethod
    def unit(self, graph: LayerGraph, folding: Folding, technology: Technology, name: str) -> Component:
        """The stage as an Amaranth component with the streams `i` and `o` and the output `busy`.

        A layer of several inputs has the streams `i0`, `i1`, ... instead of `i`.
        """

    def times(self, graph: LayerGraph, folding: Folding, technology: Technology, *arrivals: Times) -> StageTimes:
        """When the stage takes and gives beats, for the cycles in which those of each input arrive.

        `arrivals` hold whole frames, one or more, and no two beats of one input in the same cycle.  Exact, to the
        cycle, as long as the output is always taken.
        """
        raise NotImplementedError(f"{self.kind} has no times")


def divisors(count: int) -> list[int]:
    """Every divisor of `count`, ascending."""
    return [n for n in range(1, count + 1) if count % n == 0]


def nearest_foldings(folding: Folding, possible: tuple[Folding, ...]) -> str:
    """The first of rows, cols, lanes and style that is wrong, and its possible values."""
    for field in ("rows", "cols", "lanes", "style"):
        values = {getattr(other, field) for other in possible}
        value = getattr(folding, field)
        if value not in values:
            if field == "style":
                named = ", ".join(sorted(style.value for style in values))
                return f"style must be one of {named} with these rows, cols and lanes, not {value.value}"
            return f"{field} must be one of {', '.join(map(str, sorted(values)))}, not {value}"
        possible = tuple(other for other in possible if getattr(other, field) == value)
    raise AssertionError("the folding is possible")


@dataclass(frozen=True)
class LayerGraph:
    """Integers only.  `layers` is in topological order; `inputs` and `outputs` name tensors of `tensors`."""

    name: str
    tensors: Mapping[str, Tensor]
    layers: tuple[Layer, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def __repr__(self) -> str:
        return screen(f"LayerGraph '{self.name}': {len(self.layers)} layers", self.shown())

    def shown(self) -> Iterator[str]:
        """The inputs, layers and outputs, a line each."""
        def described(name: str) -> str:
            tensor = self.tensors[name]
            return f"{tensor.frame} {tensor.format}"

        for name in self.inputs:
            yield f"input '{name}': {described(name)}"
        for layer in self.layers:
            sources = ", ".join(described(name) for name in layer.inputs)
            yield f"{layer.kind} '{layer.name}': {sources} -> {described(layer.output)}"
        yield f"outputs: {', '.join(self.outputs)}"

    @property
    def computed(self) -> tuple[str, ...]:
        """The inputs, then the tensors that the layers make, each once and in order."""
        return tuple(dict.fromkeys([*self.inputs, *(layer.output for layer in self.layers)]))

    def producer(self, tensor: str) -> Layer | None:
        """The layer that makes `tensor`; None for an input of the graph."""
        return next((layer for layer in self.layers if layer.output == tensor), None)

    def consumers(self, tensor: str) -> tuple[Layer, ...]:
        """The layers that read `tensor`, in order."""
        return tuple(layer for layer in self.layers if tensor in layer.inputs)

    def check(self) -> None:
        """Raise ValueError where a tensor is used before it is made, made twice, or contradicts its layer."""
        for tensor in self.tensors.values():
            tensor.check()
        made = set(self.inputs)
        for layer in self.layers:
            for name in layer.inputs:
                if name not in made:
                    raise ValueError(f"layer '{layer.name}': input '{name}' must be made by an earlier layer")
            if layer.output in made:
                raise ValueError(f"layer '{layer.name}': output '{layer.output}' must be made once, not twice")
            made.add(layer.output)
            layer.check(self)
        for name in (*self.outputs, *made):
            if name not in made or name not in self.tensors:
                raise ValueError(f"graph '{self.name}': tensor '{name}' must be described and made by a layer")
