"""Activation functions: elementwise, with attributes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from hwflow.onnx.ops.base import Arr, Call, Kernel, Known, Operator, Table
from hwflow.onnx.ops.element_types import in_float32, is_float, widened
from hwflow.onnx.ops.shapes import after, as_first
from hwflow.onnx.ops.special import erf


def _like(x: Arr, y: npt.ArrayLike) -> Arr:
    """A result in the type of the input."""
    return np.asarray(y).astype(x.dtype)


def _relu(call: Call, x: Arr) -> Arr:
    return np.asarray(np.maximum(x, x.dtype.type(0)))


def _leaky_relu(call: Call, w: Arr) -> npt.ArrayLike:
    return np.where(w < 0, w * w.dtype.type(call.number("alpha")), w)


def _thresholded_relu(call: Call, x: Arr) -> Arr:
    return np.where(widened(x) > call.number("alpha"), x, x.dtype.type(0))


def _prelu(call: Call, x: Arr, slope: Arr) -> Arr:
    _fits_into(call, x, slope)
    return in_float32(lambda w, s: np.where(w < 0, w * s, w))(x, slope)


def _fits_into(call: Call, x: Arr | Known, slope: Arr | Known) -> None:
    """The slope is broadcast to x, never the other way round."""
    padded = (1,) * (x.ndim - slope.ndim) + slope.shape
    if len(padded) != x.ndim or any(s not in (1, d) for s, d in zip(padded, x.shape, strict=True)):
        raise call.error(f"the slope must be broadcastable to {list(x.shape)}, not have the shape {list(slope.shape)}")


def _prelu_1(call: Call, x: Arr, slope: Arr) -> Arr:
    """Before operator set 7 the slope is one number, or one for each channel (axis 1)."""
    _fits_channels(call, x, slope)
    return _prelu(call, x, slope.reshape(-1, *(1,) * (x.ndim - 2)) if slope.size != 1 else slope.reshape(()))


def _fits_channels(call: Call, x: Arr | Known, slope: Arr | Known) -> None:
    channels = x.shape[1] if x.ndim > 1 else 1
    size = int(np.prod(slope.shape, dtype=object))
    if size not in (1, channels):
        raise call.error(f"the slope must have 1 or {channels} elements (channels), not {size}")


def _clip_1(call: Call, x: Arr) -> Arr:
    """Version 1 has no default bounds, version 6 those of float32."""
    known = call.schema is not None and call.schema.since == 6
    low, high = (np.asarray(call.number(n)) if known or call.has(n) else None for n in ("min", "max"))
    return _clip(call, x, low, high)


def _clip(call: Call, x: Arr, low: Arr | None = None, high: Arr | None = None) -> Arr:
    """Where low > high the result is high: the upper bound is applied last."""
    _require_bounds(call, x, low, high)
    y = x if low is None else np.maximum(x, low.reshape(()).astype(x.dtype))
    return np.asarray(y if high is None else np.minimum(y, high.reshape(()).astype(x.dtype)))


def _require_bounds(
    call: Call, x: Arr | Known, low: Arr | Known | None = None, high: Arr | Known | None = None
) -> None:
    for name, bound in (("min", low), ("max", high)):
        if bound is not None and math.prod(bound.shape) != 1:
            raise call.error(f"input '{name}' must be one number, not have the shape {list(bound.shape)}")


def _logistic(x: Arr) -> Arr:
    """1 / (1 + exp(-x)); exp(-|x|) never overflows."""
    e = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1 / (1 + e), e / (1 + e)))


def _sigmoid(call: Call, w: Arr) -> npt.ArrayLike:
    return _logistic(w)


def _swish(call: Call, w: Arr) -> npt.ArrayLike:
    return w * _logistic(w * w.dtype.type(call.number("alpha")))


def _swiglu(call: Call, gate: Arr, value: Arr) -> Arr:
    _require_equal(call, gate, value)
    w = widened(gate)
    return _like(gate, w * _logistic(w * w.dtype.type(call.number("alpha"))) * widened(value))


def _require_equal(call: Call, gate: Arr | Known, value: Arr | Known) -> None:
    if gate.shape != value.shape:
        raise call.error(f"the input shapes must be equal, not {list(gate.shape)} and {list(value.shape)}")


def _hard_sigmoid(call: Call, w: Arr) -> npt.ArrayLike:
    alpha, beta = w.dtype.type(call.number("alpha")), w.dtype.type(call.number("beta"))
    return np.asarray(np.clip(w * alpha + beta, 0, 1))


def _hard_swish(call: Call, w: Arr) -> npt.ArrayLike:
    return np.asarray(w * np.clip(w * w.dtype.type(1 / 6) + w.dtype.type(0.5), 0, 1))


def _elu(call: Call, w: Arr) -> npt.ArrayLike:
    return np.where(w < 0, w.dtype.type(call.number("alpha")) * np.expm1(np.minimum(w, 0)), w)


def _celu(call: Call, w: Arr) -> npt.ArrayLike:
    alpha = w.dtype.type(call.number("alpha"))
    return np.asarray(np.maximum(w, 0) + np.minimum(alpha * np.expm1(w / alpha), 0))


def _selu(call: Call, w: Arr) -> npt.ArrayLike:
    alpha, gamma = w.dtype.type(call.number("alpha")), w.dtype.type(call.number("gamma"))
    return np.asarray(gamma * np.where(w > 0, w, alpha * np.expm1(np.minimum(w, 0))))


def _softplus_of(x: Arr) -> Arr:
    return np.asarray(np.logaddexp(x, x.dtype.type(0)))


def _softplus(call: Call, w: Arr) -> npt.ArrayLike:
    return _softplus_of(w)


def _softsign(call: Call, w: Arr) -> npt.ArrayLike:
    return np.asarray(w / (1 + np.abs(w)))


def _mish(call: Call, w: Arr) -> npt.ArrayLike:
    return w * np.tanh(_softplus_of(w))


def _gelu(call: Call, x: Arr) -> Arr:
    """x times the normal distribution's share below x, or with approximate="tanh" the usual approximation of it."""
    kind = call.text("approximate")
    if kind not in ("none", "tanh"):
        raise call.error(f"attribute 'approximate' must be none or tanh, not '{kind}'", "export the model again")
    w = widened(x)
    if kind == "tanh":
        inner = w.dtype.type(np.sqrt(2 / np.pi)) * (w + w.dtype.type(0.044715) * w * w * w)
        return _like(x, w.dtype.type(0.5) * w * (1 + np.tanh(inner)))
    return _like(x, 0.5 * w.astype(np.float64) * (1 + erf(w.astype(np.float64) / np.sqrt(2))))


