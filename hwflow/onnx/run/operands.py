"""Values while a model is evaluated: what they are called, what type they have, how many bytes they hold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from hwflow.onnx.dtypes import type_name
from hwflow.onnx.errors import TensorDataError
from hwflow.onnx.limits import Limits, Meter
from hwflow.onnx.model import Array, DType, Graph, Operand, SparseTensor

#: Where ONNX's names of element types differ from numpy's.
_NAMES = {
    "object": "string", "float32": "float", "float64": "double",
    "float4_e2m1fn": "float4e2m1", "float8_e8m0fnu": "float8e8m0",
    "float6_e2m3fn": "float6e2m3", "float6_e3m2fn": "float6e3m2",
}  # fmt: skip


def describe(dtype: DType, shape: Sequence[object] | None) -> str:
    """How messages write a tensor type: "float32[1, 3, 32, 32]", "float32[batch, ?]"."""
    if shape is None:
        return f"{type_name(dtype)} of unknown rank"
    return f"{type_name(dtype)}[{', '.join('?' if d is None else str(d) for d in shape)}]"


def describe_operand(value: Operand) -> str:
    """How messages write any value: "float32[2]", "a sequence of 3", "a map of 2", "-" for nothing."""
    if value is None:
        return "-"
    if isinstance(value, list):
        return f"a sequence of {len(value)}"
    if isinstance(value, dict):
        return f"a map of {len(value)}"
    return describe(value.dtype, value.shape)


@cache
def _element_name(dtype: DType) -> str:
    return _NAMES.get(dtype.name) or dtype.name.replace("float8_", "float8")


def type_text(value: Operand) -> str | None:
    """The type in the notation of the schemas, as "tensor(float)"; None where the value does not tell it."""
    if isinstance(value, np.ndarray):
        return f"tensor({_element_name(value.dtype)})"
    if isinstance(value, list):
        element = type_text(value[0]) if value else None
        return element and f"seq({element})"
    if isinstance(value, dict) and value:
        key, item = next(iter(value.items()))
        name = {str: "string", float: "float", int: "int64"}.get(type(item)) or _element_name(np.asarray(item).dtype)
        return f"map({'string' if isinstance(key, str) else 'int64'},{name})"
    return None


def size_of(value: Operand) -> int:
    """Bytes of the elements.  A view counts like what it shows; a string counts as its reference."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, list):
        return sum([e.nbytes if type(e) is np.ndarray else size_of(e) for e in value]) + 8 * len(value)
    return 16 * len(value) if isinstance(value, dict) else 0


def as_operand(value: object) -> Operand:
    """The value that a kernel or a caller gives, with numpy's scalars as arrays of rank 0."""
    if value is None or isinstance(value, (np.ndarray, list, dict)):
        return value
    return list(value) if isinstance(value, tuple) else np.asarray(value)


def frozen(value: Operand) -> Operand:
    """The value such that writing into its arrays fails; the caller's own array stays as it is."""
    if isinstance(value, np.ndarray):
        if value.flags.writeable:
            value = value.view()
            value.flags.writeable = False
        return value
    return [frozen(element) for element in value] if isinstance(value, list) else value


def dense(sparse: SparseTensor) -> Array:
    """All elements of a sparse tensor.  Their number is the caller's to check; raises TensorDataError for indices."""
    bounds = np.array(sparse.shape if sparse.indices.ndim == 2 else [math.prod(sparse.shape)], np.int64)
    indices = sparse.indices.reshape(len(sparse.indices), -1)
    fits = indices.shape == (sparse.values.size, len(bounds)) and sparse.values.ndim == 1
    if not fits or (indices < 0).any() or (indices >= bounds).any():
        raise TensorDataError(
            f"the indices of a sparse tensor must lie in its shape {list(sparse.shape)}, one for each of its "
            f"{sparse.values.size} values, not be {list(sparse.indices.shape)} others", "export the model again"
        )
    array = np.zeros(sparse.shape, sparse.values.dtype)
    if sparse.values.dtype.kind == "O":
        array = np.full(sparse.shape, "", np.object_)
    if sparse.indices.ndim == 2:
        array[tuple(sparse.indices.T)] = sparse.values
    else:
        array.reshape(-1)[sparse.indices] = sparse.values
    return array


def constants_of(graph: Graph, path: str, limits: Limits) -> dict[str, Array]:
    """All initializers as arrays that cannot be written to."""
    arrays = {name: frozen(array) for name, array in graph.initializers.items()}
    meter = Meter(limits)
    for name, sparse in graph.sparse_initializers.items():
        what = f"{path}/sparse_initializer '{name}'"
        meter.tensor(sparse.shape, sparse.values.dtype, what)
        arrays[name] = frozen(dense(sparse))
        meter.hold(size_of(arrays[name]), what)
    return arrays  # type: ignore[return-value]
