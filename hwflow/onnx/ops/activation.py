"""Activation functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from hwflow.onnx.ops.base import FLOAT, INT, Arr, AttributeKind, Call, Kernel, Known, Operator, Table, axis_in
from hwflow.onnx.ops.shapes import as_first

__all__ = ["OPERATORS"]


def _relu(call: Call, x: Arr) -> Arr:
    return np.asarray(np.maximum(x, x.dtype.type(0)))


def _leaky_relu(call: Call, x: Arr) -> Arr:
    return np.where(x < 0, x * x.dtype.type(call.number("alpha", 0.01)), x)


def _prelu(call: Call, x: Arr, slope: Arr) -> Arr:
    _fits_into(call, slope, x)
    return np.where(x < 0, x * slope, x)


def _prelu_shapes(call: Call, x: Known, slope: Known) -> Known:
    _fits_into(call, slope, x)
    return Known(x.dtype, x.shape)


def _fits_into(call: Call, slope: Arr | Known, x: Arr | Known) -> None:
    """The slope is broadcast to x, never the other way round."""
    padded = (1,) * (x.ndim - slope.ndim) + slope.shape
    if len(padded) != x.ndim or any(s not in (1, d) for s, d in zip(padded, x.shape, strict=True)):
        raise call.error(f"the slope must be broadcastable to {list(x.shape)}, not have the shape {list(slope.shape)}")


def _clip_6(call: Call, x: Arr) -> Arr:
    low = call.number("min") if call.has("min") else None
    high = call.number("max") if call.has("max") else None
    return _clip(call, x, None if low is None else np.asarray(low), None if high is None else np.asarray(high))


def _clip(call: Call, x: Arr, low: Arr | None = None, high: Arr | None = None) -> Arr:
    """Where low > high the result is high: the upper bound is applied last."""
    y = x if low is None else np.maximum(x, low.astype(x.dtype))
    return y if high is None else np.minimum(y, high.astype(x.dtype))


def _sigmoid(call: Call, x: Arr) -> Arr:
    """1 / (1 + exp(-x)); exp(-|x|) never overflows."""
    e = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1 / (1 + e), e / (1 + e))).astype(x.dtype)


def _tanh(call: Call, x: Arr) -> Arr:
    return np.asarray(np.tanh(x))


def _hard_sigmoid(call: Call, x: Arr) -> Arr:
    alpha, beta = call.number("alpha", 0.2), call.number("beta", 0.5)
    return np.asarray(np.clip(x * x.dtype.type(alpha) + x.dtype.type(beta), 0, 1)).astype(x.dtype)


def _hard_swish(call: Call, x: Arr) -> Arr:
    return np.asarray(x * np.clip(x * x.dtype.type(1 / 6) + x.dtype.type(0.5), 0, 1)).astype(x.dtype)


def _elu(call: Call, x: Arr) -> Arr:
    alpha = x.dtype.type(call.number("alpha", 1.0))
    return np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x)


def _softplus(call: Call, x: Arr) -> Arr:
    return np.asarray(np.logaddexp(x, x.dtype.type(0)))


def _softsign(call: Call, x: Arr) -> Arr:
    return np.asarray(x / (1 + np.abs(x)))


def _softmax(x: Arr, axes: int | tuple[int, ...]) -> Arr:
    e = np.exp(x - np.max(x, axis=axes, keepdims=True))
    return np.asarray(e / np.sum(e, axis=axes, keepdims=True))


def _log_softmax(x: Arr, axes: int | tuple[int, ...]) -> Arr:
    shifted = x - np.max(x, axis=axes, keepdims=True)
    return np.asarray(shifted - np.log(np.sum(np.exp(shifted), axis=axes, keepdims=True)))


_OverAxes: TypeAlias = Callable[[Arr, "int | tuple[int, ...]"], Arr]


def _over_one_axis(function: _OverAxes) -> Kernel:
    return lambda call, x: function(x, axis_in(call, call.integer("axis", -1), x.ndim))


def _over_the_rest(function: _OverAxes) -> Kernel:
    """Before operator set 13 all axes from `axis` (default 1) on are one."""
    return lambda call, x: function(x, tuple(range(axis_in(call, call.integer("axis", 1), x.ndim), x.ndim)))


def _operator(kernel: Kernel, since: int = 1, attributes: Mapping[str, AttributeKind] | None = None) -> Operator:
    return Operator(since, kernel, as_first, attributes=attributes or {})


OPERATORS: Table = {
    ("", "Relu"): (_operator(_relu),),
    ("", "LeakyRelu"): (_operator(_leaky_relu, 6, {"alpha": FLOAT}),),
    ("", "PRelu"): (Operator(7, _prelu, _prelu_shapes, inputs=(2, 2)),),
    ("", "Clip"): (
        _operator(_clip_6, 6, {"min": FLOAT, "max": FLOAT}),
        Operator(11, _clip, as_first, inputs=(1, 3)),
    ),
    ("", "Sigmoid"): (_operator(_sigmoid, 6),),
    ("", "Tanh"): (_operator(_tanh, 6),),
    ("", "HardSigmoid"): (_operator(_hard_sigmoid, 6, {"alpha": FLOAT, "beta": FLOAT}),),
    ("", "HardSwish"): (_operator(_hard_swish, 14),),
    ("", "Elu"): (_operator(_elu, 6, {"alpha": FLOAT}),),
    ("", "Softplus"): (_operator(_softplus),),
    ("", "Softsign"): (_operator(_softsign),),
    ("", "Softmax"): (
        _operator(_over_the_rest(_softmax), 1, {"axis": INT}),
        _operator(_over_one_axis(_softmax), 13, {"axis": INT}),
    ),
    ("", "LogSoftmax"): (
        _operator(_over_the_rest(_log_softmax), 1, {"axis": INT}),
        _operator(_over_one_axis(_log_softmax), 13, {"axis": INT}),
    ),
}
