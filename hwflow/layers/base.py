"""The interface of all integer layers (`Layer`), the graph of layers, and what people call a layer.

People use the user's name of its node, and a kind that names what the user's model does there: an addition of constants
is an `average_pool` in hardware and a fully connected layer of rows a `conv`, and both are called what they are in the
model.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from hwflow_base.by_value import ByValue
from hwflow_base.short_repr import drawn_html, screen

from hwflow.layers.formats import EqualByValue, Frame, IntArray, IntFormat, Tensor
from hwflow.layers.matrix import require
from hwflow.layers.planes import Planes, to_frames, to_planes

#: Elements of a frame that a layer makes of any number of others: the golden model holds an index for each.
MOST_ELEMENTS = 1 << 24
#: Kinds of layers that say more of themselves than their operator does.
_OWN = frozenset({"recurrent", "trees"})
#: Kinds of layers whose weights make a product a fully connected layer.
_WEIGHTED = frozenset({"conv", "dense"})
_PRODUCTS = frozenset({"MatMul", "Gemm", "QGemm", "QLinearMatMul", "MatMulInteger", "MatMulIntegerToFloat"})
_LINEAR = frozenset({"LinearClassifier", "LinearRegressor", "SVMClassifier", "SVMRegressor"})
_WORDS = {
    "ConvTranspose": "transposed conv", "ConvInteger": "conv", "PRelu": "prelu", "ArgMax": "argmax",
    "ArgMin": "argmin", "Sub": "subtract", "Sum": "add", "Mul": "multiply", "Div": "divide", "ReduceMean": "mean",
    "ReduceSum": "sum", "ReduceMax": "max", "ReduceMin": "min", "STFT": "stft", "DFT": "dft",
}  # fmt: skip


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
        """Evaluate the layer from planes to planes, without a check of the formats of the inputs."""

    def resume(self, graph: LayerGraph, state: IntArray | None, *inputs: Planes) -> tuple[Planes, IntArray | None]:
        """Compute the next frames of a sequence; also gives the state of the layer after them.

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

    def limited(self, made: Frame) -> Frame:
        """The frame that the layer makes, where its size is any that its fields say.  ValueError for a huge one."""
        if made.elements > MOST_ELEMENTS:
            raise ValueError(f"layer '{self.name}': the output must have at most {MOST_ELEMENTS} elements, not {made}")
        return made

    def check(self, graph: LayerGraph) -> None:
        """ValueError if the fields of the layer and the tensors of `graph` contradict each other."""
        frames = [graph.tensors[name].frame for name in self.inputs]
        made, stated = self.output_frame(*frames), graph.tensors[self.output].frame
        if made != stated:
            raise ValueError(f"layer '{self.name}': output '{self.output}' must be {made}, not {stated}")

    def check_as_output(self, graph: LayerGraph, names: Iterable[str]) -> None:
        """ValueError if the integers of one of the inputs `names` cannot pass unchanged."""
        y = graph.tensors[self.output]
        for name in names:
            x = graph.tensors[name]
            if (x.format, x.scale, x.zero_point) != (y.format, y.scale, y.zero_point):
                raise ValueError(
                    f"layer '{self.name}': input '{name}' must have the output's format, scale and zero point "
                    f"({y.format}, {y.scale}, {y.zero_point}), not {x.format}, {x.scale}, {x.zero_point}"
                )

    def check_input_format(self, graph: LayerGraph, stated: IntFormat) -> None:
        """ValueError if the field `input_format` is not the format of the input's tensor."""
        format = graph.tensors[self.inputs[0]].format
        if stated != format:
            raise ValueError(f"layer '{self.name}': input_format must be {format} as '{self.inputs[0]}', not {stated}")


@dataclass(frozen=True)
class Origin:
    """The node of the user's model that a layer was made of: its name and its operator ("Gemm").

    `whole`: the layer computes what the node does; else it is one of several for it, or brings elements into order.
    """

    node: str
    operator: str
    whole: bool = True


@dataclass(frozen=True, eq=False)
class State(EqualByValue):
    """A tensor that a frame hands on to the next one: frame n reads as `read` what frame n - 1 computed as `write`.

    Both are names of tensors of one format and of equally many elements, in one raster.  Frame 0 reads `initial`,
    integers [h, w, c] of the frame of `read`.
    """

    read: str
    write: str
    initial: IntArray

    def check(self, graph: LayerGraph) -> None:
        """ValueError where the state and the tensors of `graph` contradict each other."""
        read, write = graph.tensors[self.read], graph.tensors[self.write]
        if (read.format, read.frame.elements) != (write.format, write.frame.elements):
            raise ValueError(
                f"state '{self.read}': it must be {read.frame} {read.format} as what is handed on, '{self.write}', not "
                f"{write.frame} {write.format}"
            )
        shape = (read.frame.height, read.frame.width, read.frame.channels)
        if self.initial.shape != shape or not read.format.contains(self.initial):
            raise ValueError(f"state '{self.read}': its initial value must be {read.format} {list(shape)}")


