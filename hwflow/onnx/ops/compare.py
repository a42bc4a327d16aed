"""Comparison, logic, and the choice between two tensors."""

from __future__ import annotations

import numpy as np

from hwflow.onnx.ops.arithmetic import elementwise
from hwflow.onnx.ops.arithmetic_1 import legacy
from hwflow.onnx.ops.base import Arr, Call, Kernel, Known, Operator, Table
from hwflow.onnx.ops.precision import widened
from hwflow.onnx.ops.shapes import broadcast_shape, by_broadcast


def _is_nan(call: Call, x: Arr) -> Arr:
    return np.asarray(np.isnan(widened(x)))


def _is_inf(call: Call, x: Arr) -> Arr:
    wide = widened(x)
    positive = np.isposinf(wide) if call.integer("detect_positive") else np.zeros(x.shape, np.bool_)
    return np.asarray(positive | np.isneginf(wide) if call.integer("detect_negative") else positive)


def _as_bool(call: Call, x: Known) -> Known:
    return Known(np.dtype(np.bool_), x.shape)


def _not(call: Call, x: Arr) -> Arr:
    return np.asarray(np.logical_not(x))


def _where(call: Call, condition: Arr, x: Arr, y: Arr) -> Arr:
    call.check_size(broadcast_shape(call, condition, x, y), x.dtype)
    return np.where(condition, x, y)


def _where_shapes(call: Call, condition: Known, x: Known, y: Known) -> Known:
    return Known(x.dtype, broadcast_shape(call, condition, x, y))


def _binary(kernel: Kernel, since: int = 7) -> tuple[Operator, ...]:
    modern = Operator(since, kernel, by_broadcast(kernel))
    return (legacy(kernel), modern) if since == 7 else (modern,)


OPERATORS: Table = {
    ("", "Equal"): _binary(elementwise(np.equal)),
    ("", "Less"): _binary(elementwise(np.less)),
    ("", "LessOrEqual"): _binary(elementwise(np.less_equal), since=12),
    ("", "Greater"): _binary(elementwise(np.greater)),
    ("", "GreaterOrEqual"): _binary(elementwise(np.greater_equal), since=12),
    ("", "And"): _binary(elementwise(np.logical_and)),
    ("", "Or"): _binary(elementwise(np.logical_or)),
    ("", "Xor"): _binary(elementwise(np.logical_xor)),
    ("", "Not"): (Operator(1, _not, _as_bool),),
    ("", "IsNaN"): (Operator(9, _is_nan, _as_bool),),
    ("", "IsInf"): (Operator(10, _is_inf, _as_bool),),
    ("", "Where"): (Operator(9, _where, _where_shapes),),
}
