"""The pass that turns a float model into a QDQ model: QuantizeLinear and DequantizeLinear where integers shall be.

An activation is stored as int8 or uint8, from 9 bits on as int16 or uint16; where it has fewer bits a Clip stands
between the two nodes.  One bipolar bit
is GreaterOrEqual and Where.  Weights are stored as int8, with one scale per output channel; biases as int32 with the
scale of their products.  The result is an ordinary ONNX model that any runtime can evaluate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hwflow.onnx.model import Array, Graph, Model, Node
from hwflow.quantize.calibrate.activations import ActivationForm
from hwflow.quantize.calibrate.points import scale_source
from hwflow.quantize.calibrate.weights import WeightForm, emit_dequantized
from hwflow.quantize.graphs import Additions, host_prefix, label_of, producers
from hwflow.quantize.scale import SMALLEST_NORMAL

#: A bias must fit int32 with a bit to spare for the sum; a channel with a larger one gets a larger weight scale.
_BIAS_LIMIT = 2.0**30

#: Steps that a bias gets in a channel whose weights are all zero.
_BIAS_STEPS = 2.0**20


@dataclass(frozen=True)
class Insertion:
    """The QDQ model, and for its tensors the tensor of the float model that they stand for (None of weights)."""

    model: Model
    sources: Mapping[str, str]


class _Inserted(Additions):
    """The additions of the pass, and how tensors of the float model are called when they are real again."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.dequantized: dict[str, str] = {}
        self.sources: dict[str, str] = {}

    def emit_activation(self, name: str, raw: str, output: str, form: ActivationForm) -> None:
        """The nodes that make the tensor `raw` integer and real again; `output` is the name the result must have."""
        before = len(self.nodes)
        self.dequantized[name] = emit_quantizer(name, raw, output, form, self)
        self.sources.update(dict.fromkeys((raw, *(node.outputs[0] for node in self.nodes[before:])), name))


def insert_quantizers(
    model: Model, activations: Mapping[str, ActivationForm], weights: Mapping[str, WeightForm]
) -> Model:
    """`model` with a quantizer at every tensor of `activations`, and integer weights in the nodes of `weights`.

    The keys of `weights` are the names of Conv and Gemm nodes (of their first output, where they have none), which have
    constant weights, output channels first, and bias, and read a tensor with a form.  Scales of channels whose bias
    would not fit int32 grow until it does.
    """
    return insert(model, activations, weights).model


def insert(model: Model, activations: Mapping[str, ActivationForm], weights: Mapping[str, WeightForm]) -> Insertion:
    """The model of `insert_quantizers`, with the sources of tensors."""
    graph = model.graph
    inserted = _Inserted(graph)
    outputs = {value.name for value in graph.outputs}
    makers, front = producers(graph), host_prefix(graph)
    for value in graph.inputs:
        inserted.sources[value.name] = value.name
        if value.name in activations:
            inserted.emit_activation(value.name, value.name, "", activations[value.name])
    for node in graph.nodes:
        inputs = node.inputs
        inserted.sources.update((name, name) for name in node.outputs if name)
        if label_of(node) in weights:
            form = activations[scale_source(node.inputs[0], makers, activations)]
            inputs = (node.inputs[0], *_emit_weights(node, weights[label_of(node)], form.scale, inserted))
        if node.outputs[0] not in front:  # the host reads reals in front of the hardware
            node = replace(node, inputs=tuple(inserted.dequantized.get(name, name) for name in inputs))
        name = node.outputs[0]
        if name not in activations:
            inserted.nodes.append(node)
            continue
        raw = inserted.new(f"{name}_unquantized") if name in outputs else name
        inserted.nodes.append(replace(node, outputs=(raw, *node.outputs[1:])))
        inserted.emit_activation(name, raw, name if raw != name else "", activations[name])
    return Insertion(inserted.into(model), inserted.sources)


def emit_quantizer(name: str, raw: str, output: str, form: ActivationForm, added: Additions) -> str:
    """The nodes that make the tensor `raw` integer and real again, and the name of the reals.

    New tensors are called like `name`; `output`, where it is given, is the name that the result must have.
    """
    result = output or added.new(f"{name}_dequantized")
    dtype = np.dtype(f"{'' if form.low < 0 else 'u'}int{8 if form.format.bits <= 8 else 16}")
    scale = added.float32(f"{name}_scale", form.scale)
    zero_point = added.constant(f"{name}_zero_point", np.array(form.zero_point, dtype))
    quantized = added.new(f"{name}_quantized")
    if form.format.bipolar:  # -1 below 0, else 1
        zero = added.float32(f"{name}_zero", 0)
        signs = [added.constant(f"{name}_{sign}", np.array(k, np.int8)) for sign, k in (("plus", 1), ("minus", -1))]
        positive = added.emit("GreaterOrEqual", raw, zero, wish=f"{name}_positive")
        integers = added.emit("Where", positive, *signs, output=quantized)
    else:
        integers = added.emit("QuantizeLinear", raw, scale, zero_point, output=quantized)
        if (form.low, form.high) != (np.iinfo(dtype).min, np.iinfo(dtype).max):
            limits = (("low", form.low), ("high", form.high))
            ends = [added.constant(f"{name}_{end}", np.array(value, dtype)) for end, value in limits]
            integers = added.emit("Clip", integers, *ends, wish=f"{name}_clipped")
    return added.emit("DequantizeLinear", integers, scale, zero_point, output=result, name=f"{name}_dequantize")


def _emit_weights(node: Node, form: WeightForm, input_scale: np.float32, inserted: _Inserted) -> tuple[str, str]:
    """The weights and the bias as the reals of new integer initializers."""
    weights, bias = (np.asarray(inserted.graph.initializers[name], np.float64) for name in node.inputs[1:3])
    integers, scale = _with_room(form, weights, bias, float(input_scale))
    bias_scale = (np.float32(input_scale) * scale).astype(np.float32)
    bias_integers = np.rint(bias / bias_scale.astype(np.float64)).astype(np.int32)
    return (emit_dequantized(node.inputs[1], integers, scale, 0, inserted),
            emit_dequantized(node.inputs[2], bias_integers, bias_scale, 0, inserted))


def _with_room(
    form: WeightForm, weights: npt.NDArray[np.float64], bias: npt.NDArray[np.float64], input_scale: float
) -> tuple[Array, npt.NDArray[np.float32]]:
    """Integers and scales of the weights, with scales so large that every bias fits and no product of scales is 0."""
    least = np.maximum(np.abs(bias) / (input_scale * _BIAS_LIMIT), SMALLEST_NORMAL * max(1.0, 1.0 / input_scale))
    empty = ~form.integers.reshape(len(bias), -1).any(axis=1)
    free = np.where(bias != 0, np.abs(bias) / (input_scale * _BIAS_STEPS), 1.0)
    scale = np.where(empty, np.maximum(free, least), np.maximum(form.scales, least)).astype(np.float32)
    integers = form.integers.astype(np.int8 if form.bits <= 8 else np.int16)
    grown = ~empty & (scale > form.scales)
    if form.bits > 1 and grown.any():  # a bit is its sign, whatever the scale
        steps = scale[grown].astype(np.float64).reshape(-1, *[1] * (weights.ndim - 1))
        integers[grown] = np.rint(weights[grown] / steps).astype(integers.dtype)
    return integers, scale
