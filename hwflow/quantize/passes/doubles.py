"""Models in float64: what tells a wrong rewrite from the rounding of a model's own floats."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import ml_dtypes
import numpy as np

from hwflow.onnx.dtypes import ELEMENT_TYPES
from hwflow.onnx.model import Array, Attribute, Graph, Model, Node, TensorType, Value
from hwflow.quantize.passes.floats import TYPE_ATTRIBUTES

_FLOAT64 = np.dtype(np.float64)
_NARROW = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32))
_CODES = {entry.code for entry in ELEMENT_TYPES if entry.dtype in _NARROW}
_CODE = next(entry.code for entry in ELEMENT_TYPES if entry.dtype == _FLOAT64)


def floats_to_float64(model: Model) -> Model:
    """`model`, its inputs and outputs too, in float64; operators that do not take float64 refuse to be evaluated."""
    functions = tuple(replace(function, nodes=_nodes(function.nodes), types={}) for function in model.functions)
    return replace(model, graph=_graph(model.graph), functions=functions)


def doubled(array: Array) -> Array:
    """In float64 where it is float."""
    return array.astype(_FLOAT64) if array.dtype in _NARROW else array


def _graph(graph: Graph) -> Graph:
    return replace(
        graph,
        nodes=_nodes(graph.nodes),
        inputs=tuple(map(_value, graph.inputs)),
        outputs=tuple(map(_value, graph.outputs)),
        initializers={name: doubled(array) for name, array in graph.initializers.items()},
        types={},
    )


def _value(value: Value) -> Value:
    if value.tensor is None or value.tensor.dtype not in _NARROW:
        return value
    return replace(value, type=TensorType(_FLOAT64, value.tensor.shape))


def _nodes(nodes: Iterable[Node]) -> tuple[Node, ...]:
    return tuple(
        replace(node, attributes={key: _attribute(key, value) for key, value in node.attributes.items()})
        for node in nodes
    )


def _attribute(key: str, value: Attribute) -> Attribute:
    if isinstance(value, Graph):
        return _graph(value)
    if isinstance(value, np.ndarray):
        return doubled(value)
    return _CODE if key in TYPE_ATTRIBUTES and isinstance(value, int) and value in _CODES else value
