"""MaxPool of integers that come straight from the host: QOperator models pool what QuantizeLinear gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hwflow.onnx import infer, simplify
from hwflow.onnx.model import Graph, Model, Node
from hwflow.onnx.operators import HOST_BEFORE, MAX_POOLS
from hwflow.quantize.graphs import Names, consumers, host_prefix, with_graph


def dequantize_before_pool(model: Model) -> Model:
    """MaxPool, then DequantizeLinear, becomes DequantizeLinear, then MaxPool, where the pool reads the host's integers.

    The integers of the hardware's input get their scale from a DequantizeLinear right behind it.  The largest of some
    integers has the largest real value, so the bits stay the same.  All readers of the pool must agree on the scale.
    """
    graph, read = model.graph, consumers(model.graph)
    host = host_prefix(graph, HOST_BEFORE)
    names, nodes = Names(graph), list[Node]()
    replaced: dict[str, list[Node]] = {}
    for node in graph.nodes:
        readers = read.get(node.outputs[0], [])
        if node.op_type in MAX_POOLS and node.inputs[0] in host and _agree(node, readers, graph):
            first, real = readers[0], names.new(f"{node.outputs[0]}.dequantized")
            nodes.append(replace(first, inputs=(node.inputs[0], *first.inputs[1:]), outputs=(real,)))
            nodes.append(replace(node, inputs=(real,), outputs=first.outputs))
            replaced[first.outputs[0]] = []
            for other in readers[1:]:
                replaced[other.outputs[0]] = [Node("Identity", first.outputs, other.outputs, {}, other.name)]
        else:
            nodes += replaced.get(node.outputs[0], [node])
    return simplify(infer(with_graph(model, nodes))) if replaced else model


def _agree(pool: Node, readers: Sequence[Node], graph: Graph) -> bool:
    """True where nothing but DequantizeLinear nodes of one scale and zero point reads the pool's first output."""
    if not readers or len(pool.outputs) > 1 or any(value.name == pool.outputs[0] for value in graph.outputs):
        return False
    first = readers[0]
    return all(
        node.op_type == "DequantizeLinear"
        and node.attributes == first.attributes
        and len(node.inputs) == len(first.inputs)
        and all(_same(a, b, graph) for a, b in zip(node.inputs[1:], first.inputs[1:], strict=True))
        for node in readers
    )


def _same(a: str, b: str, graph: Graph) -> bool:
    """True for one number, the same under both names."""
    values = [graph.initializers.get(name) for name in (a, b)]
    return all(v is not None and v.size == 1 for v in values) and np.array_equal(*map(np.ravel, values))  # type: ignore[arg-type]
