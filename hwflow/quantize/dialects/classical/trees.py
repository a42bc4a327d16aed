"""Tree ensembles: ranks of features on the host, trees of integers for the hardware, labels and scores on the host.

The trees stay a node of ai.onnx.ml, which any runtime computes exactly: its features, thresholds and votes are
integers, and sums stay below 2**24.

The votes of leaves are integers of one scale, a power of two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import HwflowError

from hwflow.layers.formats import IntArray
from hwflow.onnx.model import Attribute, Node
from hwflow.onnx.operators import NEVER_ON_HOST, QUANTIZERS
from hwflow.onnx.ops.base import Call
from hwflow.onnx.ops.ml.trees import MEMBER, MODES, Ensemble, Forest, ensemble_of, scores_of_two
from hwflow.onnx.run.calls import find
from hwflow.quantize.dialects.classical.features import (
    as_rows_of_float,
    best_label,
    label_of_two,
    transformed,
    two_scores,
)
from hwflow.quantize.dialects.classical.ranks import Comparisons, compared, emit_ranks
from hwflow.quantize.dialects.rewriting import Refused, Rewriting
from hwflow.quantize.graphs import ancestors, label_of

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
    trees: IntArray = of_node[forest.leaf]
    return trees


def votes_of(ensemble: Ensemble, targets: IntArray) -> Votes:
    """The votes of the leaves of an ensemble in the order of its nodes, for the targets `targets`, with the base values
    in them.

    Refused: votes that are no numbers, too many, or without a meaning.
    """
    forest = ensemble.forest
    if not np.isfinite(forest.vote_weights).all() or not np.isfinite(ensemble.base).all():
        raise Refused("the votes of leaves and base values must be finite", "train or export the model again")
    leaves, trees = int(forest.leaf.sum()), len(forest.roots)
    if leaves * len(targets) > _MOST_VOTES:
        raise Refused(f"leaves times targets must be at most {_MOST_VOTES}, not {leaves} x {len(targets)}",
                      "train fewer or smaller trees")
    weights = _dense(ensemble, targets)
    of_leaf = tree_of_leaves(forest)
    base = np.zeros(forest.targets) + (ensemble.base if ensemble.base.size else 0.0)
    if ensemble.aggregate in ("SUM", "AVERAGE"):
        count = trees if ensemble.aggregate == "AVERAGE" else 1
        weights[of_leaf == 0] += base[targets] * count  # every row adds one leaf of the first tree
        reach = np.zeros((trees, len(targets)))
        used = of_leaf >= 0
        np.maximum.at(reach, of_leaf[used], np.abs(weights[used]))
        integers, scale = _rounded(weights, float(reach.sum(axis=0).max(initial=0.0)), trees)
        return Votes(integers, scale, 1 / count)
    integers, scale = _rounded(weights + base[targets], float(np.abs(weights + base[targets]).max(initial=0.0)), 1)
    return Votes(integers, scale, 1.0)


def _dense(ensemble: Ensemble, targets: IntArray) -> Floats:
    """The vote of each leaf for each target; of several for one target the sum, or the least or greatest."""
    forest, aggregate = ensemble.forest, ensemble.aggregate
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


#: Nodes and leaves of an ensemble: more than the memories of any board hold.
MOST_NODES = 1 << 17

#: The operator set of ai.onnx.ml that has TreeEnsemble in place of the two before.
_TREE_ENSEMBLE = 5


def read_ensemble(node: Node, opsets: dict[str, int]) -> Ensemble:
    """The trees of a node.  Refused: nodes that are no trees, too many of them, thresholds without a meaning."""
    lists = [node.attributes.get(name) for name in ("nodes_featureids", "leaf_targetids")]
    count = max(len(values) for values in (*lists, ()) if isinstance(values, tuple))
    require_few(count)
    schema, _ = find(node, opsets)
    try:
        ensemble = ensemble_of(Call(node, opsets.get(node.domain, 1), schema=schema))
    except HwflowError as error:
        raise Refused(getattr(error, "why", str(error)), getattr(error, "remedy", "") or "export it again") from None
    _check_thresholds(ensemble.forest)
    return ensemble


def require_few(count: int) -> None:
    """Refused: more nodes than any board holds."""
    if count > MOST_NODES:
        raise Refused(f"trees must have at most {MOST_NODES} nodes in all, not {count}", "train fewer or smaller trees")


def _check_thresholds(forest: Forest) -> None:
    """Refused: a threshold that is not-a-number, or a comparison that only infinities decide."""
    split = ~forest.leaf & (forest.modes != MEMBER)
    if forest.leaf[forest.roots].all():
        raise Refused("trees must compare features, not give the same for all of them", "leave out a constant model")
    for node in np.flatnonzero(split & np.isnan(forest.thresholds))[:1].tolist():
        raise Refused(f"thresholds must be numbers, not NaN as in a node of feature {forest.features[node]}",
                      "train or export the model again")
    modes, largest = forest.modes, float(np.finfo(np.float32).max)
    names = np.array([*MODES, "MEMBER"])
    equal = np.isin(names[modes], ("BRANCH_EQ", "BRANCH_NEQ"))
    above = np.isin(names[modes], ("BRANCH_LEQ", "BRANCH_GT"))
    thresholds = forest.thresholds
    infinite = (~above & (thresholds == np.inf)) | (equal & np.isinf(thresholds))
    bad = split & (infinite | ((above | equal) & (thresholds == largest)))
    for node in np.flatnonzero(bad)[:1].tolist():
        raise Refused(f"thresholds must tell finite numbers apart, not be {thresholds[node]:g} with "
                      f"{names[modes[node]]}", "train or export the model again")


def is_integer(ensemble: Ensemble) -> bool:
    """Whether the hardware can take the votes of an ensemble as they are: integers whose sums have `SUM_BITS` bits."""
    weights = ensemble.forest.vote_weights
    plain = (ensemble.labels is None and not ensemble.base.size and ensemble.transform == "NONE"
             and ensemble.aggregate != "AVERAGE")
    return plain and not np.remainder(weights, 1).any() and bool((np.abs(weights) < 1 << (SUM_BITS - 1)).all())


def rewrite_trees(r: Rewriting, node: Node) -> None:
    """One node of any of the three operators."""
    ensemble = read_ensemble(node, dict(r.model.opsets))
    if is_integer(ensemble) and _is_behind_layers(r, node.inputs[0]):
        r.nodes.append(node)
    else:
        emit_ensemble(r, node, ensemble, node.inputs[0])


def emit_ensemble(r: Rewriting, node: Node, ensemble: Ensemble, x: str, share: float = 1.0) -> None:
    """The results of `node` from the trees `ensemble` of the features `x`, their scores multiplied with `share`."""
    behind_layers = _is_behind_layers(r, x)
    shared = scores_of_two(ensemble)
    targets = np.arange(ensemble.forest.targets) if shared is None else np.array([shared])
    votes = votes_of(ensemble, targets)
    wish = next(name for name in reversed(node.outputs) if name)
    if behind_layers:
        trees = _integer_trees(ensemble, votes, None)
        ranks = x
    else:
        comparisons = compared(ensemble.forest)
        trees = _integer_trees(ensemble, votes, comparisons)
        features = as_rows_of_float(r, x, wish)
        _check_features(ensemble.forest, r.shape(x)[-1])
        ranks = emit_ranks(r, features, comparisons, f"{wish}.ranks")
    sums = _emit_trees(r, node, ranks, trees, f"{wish}.sums")
    scale = np.array(votes.scale * votes.factor * share, np.float32)
    scores = r.emit("Mul", sums, r.constant(f"{wish}.scale", scale), wish=f"{wish}.scores")
    _emit_results(r, node, ensemble, sums, scores)


def _check_features(forest: Forest, count: int) -> None:
    """Refused: a feature that is not there."""
    used = forest.features[~forest.leaf]
    for feature in used[(used < 0) | (used >= count)][:1].tolist():
        raise Refused(f"features must be 0 to {count - 1}, not {feature}", "export the model again")


def _is_behind_layers(r: Rewriting, x: str) -> bool:
    """Whether `x` is made of integers.  Refused: of floats, by layers."""
    before = ancestors(r.graph, [x])
    if any(other.op_type in QUANTIZERS for other in before):
        return True
    for first in [other for other in before if other.op_type in NEVER_ON_HOST][:1]:
        raise Refused(f"reads what {first.label} computes, in a model of floats",
                      "quantize the layers in front of the trees before the export, or make two models of it")
    return False


def _emit_results(r: Rewriting, node: Node, ensemble: Ensemble, sums: str, scores: str) -> None:
    """The outputs of `node` from the `scores` of its targets, which have the order of the integers `sums`."""
    if ensemble.labels is None:
        transformed(r, scores, ensemble.transform, node.outputs[0])
        return
    shared = scores_of_two(ensemble)
    probabilities = node.outputs[1] if len(node.outputs) > 1 and node.outputs[1] else ""
    if shared is None:
        best_label(r, node, sums, ensemble.labels)
        if probabilities:
            transformed(r, scores, ensemble.transform, probabilities)
        return
    positive = bool((ensemble.forest.vote_weights >= 0).all())
    label_of_two(r, node, scores, 0.5 if positive else 0.0, ensemble.labels)
    if probabilities and shared:
        second = r.float32(f"{probabilities}.second", [[0, 1]])
        transformed(r, r.emit("Mul", scores, second, wish=f"{probabilities}.both"), ensemble.transform, probabilities)
    elif probabilities:
        two_scores(r, scores, ensemble.transform, positive, probabilities)


@dataclass(frozen=True)
class _Trees:
    """Nodes and leaves in the order of a forest, with `names` of modes.  `votes` are (leaf, target, integer)."""

    trees: IntArray
    ids: IntArray
    features: IntArray
    thresholds: npt.NDArray[np.float64]
    names: list[str]
    true: IntArray
    false: IntArray
    leaf: npt.NDArray[np.bool_]
    votes: tuple[IntArray, IntArray, IntArray]
    targets: int
    aggregate: str


def _integer_trees(ensemble: Ensemble, votes: Votes, comparisons: Comparisons | None) -> _Trees:
    """The trees with `votes`, and with `comparisons` of ranks; None: with the comparisons that they have."""
    forest = ensemble.forest
    inner = ~forest.leaf
    trees = np.full(len(forest.leaf), -1)
    ids = np.zeros(len(forest.leaf), np.int64)
    for tree, root in enumerate(forest.roots.tolist()):
        level, count = np.array([root]), 0
        while level.size:
            trees[level], ids[level] = tree, count + np.arange(len(level))
            count += len(level)
            level = level[inner[level]]
            level = np.concatenate([forest.true[level], forest.false[level]])
    features, thresholds = forest.features.copy(), forest.thresholds
    names = [MODES[mode] for mode in (forest.modes % MEMBER).tolist()]
    true, false = forest.true, forest.false
    if comparisons is not None:
        turned = np.zeros(len(inner), np.bool_)
        turned[inner] = comparisons.turned != 0
        true, false = np.where(turned, false, true), np.where(turned, true, false)
        features[inner] = comparisons.columns
        thresholds = np.zeros(len(inner))
        thresholds[inner] = comparisons.places
        equal = np.zeros(len(inner), np.bool_)
        equal[inner] = comparisons.equal != 0
        names = ["BRANCH_EQ" if is_equal else "BRANCH_GTE" for is_equal in equal.tolist()]
    leaves = np.flatnonzero(forest.leaf)
    rows, columns = np.nonzero(votes.integers) if ensemble.aggregate in ("SUM", "AVERAGE") else np.indices(
        votes.integers.shape).reshape(2, -1)
    there = trees[leaves[rows]] >= 0
    rows, columns = rows[there], columns[there]
    return _Trees(trees, ids, features, thresholds, names, true, false, forest.leaf,
                  (leaves[rows], columns, votes.integers[rows, columns]), votes.integers.shape[1],
                  "SUM" if ensemble.aggregate == "AVERAGE" else ensemble.aggregate)


def _emit_trees(r: Rewriting, node: Node, x: str, trees: _Trees, wish: str) -> str:
    """A TreeEnsembleRegressor, or where the operator set has none, a TreeEnsemble."""
    modern = r.model.opsets.get(node.domain, 1) >= _TREE_ENSEMBLE
    attributes = _modern_attributes(trees) if modern else _classic_attributes(trees)
    sums = r.new(wish)
    op = "TreeEnsemble" if modern else "TreeEnsembleRegressor"
    r.nodes.append(Node(op, (x,), (sums,), attributes, label_of(node), domain=node.domain))
    return sums


def _ints(values: IntArray) -> tuple[int, ...]:
    return tuple(values.tolist())


def _floats(values: npt.NDArray[Any]) -> tuple[float, ...]:
    return tuple(values.astype(np.float64).tolist())


def _classic_attributes(t: _Trees) -> dict[str, Attribute]:
    there = np.flatnonzero(t.trees >= 0)
    leaf, targets, votes = t.votes
    modes = tuple("LEAF" if t.leaf[node] else t.names[node] for node in there.tolist())
    inner = ~t.leaf[there]
    return {
        "n_targets": t.targets, "aggregate_function": t.aggregate, "post_transform": "NONE",
        "nodes_treeids": _ints(t.trees[there]), "nodes_nodeids": _ints(t.ids[there]), "nodes_modes": modes,
        "nodes_featureids": _ints(np.where(inner, t.features[there], 0)),
        "nodes_values": _floats(np.where(inner, t.thresholds[there], 0)),
        "nodes_truenodeids": _ints(np.where(inner, t.ids[t.true[there]], 0)),
        "nodes_falsenodeids": _ints(np.where(inner, t.ids[t.false[there]], 0)),
        "target_treeids": _ints(t.trees[leaf]), "target_nodeids": _ints(t.ids[leaf]), "target_ids": _ints(targets),
        "target_weights": _floats(votes),
    }


def _modern_attributes(t: _Trees) -> dict[str, Attribute]:
    """Each leaf votes once."""
    leaf, targets, votes = t.votes
    there = np.flatnonzero((t.trees >= 0) & ~t.leaf)
    leaves = np.flatnonzero((t.trees >= 0) & t.leaf)
    if len(np.unique(leaf)) != len(leaf):
        raise Refused(f"with aggregate_function {t.aggregate} all leaves must vote for one target",
                      "train one regressor for each target")
    place = np.zeros(len(t.leaf), np.int64)
    place[there], place[leaves] = np.arange(len(there)), np.arange(len(leaves))
    of_leaf = np.zeros((2, len(leaves)), np.int64)
    of_leaf[:, place[leaf]] = targets, votes
    roots = there[t.ids[there] == 0]
    if len(roots) != len(np.unique(t.trees[t.trees >= 0])):
        raise Refused("each tree must compare a feature, not be a leaf alone", "leave out trees that are constant")
    return {
        "n_targets": t.targets, "aggregate_function": ("AVERAGE", "SUM", "MIN", "MAX").index(t.aggregate),
        "post_transform": 0, "tree_roots": _ints(place[roots[np.argsort(t.trees[roots])]]),
        "nodes_featureids": _ints(t.features[there]),
        "nodes_modes": np.array([MODES.index(t.names[node]) for node in there.tolist()], np.uint8),
        "nodes_splits": t.thresholds[there].astype(np.float32),
        "nodes_truenodeids": _ints(place[t.true[there]]), "nodes_trueleafs": _ints(t.leaf[t.true[there]].astype(int)),
        "nodes_falsenodeids": _ints(place[t.false[there]]),
        "nodes_falseleafs": _ints(t.leaf[t.false[there]].astype(int)),
        "leaf_targetids": _ints(of_leaf[0]), "leaf_weights": of_leaf[1].astype(np.float32),
    }
