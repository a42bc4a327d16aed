"""Integer weights and corrected biases for a float model whose activations have their forms: layer by layer.

Layers of many bits take the nearest integers, which costs no data.  The others are tuned in the order of the graph on
calibration data, each behind the integer versions of the layers before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hwflow.layers.formats import IntFormat
from hwflow.onnx.model import Array, Model, Node
from hwflow.quantize.calibration.ranges import Progress
from hwflow.quantize.calibration.weights import weight_form
from hwflow.quantize.forms import ActivationForm, WeightForm
from hwflow.quantize.graphs import Names, is_layer, label_of, producers, with_graph
from hwflow.quantize.passes.points import scale_source
from hwflow.quantize.settings import QuantizationSettings, RangeMethod, WeightRounding, WeightSettings
from hwflow.quantize.tuning import rounding
from hwflow.quantize.tuning.choices import needs_data, resolved
from hwflow.quantize.tuning.moments import Moments, blocks, measure, unblocked
from hwflow.quantize.tuning.streams import Rows, Streams

__all__ = ["Tuned", "tune"]


@dataclass(frozen=True)
class Tuned:
    """`model` is the float model with corrected biases.

    `weights` are the integers of each layer and `settings` how they were found, with nothing left to decide; both by
    the `label_of` the node.
    """

    model: Model
    weights: Mapping[str, WeightForm]
    settings: Mapping[str, WeightSettings]


def tune(
    model: Model,
    activations: Mapping[str, ActivationForm],
    settings: QuantizationSettings,
    calibration: Mapping[str, Array] | None,
    progress: Progress | None = None,
) -> Tuned:
    """Weights of every Conv and Gemm of `model` with constant weights and bias.

    `activations` says which tensors become integers; `calibration` maps each input to rows [n, *its shape], None where
    there are none.  `progress` is called with (layers done, layers in all).  The same data gives the same result, bit
    for bit.  HwflowError: settings that need data where there is none.
    """
    layers = [node for node in model.graph.nodes if is_layer(node, model.graph.initializers)]
    has_data = calibration is not None
    chosen = _resolved(model, layers, activations, settings, has_data)
    tuned = [node for node in layers if has_data and needs_data(chosen[label_of(node)])]
    work = _Work(model, chosen, Streams.start(model, activations, calibration or {}, tuned))
    for node in work.streams.nodes:
        if label_of(node) not in chosen:
            work.streams.advance(node)
            continue
        work.layer(node)
        if progress is not None:
            progress(len(work.forms), len(layers))
    for node in layers:
        if label_of(node) not in work.forms:
            work.forms[label_of(node)] = weight_form(model.graph.initializers[node.inputs[1]], chosen[label_of(node)])
    if progress is not None:
        progress(len(layers), len(layers))
    nodes = [work.changed.get(id(node), node) for node in model.graph.nodes]
    return Tuned(with_graph(model, nodes, work.biases), work.forms, chosen)


def _resolved(
    model: Model,
    layers: Sequence[Node],
    activations: Mapping[str, ActivationForm],
    settings: QuantizationSettings,
    has_data: bool,
) -> dict[str, WeightSettings]:
    """What is done with each layer, by its label."""
    made, found = producers(model.graph), dict[str, WeightSettings]()
    for node in layers:
        form = activations.get(scale_source(node.inputs[0], made, activations))
        bits = 8 if form is None else IntFormat.covering(form.low, form.high).bits
        found[label_of(node)] = resolved(settings.layer(label_of(node)).weights, label_of(node), has_data, bits)
    return found


@dataclass
class _Work:
    """What is done so far: `changed` nodes by identity read the new `biases`."""

    model: Model
    settings: Mapping[str, WeightSettings]
    streams: Streams
    names: Names = field(init=False)
    changed: dict[int, Node] = field(default_factory=dict)
    biases: dict[str, Array] = field(default_factory=dict)
    forms: dict[str, WeightForm] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = Names(self.model.graph)

    def layer(self, node: Node) -> None:
        """Decide the integers of `node`, in front of which the streams stand, and its bias."""
        weights = self.model.graph.initializers[node.inputs[1]]
        settings = self.settings[label_of(node)]
        real = self.streams.results(node)
        form, bias = weight_form(weights, settings), None
        if needs_data(settings):
            form, bias = self._tuned(node, settings, form, real[node.outputs[0]])
        self.forms[label_of(node)] = form
        constants: dict[str, Array] = {node.inputs[1]: form.reals}
        if bias is not None:
            name = self.names.new(f"{node.inputs[2]}_corrected")
            self.biases[name] = constants[name] = bias
            self.changed[id(node)] = replace(node, inputs=(*node.inputs[:2], name, *node.inputs[3:]))
        self.streams.advance(node, real, self.changed.get(id(node), node), constants)

    def _tuned(
        self, node: Node, settings: WeightSettings, form: WeightForm, results: Rows
    ) -> tuple[WeightForm, Array | None]:
        """Integers for `node` by calibration data, and the bias that belongs to them where it is corrected."""
        weights, bias = (self.model.graph.initializers[name] for name in node.inputs[1:3])
        by_data = settings.rounding is WeightRounding.ADAPTIVE or settings.method is RangeMethod.MSE
        inputs = self.streams.integer[node.inputs[0]]
        moments = measure(node, weights, self.model.opsets, inputs, results, by_data)
        if by_data:
            form = _by_data(node, weights, bias, settings, form, moments)
        if not settings.bias_correction:
            return form, None
        groups, outputs = moments.y.shape
        kept = np.asarray(form.reals, np.float64).reshape(groups, outputs, -1)
        return form, (moments.y - (kept @ moments.x[:, :, None])[:, :, 0]).ravel().astype(np.float32)


def _by_data(
    node: Node, weights: Array, bias: Array, settings: WeightSettings, form: WeightForm, moments: Moments
) -> WeightForm:
    """The integers with the least error of the layer's outputs; of `form`'s scales, where the user chose how to."""
    if not settings.bias_correction:
        moments = moments.about(np.asarray(bias, np.float64).reshape(moments.y.shape))
    problem = rounding.objective(blocks(weights, node), moments, settings.bits, settings.per_channel)
    scales = form.scales.astype(np.float64).reshape(len(moments.y), 1, -1, 1)
    is_adaptive = settings.rounding is WeightRounding.ADAPTIVE
    found = (rounding.adaptive if is_adaptive else rounding.nearest)(problem, scales)
    if settings.method is RangeMethod.MSE:
        found = rounding.searched(problem, is_adaptive).better(found)
    integers = unblocked(found.integers, weights.shape).astype(np.int64)
    return WeightForm(integers, found.scales.ravel().astype(np.float32), settings.bits)
