"""Linear models."""

from __future__ import annotations

import numpy as np

from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.ml.common import (
    Floats,
    as_rows,
    binary_scores,
    class_labels,
    floats,
    pick_labels,
    post_transform,
)

_FLOAT32 = np.dtype(np.float32)


def _scores(call: Call, x: Arr, targets: int) -> Floats:
    """x times the coefficients [targets, features], plus the intercepts."""
    rows, features = as_rows(call, x)
    coefficients, intercepts = floats(call, "coefficients"), floats(call, "intercepts")
    if targets < 1 or coefficients.size != targets * features or intercepts.size not in (0, targets):
        raise call.error(
            f"there must be {targets} x {features} coefficients and {targets} intercepts or none, "
            f"not {coefficients.size} and {intercepts.size}", "export the model again"
        )
    call.check_size((rows, targets), np.dtype(np.float64))
    call.work(rows * features * targets)
    y = x.reshape(rows, features).astype(np.float64) @ coefficients.reshape(targets, features).T
    return np.asarray(y + intercepts if intercepts.size else y)


def _regressor(call: Call, x: Arr) -> Arr:
    return post_transform(call, _scores(call, x, call.integer("targets"))).astype(_FLOAT32)


def _regressor_shapes(call: Call, x: Known) -> Known:
    return Known(_FLOAT32, (as_rows(call, x)[0], call.integer("targets")))


def _classifier(call: Call, x: Arr) -> tuple[Arr, Arr]:
    """The label with the highest score, and the scores.  Of two classes the first may have no coefficients."""
    labels = class_labels(call, "classlabels_ints")
    features = as_rows(call, x)[1]
    one = len(labels) == 2 and len(floats(call, "coefficients")) == features
    scores = _scores(call, x, 1 if one else len(labels))
    if one:
        chosen = (scores[:, 0] > 0).astype(np.intp)
        return pick_labels(call, labels, chosen), binary_scores(call, scores[:, 0], complement=True).astype(_FLOAT32)
    return pick_labels(call, labels, scores.argmax(axis=1)), post_transform(call, scores).astype(_FLOAT32)


def _classifier_shapes(call: Call, x: Known) -> tuple[Known, Known]:
    labels, rows = class_labels(call, "classlabels_ints"), as_rows(call, x)[0]
    return Known(labels.dtype, (rows,)), Known(_FLOAT32, (rows, len(labels)))


OPERATORS: Table = {
    ("ai.onnx.ml", "LinearClassifier"): (Operator(1, _classifier, _classifier_shapes),),
    ("ai.onnx.ml", "LinearRegressor"): (Operator(1, _regressor, _regressor_shapes),),
}
