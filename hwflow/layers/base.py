"""The interface of all integer layers (`Layer`, `HardwareLayer`), foldings and schedules, and the graph of layers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from hwflow_base.by_value import ByValue
from hwflow_base.notebook import drawn_html
from hwflow_base.short_repr import screen
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.stream.times import StageTimes, Times

from hwflow.layers.formats import EqualByValue, Frame, IntArray, IntFormat, Tensor
from hwflow.layers.matrix import require
from hwflow.layers.planes import Planes, to_frames, to_planes
from hwflow.layers.words import kind_of

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component
    from hwflow_rtl.memory import WeightStream
    from hwflow_rtl.vendor import Resources, Technology

    from hwflow.layers.sweep import Sweep


@dataclass(frozen=True)
class Folding:
    """The parallelism of a stage: how much of a layer it computes in one cycle.

    `rows` is the number of output channels and `cols` the number of inputs that it multiplies in one cycle.  Inputs are
    input channels, or taps times input channels if `cols` spans a row of the kernel.  `lanes` is the number of results
    that leave in one beat.  Layers without multipliers have rows = 1.  `style` says what multiplies, if the stage has a
    choice.  `rescale` says what multiplies in the requantizers; with None the layer takes what is cheaper.
    `weight_rows` is the number of rows whose weights arrive in one beat of the stage's weight stream; 0: weights are in
    ROMs.  `weight_interval` is the number of cycles from one beat of that stream to the next.
    """

    rows: int
    cols: int
    lanes: int = 1
    style: MultiplierStyle = MultiplierStyle.BLOCKS
    rescale: MultiplierStyle | None = None
    weight_rows: int = 0
    weight_interval: Fraction = Fraction(1)


@dataclass(frozen=True)
class Schedule:
    """The timing of a stage with a certain folding.

    `work`: cycles of a frame in which the unit computes.  `interval`: initiation interval, the cycles from frame to
    frame without backpressure and with inputs that arrive in time.  `multipliers`: multiplications that it can do in
    one cycle.  `lanes_in`: for each input, the elements of a beat.
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
        """The exact result: from integers [n, h, w, c] to integers [n, h, w, c].

        ValueError if an input has values outside its tensor's format.
        """
        planes = []
        for name, frames in zip(self.inputs, inputs, strict=True):
            require(f"layer '{self.name}': input '{name}'", frames, graph.tensors[name].format)
            planes.append(to_planes(frames, graph.tensors[name].format))
        return to_frames(self.compute(graph, *planes))

    @abstractmethod
    def compute(self, graph: LayerGraph, *inputs: Planes) -> Planes:
        """As `evaluate`, but from planes to planes, without a check of the formats of the inputs."""

    def resume(self, graph: LayerGraph, state: IntArray | None, *inputs: Planes) -> tuple[Planes, IntArray | None]:
        """As `compute`, for the next frames of a sequence; also gives the state of the layer after them.

        `state` is the state before these frames; None at the start of a sequence.  The second result is None for a
        layer without a state.
        """
        return self.compute(graph, *inputs), None

    @property
    def said(self) -> str:
        """The kind in words; of a recurrent layer its cell."""
        return str(getattr(self, "cell", self.kind)).replace("_", " ")

    @property
    def keeps_state(self) -> bool:
        """Whether a frame's result depends on the frames before it."""
        return False

    def deviation(self, graph: LayerGraph) -> int:
        """The largest difference from the ONNX operator in real numbers, in steps of the output; ties do not count.

        0 if the layer is that operator, exactly rounded.  More if the layer is defined in integers
        (docs/integer-functions.md).
        """
        return 0

    @property
    def rises(self) -> bool:
        """Whether no element of the result falls where one of an input rises."""
        return False

    @abstractmethod
    def multiplications(self, graph: LayerGraph) -> int:
        """Useful multiplications for one frame."""

    @abstractmethod
    def output_frame(self, *inputs: Frame) -> Frame:
        """The output frame for these input frames.  ValueError if they do not fit the fields of the layer."""

    def check(self, graph: LayerGraph) -> None:
        """ValueError if the fields of the layer and the tensors of `graph` contradict each other."""
        frames = [graph.tensors[name].frame for name in self.inputs]
        made, stated = self.output_frame(*frames), graph.tensors[self.output].frame
        if made != stated:
            raise ValueError(f"layer '{self.name}': output '{self.output}' must be {made}, not {stated}")

    def check_input_format(self, graph: LayerGraph, stated: IntFormat) -> None:
        """ValueError if the field `input_format` is not the format of the input's tensor."""
        format = graph.tensors[self.inputs[0]].format
        if stated != format:
            raise ValueError(f"layer '{self.name}': input_format must be {format} as '{self.inputs[0]}', not {stated}")


