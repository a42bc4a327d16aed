"""Kernels of support vector machines: products of the features with the support vectors, and a table behind them.

    RBF      exp(-g |x - v|^2)    x . v and |x|^2 are what the table is of; the host makes |x|^2
    POLY     (g x . v + c)^d
    SIGMOID  tanh(g x . v + c)

x and v are seen from the middle of the support vectors, so that little of |x|^2 + |v|^2 - 2 x . v cancels.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hwflow.onnx.model import Model, Node
from hwflow.quantize.dialects.classical.features import with_like_features
from hwflow.quantize.dialects.rewriting import Refused, Rewriting
from hwflow.quantize.graphs import label_of

Floats = npt.NDArray[np.float64]

#: Below it exp() is less than half a step of 16 bits.
LEAST = -12.0

#: Support vectors that stand for rows of data, and how much larger than its result a sum of terms may be.
_LOOKED_AT, _MOST_CANCELLED = 256, 1024

#: How the name of a product inside a kernel ends.
KERNEL = ".kernel"


def kernel(r: Rewriting, node: Node, x: str, vectors: Floats, wish: str) -> str:
    """The kernel of `node`, which is not linear, of the rows `x` with each of `vectors`: [n, vectors]."""
    kind = str(node.attributes.get("kernel_type", "LINEAR"))
    given = node.attributes.get("kernel_params", ())
    gamma, constant, degree = np.array(given if given else (0.0, 0.0, 3.0), np.float64)[:3]
    if kind == "RBF":
        x, weights, bias = _distances(r, x, vectors, gamma, wish)
    else:
        weights, bias = gamma * vectors, np.full(len(vectors), constant)
    x, weights = with_like_features(r, x, weights, wish)
    names = [r.float32(f"{wish}.kernel.{name}", values) for name, values in (("weights", weights), ("bias", bias))]
    inner = r.emit("Gemm", x, *names, wish=f"{wish}.inner", name=f"{label_of(node)}{KERNEL}", transB=1)
    match kind:
        case "RBF":
            ends = [r.float32(f"{wish}.kernel.{name}", end) for name, end in (("least", LEAST), ("most", 0.0))]
            return r.emit("Exp", r.emit("Clip", inner, *ends, wish=f"{wish}.inner"), wish=f"{wish}.near")
        case "POLY":
            return r.emit("Pow", inner, r.float32(f"{wish}.kernel.degree", degree), wish=f"{wish}.near")
        case "SIGMOID":
            return r.emit("Tanh", inner, wish=f"{wish}.near")
    raise Refused(f"'kernel_type' must be LINEAR, POLY, RBF or SIGMOID, not {kind}", "export the model again")


def products_of_kernels(model: Model) -> tuple[str, ...]:
    """The names of the products in front of kernels' tables."""
    return tuple(node.name for node in model.graph.nodes if node.op_type == "Gemm" and node.name.endswith(KERNEL))


def require_digits(node: Node, vectors: Floats, weights: Floats, bias: Floats) -> None:
    """Refused: sums of `weights` [sums, vectors] that cancel so far that kernels of 16 bits do not tell them.

    What they give is seen at some of the support vectors themselves.
    """
    kind, given = str(node.attributes.get("kernel_type", "LINEAR")), node.attributes.get("kernel_params", ())
    gamma, constant, degree = np.array(given if given else (0.0, 0.0, 3.0), np.float64)[:3]
    some = vectors[:: max(1, len(vectors) // _LOOKED_AT)]
    products = some @ vectors.T
    match kind:
        case "RBF":
            squares = (some**2).sum(axis=1)[:, None] + (vectors**2).sum(axis=1)
            near = np.exp(-gamma * np.maximum(squares - 2 * products, 0.0))
        case "POLY":
            near = (gamma * products + constant) ** degree
        case _:
            near = np.tanh(gamma * products + constant)
    terms = np.abs(weights).sum(axis=1) * np.abs(near).max(initial=0.0)
    sums = np.abs(near @ weights.T + bias).max(axis=0, initial=0.0)
    cancelled = float((terms / np.maximum(sums, np.finfo(np.float64).tiny)).max(initial=0.0))
    if cancelled > _MOST_CANCELLED:
        raise Refused(
            f"the sum of its coefficients must be within a factor of {_MOST_CANCELLED} of its decisions, not "
            f"{cancelled:.3g}: they cancel, and integers of 16 bits have too few digits for the rest",
            "train it with a smaller C (a larger nu), or behind a StandardScaler")


def _distances(
    r: Rewriting, x: str, vectors: Floats, gamma: float, wish: str
) -> tuple[str, Floats, Floats]:
    """Features [n, features + 1] with weights and bias that make -g |x - v|^2 of them."""
    centre = vectors.mean(axis=0).astype(np.float32)
    middle = vectors - centre
    z = r.emit("Sub", x, r.constant(f"{wish}.centre", centre[None]), wish=f"{wish}.z")
    squares = r.emit("ReduceSum", r.emit("Mul", z, z, wish=f"{wish}.squares"), r.int64(f"{wish}.axes", [1]),
                     wish=f"{wish}.square", keepdims=1)
    both, sizes = r.new(f"{wish}.features"), (len(centre), 1)
    r.nodes.append(Node("FeatureVectorizer", (z, squares), (both,), {"inputdimensions": sizes}, both, "ai.onnx.ml"))
    weights = np.concatenate([2 * gamma * middle, np.full((len(vectors), 1), -gamma)], axis=1)
    return both, weights, -gamma * (middle**2).sum(axis=1)
