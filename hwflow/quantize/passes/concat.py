"""The pass that moves Relu and Clip from behind a Concat to the layers in front of it, which do them for nothing."""

from __future__ import annotations

from dataclasses import replace

from hwflow.onnx.model import Graph, Model, Node
from hwflow.onnx.operators import CLAMPS, MATRIX, MAX_POOLS, POOLS
from hwflow.quantize.graphs import Names, consumers, dynamic_inputs, producers, with_graph


def clamps_before_concat(model: Model) -> Model:
    """Concat, then Relu or Clip, becomes Relu or Clip of every operand, then Concat.

    Only where a Conv, Gemm or average makes each operand for the Concat alone: with those it becomes one layer.
    """
    graph = model.graph
    names, nodes = Names(graph), list[Node]()
    clamps = _clamps(graph)
    moved = {id(clamp) for clamp in clamps.values()}
    for node in graph.nodes:
        clamp = clamps.get(id(node))
        if clamp is not None:
            operands = [names.new(f"{name}.{clamp.op_type}") for name in node.inputs]
            nodes += [
                replace(clamp, inputs=(name, *clamp.inputs[1:]), outputs=(result,), name=result)
                for name, result in zip(node.inputs, operands, strict=True)
            ]
            nodes.append(replace(node, inputs=tuple(operands), outputs=clamp.outputs))
        elif id(node) not in moved:
            nodes.append(node)
    return with_graph(model, nodes)


def _clamps(graph: Graph) -> dict[int, Node]:
    """The Relu or Clip behind each Concat that it can move in front of, by the Concat's identity."""
    read, made = consumers(graph), producers(graph)
    outputs = {value.name for value in graph.outputs}
    found = {}
    for concat in graph.nodes:
        followers = read.get(concat.outputs[0], [])
        if concat.op_type != "Concat" or len(followers) != 1 or concat.outputs[0] in outputs:
            continue
        if followers[0].op_type not in CLAMPS or len(dynamic_inputs(followers[0], graph)) != 1:
            continue
        makers = [made.get(name) for name in concat.inputs]
        alone = all(len(read[name]) == 1 and name not in outputs for name in concat.inputs)
        distinct = len(set(concat.inputs)) == len(concat.inputs)
        averages_or_products = all(node is not None and node.op_type in MATRIX | POOLS - MAX_POOLS for node in makers)
        if alone and distinct and averages_or_products:
            found[id(concat)] = followers[0]
    return found
