"""The pass that writes joins of two tensors for which there is no layer with those for which there is.

    a / b         a * Reciprocal(b)
    Max(a, b)     b + Relu(a - b)
    Min(a, b)     a - Relu(a - b)
"""

from __future__ import annotations

from dataclasses import replace

from hwflow.onnx.model import Model, Node
from hwflow.quantize.graphs import Additions, dynamic_inputs, host_prefix, host_suffix, label_of, with_graph
from hwflow.quantize.operators import ELEMENTWISE, HOST_AFTER, HOST_BEFORE

__all__ = ["joins_to_sums_and_products"]


def joins_to_sums_and_products(model: Model) -> Model:
    """Div, Max and Min of two tensors that are not functions of one; those on the host stay as they are."""
    graph = model.graph
    on_host = host_prefix(graph, HOST_BEFORE) | host_suffix(graph, HOST_AFTER)
    roots, added, nodes = dict[str, str](), Additions(graph), list[Node]()
    for node in graph.nodes:
        dynamic = dict.fromkeys(dynamic_inputs(node, graph))
        sources = {roots.get(name, name) for name in dynamic}
        if node.op_type in ELEMENTWISE and not node.domain and len(sources) == 1:
            roots.update(dict.fromkeys(node.outputs, sources.pop()))
        one = node.op_type in ("Div", "Max", "Min") and not node.domain and len(node.inputs) == len(dynamic) == 2
        if one and len(sources) == 2 and node.outputs[0] not in on_host:
            nodes += _written(node, added)
        else:
            nodes.append(node)
    return with_graph(model, nodes, added.initializers)


def _written(node: Node, added: Additions) -> list[Node]:
    a, b = node.inputs
    base = label_of(node)
    if node.op_type == "Div":
        factor = added.new(f"{base}.reciprocal")
        return [
            Node("Reciprocal", (b,), (factor,), name=factor),
            replace(node, op_type="Mul", inputs=(a, factor)),
        ]
    difference, positive = added.new(f"{base}.difference"), added.new(f"{base}.positive")
    op, first = ("Add", b) if node.op_type == "Max" else ("Sub", a)
    return [
        Node("Sub", (a, b), (difference,), name=difference),
        Node("Relu", (difference,), (positive,), name=positive),
        replace(node, op_type=op, inputs=(first, positive)),
    ]
