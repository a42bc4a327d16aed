"""Nodes for the host around classical models: features in front of them, labels and probabilities behind them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hwflow.onnx.model import Array, Node
from hwflow.onnx.operators import HOST_AFTER, HOST_BEFORE, NEVER_ON_HOST, QUANTIZERS
from hwflow.quantize.dialects.rewriting import Refused, Rewriting
from hwflow.quantize.graphs import ancestors, host_prefix, host_suffix

Floats = npt.NDArray[np.float64]

#: Powers of two by which a feature is scaled, at most: float32 keeps all digits.
_MOST_POWER = 60


def as_rows_of_float(r: Rewriting, x: str, wish: str) -> str:
    """`x` [n, features] or [features] as float32 [n, features]."""
    if r.dtype(x) != np.float32:
        x = r.emit("Cast", x, wish=f"{wish}.float", to=1)
        shape = r.shape(r.nodes[-1].inputs[0])
    else:
        shape = r.shape(x)
        x = in_front(r, x)
    if len(shape) == 1:
        x = r.emit("Reshape", x, r.int64(f"{wish}.row", [1, -1]), wish=f"{wish}.rows")
    elif len(shape) != 2:
        raise Refused(f"the features must have the shape [N, F] or [F], not {list(shape)}", "reshape them before")
    return x


def in_front(r: Rewriting, x: str) -> str:
    """`x` for a model that reads it: made by the host, where no layer is in front of it but joins, products of features
    and the like are, which hardware has, too (PolynomialFeatures).
    """
    before = ancestors(r.graph, [x])
    layers = any(node.op_type in NEVER_ON_HOST | QUANTIZERS for node in before)
    shape = r.shape(x)
    if layers or len(shape) != 2 or x in host_prefix(r.graph, HOST_BEFORE) or r.is_constant(x):
        return x
    return by_host(r, x, shape[1], x)


def rewrite_scaler(r: Rewriting, node: Node) -> None:
    """Scaler: (x - offset) * scale."""
    x, output = node.inputs[0], node.outputs[0]
    if r.dtype(x) != np.float32:
        x = r.emit("Cast", x, wish=f"{output}.float", to=1)
    offset, scale = (np.array(node.attributes.get(name, ()), np.float32) for name in ("offset", "scale"))
    shape = r.shape(node.inputs[0])
    for name, values in (("offset", offset), ("scale", scale)):
        if values.size not in (0, 1) and (not shape or values.size != shape[-1]):
            raise Refused(f"'{name}' must have 1 element or one for each feature of {list(shape)}, not {values.size}",
                          "export the model again")
    row = (1,) * (len(shape) - 1) + (-1,)
    if offset.size:
        minus = r.constant(f"{output}.offset", offset.reshape(row))
        x = r.emit("Sub", x, minus, wish=f"{output}.centred", output="" if scale.size else output)
    if scale.size:
        r.emit("Mul", x, r.constant(f"{output}.factor", scale.reshape(row)), output=output)
    elif not offset.size:
        r.emit("Identity", x, output=output)


def with_like_features(r: Rewriting, x: str, weights: Floats, wish: str) -> tuple[str, Floats]:
    """The features `x` [n, features] and `weights` [classes, features] with powers of two moved from these to those.

    A feature then counts as much as the rounding of its integers: one scale for all of them would otherwise leave no
    digits to a feature of small numbers beside one of large numbers.  Nothing else changes, as powers of two are exact.
    """
    most = np.abs(weights).max(axis=0, initial=0.0)
    powers = np.zeros(len(most), np.int64)
    powers[most > 0] = np.rint(np.log2(most[most > 0]))
    powers = np.clip(powers - powers.max(initial=-_MOST_POWER, where=most > 0), -_MOST_POWER, 0)
    factors = np.where(most > 0, 2.0**powers, 0.0)  # a feature without weight has no digits to keep
    if (factors == 1).all():
        return x, weights
    scaled = r.emit("Mul", x, r.float32(f"{wish}.powers", factors[None]), wish=f"{wish}.like")
    return scaled, np.asarray(np.where(most > 0, weights / np.where(most > 0, factors, 1.0), 0.0))


def rewrite_product(r: Rewriting, node: Node) -> None:
    """A MatMul of the model's features [n, features] with constants [features, classes]; others stay."""
    weights = r.graph.initializers.get(node.inputs[1])
    before = ancestors(r.graph, [node.inputs[0]])
    if (weights is None or weights.ndim != 2 or weights.dtype != np.float32 or len(r.shape(node.inputs[0])) != 2
            or node.inputs[0] in r.graph.initializers or not np.isfinite(weights).all()
            or any(other.op_type in NEVER_ON_HOST | QUANTIZERS for other in before)):
        r.nodes.append(node)
        return
    x, like = with_like_features(r, in_front(r, node.inputs[0]), weights.T.astype(np.float64), node.outputs[0])
    name = node.inputs[1]
    if x != node.inputs[0]:
        name = r.constant(f"{node.outputs[0]}.weights", np.ascontiguousarray(like.T, np.float32))
    r.emit("MatMul", x, name, output=node.outputs[0], name=node.name)


