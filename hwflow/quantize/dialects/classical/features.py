"""Features in front of classical models, in standard operators that the host runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hwflow.onnx.model import Node
from hwflow.onnx.operators import NEVER_ON_HOST, QUANTIZERS
from hwflow.quantize.dialects.rewriting import Refused, Rewriting
from hwflow.quantize.graphs import ancestors

Floats = npt.NDArray[np.float64]

#: Powers of two by which a feature is scaled, at most: float32 keeps all digits.
_MOST_POWER = 60


def as_rows_of_float(r: Rewriting, x: str, wish: str) -> str:
    """`x` [n, features] or [features] as float32 [n, features]."""
    if r.dtype(x) != np.float32:
        x = r.emit("Cast", x, wish=f"{wish}.float", attributes={"to": 1})
        shape = r.shape(r.nodes[-1].inputs[0])
    else:
        shape = r.shape(x)
    if len(shape) == 1:
        x = r.emit("Reshape", x, r.constant(f"{wish}.row", np.array([1, -1], np.int64)), wish=f"{wish}.rows")
    elif len(shape) != 2:
        raise Refused(f"the features must have the shape [N, F] or [F], not {list(shape)}", "reshape them before")
    return x


def rewrite_scaler(r: Rewriting, node: Node) -> None:
    """Scaler: (x - offset) * scale."""
    x, output = node.inputs[0], node.outputs[0]
    if r.dtype(x) != np.float32:
        x = r.emit("Cast", x, wish=f"{output}.float", attributes={"to": 1})
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
    scaled = r.emit("Mul", x, r.constant(f"{wish}.powers", factors[None].astype(np.float32)), wish=f"{wish}.like")
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
    x, like = with_like_features(r, node.inputs[0], weights.T.astype(np.float64), node.outputs[0])
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