class HardwareLayer(Layer):
    """A kind of layer that can become a stage."""

    def hardware_problem(self, graph: LayerGraph) -> str | None:
        """None if this layer can become a stage, else the reason why it cannot."""
        return None

    def likeness(self, graph: LayerGraph) -> Hashable:
        """A key, equal for layers of `graph` that have the same foldings, schedules and weight streams."""
        return self.name

    def shared_problem(self, graph: LayerGraph) -> str | None:
        """None if a shared stage can compute this layer, else the reason why it cannot; whatever its tensors are."""
        return f"a shared stage has no {self.kind}"

    def sweeps(self, graph: LayerGraph) -> tuple[Sweep, ...]:
        """The layer as a shared stage computes it, where `shared_problem` is None."""
        raise NotImplementedError(f"{self.kind} has no sweeps")

    @abstractmethod
    def foldings(self, graph: LayerGraph) -> Iterator[Folding]:
        """Every folding that the layer's stage can have."""

    def folding_problem(self, graph: LayerGraph, folding: Folding, technology: Technology | None = None) -> str | None:
        """None if `folding` is possible (on `technology` if given), else a message that lists the possible values."""
        possible = tuple(self.foldings(graph))
        if technology is not None:
            styles = self.styles(graph, technology)
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
        rows = (0, *self.weight_rows(graph, plain))
        if folding.weight_rows not in rows:
            allowed = f"one of {', '.join(map(str, sorted(rows)))}" if len(rows) > 1 else "0 (or missing)"
            return f"weight_rows must be {allowed} with these rows, cols and lanes, not {folding.weight_rows}"
        return None

    @property
    def rescale_styles(self) -> tuple[MultiplierStyle, ...]:
        """The values of `Folding.rescale` that the layer can have, besides None."""
        return ()

    def styles(self, graph: LayerGraph, technology: Technology) -> tuple[MultiplierStyle, ...]:
        """The styles that the stage can have on `technology`; `cost` and `unit` raise ValueError for another style."""
        return (MultiplierStyle.BLOCKS,)

    def weight_rows(self, graph: LayerGraph, folding: Folding) -> tuple[int, ...]:
        """The values of `weight_rows` other than 0 that a stage with `folding` can have, the best first.

        `folding.weight_rows` itself is ignored.
        """
        return ()

    def weight_stream(self, graph: LayerGraph, folding: Folding) -> WeightStream | None:
        """The stream that brings the weights of a frame to the stage; None if weights are in ROMs."""
        return None

    def weight_beats(self, graph: LayerGraph, folding: Folding) -> IntArray:
        """The weights in the order of `weight_stream`: int64[beats, lanes]."""
        raise NotImplementedError(f"{self.kind} has no stream of weights")

    @abstractmethod
    def schedule(self, graph: LayerGraph, folding: Folding) -> Schedule:
        """The cycles of the stage with `folding`.  It must be fast, because the solver calls it for every folding."""

    @abstractmethod
    def cost(self, graph: LayerGraph, folding: Folding, technology: Technology) -> Resources:
        """The resources of the stage with `folding`."""

    @abstractmethod
    def unit(self, graph: LayerGraph, folding: Folding, technology: Technology, name: str) -> Component:
        """The stage as an Amaranth component with the streams `i` and `o` and the output port `busy`.

        With several inputs it has the streams `i0`, `i1`, ... instead of `i`.  With `weight_rows` it also has the
        stream `weights`.
        """

    def times(self, graph: LayerGraph, folding: Folding, technology: Technology, *arrivals: Times,
              left: Times | None = None) -> StageTimes:
        """The cycles in which the stage takes input beats and offers output beats.

        `arrivals` has, for each input, the cycles in which the beats of one or more whole frames arrive, at most one a
        cycle.  `left` has the cycles in which the reader takes the output beats (backpressure); None: it takes each
        beat at once.  The result is exact, to the cycle.  With `weight_rows` it is a bound: it assumes that an idle
        stage has its weights, and that they then arrive every `weight_interval` cycles.
        """
        raise NotImplementedError(f"{self.kind} has no times")


def divisors(count: int) -> list[int]:
    """Every divisor of `count`, ascending."""
    return [n for n in range(1, count + 1) if count % n == 0]


def nearest_foldings(folding: Folding, possible: tuple[Folding, ...]) -> str:
    """The first of rows, cols, lanes and style that is wrong, and its possible values."""
    for each in ("rows", "cols", "lanes", "style"):
        values = {getattr(other, each) for other in possible}
        value = getattr(folding, each)
        if value not in values:
            if each == "style":
                named = ", ".join(sorted(style.value for style in values))
                return f"style must be one of {named} with these rows, cols and lanes, not {value.value}"
            return f"{each} must be one of {', '.join(map(str, sorted(values)))}, not {value}"
        possible = tuple(other for other in possible if getattr(other, each) == value)
    raise AssertionError("the folding is possible")


@dataclass(frozen=True)
class Origin:
    """The node of the user's model that a layer was made of: its name and its operator ("Gemm").

    `whole`: the layer computes what the node does; else it is one of several for it, or brings elements into order.
    """

    node: str
    operator: str
    whole: bool = True


@dataclass(frozen=True, eq=False)
class LayerGraph(ByValue):
    """A network of integer layers.

    `layers` is in topological order; `inputs` and `outputs` are names of `tensors`.  `origins` has nodes by the names
    of layers, for people; they are no part of what the graph computes.
    """

    name: str
    tensors: Mapping[str, Tensor]
    layers: tuple[Layer, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    origins: Mapping[str, Origin] = field(default_factory=dict, compare=False, repr=False)

    _repr_html_ = drawn_html

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
            yield f"{kind_of(self, layer)} '{layer.name}': {sources} -> {described(layer.output)}"
        yield f"outputs: {', '.join(self.outputs)}"

    @property
    def streaming(self) -> bool:
        """Whether a layer keeps a state from frame to frame; frames are then a sequence, and their order matters."""
        return any(layer.keeps_state for layer in self.layers)

    @property
    def computed(self) -> tuple[str, ...]:
        """The inputs, then the outputs of the layers, each once and in order."""
        return tuple(dict.fromkeys([*self.inputs, *(layer.output for layer in self.layers)]))

    def producer(self, tensor: str) -> Layer | None:
        """The layer whose output is `tensor`; None for an input of the graph."""
        return next((layer for layer in self.layers if layer.output == tensor), None)

    def consumers(self, tensor: str) -> tuple[Layer, ...]:
        """The layers that read `tensor`, in order."""
        return tuple(layer for layer in self.layers if tensor in layer.inputs)

    def check(self) -> None:
        """ValueError if a tensor is read before it is computed, is computed twice, or contradicts its layer."""
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