def rewrite_join(r: Rewriting, node: Node) -> None:
    """A Concat of rows behind an ArrayFeatureExtractor that chooses among scores: FeatureVectorizer is the same, and
    runs on the host as that does.  scikit-learn's votes of pairs of classes come so.
    """
    before = {(other.domain, other.op_type) for other in ancestors(r.graph, node.inputs)}
    on_host = ("ai.onnx.ml", "ArrayFeatureExtractor") in before and any(op in NEVER_ON_HOST for _, op in before)
    rows = [r.shape(name) for name in node.inputs]
    if not on_host or node.attributes.get("axis") not in (1, -1) or any(
            len(shape) != 2 or r.dtype(name) != np.float32 for shape, name in zip(rows, node.inputs, strict=True)):
        r.nodes.append(node)
        return
    widths = tuple(shape[1] for shape in rows)
    r.nodes.append(replace(node, op_type="FeatureVectorizer", domain="ai.onnx.ml",
                           attributes={"inputdimensions": widths}))


def at_the_end(r: Rewriting, scores: str, count: int, output: str) -> str:
    """`scores` [n, count] for what makes `output` of them: on the host, where no layer follows that but joins and
    sums do, which hardware has, too (OneVsRestClassifier).
    """
    behind, reached = list[Node](), {output}
    for node in r.graph.nodes:
        if not reached.isdisjoint(node.inputs):
            behind.append(node)
            reached.update(filter(None, node.outputs))
    last = output in host_suffix(r.graph, HOST_AFTER) or any(node.op_type in NEVER_ON_HOST for node in behind)
    return scores if last or not behind else by_host(r, scores, count, output)


def by_host(r: Rewriting, scores: str, count: int, wish: str) -> str:
    """`scores` [n, count] behind an operator that only the host runs."""
    row = r.new(f"{wish}.row")
    r.nodes.append(Node("FeatureVectorizer", (scores,), (row,), {"inputdimensions": (count,)}, row, "ai.onnx.ml"))
    return row


TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")

#: Scores nearer to 0 than this do not count for SOFTMAX_ZERO.
_NO_SCORE = 1e-7

#: Halley's steps from the approximation of the inverse error function (error 2e-3) to float32.
_STEPS = 2


def transformed(r: Rewriting, scores: str, kind: str, output: str) -> None:
    """`output` = the rows `scores` [n, classes] by the attribute post_transform `kind`."""
    match kind:
        case "NONE":
            r.emit("Identity", scores, output=output)
        case "LOGISTIC":
            r.emit("Sigmoid", scores, output=output)
        case "SOFTMAX":
            r.emit("Softmax", scores, output=output, axis=-1)
        case "SOFTMAX_ZERO":
            _softmax_zero(r, scores, output)
        case "PROBIT":
            _probit(r, scores, output)
        case _:
            raise Refused(f"attribute 'post_transform' must be one of {', '.join(TRANSFORMS)}, not '{kind}'",
                          "export the model again")


