"""Softmax, its logarithm, and the losses that are made of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table, axis_in
from hwflow.onnx.ops.element_types import in_float32, widened
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

    return Operator(1, over_the_rest, as_first), Operator(13, over_one_axis, as_first)


def _loss_shapes(call: Call, scores: Known, labels: Known, weight: Known | None = None) -> Known:
    """Scores are [N, C, ...], labels [N, ...], the weight of each class [C]."""
    if scores.ndim < 2 or labels.shape != (scores.shape[0], *scores.shape[2:]):
        raise call.error(
            f"the labels must have the shape of the scores without axis 1, "
            f"not {list(labels.shape)} for {list(scores.shape)}"
        )
    if weight is not None and weight.shape != scores.shape[1:2]:
        raise call.error(f"the weights must be one for each of {scores.shape[1]} classes, not {list(weight.shape)}")
    reduction = call.text("reduction")
    if reduction not in ("none", "sum", "mean"):
        raise call.error(
            f"attribute 'reduction' must be none, sum or mean, not '{reduction}'", "export the model again"
        )
    return Known(scores.dtype, labels.shape if reduction == "none" else ())


def _loss(call: Call, log_probability: Arr, labels: Arr, weight: Arr | None) -> Arr:
    """Minus the logarithm at each label times the weight of its class; ignored labels weigh nothing."""
    classes = log_probability.shape[1]
    ignored = labels == call.integer("ignore_index") if call.has("ignore_index") else np.zeros(labels.shape, np.bool_)
    outside = ~ignored & ((labels < 0) | (labels >= classes))
    if outside.any():
        raise call.error(f"the labels must be 0 to {classes - 1}, not {labels[outside].flat[0]}")
    chosen = np.where(ignored, 0, labels).astype(np.int64)
    if classes:
        picked = np.take_along_axis(log_probability, np.expand_dims(chosen, 1), 1)[:, 0]
    else:  # every label is ignored
        picked = np.zeros(labels.shape, log_probability.dtype)
    weights = np.ones(labels.shape, picked.dtype) if weight is None or not classes else widened(weight)[chosen]
    weights = np.where(ignored, 0, weights).astype(picked.dtype)
    loss = -picked * weights
    match call.text("reduction"):
        case "none":
            return np.asarray(loss)
        case "sum":
            return np.asarray(loss.sum())
        case _:
            return np.asarray(loss.sum() / weights.sum())


def _known(x: Arr | None) -> Known | None:
    return None if x is None else Known(x.dtype, x.shape)


def _negative_log_likelihood(call: Call, x: Arr, labels: Arr, weight: Arr | None = None) -> Arr:
    _loss_shapes(call, Known(x.dtype, x.shape), Known(labels.dtype, labels.shape), _known(weight))
    return _loss(call, widened(x), labels, weight).astype(x.dtype)


def _cross_entropy(call: Call, x: Arr, labels: Arr, weight: Arr | None = None) -> tuple[Arr, Arr]:
    _loss_shapes(call, Known(x.dtype, x.shape), Known(labels.dtype, labels.shape), _known(weight))
    logarithm = log_softmax(widened(x), 1)
    return _loss(call, logarithm, labels, weight).astype(x.dtype), logarithm.astype(x.dtype)


def _cross_entropy_shapes(call: Call, x: Known, labels: Known, weight: Known | None = None) -> tuple[Known, Known]:
    return _loss_shapes(call, x, labels, weight), Known(x.dtype, x.shape)


OPERATORS: Table = {
    ("", "Softmax"): _versions(softmax),
    ("", "LogSoftmax"): _versions(log_softmax),
    ("", "Hardmax"): _versions(_hardmax),
    ("", "NegativeLogLikelihoodLoss"): (Operator(12, _negative_log_likelihood, _loss_shapes),),
    ("", "SoftmaxCrossEntropyLoss"): (Operator(12, _cross_entropy, _cross_entropy_shapes),),
}
