"""The pass that moves Relu and Clip from behind a Concat to the layers in front of it, which do them for nothing."""

from __future__ import annotations

from dataclasses import replace

from hwflow.onnx.model import Graph, Model, Node
from hwflow.quantize.graphs import Names, consumers, dynamic_inputs, producers, with_graph
from hwflow.quantize.operators import CLAMPS, MATRIX, POOLS

__all__ = ["clamps_before_concat"]


def clamps_before_concat(model: Model) -> Model:
    """Concat, then Relu or Clip, becomes Relu or Clip of every operand, then Concat.

    Only where a Conv, Gemm or average makes each operand for the Concat alone: with those it becomes one layer.
    """
    graph = model.graph
    nodes, names = list(graph.nodes), Names(graph)
    current = graph
    while (pair := _movable(current)) is not None:
        concat, clamp = pair
        operands = [names.new(f"{name}.{clamp.op_type}") for name in concat.inputs]
        moved = [
            replace(clamp, inputs=(name, *clamp.inputs[1:]), outputs=(result,), name=result)
            for name, result in zip(concat.inputs, operands, strict=True)
        ]
        nodes = [node for node in nodes if node is not clamp]
        at = nodes.index(concat)
        nodes[at : at + 1] = [*moved, replace(concat, inputs=tuple(operands), outputs=clamp.outputs)]
        current = replace(current, nodes=tuple(nodes))
    return with_graph(model, nodes)


def _movable(graph: Graph) -> tuple[Node, Node] | None:
    read, made = consumers(graph), producers(graph)
    outputs = {value.name for value in graph.outputs}
    averages = POOLS - {"MaxPool", "GlobalMaxPool"}
    for concat in graph.nodes:
        followers = read.get(concat.outputs[0], [])
        if concat.op_type != "Concat" or len(followers) != 1 or concat.outputs[0] in outputs:
            continue
        if followers[0].op_type not in CLAMPS or len(dynamic_inputs(followers[0], graph)) != 1:
            continue
        makers = [made.get(name) for name in concat.inputs]
        alone = all(len(read[name]) == 1 and name not in outputs for name in concat.inputs)
        distinct = len(set(concat.inputs)) == len(concat.inputs)
        if alone and distinct and all(node is not None and node.op_type in MATRIX | averages for node in makers):
            return concat, followers[0]
    return None
