"""The pass that turns a float model into a QDQ model: QuantizeLinear and DequantizeLinear where integers shall be.

Weights become int8, symmetric, one scale per output channel; activations int8, asymmetric, one scale per tensor; biases
int32 with the scale of their products.  The result is an ordinary ONNX model that any runtime can evaluate.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from hwflow.layers.formats import IntFormat
from hwflow.onnx.model import Array, Graph, Model, Node
from hwflow.quantize.graphs import Names, consumers, dynamic_inputs, host_prefix, producers, with_graph
from hwflow.quantize.operators import AFFINE, CLAMPS, HOST_AFTER, HOST_BEFORE, LAYOUT, MATRIX, POOLS, UNARY
from hwflow.quantize.scale import activation_parameters

__all__ = ["insert_quantizers", "points"]

INT8 = IntFormat(8, signed=True)

#: A bias must fit int32 with a bit to spare for the sum; a channel with a larger one gets a larger weight scale.
_BIAS_LIMIT = 2.0**30

#: Steps that a bias gets in a channel whose weights are all zero.
_BIAS_STEPS = 2.0**20


def points(model: Model) -> tuple[str, ...]:
    """The tensors that become integers, in the order of the graph.

    They are: what the first computing layer reads; the result of every product or average, behind its Relu or Clip; and
    both sides of any other function of one element, except behind the last layer, where it runs on the host.
    """
    graph = model.graph
    read, made = consumers(graph), producers(graph)
    before, after = host_prefix(graph, HOST_BEFORE), _suffix(graph, read)
    found: dict[str, None] = {}
    for node in graph.nodes:
        dynamic = dynamic_inputs(node, graph)
        if not dynamic or node.outputs[0] in before or node.outputs[0] in after:
            continue
        if dynamic[0] in before:
            found[dynamic[0]] = None
        if node.op_type in MATRIX or (node.op_type in POOLS and node.op_type not in ("MaxPool", "GlobalMaxPool")):
            found[_end_of_clamps(node.outputs[0], read, graph)] = None
        elif node.op_type in UNARY | AFFINE and not _is_fused(node, graph, made, read):
            found[_through_layout(dynamic[0], made, before)] = None
            found[node.outputs[0]] = None
    return tuple(found)


def _suffix(graph: Graph, read: Mapping[str, list[Node]]) -> set[str]:
    """Outputs of the nodes behind the last layer: from there on only host operators lead to the outputs."""
    names: set[str] = set()
    made = producers(graph)
    for node in reversed(graph.nodes):
        followers = [n for name in node.outputs for n in read.get(name, [])]
        if node.op_type in HOST_AFTER and all(set(n.outputs) & names for n in followers):
            if node.op_type in CLAMPS and _is_fused(node, graph, made, read):
                continue
            names.update(filter(None, node.outputs))
    return names


def _is_fused(node: Node, graph: Graph, made: Mapping[str, Node], read: Mapping[str, list[Node]]) -> bool:
    """True where `node` is a Relu or Clip behind a product or average, with at most more of them and layout between."""
    if node.op_type not in CLAMPS:
        return False
    while node.op_type in CLAMPS | LAYOUT:
        source = dynamic_inputs(node, graph)[0]
        before = made.get(source)
        if before is None or len(read[source]) != 1:
            return False
        if before.op_type in MATRIX or before.op_type in ("AveragePool", "GlobalAveragePool", "ReduceMean"):
            return True
        node = before
    return False


def _end_of_clamps(name: str, read: Mapping[str, list[Node]], graph: Graph) -> str:
    """Follow the Relu and Clip (and layout between them) that alone read `name`; the result of the last one."""
    outputs, end = {value.name for value in graph.outputs}, name
    while name not in outputs and len(read.get(name, [])) == 1 and read[name][0].op_type in CLAMPS | LAYOUT:
        follower = read[name][0]
        name = follower.outputs[0]
        end = name if follower.op_type in CLAMPS else end
    return end


def _through_layout(name: str, made: Mapping[str, Node], stop: Container[str]) -> str:
    """Go back over nodes that keep the values' range, to the tensor that fixed it (one of `stop` at the latest)."""
    while name not in stop and name in made and made[name].op_type in LAYOUT | {"MaxPool", "GlobalMaxPool"}:
        name = made[name].inputs[0]
    return name


