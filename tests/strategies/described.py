"""Models and layer graphs in a form that a person reads: a line for each input, node or layer, and output."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hwflow.layers import Layer, LayerGraph
from hwflow.onnx.model import Model
from hwflow.stages.folding import Folding


def described(model: Model) -> str:
    """A line for each input, node and output, with the shapes of constants."""
    graph = model.graph
    lines = [f"{model.opsets}; inputs " + ", ".join(f"{value.name} {value.tensor}" for value in graph.inputs)]
    for node in graph.nodes:
        inputs = (f"{name}{list(graph.initializers[name].shape) if name in graph.initializers else ''}"
                  for name in node.inputs)
        lines.append(f"{', '.join(node.outputs)} = {node.op_type}({', '.join(inputs)}) {dict(node.attributes)}")
    return "\n  ".join([*lines, "outputs " + ", ".join(value.name for value in graph.outputs)])


def describe(graph: LayerGraph, foldings: Sequence[Folding] | None = None) -> str:
    """The graph in a form that a person can read: a line for each input, layer and output."""
    lines = [f"{graph.name}: inputs " + ", ".join(f"{name} {tensor_line(graph, name)}" for name in graph.inputs)]
    for k, layer in enumerate(graph.layers):
        fold = f"  {foldings[k].rows}x{foldings[k].cols}/{foldings[k].lanes}" if foldings else ""
        lines.append(f"  {layer.output} {tensor_line(graph, layer.output)} = {layer.kind}({', '.join(layer.inputs)})"
                     f"{layer_line(layer)}{fold}")
    return "\n".join([*lines, f"  outputs {', '.join(graph.outputs)}"])


def tensor_line(graph: LayerGraph, name: str) -> str:
    t = graph.tensors[name]
    return f"{t.frame} {t.format} z={t.zero_point}"


def layer_line(layer: Layer) -> str:
    """The fields that are small; of arrays the shape."""
    found = []
    for field in getattr(layer, "__dataclass_fields__", {}):
        if field in ("name", "inputs", "output", "input_format"):
            continue
        value = getattr(layer, field)
        if isinstance(value, np.ndarray):
            value = list(value.shape)
        elif field in ("requantize", "hidden_rescale"):
            value = type(value).__name__
        found.append(f"{field}={value}")
    return f" {' '.join(str(each) for each in found)}" if found else ""
