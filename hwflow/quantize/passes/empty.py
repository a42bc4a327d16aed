"""Tensors without elements, as framing writes them where nothing is left over: they are constants, and no part of a
Concat."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hwflow.onnx import infer
from hwflow.onnx.model import Array, Model, Node
from hwflow.onnx.operators import JOINS
from hwflow.onnx.rewrite.passes import simplify
from hwflow.quantize.graphs import shape_of, with_graph


def without_empty_parts(model: Model) -> Model:
    """Without nodes that make nothing, and without nothing in what a Concat joins; outputs stay."""
    graph, ends = model.graph, {value.name for value in model.graph.outputs}
    nothing = {name: np.zeros(array.shape, array.dtype) for name, array in graph.initializers.items() if not array.size}
    nodes, changed = [], False
    for node in graph.nodes:
        made = _empty(node.outputs, model)
        if len(made) == len(list(filter(None, node.outputs))) and not ends.intersection(made):
            nothing |= made
            changed = True
            continue
        if node.op_type in JOINS and not node.domain and not set(node.inputs) <= nothing.keys():
            inputs = tuple(name for name in node.inputs if name not in nothing)
            changed |= inputs != node.inputs
            alone = Node("Identity", inputs, node.outputs, {}, node.name)
            node = replace(node, inputs=inputs) if len(inputs) > 1 else alone
        nodes.append(node)
    return simplify(infer(with_graph(model, nodes, nothing))) if changed else model


def _empty(names: tuple[str, ...], model: Model) -> dict[str, Array]:
    """Those of the tensors that have no elements."""
    made = dict[str, Array]()
    for name in filter(None, names):
        shape, kind = shape_of(model.graph, name), model.graph.tensor_type(name)
        if shape is not None and 0 in shape and kind is not None:
            made[name] = np.zeros(shape, kind.dtype)
    return made