@dataclass
class _Inserted:
    """What the pass adds: nodes go in front of or behind existing ones, names map old tensors to dequantized ones."""

    names: Names
    initializers: dict[str, Array] = field(default_factory=dict)
    scales: dict[str, np.float32] = field(default_factory=dict)

    def constant(self, wish: str, value: Array) -> str:
        name = self.names.new(wish)
        self.initializers[name] = value
        return name


def insert_quantizers(model: Model, ranges: Mapping[str, tuple[float, float]]) -> Model:
    """`model` with a quantizer at every tensor of `ranges` (name to smallest and largest value) and int8 weights."""
    graph = model.graph
    inserted = _Inserted(Names(graph))
    outputs = {value.name for value in graph.outputs}
    made = {name for node in graph.nodes for name in node.outputs}
    dequantized: dict[str, str] = {}
    nodes: list[Node] = []
    for value in graph.inputs:
        if value.name in ranges:
            nodes += _activation(value.name, value.name, ranges[value.name], None, inserted, dequantized)
    made_by = producers(graph)
    for node in graph.nodes:
        node_inputs = node.inputs
        if node.op_type in ("Conv", "Gemm"):
            source = _through_layout(node.inputs[0], made_by, inserted.scales)
            weights = _weights(node, graph, inserted.scales[source], inserted)
            nodes += weights
            node_inputs = (node.inputs[0], *(added.outputs[0] for added in weights))
        node = replace(node, inputs=tuple(dequantized.get(name, name) for name in node_inputs))
        name = node.outputs[0]
        if name not in ranges or name not in made:
            nodes.append(node)
            continue
        raw = inserted.names.new(f"{name}_unquantized") if name in outputs else name
        nodes.append(replace(node, outputs=(raw, *node.outputs[1:])))
        nodes += _activation(name, raw, ranges[name], name if raw != name else None, inserted, dequantized)
    return with_graph(model, nodes, inserted.initializers)


def _activation(
    name: str,
    raw: str,
    limits: tuple[float, float],
    output: str | None,
    inserted: _Inserted,
    dequantized: dict[str, str],
) -> list[Node]:
    """QuantizeLinear and DequantizeLinear of the tensor `raw`; `output` is the name that the result must have."""
    scale, zero_point = activation_parameters(*limits, INT8)
    inserted.scales[name] = scale
    parameters = (
        inserted.constant(f"{name}_scale", np.array(scale)),
        inserted.constant(f"{name}_zero_point", np.array(zero_point, np.int8)),
    )
    quantized = inserted.names.new(f"{name}_quantized")
    result = output or inserted.names.new(f"{name}_dequantized")
    dequantized[name] = result
    return [
        Node("QuantizeLinear", (raw, *parameters), (quantized,), name=quantized),
        Node("DequantizeLinear", (quantized, *parameters), (result,), name=f"{name}_dequantize"),
    ]


def _weights(node: Node, graph: Graph, input_scale: np.float32, inserted: _Inserted) -> list[Node]:
    """DequantizeLinear nodes of the weights and of the bias, for new integer initializers."""
    weights, bias = (np.asarray(graph.initializers[name], np.float64) for name in node.inputs[1:3])
    largest = np.abs(weights.reshape(len(weights), -1)).max(axis=1)
    smallest_for_bias = np.abs(bias) / (float(input_scale) * _BIAS_LIMIT)
    scale = np.maximum(largest / 127, smallest_for_bias)
    empty = np.abs(bias) / (float(input_scale) * _BIAS_STEPS)
    scale = np.where(largest > 0, scale, np.where(bias != 0, empty, 1.0)).astype(np.float32)
    scale = np.maximum(scale, np.finfo(np.float32).tiny)
    per_channel = scale.astype(np.float64).reshape(-1, *[1] * (weights.ndim - 1))
    bias_scale = (np.float32(input_scale) * scale).astype(np.float32)
    integers = np.clip(np.rint(weights / per_channel), -127, 127).astype(np.int8)
    bias_integers = np.rint(bias / bias_scale.astype(np.float64)).astype(np.int32)
    added = []
    for name, q, s in ((node.inputs[1], integers, scale), (node.inputs[2], bias_integers, bias_scale)):
        parameters = (
            inserted.constant(f"{name}_quantized", q),
            inserted.constant(f"{name}_scale", s),
            inserted.constant(f"{name}_zero_point", np.zeros(len(s), q.dtype)),
        )
        result = inserted.names.new(f"{name}_dequantized")
        added.append(Node("DequantizeLinear", parameters, (result,), {"axis": 0}, result))
    return added
