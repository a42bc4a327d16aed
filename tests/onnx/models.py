"""Small models for the tests: values by name, graphs of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hwflow.onnx import Model
from hwflow.onnx.build import make_graph, make_model, tensor_type
from hwflow.onnx.model import Node, SequenceType, Value

F32, I64, BOOL = np.float32, np.int64, np.bool_


def value(name: str, dtype: Any = F32, shape: Sequence[int | str | None] | None = None) -> Value:
    return Value(name, tensor_type(dtype, shape if shape is None else tuple(shape)))


def sequence(name: str, dtype: Any = F32, shape: Sequence[int | str | None] | None = None) -> Value:
    return Value(name, SequenceType(tensor_type(dtype, shape if shape is None else tuple(shape))))


def model_of(
    nodes: Iterable[Node], inputs: Iterable[Value], outputs: Iterable[Value | str] = ("y",), *, opset: int = 17,
    **constants: Any,
) -> Model:  # fmt: skip
    """Outputs that are only named have no type."""
    values = [v if isinstance(v, Value) else Value(v, None) for v in outputs]
    return make_model(make_graph(list(nodes), list(inputs), values, constants), opset=opset)
