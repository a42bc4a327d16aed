"""Ensembles of decision trees, in the three forms that ONNX has.

The trees are arrays, walked for all rows and all trees at the same time, one level at a time.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hwflow.onnx.model import Node
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
    texts,
)

#: The comparisons of nodes, by the numbers that TreeEnsemble gives them.  MEMBER asks whether a value is in a set.
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
MEMBER = len(MODES)
_COMPARE = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)

#: Elements of the arrays that one block of rows is walked with.
_BLOCK = 1 << 20

_Ints = npt.NDArray[np.int64]


@dataclass
class Forest:
    """`true` and `false` are the numbers of a node's children, for a leaf anything.

    Votes of leaf k are number `first_vote[k]` up to `first_vote[k + 1]`: a weight for a target each.  `members` are the
    sets of the nodes with mode MEMBER.  Raises an error where the nodes are no trees.
    """

    call: Call
    features: _Ints
    thresholds: Floats
    modes: _Ints
    true: _Ints
    false: _Ints
    missing_is_true: npt.NDArray[np.bool_]
    leaf: npt.NDArray[np.bool_]
    roots: _Ints
    first_vote: _Ints
    vote_targets: _Ints
    vote_weights: Floats
    targets: int
    members: Mapping[int, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        inner, count = ~self.leaf, len(self.leaf)
        children = np.concatenate((self.true[inner], self.false[inner]))
        if children.size and not (children.min() >= 0 and children.max() < count):
            raise self.call.error(f"the children must be nodes 0 to {count - 1}", "this file cannot be trusted")
        inner_children = children[inner[children]]
        parents = np.bincount(inner_children, minlength=count)
        if (parents > 1).any() or parents[self.roots].any():
            node = int(np.argmax(parents > 1)) if (parents > 1).any() else int(self.roots[parents[self.roots] > 0][0])
            raise self.call.error(f"the nodes must be trees, not have several ways to node {node}", "export it again")
        if self.vote_targets.size and not (self.vote_targets.min() >= 0 and self.vote_targets.max() < self.targets):
            raise self.call.error(
                f"the targets of leaves must be 0 to {self.targets - 1}, "
                f"not {self.vote_targets.min()} to {self.vote_targets.max()}", "export the model again"
            )
        # NaN is unequal to every threshold, whatever the attribute says: so do onnxruntime, for all three operators,
        # and ONNX's reference for TreeEnsemble.  The text of the standard, to the letter, sends it to the other side.
        self.missing_is_true = self.missing_is_true | (inner & (self.modes == MODES.index("BRANCH_NEQ")))
        itself = np.arange(count)
        self.true, self.false = np.where(inner, self.true, itself), np.where(inner, self.false, itself)
        self.features = np.where(inner, self.features, 0)

    @property
    def depth(self) -> int:
        """Steps from a root to the farthest leaf.  Every node has one parent at most, so this ends."""
        steps, level = 0, self.roots[~self.leaf[self.roots]]
        while level.size:
            below = np.concatenate((self.true[level], self.false[level]))
            level, steps = below[~self.leaf[below]], steps + 1
        return steps

    def scores(self, x: Floats, aggregate: str) -> Floats:
        """For each row the sum (AVERAGE, MIN, MAX) of the votes for each target; 0 where there is none."""
        inner = ~self.leaf
        used = self.features[inner]
        if used.size and not (used.min() >= 0 and used.max() < x.shape[1]):
            raise self.call.error(f"the features must be 0 to {x.shape[1] - 1}, not {used.min()} to {used.max()}")
        depth, trees = self.depth, len(self.roots)
        self.call.work(len(x) * trees * (depth + 1))
        self.call.check_size((len(x), self.targets), np.dtype(np.float64))
        y = np.zeros((len(x), self.targets))
        for start, end in self._blocks(len(x)):
            leaves = self._leaves(x[start:end], depth)
            y[start:end] = self._votes(leaves, aggregate)
        return y / trees if aggregate == "AVERAGE" and trees else y

    def _blocks(self, rows: int) -> Iterator[tuple[int, int]]:
        most = int(np.diff(self.first_vote).max(initial=1))
        step = max(1, _BLOCK // max(1, len(self.roots) * max(1, most), self.targets))
        return ((start, min(rows, start + step)) for start in range(0, rows, step))

    def _leaves(self, x: Floats, depth: int) -> _Ints:
        node = np.broadcast_to(self.roots, (len(x), len(self.roots)))
        row = np.arange(len(x))[:, None]
        for _ in range(depth):
            value = x[row, self.features[node]]
            node = np.where(self._holds(value, node), self.true[node], self.false[node])
        return node

    def _holds(self, value: Floats, node: _Ints) -> npt.NDArray[np.bool_]:
        threshold, mode = self.thresholds[node], self.modes[node]
        result = np.zeros(node.shape, np.bool_)
        for number in np.unique(mode).tolist():
            asked = mode == number
            if number == MEMBER:
                for one in np.unique(node[asked]).tolist():
                    here = node == one
                    result[here] = np.isin(value[here], self.members.get(one, ()))
            else:
                np.copyto(result, _COMPARE[number](value, threshold), where=asked)
        return np.where(np.isnan(value), self.missing_is_true[node], result)

    def _votes(self, leaves: _Ints, aggregate: str) -> Floats:
        flat = leaves.reshape(-1)
        first, counts = self.first_vote[flat], self.first_vote[flat + 1] - self.first_vote[flat]
        ends = np.cumsum(counts)
        vote = np.arange(int(counts.sum())) - np.repeat(ends - counts - first, counts)
        row = np.repeat(np.arange(flat.size) // max(1, leaves.shape[1]), counts)
        place, weights = row * self.targets + self.vote_targets[vote], self.vote_weights[vote]
        size = len(leaves) * self.targets
        if aggregate in ("SUM", "AVERAGE"):
            return np.bincount(place, weights, size).reshape(-1, self.targets).astype(np.float64)
        y = np.full(size, np.inf if aggregate == "MIN" else -np.inf)
        (np.minimum if aggregate == "MIN" else np.maximum).at(y, place, weights)
        return np.where(np.isinf(y), 0, y).reshape(-1, self.targets)


_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")



@dataclass(frozen=True)
class Ensemble:
    """The meaning of a node of any of the three operators: the `aggregate` of the votes of `forest`, plus `base`
    (no, one or a number for each target), by `transform`.  `labels` are those of a classifier, else None.
    """

    forest: Forest
    aggregate: str
    base: Floats
    transform: str
    labels: Arr | None = None


def ensemble_of(call: Call) -> Ensemble:
    """The trees of a TreeEnsembleClassifier, TreeEnsembleRegressor or TreeEnsemble."""
    match call.node.op_type:
        case "TreeEnsembleClassifier":
            labels = class_labels(call, "classlabels_int64s")
            forest = _classic(call, "class", len(labels))
            return Ensemble(forest, "SUM", floats(call, "base_values"), call.text("post_transform"), labels)
        case "TreeEnsembleRegressor":
            forest = _classic(call, "target", _target_count(call, "target_ids"))
            base, transform = floats(call, "base_values"), call.text("post_transform")
            return Ensemble(forest, _aggregate(call), base, transform)
    aggregate, transform = _numbered(call)
    forest = _modern(call, _target_count(call, "leaf_targetids"))
    return Ensemble(forest, aggregate, np.zeros(0), transform)


def scores_of_two(ensemble: Ensemble) -> int | None:
    """The class that the leaves name, where two classes share one score; else None."""
    voted = np.unique(ensemble.forest.vote_targets)
    shared = ensemble.labels is not None and len(ensemble.labels) == 2 and len(voted) == 1 and ensemble.base.size <= 1
    return int(voted[0]) if shared else None


def _of_length(call: Call, name: str, values: Arr, count: int, optional: bool = False) -> Arr:
    if optional and not values.size:
        return np.zeros(count, values.dtype)
    if len(values) != count:
        raise call.error(f"attribute '{name}' must have {count} elements, not {len(values)}", "export the model again")
    return values


def _nodes(call: Call) -> tuple[_Ints, _Ints, int]:
    """The number of each node's tree (0, 1, ...), its id in the tree, and one more than the largest id."""
    ids = integers(call, "nodes_nodeids")
    trees = _of_length(call, "nodes_treeids", integers(call, "nodes_treeids"), len(ids))
    if not len(ids) or ids.min() < 0 or ids.max() >= len(ids):
        raise call.error("the node ids must be 0, 1, ... in each tree", "export the model again")
    return np.unique(trees, return_inverse=True)[1].astype(np.int64), ids, int(ids.max()) + 1


