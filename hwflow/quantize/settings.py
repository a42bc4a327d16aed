"""Choices of the user about quantization, layer by layer; every choice has a sensible automatic value."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from hwflow_base.by_value import ByValue
from hwflow_base.errors import HwflowError
from hwflow_base.short_repr import fields_repr

from hwflow.layers.formats import MOST_UNIFORM_BITS
from hwflow.layers.rescale import BLOCK_BITS, MULTIPLIER_BITS

#: What `LayerSettings.rescale_bits` is where nothing is said.
DEFAULT_RESCALE_BITS: int | None = BLOCK_BITS


class RangeMethod(enum.StrEnum):
    """How the range of values that the integers cover is found."""

    AUTO = "auto"
    MINMAX = "minmax"
    PERCENTILE = "percentile"
    MSE = "mse"
    ENTROPY = "entropy"
    LEARNED = "learned"


class WeightRounding(enum.StrEnum):
    """How weights become integers: each to the nearest one, so that the layer's outputs change least, or from there on
    with the other layers together, so that the model's outputs change least."""

    AUTO = "auto"
    NEAREST = "nearest"
    ADAPTIVE = "adaptive"
    JOINT = "joint"

    @property
    def adapts(self) -> bool:
        """Whether the layer's outputs decide, at least in the beginning."""
        return self in (WeightRounding.ADAPTIVE, WeightRounding.JOINT)


class Effort(enum.StrEnum):
    """How much work goes into choices that nobody has made: none, some seconds, or all that there is to try."""

    QUICK = "quick"
    NORMAL = "normal"
    BEST = "best"


class OutputStage(enum.StrEnum):
    """The way from sums to elements; automatic is the cheaper of both where both are exact."""

    AUTO = "auto"
    MULTIPLY = "multiply"
    THRESHOLDS = "thresholds"


#: Steps of joint rounding and of learned ranges, where nobody says how many, and at most.
JOINT_STEPS, MOST_JOINT_STEPS = 600, 100_000

#: Bits at most of weights, and of activations.
MOST_WEIGHT_BITS, MOST_ACTIVATION_BITS = 16, 16
#: Of every weight and activation of a classical model, where nobody says: two classes may be close (docs/trees.md has
#: what was measured).
CLASSICAL_BITS = 16

#: Bits of the address of a table in a classical model: docs/trees.md has classes by bits.
ADDRESS_BITS = 14


def _check_bits(bits: int, what: str, most: int) -> None:
    if isinstance(bits, bool) or not isinstance(bits, int) or not 1 <= bits <= most:
        raise HwflowError(f"the bits of {what} must be a whole number from 1 to {most}, not {bits}")


@dataclass(frozen=True)
class ActivationSettings:
    """Settings of one tensor.  `percentile` (of absolute values kept, 50 to 100) is for that method; `range` replaces
    any.

    HwflowError: a width, percentile or range that there is not.
    """

    bits: int = 8
    symmetric: bool = False
    method: RangeMethod = RangeMethod.AUTO
    percentile: float = 99.99
    range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        _check_bits(self.bits, "an activation", MOST_ACTIVATION_BITS)
        if not 50 <= self.percentile <= 100:
            raise HwflowError(f"the percentile of an activation must be 50 to 100, not {self.percentile}")
        if self.range is not None and not (math.isfinite(sum(self.range)) and self.range[0] <= self.range[1]):
            raise HwflowError(f"the range of an activation must be two numbers, the smaller first, not {self.range}")


@dataclass(frozen=True)
class WeightSettings:
    """Settings of one layer's weights.  `method` (automatic, minmax or mse) chooses the scales.

    HwflowError: a width or method that there is not.
    """

    bits: int = 8
    per_channel: bool = True
    method: RangeMethod = RangeMethod.AUTO
    rounding: WeightRounding = WeightRounding.AUTO
    bias_correction: bool | None = None

    def __post_init__(self) -> None:
        _check_bits(self.bits, "weights", MOST_WEIGHT_BITS)
        if self.method not in (RangeMethod.AUTO, RangeMethod.MINMAX, RangeMethod.MSE):
            raise HwflowError(f"the method of weights must be auto, minmax or mse, not {self.method}")


@dataclass(frozen=True)
class LayerSettings:
    """Settings of one ONNX node: its weights (where it has some), its result behind Relu or Clip, and what makes that.

    `rescale_bits`: bits of the multipliers that turn sums into elements, from 18 to 32.  None: as few as make the
    element that ONNX means of every sum that there can be, or of as many as possible.

    HwflowError: bits that there are not.
    """

    weights: WeightSettings = WeightSettings()
    output: ActivationSettings = ActivationSettings()
    output_stage: OutputStage = OutputStage.AUTO
    rescale_bits: int | None = DEFAULT_RESCALE_BITS

    def __post_init__(self) -> None:
        bits = self.rescale_bits
        if bits is not None and (
            isinstance(bits, bool) or not isinstance(bits, int) or not BLOCK_BITS <= bits <= MULTIPLIER_BITS
        ):
            raise HwflowError(
                f"the bits of a rescaling must be a whole number from {BLOCK_BITS} to {MULTIPLIER_BITS}, or None, not "
                f"{bits}"
            )


