"""Linear models and support vector machines as a Gemm, with labels and probabilities behind it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hwflow.onnx.model import Array, Node
from hwflow.onnx.ops.text import strings
from hwflow.quantize.dialects.classical.coupling import coupled
from hwflow.quantize.dialects.classical.features import (
    as_rows_of_float,
    at_the_end,
    best_label,
    label_of_two,
    transformed,
    two_scores,
    with_like_features,
)
from hwflow.quantize.dialects.classical.kernels import kernel, require_digits
from hwflow.quantize.dialects.rewriting import Refused, Rewriting, Rule
from hwflow.quantize.graphs import label_of

Floats = npt.NDArray[np.float64]

_AGAIN = "export the model again"

def _floats(node: Node, name: str) -> Floats:
    return np.array(node.attributes.get(name, ()), np.float64)


def _text(node: Node, name: str, default: str) -> str:
    return str(node.attributes.get(name, default))


def _integer(node: Node, name: str) -> int:
    value = node.attributes.get(name, 0)
    assert isinstance(value, int)
    return value


def _labels(node: Node) -> Array:
    """The labels of the classes, integers or texts."""
    words, numbers = node.attributes.get("classlabels_strings", ()), node.attributes.get("classlabels_ints", ())
    if bool(words) == bool(numbers):
        raise Refused("one of 'classlabels_ints' and 'classlabels_strings' must be given", _AGAIN)
    return strings(words, (len(words),)) if words else np.array(numbers, np.int64)  # type: ignore[arg-type]


def _table(node: Node, name: str, rows: int, columns: int) -> Floats:
    values = _floats(node, name)
    if values.size != rows * columns:
        raise Refused(f"'{name}' must have {rows} x {columns} elements, not {values.size}", _AGAIN)
    return values.reshape(rows, columns)


def _features(r: Rewriting, node: Node) -> int:
    shape = r.shape(node.inputs[0])
    return shape[-1] if shape else 0


def _gemm(r: Rewriting, node: Node, weights: Floats, bias: Floats, wish: str) -> str:
    """The scores [n, rows of `weights`], as a node with the name of `node`: settings call it so."""
    x, weights = with_like_features(r, as_rows_of_float(r, node.inputs[0], wish), weights, wish)
    names = [r.float32(f"{wish}.{name}", values)
             for name, values in (("weights", weights), ("bias", bias))]
    scores = r.emit("Gemm", x, *names, wish=f"{wish}.scores", name=label_of(node), transB=1)
    return scores


def _named(node: Node) -> str:
    return next(name for name in reversed(node.outputs) if name)


def _probabilities(node: Node) -> str:
    return node.outputs[1] if len(node.outputs) > 1 else ""


def linear_regressor(r: Rewriting, node: Node) -> None:
    targets, features = _integer(node, "targets") or 1, _features(r, node)
    bias = _floats(node, "intercepts")
    weights = _table(node, "coefficients", targets, features)
    if bias.size not in (0, targets):
        raise Refused(f"there must be {targets} intercepts or none, not {bias.size}", _AGAIN)
    scores = _gemm(r, node, weights, bias if bias.size else np.zeros(targets), _named(node))
    transformed(r, scores, _text(node, "post_transform", "NONE"), node.outputs[0])


def linear_classifier(r: Rewriting, node: Node) -> None:
    """The label with the highest score; of two classes the first may have no coefficients."""
    labels, features = _labels(node), _features(r, node)
    one = len(labels) == 2 and _floats(node, "coefficients").size == features
    count = 1 if one else len(labels)
    weights, bias = _table(node, "coefficients", count, features), _floats(node, "intercepts")
    if bias.size not in (0, count):
        raise Refused(f"there must be {count} intercepts or none, not {bias.size}", _AGAIN)
    scores = _gemm(r, node, weights, bias if bias.size else np.zeros(count), _named(node))
    kind, output = _text(node, "post_transform", "NONE"), _probabilities(node)
    if one:
        label_of_two(r, node, scores, 0.0, labels)
        if output:
            two_scores(r, at_the_end(r, scores, count, output), kind, True, output)
        return
    best_label(r, node, scores, labels)
    if output:
        transformed(r, at_the_end(r, scores, count, output), kind, output)


def _require_vectors(node: Node) -> None:
    kernel = _text(node, "kernel_type", "LINEAR")
    if kernel != "LINEAR":
        raise Refused(f"'kernel_type' must be LINEAR without support vectors, not {kernel}", _AGAIN)


def svm_regressor(r: Rewriting, node: Node) -> None:
    """With a linear kernel the sum of the products with the support vectors is one product."""
    supports, features, rho = _integer(node, "n_supports"), _features(r, node), _floats(node, "rho")
    if supports < 0 or not rho.size:
        raise Refused("'n_supports' must be 0 or more and 'rho' one number", _AGAIN)
    if supports:
        vectors = _table(node, "support_vectors", supports, features)
        scores = _of_kernel(r, node, vectors, _table(node, "coefficients", 1, supports), rho[:1])
    else:
        _require_vectors(node)
        scores = _gemm(r, node, _table(node, "coefficients", 1, features), rho[:1], _named(node))
    if _integer(node, "one_class"):
        limit = r.constant(f"{scores}.limit", np.zeros((), np.float32))
        above = r.emit("Greater", scores, limit, wish=f"{scores}.above")
        ends = [r.float32(f"{scores}.{name}", end) for name, end in (("in", 1), ("out", -1))]
        scores = r.emit("Where", above, *ends, wish=f"{scores}.side")
    transformed(r, scores, _text(node, "post_transform", "NONE"), node.outputs[0])


def svm_classifier(r: Rewriting, node: Node) -> None:
    """One score for each pair of classes, or, without support vectors, for each class."""
    labels, features, output = _labels(node), _features(r, node), _probabilities(node)
    sizes, kind = [int(n) for n in _floats(node, "vectors_per_class")], _text(node, "post_transform", "NONE")
    count, rho = len(labels), _floats(node, "rho")
    if not sizes:
        _require_vectors(node)
        if not rho.size:
            raise Refused("'rho' must have one number or more", _AGAIN)
        weights = _table(node, "coefficients", count, features)
        scores = _gemm(r, node, weights, np.full(count, rho[0]), _named(node))
        best_label(r, node, scores, labels)
        if output:
            transformed(r, scores, kind, output)
        return
    if len(sizes) != count or count < 2 or min(sizes) < 0:
        raise Refused(f"'vectors_per_class' must be a number for each of {count} classes, not {sizes[:8]}", _AGAIN)
    vectors = _table(node, "support_vectors", sum(sizes), features)
    decisions = _of_kernel(r, node, vectors, *_pairwise(node, sizes))
    _label_by_votes(r, node, decisions, labels)
    if not output:
        return
    if "prob_a" in node.attributes:
        _probability(r, node, decisions, count, kind, output)
    elif count == 2:
        two_scores(r, decisions, kind, False, output)
    else:
        transformed(r, decisions, kind, output)


def _pairs(count: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(count) for j in range(i + 1, count)]


def _pairwise(node: Node, sizes: list[int]) -> tuple[Floats, Floats]:
    """Weights [pairs, support vectors] and bias of the decisions, above 0 for the first class of a pair."""
    count, total = len(sizes), sum(sizes)
    coefficients, starts = _table(node, "coefficients", count - 1, total), np.cumsum([0, *sizes])
    pairs = _pairs(count)
    rows = np.zeros((len(pairs), total))
    for row, (i, j) in zip(rows, pairs, strict=True):
        first, second = slice(starts[i], starts[i + 1]), slice(starts[j], starts[j + 1])
        row[first], row[second] = coefficients[j - 1, first], coefficients[i, second]
    return rows, _table(node, "rho", 1, len(rows))[0]


def _of_kernel(r: Rewriting, node: Node, vectors: Floats, weights: Floats, bias: Floats) -> str:
    """The sums [n, rows of `weights`] of the kernel of the features with each of `vectors`, and `bias`."""
    wish = _named(node)
    if _text(node, "kernel_type", "LINEAR") == "LINEAR":
        return _gemm(r, node, weights @ vectors, bias, wish)
    require_digits(node, vectors, weights, bias)
    near = kernel(r, node, as_rows_of_float(r, node.inputs[0], wish), vectors, wish)
    names = [r.float32(f"{wish}.{name}", values) for name, values in (("weights", weights), ("bias", bias))]
    return r.emit("Gemm", near, *names, wish=f"{wish}.scores", name=label_of(node), transB=1)


def _label_by_votes(r: Rewriting, node: Node, decisions: str, labels: Array) -> None:
    """The label that wins most pairs, on the host."""
    output = node.outputs[0]
    if not output:
        return
    pairs = _pairs(len(labels))
    above = r.emit("Greater", decisions, r.constant(f"{output}.zero", np.zeros((), np.float32)), wish=f"{output}.first")
    first, second = (np.eye(len(labels), dtype=np.float32)[[pair[side] for pair in pairs]][None] for side in (0, 1))
    shape = r.int64(f"{output}.shape", [-1, len(pairs), 1])
    column = r.emit("Reshape", above, shape, wish=f"{output}.first")
    votes = r.emit("Where", column, r.constant(f"{output}.of_first", first), r.constant(f"{output}.of_second", second),
                   wish=f"{output}.vote")
    total = r.emit("ReduceSum", votes, r.int64(f"{output}.axes", [1]), wish=f"{output}.votes",
                   keepdims=0)
    best_label(r, node, total, labels)


def _probability(r: Rewriting, node: Node, decisions: str, count: int, kind: str, output: str) -> None:
    """Probabilities of classes from Platt's of pairs, 1 / (1 + exp(a d + b)) for the first."""
    pairs = _pairs(count)
    a, b = (_table(node, name, 1, len(pairs)) for name in ("prob_a", "prob_b"))
    if count == 2:
        a, b = (np.concatenate([values, -values], axis=1) for values in (a, b))
    slope, bias = r.float32(f"{output}.slope", -a), r.float32(f"{output}.bias", -b)
    exponents = r.emit("Add", r.emit("Mul", decisions, slope, wish=f"{output}.each"), bias, wish=f"{output}.each")
    limits = [r.float32(f"{output}.{name}", end) for name, end in (("least", 1e-7), ("most", 1 - 1e-7))]
    each = r.emit("Clip", r.emit("Sigmoid", exponents, wish=f"{output}.sigmoid"), *limits, wish=f"{output}.clipped")
    transformed(r, each if count == 2 else coupled(r, each, pairs, count, output), kind, output)


LINEAR_RULES: dict[tuple[str, str], Rule] = {
    ("ai.onnx.ml", "LinearClassifier"): linear_classifier,
    ("ai.onnx.ml", "LinearRegressor"): linear_regressor,
    ("ai.onnx.ml", "SVMClassifier"): svm_classifier,
    ("ai.onnx.ml", "SVMRegressor"): svm_regressor,
}
