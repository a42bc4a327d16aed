"""Scaling, normalizing, filling and cutting of feature values."""

from __future__ import annotations

import numpy as np

from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.ml.common import as_rows, floats, integers
from hwflow.onnx.ops.shapes import as_first

_FLOAT32 = np.dtype(np.float32)


def _as_float(call: Call, x: Known) -> Known:
    return Known(_FLOAT32, x.shape)


def _per_feature(call: Call, x: Arr, values: Arr, name: str) -> Arr:
    if values.size != 1 and (not x.ndim or values.size != x.shape[-1]):
        raise call.error(f"'{name}' must have 1 element or one for each feature of {list(x.shape)}, not {values.size}")
    return values


def _scaler(call: Call, x: Arr) -> Arr:
    """(x - offset) * scale."""
    offset, scale = (floats(call, name) for name in ("offset", "scale"))
    y = x.astype(np.float64)
    y = y - _per_feature(call, x, offset, "offset") if offset.size else y
    y = y * _per_feature(call, x, scale, "scale") if scale.size else y
    return y.astype(_FLOAT32)


def _normalizer(call: Call, x: Arr) -> Arr:
    """Each row divided by its largest element, its sum of sizes or its length; a divisor of 0 leaves it as it is."""
    as_rows(call, x)
    norm, y = call.text("norm"), x.astype(np.float64)
    match norm:
        case "MAX":
            size = np.max(y, axis=-1, keepdims=True, initial=-np.inf)
        case "L1":
            size = np.sum(np.abs(y), axis=-1, keepdims=True)
        case "L2":
            size = np.sqrt(np.sum(y * y, axis=-1, keepdims=True))
        case _:
            raise call.error(f"attribute 'norm' must be MAX, L1 or L2, not '{norm}'", "export the model again")
    return np.asarray(y / np.where(size == 0, 1, size)).astype(_FLOAT32)


def _binarizer(call: Call, x: Arr) -> Arr:
    return np.asarray(x > call.number("threshold")).astype(x.dtype)


def _imputer(call: Call, x: Arr) -> Arr:
    """Other values in place of one that stands for a missing one; not-a-number equals itself here."""
    whole = x.dtype.kind in "iu"
    name = "imputed_value_int64s" if whole else "imputed_value_floats"
    values: Arr = integers(call, name) if whole else floats(call, name)
    if not values.size:
        raise call.error(f"attribute '{name}' must be given for an input of {x.dtype.name}", "export the model again")
    _per_feature(call, x, values, name)
    missing = call.integer("replaced_value_int64") if whole else call.number("replaced_value_float")
    return np.where(np.isnan(x) if missing != missing else x == missing, values.astype(x.dtype), x)


def _feature_vectorizer(call: Call, *inputs: Arr) -> Arr:
    """All inputs side by side, each cut or filled with zeros to its size in `inputdimensions`."""
    result = _feature_vectorizer_shapes(call, *(Known(x.dtype, x.shape) for x in inputs))
    call.check_size(result.shape, result.dtype)
    y, start = np.zeros(result.shape, _FLOAT32), 0
    for x, size in zip(inputs, _feature_sizes(call, inputs), strict=True):
        rows = x.reshape(as_rows(call, x))[:, :size]
        y[:, start : start + rows.shape[1]] = rows
        start += size
    return y


def _feature_sizes(call: Call, inputs: tuple[Arr | Known, ...]) -> tuple[int, ...]:
    sizes = call.integers("inputdimensions", ()) or tuple(as_rows(call, x)[1] for x in inputs)
    if len(sizes) != len(inputs) or min(sizes) < 0:
        raise call.error(f"'inputdimensions' must be a size for each of {len(inputs)} inputs, not {list(sizes)}")
    return sizes


def _feature_vectorizer_shapes(call: Call, *inputs: Known) -> Known:
    rows = {as_rows(call, x)[0] for x in inputs}
    if len(rows) != 1:
        raise call.error(f"the inputs must have the same number of rows, not {sorted(rows)}")
    return Known(_FLOAT32, (rows.pop(), sum(_feature_sizes(call, inputs))))


def _array_feature_extractor(call: Call, x: Arr, indices: Arr) -> Arr:
    """Elements of the last axis."""
    result = _array_feature_extractor_shapes(call, Known(x.dtype, x.shape), Known(indices.dtype, indices.shape))
    call.check_size(result.shape, result.dtype)
    if indices.size and not (indices.min() >= 0 and indices.max() < x.shape[-1]):
        raise call.error(f"the indices must be 0 to {x.shape[-1] - 1}, not {indices.min()} to {indices.max()}")
    return np.take(x, indices.reshape(-1), axis=-1).reshape(result.shape)


def _array_feature_extractor_shapes(call: Call, x: Known, indices: Known) -> Known:
    if not x.ndim:
        raise call.error("the input must have one axis or more, not none")
    count = int(np.prod(indices.shape))
    return Known(x.dtype, (*x.shape[:-1], count) if x.ndim > 1 else (1, count))


OPERATORS: Table = {
    ("ai.onnx.ml", "ArrayFeatureExtractor"): (Operator(1, _array_feature_extractor, _array_feature_extractor_shapes),),
    ("ai.onnx.ml", "Binarizer"): (Operator(1, _binarizer, as_first),),
    ("ai.onnx.ml", "FeatureVectorizer"): (Operator(1, _feature_vectorizer, _feature_vectorizer_shapes),),
    ("ai.onnx.ml", "Imputer"): (Operator(1, _imputer, as_first),),
    ("ai.onnx.ml", "Normalizer"): (Operator(1, _normalizer, _as_float),),
    ("ai.onnx.ml", "Scaler"): (Operator(1, _scaler, _as_float),),
}