@dataclass(frozen=True, eq=False)
class QuantizationSettings(ByValue):
    """All choices.  `default` is for every layer that `layers` (by ONNX node name) and input that `inputs` leave out.

    `equalize` is cross-layer equalization of weights; None decides it automatically.  `hardware_argmax`: an ArgMax,
    ArgMin or TopK at the end of the model is a layer of the hardware, not a node of the host.  `chosen`: the widths of
    `default` are somebody's choice, not only what is taken where nobody says.  `room`: ranges of inputs that are found
    in data grow by this part of them at each end, and those of other tensors as far as such inputs take them.
    `joint_steps`: how often joint rounding changes all weights, and what learns ranges all ranges.  `effort` is for
    what is left automatic.
    """

    default: LayerSettings = LayerSettings()
    layers: Mapping[str, LayerSettings] = field(default_factory=dict)
    inputs: Mapping[str, ActivationSettings] = field(default_factory=dict)
    equalize: bool | None = None
    hardware_argmax: bool = False
    chosen: bool = field(default=False, compare=False)
    room: float = field(default=0.0, compare=False)
    joint_steps: int = JOINT_STEPS
    effort: Effort = field(default=Effort.QUICK, compare=False)

    __repr__ = fields_repr

    def layer(self, name: str) -> LayerSettings:
        """The settings of the ONNX node `name`."""
        return self.layers.get(name, self.default)

    def input(self, name: str) -> ActivationSettings:
        """The settings of the input `name`."""
        return self.inputs.get(name, self.default.output)


def settings_of_bits(weights: int, activations: int = 8) -> QuantizationSettings:
    """The same widths for every layer and input.  HwflowError outside `MOST_UNIFORM_BITS`."""
    for width, most, what in zip((weights, activations), MOST_UNIFORM_BITS, ("weights", "activations"), strict=True):
        if not 1 <= width <= most:
            raise HwflowError(f"bits of {what} must be from 1 to {most}, not {width}")
    return QuantizationSettings(LayerSettings(WeightSettings(weights), ActivationSettings(activations)), chosen=True)


def for_classical(settings: QuantizationSettings, before_tables: Iterable[str] = ()) -> QuantizationSettings:
    """`settings` for a classical model: of `CLASSICAL_BITS` where nobody has chosen widths; the outputs of the layers
    `before_tables` have `ADDRESS_BITS`.

    One bit of so many is for features beyond those of the calibration rows: a clipped one may be another class.
    """
    if settings.chosen:
        return settings
    default = replace(settings.default, weights=replace(settings.default.weights, bits=CLASSICAL_BITS),
                      output=replace(settings.default.output, bits=CLASSICAL_BITS))
    address = replace(default, output=replace(default.output, bits=ADDRESS_BITS))
    layers = dict.fromkeys(before_tables, address)
    return replace(settings, chosen=True, room=0.5, default=default, layers={**layers, **settings.layers})


def with_rescale_bits(
    settings: QuantizationSettings, bits: int | Literal["auto"] | None
) -> QuantizationSettings:
    """`settings` with these bits of rescaling in every layer; None leaves them.  HwflowError for bits there are not."""
    if bits is None:
        return settings

    def changed(layer: LayerSettings) -> LayerSettings:
        return replace(layer, rescale_bits=None if bits == "auto" else bits)

    layers = {name: changed(layer) for name, layer in settings.layers.items()}
    return replace(settings, default=changed(settings.default), layers=layers)


def with_options(
    settings: QuantizationSettings, rescale_bits: int | Literal["auto"] | None, hardware_argmax: bool = False,
    effort: Effort = Effort.QUICK,
) -> QuantizationSettings:  # fmt: skip
    """`settings` with what a user says of the whole model beside them, as `with_rescale_bits`."""
    chosen = replace(with_rescale_bits(settings, rescale_bits), effort=effort)
    return replace(chosen, hardware_argmax=True) if hardware_argmax else chosen


def output_choices(settings: QuantizationSettings) -> QuantizationSettings:
    """The choices that are left for a model that `settings` have quantized: output stages and bits of rescaling."""

    def left(layer: LayerSettings) -> LayerSettings:
        return LayerSettings(output_stage=layer.output_stage, rescale_bits=layer.rescale_bits)

    layers = {name: left(layer) for name, layer in settings.layers.items()}
    return QuantizationSettings(left(settings.default), layers)


def choices_of_widths(settings: QuantizationSettings) -> list[str]:
    """The places (as paths of a settings file) of everything chosen but output stages and bits of rescaling."""
    plain = LayerSettings()
    places = [] if settings.equalize is None else ["equalize"]
    places += [f"inputs/{name}" for name, chosen in settings.inputs.items() if chosen != plain.output]
    for place, layer in {"default": settings.default, **{f"layers/{n}": v for n, v in settings.layers.items()}}.items():
        places += [f"{place}/weights"] if layer.weights != plain.weights else []
        places += [f"{place}/output"] if layer.output != plain.output else []
    return places
