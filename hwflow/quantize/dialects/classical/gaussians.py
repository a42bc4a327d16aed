"""Distances from the middles of classes, each feature over its variance (scikit-learn's GaussianNB), as a Gemm.

With z = x - c the sum of (x - m)^2 / v is the sum of z^2 / v, minus that of 2 (m - c) z / v, plus a constant.  The host
makes z and z^2; c is the mean of the middles m, so that little cancels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hwflow.onnx.model import Node
from hwflow.quantize.dialects.classical.features import with_like_features
from hwflow.quantize.dialects.rewriting import Refused, Rewriting
from hwflow.quantize.graphs import as_ints, label_of

Floats = npt.NDArray[np.float64]

#: The variances of a feature differ by this factor at most among classes: beyond it 16 bits do not hold all weights.
MOST_APART = 100.0


class _Distances(NamedTuple):
    """Of the features `x` [n, features] from `middles` over `variances`, both [classes, features]; `inside` are the
    tensors on the way."""

    x: str
    middles: Floats
    variances: Floats
    inside: tuple[str, ...]


def rewrite_sum(r: Rewriting, node: Node) -> None:
    """A ReduceSum of such quotients; any other one stays."""
    found = _distances(r, node)
    if found is None:
        r.nodes.append(node)
        return
    apart = found.variances.max(axis=0) / found.variances.min(axis=0)
    if apart.max() > MOST_APART:
        raise Refused(
            f"the variances of feature {apart.argmax()} must be within a factor of {MOST_APART:g} in all classes, not "
            f"{apart.max():.3g}: one Gaussian for each class and feature (GaussianNB) needs more digits than integers "
            "of 16 bits have", "train it with a larger var_smoothing (0.01), or train a LogisticRegression")
    wish = node.outputs[0]
    centre = found.middles.mean(axis=0).astype(np.float32)
    z = r.emit("Sub", found.x, r.constant(f"{wish}.centre", centre[None]), wish=f"{wish}.z")
    both = r.new_name(f"{wish}.features")
    squares, sizes = r.emit("Mul", z, z, wish=f"{wish}.squares"), (len(centre),) * 2
    r.nodes.append(Node("FeatureVectorizer", (z, squares), (both,), {"inputdimensions": sizes}, both, "ai.onnx.ml"))
    middles = found.middles - centre
    weights = np.concatenate([-2 * middles / found.variances, 1 / found.variances], axis=1)
    x, weights = with_like_features(r, both, weights, wish)
    names = [r.constant(f"{wish}.{name}", np.asarray(values, np.float32))
             for name, values in (("weights", weights), ("bias", (middles**2 / found.variances).sum(axis=1)))]
    r.emit("Gemm", x, *names, output=wish, name=label_of(node), attributes={"transB": 1})


def inside_distances(r: Rewriting) -> set[str]:
    """The tensors of the graph that such sums are made of."""
    sums = (_distances(r, node) for node in r.graph.nodes if node.op_type == "ReduceSum" and not node.domain)
    return {name for found in sums if found is not None for name in found.inside}


def _distances(r: Rewriting, node: Node) -> _Distances | None:
    """What `node` sums, where it is a row of distances."""
    axes = r.value(node.inputs[1]) if len(node.inputs) > 1 else node.attributes.get("axes", ())
    if axes is None or as_ints(axes) not in ((2,), (-1,)) or node.attributes.get("keepdims", 1):
        return None
    inside, constants = [node.inputs[0]], []
    for op in ("Div", "Pow", "Sub"):
        maker = r.made.get(inside[-1])
        value = None if maker is None or maker.op_type != op else r.value(maker.inputs[1])
        if maker is None or value is None:
            return None
        inside.append(maker.inputs[0])
        constants.append(value.astype(np.float64))
    variances, exponent, middles = constants
    turned = r.made.get(inside[-1])
    if turned is None or turned.op_type not in ("Reshape", "Unsqueeze") or (exponent != 2).any():
        return None
    rows, shape = r.shape(turned.inputs[0]), r.shape(inside[-1])
    fits = len(rows) == 2 and shape == (rows[0], 1, rows[1]) and r.dtype(turned.inputs[0]) == np.float32
    if not fits or middles.shape != variances.shape or middles.shape[::2] != (1, rows[1]) or (variances <= 0).any():
        return None
    return _Distances(turned.inputs[0], middles[0], variances[0], tuple(inside))