def _shrink(call: Call, x: Arr) -> Arr:
    w = widened(x) if is_float(x.dtype) else x.astype(np.float64)
    bias, limit = w.dtype.type(call.number("bias")), w.dtype.type(call.number("lambd"))
    return _like(x, np.where(w < -limit, w + bias, np.where(w > limit, w - bias, 0)))


def _operator(kernel: Kernel, since: int = 1) -> Operator:
    return Operator(since, kernel, as_first)


def _of_wide(function: Callable[[Call, Arr], npt.ArrayLike], since: int = 1) -> Operator:
    """A function of elements in float32 at least; the result has the type of the input."""
    return _operator(lambda call, x: _like(x, function(call, widened(x))), since)


OPERATORS: Table = {
    ("", "Relu"): (_operator(_relu),),
    ("", "LeakyRelu"): (_of_wide(_leaky_relu),),
    ("", "ThresholdedRelu"): (_operator(_thresholded_relu, 10),),
    ("", "PRelu"): (
        Operator(1, _prelu_1, after(_fits_channels)),
        Operator(7, _prelu, after(_fits_into)),
    ),
    ("", "Clip"): (
        _operator(_clip_1),
        Operator(11, _clip, after(_require_bounds)),
    ),
    ("", "Sigmoid"): (_of_wide(_sigmoid),),
    ("", "Swish"): (_of_wide(_swish, 24),),
    ("", "SwiGLU"): (Operator(28, _swiglu, after(_require_equal)),),
    ("", "HardSigmoid"): (_of_wide(_hard_sigmoid),),
    ("", "HardSwish"): (_of_wide(_hard_swish, 14),),
    ("", "Elu"): (_of_wide(_elu),),
    ("", "Celu"): (_of_wide(_celu, 12),),
    ("", "Selu"): (_of_wide(_selu),),
    ("", "Softplus"): (_of_wide(_softplus),),
    ("", "Softsign"): (_of_wide(_softsign),),
    ("", "Mish"): (_of_wide(_mish, 18),),
    ("", "Gelu"): (_operator(_gelu, 20),),
    ("", "Shrink"): (_operator(_shrink, 9),),
}
