"""Traits of ONNX operators, for whoever does not compute them: the columns of the table in `operators`."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from hwflow.onnx.advice import Advice

#: Not a layer of its own: a part of the layer before it, or a change of order that costs nothing.
FUSED = "fused"


class Trait(enum.Flag):
    """Traits: what operators do, and who may run them."""

    #: A product with constant weights, or of two tensors.
    MATRIX = enum.auto()
    #: The largest element of a window.
    MAX_POOL = enum.auto()
    #: The mean of a window.
    AVERAGE = enum.auto()
    #: A window with attributes: a kernel, strides, dilations, pads.
    WINDOW = enum.auto()
    #: The largest or smallest element along axes.
    BEST = enum.auto()
    #: Fewer elements, along axes of an attribute or, from 13 or 18 on, of an input.
    REDUCES = enum.auto()
    #: a * x + b with constants; some of these also of two computed tensors.
    AFFINE = enum.auto()
    #: A function of one element; as a table where it is not fused.
    FUNCTION = enum.auto()
    #: A function of one element with constants that decide between values.
    CHOICE = enum.auto()
    #: A function that is the end of a requantization's clamp.
    CLAMP = enum.auto()
    #: A function that rises and falls, which no thresholds compute.
    TURNING = enum.auto()
    #: A function that gives no negative value.
    NOT_NEGATIVE = enum.auto()
    #: Each element of the result comes from that of the first input; other inputs are numbers for all of them.
    ELEMENT = enum.auto()
    #: An activation or pool with f(s * x) = s * f(x) for s > 0, for each channel: factors of weights go through it.
    HOMOGENEOUS = enum.auto()
    #: The result is the first input, where it does what it does for inference.
    SAME = enum.auto()
    #: Reads an image whose channels are axis 1.
    IMAGE = enum.auto()
    #: Works along one axis, that of the attribute `axis`.
    AXIS = enum.auto()
    #: Several tensors become one.
    JOIN = enum.auto()
    #: Elements change places or shape, never value.
    LAYOUT = enum.auto()
    #: Elements are chosen, repeated or padded, never computed: with constant parameters, without interpolation.
    MOVE = enum.auto()
    #: A move that puts in elements that are none of the input's.
    PADS = enum.auto()
    #: A move if its mode is "nearest"; else it computes between elements.
    RESIZES = enum.auto()
    #: A number that the shape of the input decides, whatever its elements are.
    OF_SHAPE = enum.auto()
    #: Between reals and integers.
    QUANTIZER = enum.auto()
    #: A constant behind it is not folded: quantized weights stay visible as integers and a scale.
    KEEPS_CONSTANTS = enum.auto()
    #: The best elements along an axis: on the host, or as the last layer where the user wants that.
    RANKING = enum.auto()
    #: A function of a row that grows with each of its elements: it changes no order.
    KEEPS_ORDER = enum.auto()
    #: Written-out normalizations and softmaxes are made of it, besides what changes layout.
    IN_NORMALIZATION = enum.auto()
    #: The node around which a written-out normalization or softmax is looked for.
    NORMALIZATION_CORE = enum.auto()
    #: It rises wherever its operand is not negative, so thresholds compute it of squares, which have twice the bits.
    READS_SQUARES = enum.auto()
    #: A node of a model in QOperator form: it computes with integers, or makes them of ranges that it measures.
    QOPERATOR = enum.auto()
    #: A number that is missing in its input is missing in its result, and nothing else of the row.
    MISSING_STAYS = enum.auto()
    #: Its result is finite whatever is missing in its input.
    MISSING_ENDS = enum.auto()
    #: A comparison of two tensors.
    COMPARISON = enum.auto()
    #: A network is made of such: a part without any of them is of no use.
    NETWORK = enum.auto()
    #: A layer with weights, or control flow: hardware computes it, or nothing does.
    NOT_ON_HOST = enum.auto()
    #: On the host behind the hardware, never between layers.
    AT_END = enum.auto()
    #: A handler of `quantize/importer/kinds` makes a layer of it where layers follow; where none does, or in front of
    #: the first layer, the host computes it unless it is `NOT_ON_HOST`.
    OWN_LAYER = enum.auto()


_NONE = Trait(0)


class Product(enum.Enum):
    """How many multiplications a node takes: the formula that `macs` has for it."""

    CONVOLUTION = enum.auto()
    TRANSPOSED = enum.auto()
    GEMM = enum.auto()
    MATMUL = enum.auto()
    RECURRENT = enum.auto()
    ATTENTION = enum.auto()


@dataclass(frozen=True)
class Total:
    """A sum along axes: of the elements, their magnitudes or the squares of these; then a function of the sum."""

    power: int = 1
    is_magnitude: bool = False
    #: The operator that is the function; empty without one.
    function: str = ""


@dataclass(frozen=True)
class Row:
    """All that the table says of one operator."""

    name: str
    traits: Trait = _NONE
    #: Versions whose nodes are written as in the version before and mean the same: other element types, new attributes
    #: with a default, negative axes, no word any more about which inputs may be overwritten.  A version that is in none
    #: of these has a step in `conversion`.
    same: tuple[int, ...] = ()
    #: The operator set since which its inputs broadcast each to the others; 0 for an operator that never does.
    broadcasts: int = 0
    #: The layer kinds that it becomes, one or several of them, or `FUSED`; empty without hardware.
    layers: tuple[str, ...] = ()
    #: Within which limits it becomes that, in words for docs/operators.md; without `layers` what stands for it.
    limits: str = ""
    product: Product | None = None
    #: What it sums along its axes.
    total: Total | None = None
    #: The positions of the inputs that are scale and zero point of its integer result.
    integer_result: tuple[int, int] | None = None
    #: What to change in the model where a node of it has no hardware.
    advice: Advice | None = None
    #: What the texts of an attribute may be, in words; by the version from which on it holds where that changed.
    texts: Mapping[str, str | Mapping[int, str]] = field(default_factory=dict)

    def allowed_texts(self, attribute: str, since: int) -> frozenset[str] | None:
        """The texts that an attribute may have in version `since`; None where anything may be."""
        words = self.texts.get(attribute)
        if words is None or isinstance(words, str):
            return None if words is None else frozenset(words.split())
        return frozenset(words[max(version for version in words if version <= since)].split())
