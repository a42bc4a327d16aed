"""Linear models and support vector machines."""

from __future__ import annotations

import numpy as np

from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.ml.common import (
    Floats,
    as_rows,
    binary_scores,
    class_labels,
    floats,
    integers,
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


def _linear_regressor(call: Call, x: Arr) -> Arr:
    return post_transform(call, _scores(call, x, call.integer("targets"))).astype(_FLOAT32)


def _linear_regressor_shapes(call: Call, x: Known) -> Known:
    return Known(_FLOAT32, (as_rows(call, x)[0], call.integer("targets")))


def _linear_classifier(call: Call, x: Arr) -> tuple[Arr, Arr]:
    """The label with the highest score, and the scores.  Of two classes the first may have no coefficients."""
    labels = class_labels(call, "classlabels_ints")
    features = as_rows(call, x)[1]
    one = len(labels) == 2 and len(floats(call, "coefficients")) == features
    scores = _scores(call, x, 1 if one else len(labels))
    if one:
        chosen = (scores[:, 0] > 0).astype(np.intp)
        return pick_labels(call, labels, chosen), binary_scores(call, scores[:, 0], complement=True).astype(_FLOAT32)
    return pick_labels(call, labels, scores.argmax(axis=1)), post_transform(call, scores).astype(_FLOAT32)


def _linear_classifier_shapes(call: Call, x: Known) -> tuple[Known, Known]:
    labels, rows = class_labels(call, "classlabels_ints"), as_rows(call, x)[0]
    return Known(labels.dtype, (rows,)), Known(_FLOAT32, (rows, len(labels)))





def _kernel(call: Call, x: Floats, vectors: Floats) -> Floats:
    """How near each row is to each vector: a function of their product or distance."""
    kind = call.text("kernel_type")
    parameters = floats(call, "kernel_params")
    if parameters.size not in (0, 3):
        raise call.error(f"'kernel_params' must be gamma, coef0 and degree, not {parameters.size} numbers")
    gamma, zero, degree = parameters if parameters.size else (0.0, 0.0, 0.0)
    call.check_size((len(x), len(vectors)), np.dtype(np.float64))
    call.work(x.size * len(vectors))
    product = x @ vectors.T
    match kind:
        case "LINEAR":
            return product
        case "POLY":
            return np.asarray((gamma * product + zero) ** degree)
        case "SIGMOID":
            return np.asarray(np.tanh(gamma * product + zero))
        case "RBF":
            distance = np.sum(x * x, axis=1)[:, None] + np.sum(vectors * vectors, axis=1) - 2 * product
            return np.asarray(np.exp(-gamma * np.maximum(distance, 0)))
    raise call.error(f"attribute 'kernel_type' must be LINEAR, POLY, RBF or SIGMOID, not '{kind}'")


def _rows(call: Call, x: Arr) -> Floats:
    return x.reshape(as_rows(call, x)).astype(np.float64)


def _table(call: Call, name: str, rows: int, columns: int) -> Floats:
    values = floats(call, name)
    if values.size != rows * columns:
        raise call.error(f"'{name}' must have {rows} x {columns} elements, not {values.size}", "export the model again")
    return values.reshape(rows, columns)


def _svm_regressor(call: Call, x: Arr) -> Arr:
    """Without support vectors the coefficients are those of the features; one_class=1 gives 1 or -1."""
    rows, supports = _rows(call, x), call.integer("n_supports")
    rho, features = floats(call, "rho"), rows.shape[1]
    if supports < 0 or not rho.size:
        raise call.error("'n_supports' must be 0 or more and 'rho' one number", "export the model again")
    if supports:
        near = _kernel(call, rows, _table(call, "support_vectors", supports, features))
        y = near @ _table(call, "coefficients", 1, supports).T
    else:
        y = _kernel(call, rows, _table(call, "coefficients", 1, features))
    y = y + rho[0]
    if call.integer("one_class"):
        y = np.where(y > 0, 1.0, -1.0)
    return post_transform(call, y).astype(_FLOAT32)


def _svm_regressor_shapes(call: Call, x: Known) -> Known:
    return Known(_FLOAT32, (as_rows(call, x)[0], 1))


def _pairs(count: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(count) for j in range(i + 1, count)]


def _decisions(call: Call, rows: Floats, sizes: list[int]) -> Floats:
    """One column for each pair of classes: above 0 for the first.  `sizes` are the support vectors of each class."""
    count, total = len(sizes), sum(sizes)
    near = _kernel(call, rows, _table(call, "support_vectors", total, rows.shape[1]))
    coefficients = _table(call, "coefficients", count - 1, total)
    rho = _table(call, "rho", 1, count * (count - 1) // 2)[0]
    starts = np.cumsum([0, *sizes])
    columns = []
    for number, (i, j) in enumerate(_pairs(count)):
        first, second = slice(starts[i], starts[i + 1]), slice(starts[j], starts[j + 1])
        of_first = near[:, first] @ coefficients[j - 1, first]
        columns.append(of_first + near[:, second] @ coefficients[i, second] + rho[number])
    return np.stack(columns, axis=1)


def _votes(decisions: Floats, count: int) -> Floats:
    votes = np.zeros((len(decisions), count))
    for column, (i, j) in enumerate(_pairs(count)):
        votes[:, i] += decisions[:, column] > 0
        votes[:, j] += decisions[:, column] <= 0
    return votes


def _probabilities(call: Call, decisions: Floats, count: int) -> Floats:
    """Probabilities of the classes from those of the pairs: p with the least sum of (r_ji p_i - r_ij p_j)^2.

    T.-F. Wu, C.-J. Lin, R. C. Weng, "Probability estimates for multi-class classification by pairwise coupling" (2004),
    second method; the linear equations are solved as they are.
    """
    pairs = _pairs(count)
    a, b = (_table(call, name, 1, len(pairs))[0] for name in ("prob_a", "prob_b"))
    pairwise = np.clip(1 / (1 + np.exp(decisions * a + b)), 1e-7, 1 - 1e-7)
    r = np.zeros((len(decisions), count, count))
    for column, (i, j) in enumerate(pairs):
        r[:, i, j], r[:, j, i] = pairwise[:, column], 1 - pairwise[:, column]
    system = np.zeros((len(decisions), count + 1, count + 1))
    system[:, :count, :count] = -r * r.transpose(0, 2, 1)
    diagonal = np.arange(count)
    system[:, diagonal, diagonal] = np.sum(r * r, axis=1)
    system[:, :count, count] = system[:, count, :count] = 1  # the probabilities add up to 1
    right = np.zeros((len(decisions), count + 1, 1))
    right[:, count] = 1
    return np.asarray(np.linalg.solve(system, right)[:, :count, 0], np.float64)


def _svm_classifier(call: Call, x: Arr) -> tuple[Arr, Arr]:
    """The label that wins most pairs; and probabilities (with prob_a), else the decisions between the pairs."""
    labels, rows = class_labels(call, "classlabels_ints"), _rows(call, x)
    sizes = integers(call, "vectors_per_class").tolist()
    count = len(labels)
    if not sizes:
        scores = _linear_scores(call, rows, count)
        return pick_labels(call, labels, scores.argmax(axis=1)), post_transform(call, scores).astype(_FLOAT32)
    if len(sizes) != count or count < 2 or min(sizes) < 0:
        raise call.error(f"'vectors_per_class' must be a number for each of {count} classes, not {sizes[:8]}")
    decisions = _decisions(call, rows, sizes)
    chosen = pick_labels(call, labels, _votes(decisions, count).argmax(axis=1))
    if call.has("prob_a"):
        return chosen, post_transform(call, _probabilities(call, decisions, count)).astype(_FLOAT32)
    if count == 2:
        return chosen, binary_scores(call, decisions[:, 0], complement=False).astype(_FLOAT32)
    return chosen, post_transform(call, decisions).astype(_FLOAT32)


def _linear_scores(call: Call, rows: Floats, count: int) -> Floats:
    """Without support vectors: a row of coefficients for each class."""
    rho = floats(call, "rho")
    if not rho.size:
        raise call.error("'rho' must have one number or more", "export the model again")
    return np.asarray(_kernel(call, rows, _table(call, "coefficients", count, rows.shape[1])) + rho[0])


def _svm_classifier_shapes(call: Call, x: Known) -> tuple[Known, Known]:
    labels, rows = class_labels(call, "classlabels_ints"), as_rows(call, x)[0]
    pairwise = bool(integers(call, "vectors_per_class").size) and not call.has("prob_a") and len(labels) > 2
    columns = len(labels) * (len(labels) - 1) // 2 if pairwise else len(labels)
    return Known(labels.dtype, (rows,)), Known(_FLOAT32, (rows, columns))


OPERATORS: Table = {
    ("ai.onnx.ml", "LinearClassifier"): (Operator(1, _linear_classifier, _linear_classifier_shapes),),
    ("ai.onnx.ml", "LinearRegressor"): (Operator(1, _linear_regressor, _linear_regressor_shapes),),
    ("ai.onnx.ml", "SVMClassifier"): (Operator(1, _svm_classifier, _svm_classifier_shapes),),
    ("ai.onnx.ml", "SVMRegressor"): (Operator(1, _svm_regressor, _svm_regressor_shapes),),
}
