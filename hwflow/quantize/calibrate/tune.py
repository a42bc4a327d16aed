"""Integer weights and corrected biases for a float model whose activations have their forms: layer by layer.

Layers of many bits take the nearest integers, which costs no data.  The others are tuned in the order of the graph on
calibration data, each behind the integer versions of the layers before it.

What automatic means was measured on seven networks (digits, MNIST twice, keywords, motions, CIFAR-10, anomalies; dense,
conv, depthwise) as signal-to-noise ratio at the outputs, on the data that the accuracy is measured on too.  With 8-bit
weights and activations nothing below moves an accuracy by more than a few samples.  Adaptive rounding against the
nearest integers, both with corrected biases: at 6 bits -1.2 to +2.8 dB (six of seven better), at 5 bits +0.6 to +4.6,
at 4 bits +2 to +4, at 2 bits +6 to +8 (three networks each).  Taking back the mean error: up to 9 dB where weights of 4
bits are rounded to the nearest, -1 to +3 dB with 8-bit weights behind activations of 4 or 6 bits.  Equalization before
tuning: with one scale per layer 0 to +2.3 dB at 6 bits, -0.4 to +0.9 at 4, -4.4 to +1.7 at 8; with scales of their own
for all channels it loses as often as it wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from hwflow_base.errors import HwflowError

from hwflow.layers.formats import IntFormat
from hwflow.onnx.model import Array, Model, Node
from hwflow.quantize.calibrate.activations import ActivationForm
from hwflow.quantize.calibrate.loops import Loop, LoopForm, LoopRows
from hwflow.quantize.calibrate.points import scale_source
from hwflow.quantize.calibrate.ranges import Progress
from hwflow.quantize.calibrate.rounding import solved
from hwflow.quantize.calibrate.streams import Rows, Streams, measure
from hwflow.quantize.calibrate.weights import (
    WeightForm,
    is_loop,
    needs_data,
    needs_products,
    resolved_method,
    weight_form,
)
from hwflow.quantize.graphs import Names, is_layer, label_of, producers, with_graph
from hwflow.quantize.settings import QuantizationSettings, WeightRounding, WeightSettings

#: Up to this width automatic means that calibration data decides.
_FEW = 6


def equalizes(settings: QuantizationSettings, layers: Iterable[str]) -> bool:
    """Whether weights of the nodes `layers` are equalized across layers."""
    if settings.equalize is not None:
        return settings.equalize
    chosen = [settings.layer(name).weights for name in layers]
    return any(weights.bits <= _FEW and not weights.per_channel for weights in chosen)


def resolved(settings: WeightSettings, layer: str, has_data: bool, input_bits: int = 8) -> WeightSettings:
    """`settings` of the node `layer` with nothing left to decide; `input_bits` is the width of what it reads.

    Without calibration data weights become the nearest integers.  HwflowError: `settings` ask for what needs data.
    """
    rounding, corrected = settings.rounding, settings.bias_correction
    if not has_data and rounding.adapts:
        raise HwflowError(
            f"settings: layers/{layer}/weights/rounding must be nearest or auto without calibration data, "
            f"not {rounding}", "give real inputs with --data"
        )
    if not has_data and corrected:
        raise HwflowError(
            f"settings: layers/{layer}/weights/bias_correction must be false or left out without calibration data, "
            "not true", "give real inputs with --data"
        )
    if rounding is WeightRounding.AUTO:
        adaptive = has_data and settings.bits <= _FEW
        rounding = WeightRounding.ADAPTIVE if adaptive else WeightRounding.NEAREST
    if corrected is None:
        corrected = has_data and min(settings.bits, input_bits) <= _FEW
    return replace(settings, method=resolved_method(settings), rounding=rounding, bias_correction=corrected)


@dataclass(frozen=True)
class Tuned:
    """`model` is the float model with corrected biases.

    `weights` are the integers of each layer, `loops` those of each recurrent node, and `settings` how they were found,
    with nothing left to decide; all by the `label_of` the node.
    """

    model: Model
    weights: Mapping[str, WeightForm]
    settings: Mapping[str, WeightSettings]
    loops: Mapping[str, LoopForm] = field(default_factory=dict)


def tune(
    model: Model,
    activations: Mapping[str, ActivationForm],
    settings: QuantizationSettings,
    calibration: Mapping[str, Array] | None,
    progress: Progress | None = None,
) -> Tuned:
    """Weights of every Conv, Gemm and recurrent node of `model` with constant weights and bias.

    `activations` says which tensors become integers; `calibration` maps each input to rows [n, *its shape], None where
    there are none.  `progress` is called with (layers done, layers in all).  The same data gives the same result, bit
    for bit.  HwflowError: settings that need data where there is none.
    """
    layers = _tunable(model)
    has_data = calibration is not None
    chosen = choices(model, activations, settings, has_data)
    tuned = [node for node in layers if has_data and needs_data(chosen[label_of(node)])]
    work = _Work(model, chosen, Streams.start(model, activations, calibration or {}, tuned))
    for node in work.streams.nodes:
        if label_of(node) not in chosen:
            work.streams.advance(node)
            continue
        work.decide(node)
        if progress is not None:
            progress(len(work.forms) + len(work.loops), len(layers))
    for node in layers:
        work.take_nearest(node)
    if progress is not None:
        progress(len(layers), len(layers))
    nodes = [work.changed.get(id(node), node) for node in model.graph.nodes]
    return Tuned(with_graph(model, nodes, work.biases), work.forms, chosen, work.loops)


def _tunable(model: Model) -> list[Node]:
    constants = model.graph.initializers
    return [node for node in model.graph.nodes if is_layer(node, constants) or is_loop(node, constants)]


def choices(
    model: Model, activations: Mapping[str, ActivationForm], settings: QuantizationSettings, has_data: bool
) -> dict[str, WeightSettings]:
    """What `settings` mean for each layer, by its label, with nothing left to decide."""
    makers, choices = producers(model.graph), dict[str, WeightSettings]()
    for node in _tunable(model):
        form = activations.get(scale_source(node.inputs[0], makers, activations))
        bits = 8 if form is None else IntFormat.covering(form.low, form.high).bits
        choices[label_of(node)] = resolved(settings.layer(label_of(node)).weights, label_of(node), has_data, bits)
    return choices


@dataclass
class _Work:
    """Changes that are made so far: `changed` nodes by identity read the new `biases`."""

    model: Model
    settings: Mapping[str, WeightSettings]
    streams: Streams
    names: Names = field(init=False)
    changed: dict[int, Node] = field(default_factory=dict)
    biases: dict[str, Array] = field(default_factory=dict)
    forms: dict[str, WeightForm] = field(default_factory=dict)
    loops: dict[str, LoopForm] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = Names(self.model.graph)

    def decide(self, node: Node) -> None:
        """Decide the integers of `node`, in front of which the streams stand, and its bias."""
        if is_loop(node, self.model.graph.initializers):
            self._loop(node)
        else:
            self._layer(node)

    def take_nearest(self, node: Node) -> None:
        """The nearest integers for a `node` of which nothing is decided."""
        name, constants = label_of(node), self.model.graph.initializers
        if is_loop(node, constants):
            self.loops.setdefault(name, Loop.of(node, constants, self.model.opsets).nearest(self.settings[name]))
        elif name not in self.forms:
            self.forms[name] = weight_form(constants[node.inputs[1]], self.settings[name])

    def _loop(self, node: Node) -> None:
        """The integers of W and R of a recurrent `node`, and its bias."""
        loop = Loop.of(node, self.model.graph.initializers, self.model.opsets)
        streams, real, y = self.streams, self.streams.results(node), node.outputs[0]
        bias = self.names.new(f"{node.input(3) or label_of(node)}_corrected")

        def play(form: LoopForm) -> LoopRows:
            results, states = streams.played(*loop.written(form, bias))
            return loop.rows({**streams.integer, **states}, results[y])

        form = loop.form(self.settings[label_of(node)], loop.rows(streams.real, real[y]), play)
        self.loops[label_of(node)] = form
        self._go_past(node, real, *loop.written(form, bias))

    def _layer(self, node: Node) -> None:
        """The integers and the bias of a Conv or Gemm."""
        weights = self.model.graph.initializers[node.inputs[1]]
        settings = self.settings[label_of(node)]
        real = self.streams.results(node)
        form, bias = weight_form(weights, settings), None
        if needs_data(settings):
            form, bias = self._tuned(node, settings, form, real[node.outputs[0]])
        self.forms[label_of(node)] = form
        constants: dict[str, Array] = {node.inputs[1]: form.reals}
        changed = node
        if bias is not None:
            name = self.names.new(f"{node.inputs[2]}_corrected")
            constants[name], changed = bias, replace(node, inputs=(*node.inputs[:2], name, *node.inputs[3:]))
        self._go_past(node, real, changed, constants)

    def _go_past(
        self, node: Node, real: Mapping[str, Rows], changed: Node, constants: Mapping[str, Array]
    ) -> None:
        """Go past `node`, in whose place `changed` stands, which reads other `constants`: weights, and a new bias."""
        if changed is not node:
            self.changed[id(node)] = changed
            self.biases |= {name: array for name, array in constants.items() if name not in node.inputs}
        self.streams.advance(node, real, changed, constants)

    def _tuned(
        self, node: Node, settings: WeightSettings, form: WeightForm, results: Rows
    ) -> tuple[WeightForm, Array | None]:
        """Integers for `node` by calibration data, and the bias that belongs to them where it is corrected."""
        weights, bias = (self.model.graph.initializers[name] for name in node.inputs[1:3])
        inputs = self.streams.integer[node.inputs[0]]
        moments = measure(node, weights, self.model.opsets, inputs, results, needs_products(settings))
        return solved(node, weights, bias, settings, form, moments)
