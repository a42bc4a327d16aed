"""The knobs of the search: the widths of a model's weights and activations, as one tuple of bits."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hwflow.quantize.calibrate.prepared import Prepared
from hwflow.quantize.settings import LayerSettings, QuantizationSettings, WeightRounding

#: A width for every knob, in the order of the knobs.
Bits = tuple[int, ...]


class KnobKind(enum.StrEnum):
    """Which width of the settings a knob stands for."""

    INPUT = "input"
    WEIGHTS = "weights"
    OUTPUT = "output"


#: What a knob turns: the kind of width, and the input or layer.
Place = tuple[KnobKind, str]


@dataclass(frozen=True)
class Knob:
    """The width of an input, of a layer's weights, or of its result; it can be any of `widths`, the widest first.

    `also` are places that turn with it: tensors that Concat puts beside each other have one format.
    """

    kind: KnobKind
    name: str
    widths: tuple[int, ...]
    also: tuple[Place, ...] = ()

    @property
    def places(self) -> tuple[Place, ...]:
        return ((self.kind, self.name), *self.also)


def knobs_of(prepared: Prepared, base: QuantizationSettings) -> tuple[Knob, ...]:
    """The knobs of a float model, in the order of its graph, from the widths in `base` down to one bit.

    A place where `base` says 1 bit has nothing to turn, and no knob.
    """
    tied: dict[Place, tuple[Place, ...]] = {}
    owners = {point.tensor: _place(point.is_input, point.owner) for point in prepared.points}
    for group in prepared.common:
        places = tuple(owners[tensor] for tensor in group)
        tied.update(dict.fromkeys(places, places))
    knobs: dict[Place, Knob] = {}
    for place in _places(prepared):
        also = tuple(other for other in tied.get(place, ()) if other != place)
        widest = _bits(base, place)
        if widest > 1 and not any(other in knobs for other in also):
            knobs[place] = Knob(*place, tuple(range(widest, 0, -1)), also)
    return tuple(knobs.values())


#: The fewest bits of weights and of activations that a search for little noise tries.
LEAST_WEIGHT_BITS, LEAST_ACTIVATION_BITS = 2, 4


def wider(knobs: Sequence[Knob], most: Sequence[int]) -> tuple[Knob, ...]:
    """The same knobs with up to `most` bits, and no fewer than leave little noise."""

    def widths(knob: Knob, top: int) -> tuple[int, ...]:
        least = LEAST_WEIGHT_BITS if knob.kind is KnobKind.WEIGHTS else LEAST_ACTIVATION_BITS
        top = max(top, knob.widths[0])
        return tuple(range(top, min(least, top) - 1, -1))

    return tuple(replace(knob, widths=widths(knob, top)) for knob, top in zip(knobs, most, strict=True))


def tuned_at_every_width(settings: QuantizationSettings) -> QuantizationSettings:
    """`settings` where weights whose rounding nobody has chosen are tuned on data, also those of many bits."""

    def tuned(layer: LayerSettings) -> LayerSettings:
        weights = layer.weights
        if weights.rounding is WeightRounding.AUTO:
            weights = replace(weights, rounding=WeightRounding.ADAPTIVE)
        if weights.bias_correction is None:
            weights = replace(weights, bias_correction=True)
        return replace(layer, weights=weights)

    layers = {name: tuned(layer) for name, layer in settings.layers.items()}
    return replace(settings, default=tuned(settings.default), layers=layers)


def _place(is_input: bool, name: str) -> Place:
    return KnobKind.INPUT if is_input else KnobKind.OUTPUT, name


def _places(prepared: Prepared) -> Iterator[Place]:
    """Inputs, then layer by layer weights and result."""
    points = [_place(point.is_input, point.owner) for point in prepared.points]
    weighted = {node.name for node in prepared.layers}
    yield from (place for place in points if place[0] is KnobKind.INPUT)
    for node in prepared.twin.graph.nodes:
        if node.name in weighted:
            yield KnobKind.WEIGHTS, node.name
        if (KnobKind.OUTPUT, node.name) in points:
            yield KnobKind.OUTPUT, node.name


def _bits(settings: QuantizationSettings, place: Place) -> int:
    kind, name = place
    if kind is KnobKind.INPUT:
        return settings.input(name).bits
    layer = settings.layer(name)
    return layer.weights.bits if kind is KnobKind.WEIGHTS else layer.output.bits


def settings_with(
    base: QuantizationSettings, knobs: Sequence[Knob], bits: Bits, *, tuned: bool
) -> QuantizationSettings:
    """`base` with the widths `bits`.  What is not `tuned` rounds weights to the nearest, without correction."""
    layers, inputs = dict(base.layers), dict(base.inputs)
    for knob, width in zip(knobs, bits, strict=True):
        for kind, name in knob.places:
            if kind is KnobKind.INPUT:
                inputs[name] = replace(inputs.get(name, base.default.output), bits=width)
                continue
            layer = layers.get(name, base.default)
            if kind is KnobKind.WEIGHTS:
                layers[name] = replace(layer, weights=replace(layer.weights, bits=width))
            else:
                layers[name] = replace(layer, output=replace(layer.output, bits=width))
    settings = replace(base, layers=layers, inputs=inputs)
    return settings if tuned else _untuned(settings)


def _untuned(settings: QuantizationSettings) -> QuantizationSettings:
    def nearest(layer: LayerSettings) -> LayerSettings:
        weights = replace(layer.weights, rounding=WeightRounding.NEAREST, bias_correction=False)
        return replace(layer, weights=weights)

    layers = {name: nearest(layer) for name, layer in settings.layers.items()}
    return replace(settings, default=nearest(settings.default), layers=layers)


def bits_text(knobs: Sequence[Knob], bits: Bits) -> str:
    """The widths for people: the inputs', then for each layer weights/result ("8 4/6 3/8", a dot for none)."""
    inputs = [str(width) for knob, width in zip(knobs, bits, strict=True) if knob.kind is KnobKind.INPUT]
    layers: dict[str, dict[KnobKind, int]] = {}
    for knob, width in zip(knobs, bits, strict=True):
        if knob.kind is not KnobKind.INPUT:
            layers.setdefault(knob.name, {})[knob.kind] = width
    pairs = [f"{of.get(KnobKind.WEIGHTS, '.')}/{of.get(KnobKind.OUTPUT, '.')}" for of in layers.values()]
    return " ".join([*inputs, *pairs])
