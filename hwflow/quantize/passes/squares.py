"""Which points are squares and sums of squares: they get twice the bits, because a square of n bits has 2 n.

The magnitude of a spectrum is one: sqrt(x * x + y * y).  With squares of 8 bits every bin below a sixteenth of the
loudest one is 0.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from hwflow.onnx.model import Graph, Model, Node
from hwflow.quantize.graphs import consumers, dynamic_inputs, producers
from hwflow.quantize.operators import LAYOUT, MOVES
from hwflow.quantize.passes.points import Point, scale_source

__all__ = ["squares"]

#: What may read a square of twice the bits: these are monotonous there, so thresholds compute them.
_READERS = frozenset({"Add", "Clip", "Log", "Max", "Sqrt"})


def squares(model: Model, points: Iterable[Point]) -> frozenset[str]:
    """The tensors of `points` that are squares or sums of two squares, and that only functions of one element read."""
    graph, tensors = model.graph, {point.tensor for point in points}
    made, found = producers(graph), set[str]()
    for node in graph.nodes:
        name = node.outputs[0]
        if name in tensors and (_is_square(node, graph) or _is_sum(node, graph, found)):
            found.add(name)
    read = consumers(graph)
    while True:  # a square next to one that is none would only lose its bits
        left = {name for name in found if _readers(name, read) <= _READERS and _are_with(made[name], graph, found)}
        if left == found:
            return frozenset(found)
        found = left


def _is_square(node: Node, graph: Graph) -> bool:
    if node.domain:
        return False
    if node.op_type == "Pow":
        exponent = graph.initializers.get(node.inputs[1])
        return exponent is not None and exponent.size == 1 and float(exponent.reshape(())) == 2
    return node.op_type == "Mul" and node.inputs[0] == node.inputs[1] and node.inputs[0] not in graph.initializers


def _is_sum(node: Node, graph: Graph, found: Container[str]) -> bool:
    dynamic, made = dynamic_inputs(node, graph), producers(graph)
    both = len(dynamic) == 2 and node.op_type == "Add" and not node.domain
    return both and all(scale_source(name, made, found) in found for name in dynamic)


def _are_with(node: Node, graph: Graph, found: set[str]) -> bool:
    """Whether the operands of a sum still are squares."""
    return node.op_type != "Add" or _is_sum(node, graph, found)


def _readers(name: str, read: dict[str, list[Node]]) -> set[str]:
    """The operators that read a tensor, also after its elements have moved."""
    found, todo = set[str](), [name]
    while todo:
        for node in read.get(todo.pop(), []):
            if node.op_type in LAYOUT | MOVES:
                todo += node.outputs
            else:
                found.add(node.op_type)
    return found
