"""Nodes in an order in which each stands behind those that write what it reads, as ONNX wants them.

Some tools write them in any order, and runtimes sort them when they load the file.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace

from hwflow.onnx.model import Attribute, Function, Graph, Model, Node
from hwflow.onnx.rewrite.renaming import reads


def sorted_nodes(model: Model) -> Model:
    """`model` with the nodes of its graph, of graphs inside of it and of its functions sorted; those that stand right
    keep their order.  Itself where they do.  Nodes of a cycle stay as they are: `hwflow.onnx.check` reports it."""
    graph, functions = _of_graph(model.graph), tuple(map(_of_function, model.functions))
    same = graph is model.graph and all(a is b for a, b in zip(functions, model.functions, strict=True))
    return model if same else replace(model, graph=graph, functions=functions)


def _of_function(function: Function) -> Function:
    nodes = _in_order(function.nodes)
    return function if nodes is function.nodes else replace(function, nodes=nodes)


def _of_graph(graph: Graph) -> Graph:
    nodes = _in_order(graph.nodes)
    return graph if nodes is graph.nodes else replace(graph, nodes=nodes)


def _in_order(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    inside = tuple(map(_with_graphs, nodes))
    order = _order(inside)
    if order == list(range(len(nodes))):
        return nodes if all(a is b for a, b in zip(inside, nodes, strict=True)) else inside
    return tuple(inside[number] for number in order)


def _with_graphs(node: Node) -> Node:
    """The node, whose graphs are sorted."""
    changed: dict[str, Attribute] = {}
    for name, value in node.attributes.items():
        graphs = [entry for entry in (value if isinstance(value, tuple) else (value,)) if isinstance(entry, Graph)]
        made = tuple(map(_of_graph, graphs))
        if any(new is not old for new, old in zip(made, graphs, strict=True)):
            changed[name] = made if isinstance(value, tuple) else made[0]
    return replace(node, attributes={**node.attributes, **changed}) if changed else node


def _order(nodes: Sequence[Node]) -> list[int]:
    """The numbers of the nodes in their order: of all that may be next always the first one."""
    writers = {name: number for number, node in enumerate(nodes) for name in node.outputs if name}
    behind: list[list[int]] = [[] for _ in nodes]
    left = [0] * len(nodes)
    for number, node in enumerate(nodes):
        for writer in {writers[name] for name in reads(node) if name in writers}:
            behind[writer].append(number)
            left[number] += 1
    ready, order = [number for number, count in enumerate(left) if not count], list[int]()
    while ready:
        number = heapq.heappop(ready)
        order.append(number)
        for follower in behind[number]:
            left[follower] -= 1
            if not left[follower]:
                heapq.heappush(ready, follower)
    return [*order, *(number for number, count in enumerate(left) if count)]
