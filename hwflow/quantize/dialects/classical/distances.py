"""Sums of squares of a row's features as a Gemm: distances from middles of classes, or from rows of a training.

GaussianNB sums (x - m)^2 / v, nearest neighbours and kernels of Gaussian processes |x - m|^2.  Whatever operators say
it: where the results are quadratic forms a x^2 + b x + c of the features, without products of two of them, evaluation
gives a, b and c.  With z = x - centre the result is a Gemm of z and z^2, which the host makes; the centre is the mean
of the middles, so that little cancels.  Where the forms differ by a factor alone, as distances do, the sum of z^2 is
one feature for all of them.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hwflow.onnx import evaluate
from hwflow.onnx.model import Graph, Node, TensorType, Value
from hwflow.onnx.operators import ELEMENTWISE, LAYOUT, MATRIX, NEVER_ON_HOST, QUANTIZERS, UNARY
from hwflow.quantize.dialects.classical.features import in_front, with_like_features
from hwflow.quantize.dialects.classical.kernels import KERNEL, LEAST
from hwflow.quantize.dialects.rewriting import Refused, Rewriting
from hwflow.quantize.graphs import ancestors, label_of

Floats = npt.NDArray[np.float64]

#: The variances of a feature differ by this factor at most among classes: beyond it 16 bits do not hold all weights.
MOST_APART = 100.0

#: What to train where distances are others.
_INSTEAD = ("train trees (RandomForestClassifier, RandomForestRegressor) or a network (MLPClassifier, MLPRegressor) in "
            "place of nearest neighbours")

#: What ends such a form, and what may be on the way to it.
_SUMS = frozenset({"ReduceSum", "ReduceSumSquare"})
_INSIDE = LAYOUT | _SUMS | {"Add", "Div", "Mul", "Neg", "Pow", "Sub"}

#: Rows on which the form must give what the model gives, and how near in parts of the largest term.
_ROWS, _NEAR = 3, 1e-9

#: A Gemm of so many weights takes seconds to find, and is far more than any board holds.
_MOST_WEIGHTS = 1 << 20


class Squares(NamedTuple):
    """`square` x^2 + `linear` x summed over the features x [1, features], + `constant`: [results, features] and
    [results].  `inside` are the tensors on the way from the tensor `x`.
    """

    x: str
    square: Floats
    linear: Floats
    constant: Floats
    inside: tuple[str, ...]


def rewrite_squares(r: Rewriting, node: Node) -> None:
    """A ReduceSum or ReduceSumSquare that gives such forms; any other one stays.

    Refused: other distances from several rows (Manhattan, Chebyshev).
    """
    squares = squares_of(r, node)
    if squares is None:
        _require_no_distances(r, node)
        r.nodes.append(node)
        return
    _require_alike(squares)
    wish = output = node.outputs[0]
    positive = squares.square > 0
    middles = np.where(positive, -squares.linear / np.where(positive, 2 * squares.square, 1), 0.0)
    centre = (middles.sum(axis=0) / np.maximum(positive.sum(axis=0), 1)).astype(np.float32)
    z = r.emit("Sub", in_front(r, squares.x), r.constant(f"{wish}.centre", centre[None]), wish=f"{wish}.z")
    linear = squares.linear + 2 * squares.square * centre
    bias = squares.constant + (squares.square * centre.astype(np.float64) + squares.linear) @ centre
    both, square = _features(r, z, squares.square, wish)
    x, weights = with_like_features(r, both, np.concatenate([linear, square], axis=1), wish)
    names = [r.float32(f"{wish}.{name}", values) for name, values in (("weights", weights), ("bias", bias))]
    shape, kernel = r.shape(output), _kernel(r, node)
    sums = r.emit("Gemm", x, *names, wish=f"{wish}.sums", name=label_of(node) + (KERNEL if kernel else ""), transB=1)
    if _never_negative(squares):
        sums = r.emit("Relu", sums, wish=f"{wish}.sums")  # float32 cancels to less than 0, which has no root
    sums = _near(r, sums, shape, kernel, wish) if kernel else sums
    r.emit("Reshape", sums, r.int64(f"{wish}.shape", list(shape)), output=output)


def _never_negative(squares: Squares) -> bool:
    """Whether each form is 0 or more for all features, but for what float64 rounds."""
    square, linear = squares.square, squares.linear
    if (square < 0).any() or linear[square == 0].any():
        return False
    depth = np.where(square > 0, linear**2 / np.where(square > 0, 4 * square, 1), 0.0).sum(axis=1)
    return bool((squares.constant - depth >= -_NEAR * (1 + depth)).all())


def _features(r: Rewriting, z: str, square: Floats, wish: str) -> tuple[str, Floats]:
    """z [n, features] with the squares of its elements behind it, or with one sum of them, and the weights of these."""
    squares, (count, features) = r.emit("Mul", z, z, wish=f"{wish}.squares"), square.shape
    most = np.abs(square).max(axis=1)
    row = square[most.argmax()] / most.max()
    factors = square @ row / (row @ row)
    if np.allclose(square, factors[:, None] * row, rtol=1e-9, atol=1e-12 * most.max()):
        shares = r.float32(f"{wish}.shares", row[None])
        squares = r.emit("Mul", squares, shares, wish=f"{wish}.squares") if (row != 1).any() else squares
        squares = r.emit("ReduceSum", squares, r.int64(f"{wish}.axes", [1]), wish=f"{wish}.square", keepdims=1)
        square = factors.reshape(count, 1)
    both, sizes = r.new(f"{wish}.features"), (features, square.shape[1])
    r.nodes.append(Node("FeatureVectorizer", (z, squares), (both,), {"inputdimensions": sizes}, both, "ai.onnx.ml"))
    return both, square


def _require_no_distances(r: Rewriting, node: Node) -> None:
    _, nodes = _way(r, node, _INSIDE | ELEMENTWISE) or ("", [])
    constants = [other.inputs[1] for other in nodes if other.op_type == "Sub" and r.is_constant(other.inputs[1])]
    rows = [shape[0] for shape in map(r.shape, constants) if len(shape) == 3 and shape[0] > 1]
    if rows:
        raise Refused(
            f"its distances from the {rows[0]} rows of its training must be sums of squares, not of other functions of "
            "a difference", f"train it with metric='euclidean', or {_INSTEAD}")


def _require_alike(squares: Squares) -> None:
    apart = np.abs(squares.square)
    least = apart.min(axis=0)
    ratios = np.where(apart.max(axis=0) > 0, apart.max(axis=0) / np.maximum(least, np.finfo(np.float64).tiny), 1.0)
    if ratios.max() > MOST_APART:
        raise Refused(
            f"the variances of feature {ratios.argmax()} must be within a factor of {MOST_APART:g} in all classes, not "
            f"{ratios.max():.3g}: one Gaussian for each class and feature (GaussianNB) needs more digits than integers "
            "of 16 bits have", "train it with a larger var_smoothing (0.01), or train a LogisticRegression")


def inside_squares(r: Rewriting) -> set[str]:
    """The tensors of the graph that such sums are made of, and those of kernels of them: these become tables."""
    sums = ((node, squares_of(r, node)) for node in r.graph.nodes)
    return {name for node, squares in sums if squares is not None
            for name in (*squares.inside, *(other.outputs[0] for other in _kernel(r, node)))}


def _kernel(r: Rewriting, node: Node) -> list[Node]:
    """What is between the sum `node` and a product with weights, as in a Gaussian process: nodes that scale the sum and
    one function of it, the last; none where there is no such function.
    """
    nodes, name = list[Node](), node.outputs[0]
    while name not in r.outputs and len(r.read.get(name, ())) == 1:
        (reader,) = r.read[name]
        name = reader.outputs[0]
        nodes.append(reader)
        scales = reader.op_type in _INSIDE - _SUMS and sum(not r.is_constant(other) for other in reader.inputs) == 1
        if reader.domain or not (scales or reader.op_type in UNARY):
            return []
        if reader.op_type in UNARY - {"Neg"}:
            return nodes if any(other.op_type in MATRIX for other in _behind(r, name)) else []
    return []


def _behind(r: Rewriting, name: str) -> list[Node]:
    """The nodes that a tensor reaches."""
    reached, nodes = {name}, list[Node]()
    for node in r.graph.nodes:
        if not reached.isdisjoint(node.inputs):
            reached.update(filter(None, node.outputs))
            nodes.append(node)
    return nodes


def _near(r: Rewriting, sums: str, shape: tuple[int, ...], kernel: list[Node], wish: str) -> str:
    """`sums`, limited to those of which exp() is not 0 in 16 bits, where `kernel` ends with it."""
    *scaling, function = kernel
    if function.op_type != "Exp" or not scaling:
        return sums
    form = _Form(r, scaling[0].inputs[0], scaling, shape)
    bias, slope = form(np.zeros(shape)), form(np.ones(shape)) - form(np.zeros(shape))
    if not (bias == bias[0]).all() or not (slope == slope[0]).all() or slope[0] >= 0:
        return sums
    ends = [r.float32(f"{wish}.{name}", end) for name, end in (("least", 0.0), ("most", (LEAST - bias[0]) / slope[0]))]
    return r.emit("Clip", sums, *ends, wish=f"{wish}.near")


def squares_of(r: Rewriting, node: Node) -> Squares | None:
    """The forms that `node` gives, where they are two or more and features of the model make them, not layers."""
    if node.domain or node.op_type not in _SUMS or r.is_constant(node.outputs[0]):
        return None
    way = _way(r, node)
    if way is None or any(other.op_type in NEVER_ON_HOST | QUANTIZERS for other in ancestors(r.graph, [way[0]])):
        return None
    x, nodes = way
    results, features = int(np.prod(r.shape(node.outputs[0]))), r.shape(x)[1]
    if results < 2 or results * features > _MOST_WEIGHTS:
        return None
    form = _Form(r, x, nodes, (1, features))
    zero, units = np.zeros((1, features)), np.eye(features)[:, None]
    constant = form(zero)
    ends = np.array([[form(unit), form(-unit)] for unit in units])
    square = ((ends[:, 0] + ends[:, 1]) / 2 - constant).T
    linear = ((ends[:, 0] - ends[:, 1]) / 2).T
    for row in np.random.default_rng(0).normal(size=(_ROWS, features)):
        terms = np.abs(square) @ row**2 + np.abs(linear) @ np.abs(row) + np.abs(constant)
        wrong = square @ row**2 + linear @ row + constant - form(row[None])
        if not (np.abs(wrong) <= _NEAR * terms.max(initial=0)).all():
            return None
    if not square.any():
        return None
    inside = tuple(name for other in nodes[:-1] for name in other.outputs)
    return Squares(x, square, linear, constant, inside)


def _way(r: Rewriting, node: Node, inside: Container[str] = _INSIDE) -> tuple[str, list[Node]] | None:
    """The nearest tensor [1, features] that `node` is a function of, and the nodes from there, in order: `inside` are
    their operators."""
    nodes = [node]
    while True:
        dynamic = {name for name in nodes[0].inputs if name and not r.is_constant(name)}
        name = dynamic.pop()
        if dynamic or r.dtype(name) != np.float32:
            return None
        shape, maker = r.shape(name), r.made.get(name)
        if len(shape) == 2 and shape[0] == 1 and shape[1] > 1:
            return name, nodes
        if maker is None or maker.domain or maker.op_type not in inside or len(maker.outputs) != 1:
            return None
        nodes.insert(0, maker)


class _Form:
    """What nodes compute of a tensor of this shape, in float64, as one row."""

    def __init__(self, r: Rewriting, x: str, nodes: list[Node], shape: tuple[int, ...]) -> None:
        self.x, self.result = x, nodes[-1].outputs[0]
        constants = {name: r.parameter(name, "constant") for other in nodes for name in other.inputs
                     if name and r.is_constant(name)}
        wide = {name: value.astype(np.float64) if value.dtype == np.float32 else value
                for name, value in constants.items()}
        given = Value(x, TensorType(np.dtype(np.float64), shape))
        graph = Graph("form", tuple(nodes), (given,), (Value(self.result, None),), wide)
        self.model = replace(r.model, graph=graph)

    def __call__(self, row: Floats) -> Floats:
        result = evaluate(self.model, {self.x: row})[self.result]
        return np.asarray(result, np.float64).ravel()
