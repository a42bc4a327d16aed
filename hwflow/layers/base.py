"""What every integer layer shares: number formats, requantization, frames, foldings, and the `Layer` interface.

Tensors of the integer world are frames: `[height, width, channels]`, channels fastest.  A 1-D signal has height 1, a
vector has height and width 1.  Arrays carry a leading axis of frames: `[n, height, width, channels]`, dtype int64.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from amaranth.lib.wiring import Component
from hwflow_rtl.vendor import Resources, Technology

__all__ = [
        "Folding",
    "Frame",
    "IntArray",
    "IntFormat",
    "Layer",
    "LayerGraph",
    "Requantize",
    "Schedule",
    "Tensor",
    "round_half_even",
]

IntArray = npt.NDArray[np.int64]

#: The largest number of significant bits of a requantization multiplier: one port of an 18 x 18 multiplier.
MULTIPLIER_BITS = 18

#: The largest shift: with it, `rest << 1` in `round_half_even` still fits int64.
MAX_SHIFT = 62


@dataclass(frozen=True)
class IntFormat:
    """A signed (two's complement) or unsigned integer of `bits` bits."""

    bits: int
    signed: bool

    @property
    def low(self) -> int:
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def high(self) -> int:
        return (1 << (self.bits - 1)) - 1 if self.signed else (1 << self.bits) - 1

    def __str__(self) -> str:
        return f"{'' if self.signed else 'u'}int{self.bits}"

    def contains(self, values: IntArray) -> bool:
        """True where every entry of `values` (any shape) can be written in this format."""
        return values.size == 0 or (int(values.min()) >= self.low and int(values.max()) <= self.high)

    @staticmethod
    def covering(low: int, high: int) -> IntFormat:
        """The narrowest format that holds every integer from `low` to `high`; signed where `low` is negative."""
        if low < 0:
            return IntFormat(max((-low - 1).bit_length(), high.bit_length()) + 1, signed=True)
        return IntFormat(max(high.bit_length(), 1), signed=False)


@dataclass(frozen=True)
class Frame:
    """Height, width and channels of one frame."""

    height: int
    width: int
    channels: int

    @property
    def elements(self) -> int:
        return self.height * self.width * self.channels

    def __str__(self) -> str:
        return f"{self.height}x{self.width}x{self.channels}"


@dataclass(frozen=True)
class Tensor:
    """A quantized tensor: real value = scale * (integer - zero_point)."""

    name: str
    frame: Frame
    format: IntFormat
    scale: float
    zero_point: int


class _EqualByValue:
    """Equality of dataclasses that hold arrays: same class, equal fields, arrays equal in shape and every entry."""

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        assert isinstance(self, _EqualByValue)
        return all(_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))  # type: ignore[arg-type]

    __hash__ = None  # type: ignore[assignment]