def _finder(call: Call, trees: _Ints, ids: _Ints, span: int) -> tuple[_Ints, _Ints]:
    """Ascending keys of nodes, and the node of each."""
    keys = trees * span + ids
    order = np.argsort(keys, kind="stable")
    if (np.diff(keys[order]) == 0).any():
        raise call.error("each node id must be there once in a tree, not twice", "export the model again")
    return keys[order], order


def _find(call: Call, finder: tuple[_Ints, _Ints], trees: _Ints, ids: _Ints, span: int, what: str) -> _Ints:
    keys, order = finder
    sought = trees * span + np.clip(ids, 0, span - 1)
    at = np.minimum(np.searchsorted(keys, sought), len(keys) - 1)
    wrong = (ids < 0) | (ids >= span) | (keys[at] != sought)
    if wrong.any():
        raise call.error(f"the {what} must be nodes of their tree, not node {ids[wrong][0]}", "export the model again")
    return order[at]


#: The forest of a node by its identity: reading it takes longer than a row does.  An entry goes when its node does, and
#: so holds no call.
_KEPT: dict[int, tuple[weakref.ref[Node], Forest]] = {}


def _kept(call: Call, read: Callable[[], Forest]) -> Forest:
    """The forest of the node of `call`, which `read` makes where it is not there yet."""
    node, key = call.node, id(call.node)
    entry = _KEPT.get(key)
    if entry is None or entry[0]() is not node:
        forest = copy(read())
        forest.call = _NO_CALL
        entry = _KEPT[key] = weakref.ref(node, lambda _: _KEPT.pop(key, None)), forest
    found = copy(entry[1])
    found.call = call
    return found


