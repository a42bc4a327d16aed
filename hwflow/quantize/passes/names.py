"""The pass that gives every node a name of its own, so that settings can name it and later passes keep the name."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hwflow.onnx.model import Model
from hwflow.quantize.graphs import with_graph


def name_nodes(model: Model) -> Model:
    """A node without a name, or with one that others have too, is called like its first output."""
    count = Counter(node.name for node in model.graph.nodes)
    nodes = []
    for node in model.graph.nodes:
        taken = not node.name or count[node.name] > 1
        result = next(filter(None, node.outputs), "")
        wish = result
        while taken and count[wish]:
            wish += "_"
        if taken:
            count[wish] += 1
            node = replace(node, name=wish)
        nodes.append(node)
    return with_graph(model, nodes)
