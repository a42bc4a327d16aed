"""Decision trees as arrays, walked for all rows and all trees at the same time, one level at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hwflow.onnx.ops.base import Call
from hwflow.onnx.ops.ml.common import Floats

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
