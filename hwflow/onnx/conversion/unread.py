"""Constants that conversion left without a reader, because a node has their elements as attributes now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hwflow.onnx.conversion.facts import constant_of
from hwflow.onnx.model import Graph, Node
from hwflow.onnx.rewrite.renaming import reads


def without_unread(before: Graph, after: Graph) -> Graph:
    """`after` without the initializers and Constant nodes that nodes of `before` read and its own do not."""
    fed = {value.name for value in (*before.inputs, *before.overridable)}
    unread = set(_read(before)) - set(_read(after)) - fed

    def stays(node: Node) -> bool:
        return constant_of(node) is None or node.outputs[0] not in unread

    return replace(
        after,
        nodes=tuple(filter(stays, after.nodes)),
        initializers={name: array for name, array in after.initializers.items() if name not in unread},
    )


def _read(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        yield from reads(node)
    for value in graph.outputs:
        yield value.name