@dataclass(frozen=True, eq=False)
class LayerGraph(ByValue):
    """A network of integer layers.

    `layers` is in topological order; `inputs` and `outputs` are names of `tensors`, of the world outside.  `states` are
    handed on from frame to frame inside.  `origins` has nodes by the names of layers, and inputs of the user's model by
    the names of what states read, for people; they are no part of what the graph computes.
    """

    name: str
    tensors: Mapping[str, Tensor]
    layers: tuple[Layer, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    states: tuple[State, ...] = ()
    origins: Mapping[str, Origin] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def derived(self) -> dict[str, object]:
        """Keeps what others have computed of the graph and keep with it, by name; it is no part of its value."""
        return {}

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
        for state in self.states:
            yield f"state '{state.read}': {described(state.read)}, then '{state.write}' of the frame before"
        yield f"outputs: {', '.join(self.outputs)}"

    @property
    def streaming(self) -> bool:
        """Whether something is kept from frame to frame; frames are then a sequence, and their order matters."""
        return bool(self.states) or any(layer.keeps_state for layer in self.layers)

    @property
    def sources(self) -> tuple[str, ...]:
        """The tensors that no layer makes: the inputs, then what the states read."""
        return (*self.inputs, *(state.read for state in self.states))

    @property
    def sinks(self) -> tuple[str, ...]:
        """The tensors that something behind the layers reads: the outputs, then what the states hand on."""
        return (*self.outputs, *(state.write for state in self.states))

    @property
    def computed(self) -> tuple[str, ...]:
        """The sources, then the outputs of the layers, each once and in order."""
        return tuple(dict.fromkeys([*self.sources, *(layer.output for layer in self.layers)]))

    def producer(self, tensor: str) -> Layer | None:
        """The layer whose output is `tensor`; None for a source of the graph."""
        return next((layer for layer in self.layers if layer.output == tensor), None)

    def consumers(self, tensor: str) -> tuple[Layer, ...]:
        """The layers that read `tensor`, in order."""
        return tuple(layer for layer in self.layers if tensor in layer.inputs)

    def check(self) -> None:
        """ValueError if a tensor is read before it is computed, is computed twice, or contradicts its layer."""
        for tensor in self.tensors.values():
            tensor.check()
        if len(set(self.sources)) < len(self.sources):
            raise ValueError(f"graph '{self.name}': inputs and states must be tensors of their own, not {self.sources}")
        made = set(self.sources)
        for layer in self.layers:
            for name in layer.inputs:
                if name not in made:
                    raise ValueError(f"layer '{layer.name}': input '{name}' must be made by an earlier layer")
            if layer.output in made:
                raise ValueError(f"layer '{layer.name}': output '{layer.output}' must be made once, not twice")
            made.add(layer.output)
            layer.check(self)
        for name in (*self.sinks, *made):
            if name not in made or name not in self.tensors:
                raise ValueError(f"graph '{self.name}': tensor '{name}' must be described and made by a layer")
        for state in self.states:
            state.check(self)


def name_of(graph: LayerGraph, layer: Layer) -> str:
    """The name of the user's node that `layer` was made of; its own where that is not known."""
    origin = graph.origins.get(layer.name)
    return layer.name if origin is None else origin.node


def state_name(graph: LayerGraph, state: State) -> str:
    """The name of the input of the user's model that `state` is; that of its tensor where it is not known."""
    origin = graph.origins.get(state.read)
    return state.read if origin is None else origin.node


def kind_of(graph: LayerGraph, layer: Layer) -> str:
    """"dense", "add", "layer normalization": what the user's node does; the kind of the layer where it is not known.

    A layer that does not compute all of its node is "part of softmax", one that only brings elements into order for it
    "rearrange for softmax".
    """
    origin = graph.origins.get(layer.name)
    if origin is None or layer.kind in _OWN:
        return layer.said
    word = _operator_word(origin.operator, layer)
    if origin.whole:
        return word
    return f"{layer.said} for {word}" if layer.kind == "rearrange" else f"part of {word}"


def _operator_word(operator: str, layer: Layer) -> str:
    operator = operator.removeprefix("QLinear") if operator not in _PRODUCTS else operator
    if operator in _PRODUCTS:
        return "dense" if layer.kind in _WEIGHTED else "matmul"
    if operator in _LINEAR:
        return "dense"
    return _WORDS.get(operator) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", operator).lower()
