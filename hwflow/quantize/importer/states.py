"""States of a tensor of a QDQ graph while it walks through it."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hwflow.layers.base import Layer
from hwflow.layers.formats import Frame, IntArray, IntFormat, Tensor
from hwflow.onnx.model import Node
from hwflow.quantize.constants import Quantity
from hwflow.quantize.problems import Cause, Problem
from hwflow.quantize.settings import DEFAULT_RESCALE_BITS, OutputStage

#: The remedy where reals meet hardware.
QUANTIZE_ALL = "quantize the whole model: a QuantizeLinear and DequantizeLinear after every layer"


class Unsupported(Exception):
    """Raised inside the importer for one node; the walk collects it as a Problem and goes on."""

    def __init__(self, why: str, remedy: str, cause: Cause = Cause.NODE, cut: str | None = None) -> None:
        super().__init__(why)
        self.why, self.remedy, self.cause, self.cut = why, remedy, cause, cut

    def of(self, node: Node) -> Problem:
        """The problem of that node."""
        return Problem.of(node, self.why, self.remedy, self.cause, self.cut)


class Lacking(Unsupported):
    """`names` are tensors without a quantizer, or constants without integers, that a layer reads."""

    def __init__(
        self, why: str, names: tuple[str, ...], cause: Cause = Cause.NODE, remedy: str = QUANTIZE_ALL
    ) -> None:
        super().__init__(why, remedy, cause)
        self.names = names


class Misplaced(Unsupported):
    """Elements are at other places of their frames than a layer needs; a Rearrange may put them in place."""


@dataclass(frozen=True)
class Parameters:
    """Scale, zero point and format of a QuantizeLinear or DequantizeLinear node, and the limits of a Clip after it.

    `rescale_bits` is what the user wants of the layer that makes its integers (`LayerSettings.rescale_bits`).
    """

    scale: float
    zero_point: int
    format: IntFormat
    low: int
    high: int
    rescale_bits: int | None = DEFAULT_RESCALE_BITS

    @staticmethod
    def of(x: Tensor) -> Parameters:
        """The parameters of a tensor of the layer graph."""
        return Parameters(x.scale, x.zero_point, x.format, x.format.low, x.format.high)

    def integer_of(self, real: Fraction | float) -> int:
        """The integer of a real number, which may be infinite: rounded half to even, then limited."""
        if isinstance(real, float) and math.isinf(real):
            return self.high if real > 0 else self.low
        return min(max(round(Fraction(real) / Fraction(self.scale)) + self.zero_point, self.low), self.high)

    @property
    def narrow(self) -> IntFormat:
        """The format of the tensor: the stated one, or a narrower one where a Clip limits the integers."""
        if self.format.bipolar or (self.low, self.high) == (self.format.low, self.format.high):
            return self.format
        return IntFormat.covering(min(self.low, self.zero_point), max(self.high, self.zero_point))


@dataclass(frozen=True)
class OnHost:
    """Computed on the host: in the epilogue, after the hardware, or else in the prologue, before it."""

    in_epilogue: bool


@dataclass(frozen=True)
class Entry:
    """The dequantized view of an integer tensor that the host makes; it enters the hardware where it is first used.

    `index` has the shape of the view; an entry is the element's place in the tensor `integers`.
    """

    integers: str
    index: IntArray
    parameters: Parameters

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the view."""
        shape: tuple[int, ...] = self.index.shape
        return shape


@dataclass(frozen=True)
class Moved:
    """The origin of an index that is no order of all elements: the last node that moved them, and its result's ONNX
    name.

    `padding` is the value of elements whose place is -1, an integer or a real number as the tensor's elements are.
    `computed`: the result has a function of the elements that moved, and not they themselves.
    """

    node: Node
    output: str
    padding: float = 0.0
    computed: bool = False


@dataclass(frozen=True)
class Held:
    """A tensor of the layer graph.  `real` says whether ONNX sees its integers or their dequantized values.

    `index` has the ONNX tensor's shape; an entry is the element's place in the raster of the frame.  After nodes that
    move elements (`moved`) it may leave elements out, repeat them, or hold -1 for padding.
    """

    tensor: str
    index: IntArray
    real: bool
    moved: Moved | None = None