_NO_CALL = Call(Node("", (), ()), 1)


def _classic(call: Call, votes: str, targets: int) -> Forest:
    """The forest of TreeEnsembleClassifier and -Regressor; `votes` is the prefix of the leaves' attributes."""
    return _kept(call, lambda: _read_classic(call, votes, targets))


def _read_classic(call: Call, votes: str, targets: int) -> Forest:
    trees, ids, span = _nodes(call)
    finder, count = _finder(call, trees, ids, span), len(ids)
    numbers = {name: number for number, name in enumerate((*MODES, "LEAF"))}
    names = texts(call, "nodes_modes")
    if len(names) != count or not set(names) <= numbers.keys():
        raise call.error(f"'nodes_modes' must be {count} of {', '.join(numbers)}", "export the model again")
    modes = np.array([numbers[name] for name in names], np.int64)
    leaf = modes == len(MODES)

    def child(name: str) -> _Ints:
        children = np.where(leaf, 0, _of_length(call, name, integers(call, name), count))
        positions = np.zeros(count, np.int64)
        positions[~leaf] = _find(call, finder, trees[~leaf], children[~leaf], span, "children")
        return positions

    tree_count = int(trees.max()) + 1
    every = np.arange(tree_count)
    first, vote_targets, vote_weights = _classic_votes(call, votes, finder, span, leaf)
    missing = integers(call, "nodes_missing_value_tracks_true")
    return Forest(
        call=call,
        features=_of_length(call, "nodes_featureids", integers(call, "nodes_featureids"), count),
        thresholds=_of_length(call, "nodes_values", floats(call, "nodes_values"), count),
        modes=np.where(leaf, 0, modes),
        true=child("nodes_truenodeids"),
        false=child("nodes_falsenodeids"),
        missing_is_true=_of_length(call, "nodes_missing_value_tracks_true", missing, count, optional=True) != 0,
        leaf=leaf,
        roots=_find(call, finder, every, np.zeros(tree_count, np.int64), span, "roots"),
        first_vote=first,
        vote_targets=vote_targets,
        vote_weights=vote_weights,
        targets=targets,
    )


def _classic_votes(
    call: Call, prefix: str, finder: tuple[_Ints, _Ints], span: int, leaf: npt.NDArray[np.bool_]
) -> tuple[_Ints, _Ints, Floats]:
    """The votes in the order of their leaves.  Votes of nodes that are no leaves count nothing."""
    ids = integers(call, f"{prefix}_nodeids")
    tree_ids = _of_length(call, f"{prefix}_treeids", integers(call, f"{prefix}_treeids"), len(ids))
    targets = _of_length(call, f"{prefix}_ids", integers(call, f"{prefix}_ids"), len(ids))
    weights = _of_length(call, f"{prefix}_weights", floats(call, f"{prefix}_weights"), len(ids))
    known = np.unique(integers(call, "nodes_treeids"))
    trees = np.minimum(np.searchsorted(known, tree_ids), len(known) - 1)
    if (known[trees] != tree_ids).any():
        raise call.error(f"'{prefix}_treeids' must be ids of trees", "export the model again")
    nodes = _find(call, finder, trees, ids, span, "leaves with votes")
    counted = leaf[nodes]
    nodes, targets, weights = nodes[counted], targets[counted], weights[counted]
    order = np.argsort(nodes, kind="stable")
    first = np.concatenate(([0], np.cumsum(np.bincount(nodes, minlength=len(leaf)))))
    return first.astype(np.int64), targets[order], weights[order]


