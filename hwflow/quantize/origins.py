"""The nodes of the user's model behind the layers of an integer graph, so that people find their own names there."""

from __future__ import annotations

from collections.abc import Mapping

from hwflow.layers import Rearrange
from hwflow.layers.base import Layer, LayerGraph, Origin
from hwflow.onnx.model import Graph, Node
from hwflow.onnx.operators import LAYOUT, MOVES

#: Operators that bring elements into order.
MOVING = LAYOUT | MOVES | {"Pad"}


def origins(layers: LayerGraph, graph: Graph) -> dict[str, Origin]:
    """By the names of `layers`, nodes of `graph`: of that name, or else of the longest name that one begins with.

    A node without a name, or with one that others have too, is called like its first result.
    """
    named = dict[str, Node]()
    for node in graph.nodes:
        for name in filter(None, (node.name, *node.outputs)):
            named.setdefault(name, node)
    found = {layer.name: _origin(layer, named) for layer in layers.layers}
    return {name: origin for name, origin in found.items() if origin is not None}


def _origin(layer: Layer, named: Mapping[str, Node]) -> Origin | None:
    name = layer.name
    if name in named:
        node = named[name]
        return Origin(name, node.op_type, not isinstance(layer, Rearrange) or node.op_type in MOVING)
    for end in range(len(name) - 1, 0, -1):
        if not name[end].isalnum() and name[:end] in named:
            return Origin(name[:end], named[name[:end]].op_type, whole=False)
    return None