@dataclass(frozen=True)
class Anchor:
    """The node that a layer is made around, mostly one that accumulates.

    Element by element nodes after it are its steps.  Its result before them has the ONNX name `key` and is of `frame`.
    """

    node: Node
    key: str
    frame: Frame

    @property
    def constants(self) -> int:
        """How many constants of a step may differ: mostly one for each channel."""
        return self.frame.channels

    def constant_of(self, index: IntArray) -> IntArray:
        """Which of them are those of the elements at the places `index` of the frame."""
        channel: IntArray = index % self.frame.channels
        return channel


@dataclass(frozen=True)
class Step:
    """A node that works element by element.

    An entry of `inputs` is the name of an earlier value (the anchor's key or a step's output), a constant of shape []
    or [channels], or None where the input is left out.
    """

    node: Node
    inputs: tuple[str | Quantity | None, ...]

    @property
    def result(self) -> str:
        return self.node.outputs[0]


@dataclass(frozen=True)
class Unrounded:
    """A result that is not integer yet: the value `result` of `steps` applied to `anchor`.

    It waits for its QuantizeLinear.  `index` is as in `Held`, into the anchor's frame, but without padding.
    """

    anchor: Anchor
    index: IntArray
    steps: tuple[Step, ...]
    result: str
    moved: Moved | None = None

    @staticmethod
    def of(anchor: Anchor, index: IntArray) -> Unrounded:
        return Unrounded(anchor, index, (), anchor.key)

    def then(self, step: Step) -> Unrounded:
        return replace(self, steps=(*self.steps, step), result=step.result)


@dataclass(frozen=True)
class LayerTask:
    """A layer to make: `name`, and what it makes `y` of.

    `xs` are the tensors of the anchor's sources.  `unrounded` has the steps up to the QuantizeLinear, whose parameters
    are `parameters`.  `stage` is the user's choice of what makes elements of sums.
    """

    unrounded: Unrounded
    xs: tuple[Tensor, ...]
    y: Tensor
    name: str
    parameters: Parameters
    stage: OutputStage
    opsets: Mapping[str, int]


@dataclass(frozen=True)
class LayerAnchor(Anchor):
    """The node of a layer that reads whole tensors; each kind of layer derives one."""

    sources: tuple[Held, ...]

    @property
    def source(self) -> Held:
        """Its only source, of those that have one."""
        (held,) = self.sources
        return held

    def node_of(self, rounded: Rounded) -> Node:
        """The node that the layer is named after, and whose settings it has."""
        return self.node

    @abstractmethod
    def layer(self, task: LayerTask) -> Layer:
        """The layer.  ValueError in words for the user where there is none."""


@dataclass(frozen=True)
class Joined(Anchor):
    """Tensors or unrounded results, concatenated along the channels; the steps that follow apply to each of them.

    `index` is the index of the ONNX result.  `depth` counts this one and those inside of its parts.
    """

    parts: tuple[Unrounded, ...]
    index: IntArray
    depth: int


@dataclass(frozen=True)
class Rounded:
    """An unrounded result after its QuantizeLinear, whose ONNX name is `output`; a Clip may still narrow it.

    `index` follows later changes of layout; `unrounded.index` is the index of `output`.
    """

    unrounded: Unrounded
    node: Node
    output: str
    parameters: Parameters
    index: IntArray
    moved: Moved | None = None


@dataclass(frozen=True)
class Broken:
    """The result of a node with a problem, or of a node after such a one; only the first is reported."""


TensorState = OnHost | Entry | Held | Unrounded | Rounded | Broken


def image_index(frame: Frame, rank: int) -> IntArray:
    """The index of a frame that ONNX sees as [1, C, H, W], [1, C, W] or [1, C], by rank."""
    raster = np.arange(frame.elements, dtype=np.int64).reshape(frame.height, frame.width, frame.channels)
    image = np.transpose(raster, (2, 0, 1))
    spatial = (frame.height, frame.width)[4 - rank :] if rank < 4 else (frame.height, frame.width)
    return image.reshape(1, frame.channels, *spatial)
