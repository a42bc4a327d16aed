"""Quantized constants in the form that a standard QDQ model has.

A change of their layout is done once: on the integers, with the axis of the scales moved along.

Weights in float8 or float4 become constants in float32, which calibration then makes integers.
"""

from __future__ import annotations

import operator
from dataclasses import replace

import numpy as np

from hwflow.onnx import infer, simplify
from hwflow.onnx.model import Array, Model, Node
from hwflow.onnx.operators import LAYOUT
from hwflow.quantize.graphs import Names, apply, attribute, with_graph


def fold_constant_layout(model: Model) -> Model:
    """DequantizeLinear of a constant, then Transpose, Reshape, ..., becomes DequantizeLinear of other integers.

    A layout that mixes the channels of a per-channel scale stays as it is.  Other readers of the constant keep theirs.
    """
    graph, names = model.graph, Names(model.graph)
    initializers = dict(graph.initializers)
    dequantized: dict[str, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        source = dequantized.get(node.inputs[0]) if node.inputs else None
        foldable = not node.domain and node.op_type in LAYOUT and len([n for n in node.outputs if n]) == 1
        if source is not None and foldable and all(name in initializers for name in node.inputs[1:] if name):
            folded = _folded(node, source, model, initializers, names)
            node = folded or node
        if node.op_type == "DequantizeLinear" and not node.domain and _is_plain(node, initializers):
            dequantized[node.outputs[0]] = node
        nodes.append(node)
    return model if all(map(operator.is_, nodes, graph.nodes)) else simplify(with_graph(model, nodes, initializers))


def _is_plain(node: Node, initializers: dict[str, Array]) -> bool:
    """Whether it dequantizes a constant, with one scale or one per channel."""
    if attribute(node, "block_size", 0) or not all(name in initializers for name in node.inputs if name):
        return False
    return initializers[node.inputs[1]].ndim <= 1


def _folded(
    layout: Node, source: Node, model: Model, initializers: dict[str, Array], names: Names
) -> Node | None:
    """The DequantizeLinear in place of both; None where no axis has the channels afterwards."""
    integers = initializers[source.inputs[0]]
    parameters = {name: initializers[name] for name in layout.inputs[1:] if name}

    def moved(array: Array) -> Array:
        return apply(layout, model.opsets, {layout.inputs[0]: array, **parameters})

    attributes = {key: value for key, value in source.attributes.items() if key != "axis"}
    count = initializers[source.inputs[1]].size
    if count > 1:
        axis = attribute(source, "axis", 1) % integers.ndim
        numbers = np.arange(count, dtype=np.int64).reshape([-1 if k == axis else 1 for k in range(integers.ndim)])
        channel_axis = _axis_of(moved(np.broadcast_to(numbers, integers.shape).copy()), count)
        if channel_axis is None:
            return None
        attributes["axis"] = channel_axis
    name = names.new(f"{layout.outputs[0]}.integers")
    initializers[name] = np.ascontiguousarray(moved(integers))
    return replace(
        source, inputs=(name, *source.inputs[1:]), outputs=layout.outputs[:1], attributes=attributes, name=layout.name
    )


def _axis_of(numbers: Array, count: int) -> int | None:
    """The axis along which the channels' numbers lie in order."""
    for axis, size in enumerate(numbers.shape):
        order = np.arange(count).reshape([-1 if k == axis else 1 for k in range(numbers.ndim)])
        if size == count and np.array_equal(numbers, np.broadcast_to(order, numbers.shape)):
            return axis
    return None


def is_small_float(dtype: np.dtype[np.generic]) -> bool:
    """Whether `dtype` is a float of 8 bits or fewer."""
    return dtype.name.startswith(("float8", "float6", "float4"))


def small_floats_to_float32(model: Model) -> Model:
    """A DequantizeLinear of such a constant is its result: numbers of a few bits with an exponent are no integers."""
    constants, nodes = dict[str, Array](model.graph.initializers), []
    for node in model.graph.nodes:
        names = [name for name in node.inputs if name]
        if (node.op_type == "DequantizeLinear" and not node.domain and all(name in constants for name in names)
                and is_small_float(constants[names[0]].dtype)):
            value = apply(node, model.opsets, {name: constants[name] for name in names})
            constants[node.outputs[0]] = value
        else:
            nodes.append(node)
    if len(nodes) == len(model.graph.nodes):
        return model
    return infer(replace(model, graph=replace(model.graph, nodes=tuple(nodes), initializers=constants)))