def _softmax_zero(r: Rewriting, scores: str, output: str) -> None:
    """A softmax of the scores that are not 0."""
    wish = f"{output}.softmax_zero"
    sizes = r.emit("Abs", scores, wish=wish)
    counts = r.emit("Greater", sizes, r.float32(f"{wish}.none", _NO_SCORE), wish=wish)
    counted = r.emit("Cast", counts, wish=wish, to=1)
    every = r.emit("Softmax", scores, wish=wish, axis=-1)
    some = r.emit("Mul", every, counted, wish=wish)
    total = r.emit("ReduceSum", some, r.int64(f"{wish}.axes", [1]), wish=wish,
                   keepdims=1)
    r.emit("Div", some, r.emit("Max", total, r.float32(f"{wish}.least", np.finfo(np.float32).tiny), wish=wish),
           output=output)


def _probit(r: Rewriting, scores: str, output: str) -> None:
    """sqrt(2) erfinv(2 p - 1): S. Winitzki's closed approximation (2008), then Halley's method."""
    wish = f"{output}.probit"

    def do(op: str, *inputs: str | float) -> str:
        names = [value if isinstance(value, str) else r.float32(f"{wish}.constant", value) for value in inputs]
        return r.emit(op, *names, wish=wish)

    y = do("Sub", do("Mul", scores, 2.0), 1.0)
    logarithm = do("Log", do("Sub", 1.0, do("Mul", y, y)))
    half = do("Add", do("Mul", logarithm, 0.5), 2 / (math.pi * 0.147))
    inner = do("Sqrt", do("Sub", do("Mul", half, half), do("Div", logarithm, 0.147)))
    x = do("Mul", do("Sqrt", do("Sub", inner, half)), do("Sign", y))
    for _ in range(_STEPS):
        error = do("Mul", do("Sub", do("Erf", x), y), math.sqrt(math.pi) / 2)
        step = do("Mul", error, do("Exp", do("Mul", x, x)))
        x = do("Sub", x, do("Div", step, do("Add", do("Mul", x, step), 1.0)))
    ends = do("Equal", do("Abs", y), 1.0)  # infinite there, where the steps have no number
    r.emit("Where", ends, do("Div", y, 0.0), do("Mul", x, math.sqrt(2)), output=output)


def two_scores(r: Rewriting, score: str, kind: str, complement: bool, output: str) -> None:
    """`output` [n, 2] from the `score` [n, 1] of the second class; the first has 1 - score (`complement`) or -score."""
    signs = r.float32(f"{output}.signs", [[-1, 1]])
    both = r.emit("Mul", score, signs, wish=f"{output}.both")
    if kind == "PROBIT" or (complement and kind != "LOGISTIC"):
        both = r.emit("Add", both, r.float32(f"{output}.whole", [[1, 0]]), wish=f"{output}.both")
    transformed(r, both, kind if kind in ("LOGISTIC", "PROBIT") else "NONE", output)


def best_label(r: Rewriting, node: Node, scores: str, labels: Array) -> None:
    """The first output of `node`: the label with the highest of `scores` [n, classes]."""
    if not node.outputs[0]:
        return
    chosen = r.emit("ArgMax", scores, wish=f"{node.outputs[0]}.class", axis=1, keepdims=0)
    r.emit("Gather", r.constant(f"{node.outputs[0]}.labels", labels), chosen, output=node.outputs[0])


def label_of_two(r: Rewriting, node: Node, score: str, limit: float, labels: Array) -> None:
    """The first output of `node`: the second label where `score` [n, 1] is above `limit`."""
    output = node.outputs[0]
    if not output:
        return
    above = r.emit("Greater", score, r.float32(f"{output}.limit", limit), wish=f"{output}.is_second")
    numbers = r.emit("Cast", above, wish=f"{output}.class", to=7)
    row = r.emit("Reshape", numbers, r.int64(f"{output}.shape", [-1]), wish=f"{output}.class")
    r.emit("Gather", r.constant(f"{output}.labels", labels), row, output=output)
