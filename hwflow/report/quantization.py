"""Which kinds of quantization a model has, and in which widths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ..onnx import Model
from ..onnx.dtypes import element_type_of
from ..onnx.inference import Types
from ..onnx.model import Array, Node, TensorType
from ..onnx.run.functions import graphs_of

__all__ = ["quantization_of"]

#: Operators of QONNX and Brevitas with the position of their bit width among the inputs.
_QONNX = {"Quant": 3, "IntQuant": 3, "BipolarQuant": None, "Trunc": 3, "FloatQuant": None, "MultiThreshold": None}


def quantization_of(model: Model, types: Types, annotations: int) -> dict[str, Any]:
    """By kind: the number of nodes ("qdq", "qoperator", "qonnx") or of annotations, and how often each width occurs."""
    constants = {name: array for name, array in model.graph.initializers.items() if array.size == 1}
    counts: Counter[str] = Counter()
    widths: Counter[str] = Counter()
    for node in _nested([*model.graph.nodes, *(n for f in model.functions for n in f.nodes)]):
        value = node.attributes.get("value")
        if node.op_type == "Constant" and isinstance(value, np.ndarray) and value.size == 1:
            constants[node.outputs[0]] = value
        kind = _kind(node)
        if kind:
            counts[kind] += 1
            width = _qonnx_width(node, constants) if kind == "qonnx" else _width(node, kind, types)
            if width:
                widths[width] += 1
    if annotations:
        counts["annotations"] = annotations
    return {"kinds": dict(counts), "widths": dict(widths)}


def _nested(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        for _, graph in graphs_of(node):
            yield from _nested(graph.nodes)


def _kind(node: Node) -> str:
    if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
        return "qdq"
    if node.op_type.startswith("QLinear") or node.op_type in ("ConvInteger", "MatMulInteger", "DynamicQuantizeLinear"):
        return "qoperator"
    return "qonnx" if node.domain and node.op_type in _QONNX else ""


def _width(node: Node, kind: str, types: Types) -> str:
    """The integer type that a node makes or reads."""
    name = node.inputs[0] if node.op_type == "DequantizeLinear" and node.inputs else next(iter(node.outputs), "")
    type_ = types[name]
    if not isinstance(type_, TensorType) or (kind == "qdq" and type_.dtype.kind == "f"):
        return ""
    return element_type_of(type_.dtype, "a tensor").name


def _qonnx_width(node: Node, constants: dict[str, Array]) -> str:
    if node.op_type == "BipolarQuant":
        return "1 bit"
    position = _QONNX[node.op_type]
    array = constants.get(node.inputs[position]) if position is not None and position < len(node.inputs) else None
    if array is None:
        return ""
    bits = float(array.reshape(-1)[0])
    return f"{bits:g} bit{'' if bits == 1 else 's'}"
