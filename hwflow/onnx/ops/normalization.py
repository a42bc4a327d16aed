"""Normalization with stored statistics (batch) and with those of the input (layer)."""

from __future__ import annotations

import numpy as np

from hwflow.onnx.ops.base import FLOAT, INT, Arr, Call, Known, Operator, Table, axis_in
from hwflow.onnx.ops.shapes import as_first

__all__ = ["OPERATORS"]


def _batch_normalization(call: Call, x: Arr, scale: Arr, bias: Arr, mean: Arr, variance: Arr) -> Arr:
    """x [n, c, ...], the parameters [c].  Statistics of the batch are never computed."""
    if call.integer("training_mode", 0):
        raise call.error("'training_mode' must be 0, not 1; export the model for inference")
    if call.integer("spatial", 1) != 1:
        raise call.error("'spatial' must be 1, not 0; export the model with a newer operator set")
    channels = x.shape[1] if x.ndim > 1 else 1
    if any(p.shape != (channels,) for p in (scale, bias, mean, variance)):
        raise call.error(f"the parameters must have the shape [{channels}], not {list(scale.shape)}")
    factor = scale / np.sqrt(variance + variance.dtype.type(call.number("epsilon", 1e-5)))
    offset = bias - mean * factor
    ones = (1,) * (x.ndim - 2)
    return np.asarray(x * factor.reshape(-1, *ones) + offset.reshape(-1, *ones)).astype(x.dtype)


def _layer_normalization(call: Call, x: Arr, scale: Arr, bias: Arr | None = None) -> Arr:
    """Mean 0 and variance 1 over all axes from `axis` on, computed in float32 at least, then scale and bias."""
    first = axis_in(call, call.integer("axis", -1), x.ndim)
    axes = tuple(range(first, x.ndim))
    wide = x.astype(np.promote_types(x.dtype, np.float32))
    centred = wide - wide.mean(axis=axes, keepdims=True)
    variance = np.mean(centred * centred, axis=axes, keepdims=True)
    y = (centred / np.sqrt(variance + variance.dtype.type(call.number("epsilon", 1e-5)))).astype(x.dtype) * scale
    return np.asarray(y if bias is None else y + bias).astype(x.dtype)


def _layer_shapes(call: Call, x: Known, scale: Known, bias: Known | None = None) -> Known:
    axis_in(call, call.integer("axis", -1), x.ndim)
    return Known(x.dtype, x.shape)


_BATCH = {"epsilon": FLOAT, "momentum": FLOAT}

OPERATORS: Table = {
    ("", "BatchNormalization"): (
        Operator(7, _batch_normalization, as_first, (5, 5), {**_BATCH, "spatial": INT}),
        Operator(9, _batch_normalization, as_first, (5, 5), _BATCH),
        Operator(14, _batch_normalization, as_first, (5, 5), {**_BATCH, "training_mode": INT}),
    ),
    ("", "LayerNormalization"): (
        Operator(
            17,
            _layer_normalization,
            _layer_shapes,
            (2, 3),
            {"axis": INT, "epsilon": FLOAT, "stash_type": INT},
        ),
    ),
}
