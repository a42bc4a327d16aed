"""The votes of leaves as integers of one scale, a power of two."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hwflow.layers.formats import IntArray
from hwflow.onnx.ops.ml.trees import Ensemble, Forest
from hwflow.quantize.dialects.rewriting import Refused

Floats = npt.NDArray[np.float64]

#: Bits of the sums of votes.  Below 2**24 every partial sum is exact in float32 too: a runtime gets the same integers.
SUM_BITS = 24

#: Leaves times targets.
_MOST_VOTES = 1 << 24


@dataclass(frozen=True)
class Votes:
    """`integers` [leaves, targets], each about a vote over `scale`; the aggregate times `scale` times `factor` is the
    ensemble's score.
    """

    integers: IntArray
    scale: float
    factor: float


def tree_of_leaves(forest: Forest) -> IntArray:
    """The tree of each leaf, in the order of the forest's nodes; -1 where no tree has it."""
    of_node = np.full(len(forest.leaf), -1)
    level = np.asarray(forest.roots)
    of_node[level] = np.arange(len(level))
    while level.size:
        level = level[~forest.leaf[level]]
        below = [forest.true[level], forest.false[level]]
        for side in below:
            of_node[side] = of_node[level]
        level = np.concatenate(below)
    found: IntArray = of_node[forest.leaf]
    return found


def votes_of(made: Ensemble, targets: IntArray) -> Votes:
    """Of the leaves of an ensemble in the order of its nodes, for the targets `targets`, with the base values in them.

    Refused: votes that are no numbers, too many, or without a meaning.
    """
    forest = made.forest
    if not np.isfinite(forest.vote_weights).all() or not np.isfinite(made.base).all():
        raise Refused("the votes of leaves and base values must be finite", "train or export the model again")
    leaves, trees = int(forest.leaf.sum()), len(forest.roots)
    if leaves * len(targets) > _MOST_VOTES:
        raise Refused(f"leaves times targets must be at most {_MOST_VOTES}, not {leaves} x {len(targets)}",
                      "train fewer or smaller trees")
    weights = _dense(made, targets)
    of_leaf = tree_of_leaves(forest)
    base = np.zeros(forest.targets) + (made.base if made.base.size else 0.0)
    if made.aggregate in ("SUM", "AVERAGE"):
        count = trees if made.aggregate == "AVERAGE" else 1
        weights[of_leaf == 0] += base[targets] * count  # every row adds one leaf of the first tree
        reach = np.zeros((trees, len(targets)))
        used = of_leaf >= 0
        np.maximum.at(reach, of_leaf[used], np.abs(weights[used]))
        integers, scale = _rounded(weights, float(reach.sum(axis=0).max(initial=0.0)), trees)
        return Votes(integers, scale, 1 / count)
    integers, scale = _rounded(weights + base[targets], float(np.abs(weights + base[targets]).max(initial=0.0)), 1)
    return Votes(integers, scale, 1.0)


def _dense(made: Ensemble, targets: IntArray) -> Floats:
    """The vote of each leaf for each target; of several for one target the sum, or the least or greatest."""
    forest, aggregate = made.forest, made.aggregate
    counts = np.diff(forest.first_vote)[forest.leaf]
    leaf_of_vote = np.repeat(np.arange(len(counts)), counts)
    order = np.concatenate([[], *(np.arange(a, b) for a, b in zip(
        forest.first_vote[:-1][forest.leaf], forest.first_vote[1:][forest.leaf], strict=True))]).astype(np.int64)
    place = np.full(forest.targets, -1)
    place[targets] = np.arange(len(targets))
    at = (leaf_of_vote, place[forest.vote_targets[order]])
    if aggregate in ("SUM", "AVERAGE"):
        weights = np.zeros((len(counts), len(targets)))
        np.add.at(weights, at, forest.vote_weights[order])
        return weights
    sign = 1 if aggregate == "MIN" else -1
    weights = np.full((len(counts), len(targets)), np.inf)
    np.minimum.at(weights, at, sign * forest.vote_weights[order])
    silent = np.isinf(weights)
    of_leaf = tree_of_leaves(forest)
    for target in range(len(targets)):
        speaking = np.setdiff1d(np.arange(len(forest.roots)), of_leaf[silent[:, target]])
        if not speaking.size:
            raise Refused(
                f"with aggregate_function {aggregate} there must be a tree all of whose leaves vote for target "
                f"{int(targets[target])}", "train one regressor for each target"
            )
    most = np.where(silent, -np.inf, weights).max(axis=0)
    return np.asarray(sign * np.where(silent, most, weights))  # no more than any that counts


def _rounded(weights: Floats, reach: float, trees: int) -> tuple[IntArray, float]:
    """Integers whose sums, of one for each of `trees`, have `SUM_BITS` bits, and their scale.

    As few bits as are exact; else as many as there may be: a sum is then at most trees / 2 * scale off.
    """
    limit = (1 << (SUM_BITS - 1)) - 1
    if reach == 0:
        return np.zeros(weights.shape, np.int64), 1.0
    most = math.floor(math.log2(limit / reach))
    while reach * 2.0**most + trees / 2 > limit:
        most -= 1
    exact = next((k for k in range(min(0, most), most + 1) if not np.remainder(weights * 2.0**k, 1).any()), most)
    return np.rint(weights * 2.0**exact).astype(np.int64), 2.0**-exact