def _based(call: Call, scores: Floats) -> Floats:
    base = floats(call, "base_values")
    if base.size not in (0, 1, scores.shape[1]):
        raise call.error(f"'base_values' must have 1 or {scores.shape[1]} elements, not {base.size}")
    return scores + base if base.size else scores


def _rows(call: Call, x: Arr) -> Floats:
    return x.reshape(as_rows(call, x)).astype(np.float64)


def _target_count(call: Call, name: str) -> int:
    return call.integer("n_targets") if call.has("n_targets") else int(integers(call, name).max(initial=0)) + 1


def _regressor(call: Call, x: Arr) -> Arr:
    aggregate = _aggregate(call)
    result = _regressor_shapes(call, Known(x.dtype, x.shape))
    call.check_size(result.shape, result.dtype)
    scores = _classic(call, "target", result.shape[1]).scores(_rows(call, x), aggregate)
    return post_transform(call, _based(call, scores)).astype(result.dtype)


def _aggregate(call: Call) -> str:
    aggregate = call.text("aggregate_function")
    if aggregate not in _AGGREGATES:
        raise call.error(f"'aggregate_function' must be one of {', '.join(_AGGREGATES)}, not '{aggregate}'")
    return aggregate


def _regressor_shapes(call: Call, x: Known) -> Known:
    return Known(np.dtype(np.float32), (as_rows(call, x)[0], _target_count(call, "target_ids")))


def _classifier(call: Call, x: Arr) -> tuple[Arr, Arr]:
    """The label with the highest score, and the scores.

    Two classes may share one score.  It decides for the second class, over 0.5 where all weights are positive, else
    over 0, whichever of the two classes the leaves name.
    """
    labels = class_labels(call, "classlabels_int64s")
    call.check_size((as_rows(call, x)[0], len(labels)), np.dtype(np.float32))
    forest = _classic(call, "class", len(labels))
    scores = forest.scores(_rows(call, x), "SUM")
    voted, base = np.unique(forest.vote_targets), floats(call, "base_values")
    if len(labels) != 2 or len(voted) != 1 or base.size > 1:
        scores = _based(call, scores)
        return pick_labels(call, labels, scores.argmax(axis=1)), post_transform(call, scores).astype(np.float32)
    score = scores[:, voted[0]] + base.sum()
    positive = bool((forest.vote_weights >= 0).all())
    chosen = (score > (0.5 if positive else 0)).astype(np.intp)
    if voted[0]:
        both = post_transform(call, np.stack((np.zeros(len(score)), score), axis=-1))
    else:
        both = binary_scores(call, score, positive)
    return pick_labels(call, labels, chosen), both.astype(np.float32)


def _classifier_shapes(call: Call, x: Known) -> tuple[Known, Known]:
    labels, rows = class_labels(call, "classlabels_int64s"), as_rows(call, x)[0]
    return Known(labels.dtype, (rows,)), Known(np.dtype(np.float32), (rows, len(labels)))


def _ensemble(call: Call, x: Arr) -> Arr:
    """TreeEnsemble: leaves are numbered on their own and vote once."""
    aggregate, transform = _numbered(call)
    result = _ensemble_shapes(call, Known(x.dtype, x.shape))
    call.check_size(result.shape, result.dtype)
    scores = _modern(call, result.shape[1]).scores(_rows(call, x), aggregate)
    return post_transform(call, scores, transform).astype(x.dtype)


def _numbered(call: Call) -> tuple[str, str]:
    """The aggregate function and the post transform of a TreeEnsemble, which names them by numbers."""
    aggregate, transform = call.integer("aggregate_function"), call.integer("post_transform")
    if not (0 <= aggregate < len(_AGGREGATES) and 0 <= transform < len(_TRANSFORMS)):
        raise call.error(
            f"'aggregate_function' must be 0 to 3 and 'post_transform' 0 to 4, not {aggregate}, {transform}"
        )
    return _AGGREGATES[aggregate], _TRANSFORMS[transform]


