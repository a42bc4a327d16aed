"""Nodes that move elements, as operator set 13 writes them: their numbers are inputs, and Upsample is a Resize."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hwflow.onnx.model import Array, Graph, Node
from hwflow.quantize.graphs import Additions, as_ints, attribute, shape_of

__all__ = ["raised_move"]

#: The operator set in which the numbers of an operator became inputs.
_INPUTS_SINCE = {"Slice": 10, "Split": 13, "Pad": 11}

#: The operator set in which Resize says where elements come from.
_RESIZE = 11


def raised_move(node: Node, opset: int, graph: Graph, added: Additions) -> list[Node] | None:
    """What becomes of `node`, of the operator set `opset`; None where it stays as it is."""
    if node.domain:
        return None
    if node.op_type == "Upsample" or (node.op_type == "Resize" and opset < _RESIZE):
        return _resized(node, graph, added)
    if opset >= _INPUTS_SINCE.get(node.op_type, 0):
        return None
    names, kept = list[str](), dict(node.attributes)
    for key, value in _numbers(node).items():
        for old in ("starts", "ends", "axes", "split", "pads", "value"):
            kept.pop(old, None)
        names.append("" if value is None else added.constant(f"{node.outputs[0]}.{key}", value))
    while names and not names[-1]:
        names.pop()
    return [replace(node, inputs=(*node.inputs[:1], *names), attributes=kept)] if names else None


def _numbers(node: Node) -> dict[str, Array | None]:
    """The attributes that became inputs, in their order."""

    def listed(key: str) -> Array | None:
        stated = node.attributes.get(key)
        return None if stated is None else np.array(as_ints(stated), np.int64)

    if node.op_type == "Slice":
        return {key: listed(key) for key in ("starts", "ends", "axes")}
    if node.op_type == "Split":
        return {"split": listed("split")}
    return {"pads": listed("pads"), "value": np.array(attribute(node, "value", 0.0), np.float32)}


def _resized(node: Node, graph: Graph, added: Additions) -> list[Node]:
    """Element 0 stays where it is; nearest rounds down where an axis grows, and up where it shrinks."""
    scales = _scales(node, graph)
    if scales is None:
        return [node]
    mode = attribute(node, "mode", "nearest")
    mode = "linear" if mode == "bilinear" else mode
    parts = {"floor": np.maximum(scales, 1), "ceil": np.minimum(scales, 1)}
    if mode == "nearest" and node.op_type == "Resize":
        steps = {rounding: part for rounding, part in parts.items() if (part != 1).any()} or {"floor": scales}
    else:
        steps = {"floor": scales}
    names = [node.inputs[0], *(added.new(f"{node.outputs[0]}.grown") for _ in list(steps)[1:]), node.outputs[0]]
    made = []
    for rounding, source, result in zip(steps, names[:-1], names[1:], strict=True):
        attributes = {"mode": mode, "coordinate_transformation_mode": "asymmetric", "nearest_mode": rounding}
        factors = added.constant(f"{result}.scales", steps[rounding].astype(np.float32))
        name = node.name if result == node.outputs[0] else result
        made.append(Node("Resize", (source, "", factors), (result,), attributes, name))
    return made


def _scales(node: Node, graph: Graph) -> Array | None:
    """One scale per axis; None where they are computed."""
    if len(node.inputs) > 1:
        return graph.initializers.get(node.inputs[1])
    if "scales" in node.attributes:
        return np.array(node.attributes["scales"], np.float32)
    rank = len(shape_of(graph, node.inputs[0]) or ())
    ends = [attribute(node, key, 1.0) for key in ("height_scale", "width_scale")]
    return np.array([1.0] * (rank - 2) + ends, np.float32)
