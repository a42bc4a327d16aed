"""The pass that writes Sum with the operator that everything else knows."""

from __future__ import annotations

from dataclasses import replace

from hwflow.onnx.model import Model, Node
from hwflow.quantize.graphs import Names, with_graph


def sum_to_add(model: Model) -> Model:
    """Sum(a, b, c, ...) becomes Add(Add(a, b), c) ...; of one tensor, Identity."""
    names, nodes = Names(model.graph), list[Node]()
    for node in model.graph.nodes:
        if node.op_type != "Sum" or node.domain:
            nodes.append(node)
            continue
        first, *others = node.inputs
        if not others:
            nodes.append(replace(node, op_type="Identity"))
        for k, other in enumerate(others):
            last = k == len(others) - 1
            result = node.outputs[0] if last else names.new(f"{node.outputs[0]}.{k + 1}")
            name = node.name if last else result
            nodes.append(replace(node, op_type="Add", inputs=(first, other), outputs=(result,), name=name))
            first = result
    return with_graph(model, nodes)