def _ensemble_shapes(call: Call, x: Known) -> Known:
    return Known(x.dtype, (as_rows(call, x)[0], _target_count(call, "leaf_targetids")))


def _modern(call: Call, targets: int) -> Forest:
    """The trees of a TreeEnsemble: its nodes, then its leaves, each with one vote."""
    return _kept(call, lambda: _read_modern(call, targets))


def _read_modern(call: Call, targets: int) -> Forest:
    features = integers(call, "nodes_featureids")
    inner, leaf_targets = len(features), integers(call, "leaf_targetids")
    leaves = len(leaf_targets)
    weights = _of_length(call, "leaf_weights", call.tensor("leaf_weights").reshape(-1), leaves).astype(np.float64)
    splits = _of_length(call, "nodes_splits", call.tensor("nodes_splits").reshape(-1), inner).astype(np.float64)
    modes = _of_length(call, "nodes_modes", call.tensor("nodes_modes").reshape(-1), inner).astype(np.int64)
    if modes.size and not (modes.min() >= 0 and modes.max() <= MEMBER):
        raise call.error(f"'nodes_modes' must be 0 to {MEMBER}, not {modes.min()} to {modes.max()}")
    roots = integers(call, "tree_roots")
    if not roots.size or roots.min() < 0 or roots.max() >= inner:
        raise call.error(
            f"'tree_roots' must be nodes below {inner}, not {roots[:8].tolist()}", "export the model again"
        )
    tracks = "nodes_missing_value_tracks_true"
    missing = _of_length(call, tracks, integers(call, tracks), inner, optional=True)
    none = np.zeros(leaves, np.int64)
    return Forest(
        call=call,
        features=np.concatenate((features, none)),
        thresholds=np.concatenate((splits, none)),
        modes=np.concatenate((modes, none)),
        true=_children(call, "true", inner, leaves),
        false=_children(call, "false", inner, leaves),
        missing_is_true=np.concatenate((missing, none)) != 0,
        leaf=np.arange(inner + leaves) >= inner,
        roots=roots,
        first_vote=np.concatenate((np.zeros(inner, np.int64), np.arange(leaves + 1))),
        vote_targets=leaf_targets,
        vote_weights=weights,
        targets=targets,
        members=_members(call, modes),
    )


def _children(call: Call, side: str, inner: int, leaves: int) -> _Ints:
    """Where each of the `inner` nodes goes on the side `true` or `false`: a node, or a leaf, which come after them."""
    ids = _of_length(call, f"nodes_{side}nodeids", integers(call, f"nodes_{side}nodeids"), inner)
    is_leaf = _of_length(call, f"nodes_{side}leafs", integers(call, f"nodes_{side}leafs"), inner) != 0
    if ((ids < 0) | (ids >= np.where(is_leaf, leaves, inner))).any():
        raise call.error(f"'nodes_{side}nodeids' must be nodes below {inner} or leaves below {leaves}")
    return np.concatenate((np.where(is_leaf, inner + ids, ids), np.zeros(leaves, np.int64)))


def _members(call: Call, modes: _Ints) -> dict[int, Floats]:
    """The sets of nodes with mode MEMBER, in their order: `membership_values` holds them with a NaN behind each."""
    nodes = np.flatnonzero(modes == MEMBER).tolist()
    if not nodes:
        return {}
    values = call.tensor("membership_values").reshape(-1).astype(np.float64)
    sets = np.split(values, np.flatnonzero(np.isnan(values)))
    if len(sets) < len(nodes):
        raise call.error(f"'membership_values' must hold a set for each of {len(nodes)} nodes, not {len(sets)}")
    return {node: one[~np.isnan(one)] for node, one in zip(nodes, sets, strict=False)}


OPERATORS: Table = {
    ("ai.onnx.ml", "TreeEnsemble"): (Operator(5, _ensemble, _ensemble_shapes),),
    ("ai.onnx.ml", "TreeEnsembleClassifier"): (Operator(1, _classifier, _classifier_shapes),),
    ("ai.onnx.ml", "TreeEnsembleRegressor"): (Operator(1, _regressor, _regressor_shapes),),
}
