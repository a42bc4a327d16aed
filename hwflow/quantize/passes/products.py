"""Passes around products of two computed tensors: constant factors go behind them, and a bias becomes a sum."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hwflow.onnx import infer
from hwflow.onnx.model import Graph, Model, Node
from hwflow.onnx.operators import LAYOUT
from hwflow.quantize.graphs import (
    Additions,
    attribute,
    consumers,
    fixed_names,
    is_product,
    label_of,
    moves,
    producers,
    scales,
    with_graph,
)

#: Inputs of a Gemm that has no bias.
_FACTORS = 2


def gemm_of_two(model: Model) -> Model:
    """A Gemm of two computed tensors with a bias, or with a computed one, becomes a Gemm without one, and a sum."""
    graph = model.graph
    added, nodes, fixed = Additions(graph), list[Node](), fixed_names(graph)
    for node in graph.nodes:
        biases = [name for name in node.inputs[_FACTORS:] if name]
        computed = is_product(node, fixed) or any(name not in fixed for name in biases)
        if node.op_type != "Gemm" or not computed or not biases:
            nodes.append(node)
            continue
        base, bias = label_of(node), node.inputs[_FACTORS]
        product = added.new(f"{base}.product")
        nodes.append(replace(node, inputs=node.inputs[:_FACTORS], outputs=(product,)))
        if attribute(node, "beta", 1.0) != 1:
            beta = added.float32(f"{base}.beta", np.array(attribute(node, "beta", 1.0)))
            scaled = added.new(f"{base}.bias")
            nodes.append(Node("Mul", (bias, beta), (scaled,), name=scaled))
            bias = scaled
        nodes.append(Node("Add", (product, bias), node.outputs, name=f"{base}.sum"))
    return model if len(nodes) == len(graph.nodes) else infer(with_graph(model, nodes, added.initializers))


def factors_behind_products(model: Model) -> Model:
    """A constant above 0 that multiplies an operand of such a product multiplies its result, where it costs nothing.

    Attention scales both operands with the root of its scale.
    """
    graph = model.graph
    fixed = fixed_names(graph)
    if not any(is_product(node, fixed) for node in graph.nodes):
        return model
    walk = _Walk(graph, fixed)
    nodes = [made for node in graph.nodes for made in walk.written(node)]
    return infer(with_graph(model, walk.without_unread(nodes), walk.added.initializers)) if walk.changed else model


@dataclass(frozen=True)
class _Chain:
    """From an operand of a product back: the nodes that only move elements, last one first, and the factor in front."""

    moving: Sequence[Node]
    source: str
    factor: float


class _Walk:
    """Rewrites the nodes of a graph one by one; `changed` says whether any was."""

    def __init__(self, graph: Graph, fixed: Container[str]) -> None:
        self.fixed = fixed
        self.graph, self.added = graph, Additions(graph)
        self.made, self.read = producers(graph), consumers(graph)
        self.outputs = {value.name for value in graph.outputs}
        self.changed = False

    def written(self, node: Node) -> list[Node]:
        chains = {}
        if is_product(node, self.fixed):
            chains = {name: chain for name in node.inputs[:2] if (chain := self._chain(name)) is not None}
        if not chains:
            return [node]
        self.changed = True
        base, factor = label_of(node), 1.0
        for name in node.inputs[:2]:
            factor *= chains[name].factor if name in chains else 1.0
        nodes, renamed = list[Node](), dict[str, str]()
        for name, chain in chains.items():
            last = chain.source
            for moving in reversed(chain.moving):  # what they make has other values, and so another name
                result = self.added.new(f"{moving.outputs[0]}.unscaled")
                nodes.append(replace(moving, inputs=(last, *moving.inputs[1:]), outputs=(result,), name=result))
                last = result
            renamed[name] = last
        unscaled = self.added.new(f"{base}.unscaled")
        inputs = tuple(renamed.get(name, name) for name in node.inputs)
        by = self.added.float32(f"{base}.factor", np.array(factor))
        return [*nodes, replace(node, inputs=inputs, outputs=(unscaled,)),
                Node("Mul", (unscaled, by), node.outputs, name=f"{base}.scaled")]

    def _chain(self, name: str) -> _Chain | None:
        moving: list[Node] = []
        while self._is_read_once(name):
            node = self.made[name]
            if scales(node, self.graph):
                return _Chain(moving, *self._scaled(node))
            pads = node.op_type in ("CenterCropPad", "Pad")
            if pads or not (node.op_type in LAYOUT or moves(node, self.graph)) or len(node.outputs) != 1:
                return None
            moving.append(node)
            name = node.inputs[0]
        return None

    def _is_read_once(self, name: str) -> bool:
        """By one node; that may read it twice."""
        return name in self.made and name not in self.outputs and len(self.read.get(name, ())) == 1

    def _scaled(self, node: Node) -> tuple[str, float]:
        """What `node` scales, and the factor."""
        constants = self.graph.initializers
        (source,) = (name for name in node.inputs if name not in constants)
        (value,) = (float(constants[name].reshape(-1)[0]) for name in node.inputs if name in constants)
        return source, value if node.op_type == "Mul" else 1 / value

    def without_unread(self, nodes: Sequence[Node]) -> list[Node]:
        """Without the nodes of the chains, whose copies took their place."""
        kept, wanted = list[Node](), set(self.outputs)
        for node in reversed(nodes):
            if wanted.intersection(node.outputs):
                wanted.update(node.inputs)
                kept.append(node)
        return kept[::-1]
