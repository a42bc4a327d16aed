"""Constants, ranges and matrices that the shape alone decides."""

from __future__ import annotations

import math

import numpy as np

from hwflow.onnx.dtypes import element_type
from hwflow.onnx.model import SparseTensor
from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.element_types import convert, widened
from hwflow.onnx.ops.shapes import by_running

#: Attributes that may hold a Constant's value, and the element type that each gives.
_VALUES: dict[str, type[np.generic] | None] = {
    "value": None,
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_string": np.object_,
    "value_strings": np.object_,
}


def _constant(call: Call) -> Arr:
    stated = [name for name in (*_VALUES, "sparse_value") if call.has(name)]
    if len(stated) != 1:
        raise call.error(f"a constant must have exactly one value, not {stated or 'none'}", "export the model again")
    value = call.node.attributes[stated[0]]
    if stated[0] == "sparse_value":
        if not isinstance(value, SparseTensor):
            raise call.error(
                f"attribute 'sparse_value' must be a sparse tensor, not {value!r}", "export the model again"
            )
        return _dense(call, value)
    return np.asarray(value, _VALUES[stated[0]])


def _dense(call: Call, sparse: SparseTensor) -> Arr:
    """All elements of a sparse tensor.  The size is not bounded by the file's: it is compared first."""
    call.check_size(sparse.shape, sparse.values.dtype)
    size, values, indices = math.prod(sparse.shape), sparse.values.reshape(-1), sparse.indices
    low, high = (indices.min(), indices.max()) if indices.size else (0, 0)
    columns = indices if indices.ndim == 2 else indices.reshape(-1, 1)
    limits = sparse.shape if indices.ndim == 2 else (size,)
    fits = len(columns) == len(values) and columns.shape[1] == len(limits) and low >= 0
    if not fits or (indices.size and bool((columns >= np.array(limits)).any())):
        raise call.error(
            f"the sparse value must have one index below {list(limits)} for each of its {len(values)} values, "
            f"not indices of the shape {list(indices.shape)} from {low} to {high}", "export the model again"
        )
    dense = np.full(size, "", np.object_) if values.dtype.kind == "O" else np.zeros(size, values.dtype)
    if len(values):
        dense[np.ravel_multi_index(tuple(columns.T), limits)] = values
    return dense.reshape(sparse.shape)


def _constant_of_shape(call: Call, shape: Arr) -> Arr:
    """One element repeated; a view, so that the size costs nothing until somebody writes it out."""
    value = call.tensor("value", np.zeros(1, np.float32))
    if value.size != 1:
        raise call.error(f"'value' must have one element, not {value.size}")
    dims = tuple(int(d) for d in shape.reshape(-1))
    call.check_size(dims, value.dtype)
    return np.broadcast_to(value.reshape(()), dims)


def _eye_like(call: Call, x: Arr) -> Arr:
    known = _eye_like_shapes(call, Known(x.dtype, x.shape))
    call.check_size(x.shape, known.dtype)
    rows, columns = x.shape
    diagonal = max(-rows, min(columns, call.integer("k")))
    return convert(np.eye(rows, columns, diagonal, np.float32), known.dtype)


def _eye_like_shapes(call: Call, x: Known) -> Known:
    if x.ndim != 2:
        raise call.error(f"the input must be a matrix, not have the shape {list(x.shape)}")
    if not call.has("dtype"):
        return Known(x.dtype, x.shape)
    return Known(element_type(call.integer("dtype"), f"the output of {call.node.label}").dtype, x.shape)


def _range(call: Call, start: Arr, limit: Arr, delta: Arr) -> Arr:
    """Small floats are computed in float32."""
    count = _count(call, start, limit, delta)
    call.check_size((count,), start.dtype)
    first, step = (widened(number).reshape(())[()] for number in (start, delta))
    return np.asarray(first + np.arange(count).astype(first.dtype) * step).astype(start.dtype)


def _range_shapes(call: Call, start: Known, limit: Known, delta: Known) -> Known:
    values = [number.value for number in (start, limit, delta) if number.value is not None]
    assert len(values) == 3  # `constant` of the operator
    count = _count(call, *values)
    call.check_size((count,), start.dtype)
    return Known(start.dtype, (count,))


def _count(call: Call, start: Arr, limit: Arr, delta: Arr) -> int:
    """How many numbers there are: by the division of the type itself."""
    for name, operand in (("start", start), ("limit", limit), ("delta", delta)):
        if operand.size != 1:
            raise call.error(f"input '{name}' must be one number, not have the shape {list(operand.shape)}")
    first, last, step = (widened(operand).reshape(())[()] for operand in (start, limit, delta))
    if not step or not all(math.isfinite(v) for v in (first, last, step)):
        raise call.error(f"'start', 'limit' and 'delta' (not 0) must be finite, not {first}, {last}, {step}")
    if start.dtype.kind in "iu":
        return max(0, -((int(first) - int(last)) // int(step)))
    return max(0, _ceiling(call, float((last - first) / step)))


def _ceiling(call: Call, value: float) -> int:
    if not math.isfinite(value):
        raise call.error(f"the number of elements must be finite, not {value}", "'delta' is too small")
    return math.ceil(value)


OPERATORS: Table = {
    ("", "Constant"): (Operator(1, _constant, by_running(_constant)),),
    ("", "ConstantOfShape"): (Operator(9, _constant_of_shape, by_running(_constant_of_shape), constant=(0,)),),
    ("", "EyeLike"): (Operator(9, _eye_like, _eye_like_shapes),),
    ("", "Range"): (Operator(11, _range, _range_shapes, constant=(0, 1, 2)),),
}
