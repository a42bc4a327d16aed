"""What is true or false moves as the numbers that it is decided by:

    Unsqueeze(LessOrEqual(x, 0))        LessOrEqual(Unsqueeze(x), 0)

So what chooses by it is a function of numbers, which hardware has; it has no tensors of true and false.
"""

from __future__ import annotations

from dataclasses import replace

from hwflow.onnx import infer
from hwflow.onnx.model import Graph, Model, Node
from hwflow.onnx.operators import ELEMENTWISE, LAYOUT
from hwflow.onnx.rewrite.passes import simplify
from hwflow.quantize.graphs import (
    Additions,
    constants,
    dynamic_inputs,
    is_boolean,
    label_of,
    moves,
    on_host,
    producers,
)


def flags_behind_moves(model: Model) -> Model:
    """Comparisons of one tensor with single numbers behind what moves their results; not those on the host."""
    graph = model.graph
    of_host, added, made = on_host(graph), Additions(graph), producers(graph)
    for node in graph.nodes:
        maker = made.get(node.inputs[0]) if _moves(node, graph) and not of_host.intersection(node.outputs) else None
        if maker is None or not _compares(maker, graph):
            added.nodes.append(node)
            continue
        source = dynamic_inputs(maker, graph)[0]
        moved = added.emit_like(node, source, wish=f"{node.outputs[0]}.numbers", name=f"{label_of(node)}.numbers")
        inputs = tuple(moved if name == source else name for name in maker.inputs)
        flag = replace(maker, inputs=inputs, outputs=node.outputs, name=label_of(node))
        made[moved], made[node.outputs[0]] = added.nodes[-1], flag
        added.nodes.append(flag)
    return simplify(infer(added.into(model))) if len(added.nodes) > len(graph.nodes) else model


def _moves(node: Node, graph: Graph) -> bool:
    """Whether a node gives what is true or false other places, or another shape, and nothing else."""
    if len(node.outputs) != 1 or node.domain or not node.inputs or not is_boolean(node.outputs[0], graph):
        return False
    return moves(node, graph) or (node.op_type in LAYOUT and dynamic_inputs(node, graph) == node.inputs[:1])


def _compares(node: Node, graph: Graph) -> bool:
    """Whether each element of the result is a function of that of one tensor, the same one everywhere."""
    return (node.op_type in ELEMENTWISE and not node.domain and len(dynamic_inputs(node, graph)) == 1
            and all(array.size == 1 for array in constants(node, graph)))  # fmt: skip
