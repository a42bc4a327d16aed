"""Softmax and its relatives: over one axis, before operator set 13 over all axes from one on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from hwflow.onnx.ops.base import Arr, Call, Kernel, Operator, Table, axis_in
from hwflow.onnx.ops.precision import in_float32
from hwflow.onnx.ops.shapes import as_first


def softmax(x: Arr, axis: int) -> Arr:
    """exp(x) / sum(exp(x)) over one axis."""
    e = np.exp(x - np.max(x, axis=axis, keepdims=True, initial=-np.inf))
    return np.asarray(e / np.sum(e, axis=axis, keepdims=True))


def log_softmax(x: Arr, axis: int) -> Arr:
    """The logarithm of softmax, without its rounding to 0."""
    shifted = x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    return np.asarray(shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True)))


def _hardmax(x: Arr, axis: int) -> Arr:
    """1 at the first of the largest elements, 0 elsewhere."""
    y = np.zeros_like(x)
    if x.size:
        np.put_along_axis(y, np.expand_dims(np.argmax(x, axis), axis), 1, axis)
    return y


_OverAxis: TypeAlias = Callable[[Arr, int], Arr]


def _versions(function: _OverAxis) -> tuple[Operator, ...]:
    def over_one_axis(call: Call, x: Arr) -> Arr:
        axis = axis_in(call, call.integer("axis"), x.ndim)
        if x.dtype == np.float16:  # rounded at each step, as the operator's body in the standard has it
            return function(x, axis)
        return in_float32(lambda w: function(w, axis))(x)

    def over_the_rest(call: Call, x: Arr) -> Arr:
        axis = axis_in(call, call.integer("axis"), x.ndim)
        rows = int(np.prod(x.shape[:axis]))
        flat = x.reshape(rows, x.size // rows if rows else 0)
        return in_float32(lambda w: function(w, 1))(flat).reshape(x.shape)

    return _operator(1, over_the_rest), _operator(13, over_one_axis)


def _operator(since: int, kernel: Kernel) -> Operator:
    return Operator(since, kernel, as_first)


OPERATORS: Table = {
    ("", "Softmax"): _versions(softmax),
    ("", "LogSoftmax"): _versions(log_softmax),
    ("", "Hardmax"): _versions(_hardmax),
}