def _equal(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.array_equal(a, b)
    return a == b


@dataclass(frozen=True, eq=False)
class Requantize(_EqualByValue):
    """y = clamp(rhe((a + bias) * multiplier / 2**shift) + zero_point, low, high), per output channel, exactly.

    `rhe` rounds half to even.  `bias`, `multiplier` and `shift` are int64 arrays of one entry per output channel;
    multipliers have at most 18 bits and are not negative; shifts are from 0 to 62.
    """

    bias: IntArray
    multiplier: IntArray
    shift: IntArray
    zero_point: int
    low: int
    high: int

    def apply(self, accumulator: IntArray) -> IntArray:
        """Requantize `accumulator` of shape [..., channels]."""
        product = (accumulator + self.bias) * self.multiplier
        rounded = round_half_even(product, self.shift)
        return np.clip(rounded + self.zero_point, self.low, self.high)


def round_half_even(value: IntArray, shift: IntArray) -> IntArray:
    """value / 2**shift, rounded to the nearest integer, ties to even.  All int64, no intermediate overflow."""
    floor = value >> shift
    rest = value - (floor << shift)
    twice = rest << 1
    unit = np.int64(1) << shift
    up = (twice > unit) | ((twice == unit) & ((floor & 1) == 1))
    result: IntArray = floor + up
    return result


@dataclass(frozen=True)
class Folding:
    """How much of a layer is computed in one cycle.

    `rows` outputs (channels) by `cols` inputs (input channels, or taps times input channels where `cols` spans a row of
    the kernel).  `lanes` results leave the stage at once.  Layers without multipliers use rows = 1.
    """

    rows: int
    cols: int
    lanes: int = 1


@dataclass(frozen=True)
class Schedule:
    """What a folding of a layer does in time.

    `work`: cycles of a frame in which its unit computes; `interval`: cycles between frames when neighbours never wait;
    `multipliers`: multiplications it can make in one cycle; `lanes_in`: elements its stage takes in one cycle.
    """

    work: int
    interval: int
    multipliers: int
    lanes_in: int


class Layer(_EqualByValue, ABC):
    """One integer layer; each kind is a frozen dataclass in a file of its own.

    Fields shared by all kinds: `name` (from the ONNX node), `inputs` (tensor names), `output` (tensor name).
    """

    kind: ClassVar[str]
    name: str
    inputs: tuple[str, ...]
    output: str

    @abstractmethod
    def evaluate(self, graph: LayerGraph, *inputs: IntArray) -> IntArray:
        """The exact meaning, naive: [n, h, w, c] integers in, [n, h, w, c] integers out."""

    @abstractmethod
    def multiplications(self, graph: LayerGraph) -> int:
        """Useful multiplications for one frame."""

    @abstractmethod
    def foldings(self, graph: LayerGraph) -> Iterator[Folding]:
        """Every folding that the layer's stage can have."""

    def folding_problem(self, graph: LayerGraph, folding: Folding) -> str | None:
        """None where `folding` is possible, else what is wrong with it and what is possible."""
        possible = tuple(self.foldings(graph))
        return None if folding in possible else nearest_foldings(folding, possible)

    @abstractmethod
    def schedule(self, graph: LayerGraph, folding: Folding) -> Schedule:
        """The cycles of the stage with `folding`; quick, because solvers ask for all of them."""

    @abstractmethod
    def cost(self, graph: LayerGraph, folding: Folding, technology: Technology) -> Resources:
        """The resources of the stage with `folding`."""

    @abstractmethod
    def unit(self, graph: LayerGraph, folding: Folding, technology: Technology, name: str) -> Component:
        """The stage as an Amaranth component with the streams `i` and `o` and the output `busy`."""

    @abstractmethod
    def output_frame(self, *inputs: Frame) -> Frame:
        """The frame that the layer makes of its input frames; raises ValueError where they do not fit its fields."""

    def check(self, graph: LayerGraph) -> None:
        """Raise ValueError where the fields and the tensors of `graph` contradict each other."""
        frames = [graph.tensors[name].frame for name in self.inputs]
        made, stated = self.output_frame(*frames), graph.tensors[self.output].frame
        if made != stated:
            raise ValueError(f"layer '{self.name}': output '{self.output}' must be {made}, not {stated}")


def nearest_foldings(folding: Folding, possible: tuple[Folding, ...]) -> str:
    """The first of rows, cols and lanes that is wrong, and its possible values."""
    for field in ("rows", "cols", "lanes"):
        values = sorted({getattr(other, field) for other in possible})
        value = getattr(folding, field)
        if value not in values:
            return f"{field} must be one of {', '.join(map(str, values))}, not {value}"
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

    def consumers(self, tensor: str) -> tuple[Layer, ...]:
        """The layers that read `tensor`, in order."""
        return tuple(layer for layer in self.layers if tensor in layer.inputs)

    def check(self) -> None:
        """Raise ValueError where a tensor is used before it is made, made twice, or contradicts its layer."""
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
