"""Constants and conversions of element types."""

from __future__ import annotations

from typing import Any

import numpy as np

from hwflow.onnx.dtypes import element_type
from hwflow.onnx.ops.base import (
    FLOAT,
    FLOATS,
    INT,
    INTS,
    STRING,
    STRINGS,
    TENSOR,
    Arr,
    AttributeKind,
    Call,
    Known,
    Operator,
    Table,
)
from hwflow.onnx.ops.shapes import by_running

__all__ = ["OPERATORS", "convert"]

#: Attributes that may hold a Constant's value, and the element type that each gives.
_VALUES: dict[str, tuple[AttributeKind, Any]] = {
    "value": (TENSOR, None),
    "value_float": (FLOAT, np.float32),
    "value_floats": (FLOATS, np.float32),
    "value_int": (INT, np.int64),
    "value_ints": (INTS, np.int64),
    "value_string": (STRING, np.object_),
    "value_strings": (STRINGS, np.object_),
}


def _constant(call: Call) -> Arr:
    given = [name for name in _VALUES if call.has(name)]
    if len(given) != 1:
        raise call.error(f"a constant must have exactly one value, not {given or 'none'}; export the model again")
    return np.asarray(call.node.attributes[given[0]], _VALUES[given[0]][1])


def _constant_of_shape(call: Call, shape: Arr) -> Arr:
    """One element repeated; a view, so that the size costs nothing until somebody writes it out."""
    value = call.tensor("value", np.zeros(1, np.float32))
    if value.size != 1:
        raise call.error(f"'value' must have one element, not {value.size}")
    dims = tuple(int(d) for d in shape.reshape(-1))
    call.check_size(dims, value.dtype)
    return np.broadcast_to(value.reshape(()), dims)


def _cast(call: Call, x: Arr) -> Arr:
    return convert(x, element_type(call.integer("to"), f"the output of {call.node.label}").dtype)


def convert(x: Arr, dtype: np.dtype[Any]) -> Arr:
    """Floats lose their fraction on the way to integers; texts are read as numbers, and numbers written as texts."""
    if dtype.kind == "O":
        return np.array([str(v) for v in x.reshape(-1).tolist()], np.object_).reshape(x.shape)
    if x.dtype.kind == "O":
        return np.array([float(v) for v in x.reshape(-1)], np.float64).reshape(x.shape).astype(dtype)
    if dtype.kind == "V" and x.dtype.kind == "f" and "int" in dtype.name:  # ml_dtypes' small integers
        return x.astype(np.int32).astype(dtype)
    return x.astype(dtype)


def _cast_shapes(call: Call, x: Known) -> Known:
    return Known(element_type(call.integer("to"), f"the output of {call.node.label}").dtype, x.shape)


def _range(call: Call, start: Arr, limit: Arr, delta: Arr) -> Arr:
    count = max(0, int(np.ceil((float(limit) - float(start)) / float(delta)))) if delta != 0 else -1
    call.check_size((count,), start.dtype)
    return (start + np.arange(count) * delta).astype(start.dtype)


OPERATORS: Table = {
    ("", "Constant"): (
        Operator(1, _constant, by_running(_constant), (0, 0), {"value": TENSOR}, ("value",)),
        Operator(11, _constant, by_running(_constant), (0, 0), {"value": TENSOR}),
        Operator(12, _constant, by_running(_constant), (0, 0), {name: kind for name, (kind, _) in _VALUES.items()}),
    ),
    ("", "ConstantOfShape"): (
        Operator(9, _constant_of_shape, by_running(_constant_of_shape), attributes={"value": TENSOR}, constant=(0,)),
    ),
    ("", "Cast"): (
        Operator(6, _cast, _cast_shapes, attributes={"to": INT}, required=("to",)),
        Operator(19, _cast, _cast_shapes, attributes={"to": INT, "saturate": INT}, required=("to",)),
        Operator(24, _cast, _cast_shapes, (1, 1), {"to": INT, "saturate": INT, "round_mode": STRING}, ("to",)),
    ),
    ("", "Range"): (
        Operator(11, _range, by_running(_range), (3, 3), constant=(0, 1, 2)),
        Operator(27, _range, by_running(_range), (3, 3), {"stash_type": INT}, constant=(0, 1, 2)),
    ),
}
