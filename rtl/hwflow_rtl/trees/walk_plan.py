"""How walkers share the trees of a forest, and what their memories hold."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Shape, signed

from ..join.tree import holding
from ..rescale.ranges import shape_range
from .forest import Aggregate, Combiner, Forest, packed

IntArray = npt.NDArray[np.int64]

#: Trees that a walker has under way.
SLOTS = 6


@dataclass(frozen=True, eq=False)
class Walker:
    """What one walker walks through.

    Node k is the root of the tree that it begins as number k; a tree that only fills a slot has a root with
    two empty leaves.  Children are places here: node k as k, the first vote of a leaf, `leaves[k]`, as -1 - k.
    """

    features: IntArray
    thresholds: IntArray
    equal: IntArray
    fails: IntArray
    holds: IntArray
    leaves: IntArray


class WalkPlan:
    """How `rows` walkers share the trees of `forest`, `groups` of targets one after the other."""

    def __init__(self, forest: Forest, element: Shape, output: Shape, rows: int, lanes: int):
        self.forest, self.element, self.output, self.rows, self.lanes = forest, element, output, rows, lanes
        self.groups = forest.targets // lanes
        self.rounds = rounds_of(len(forest.roots), rows)
        self.walkers = tuple(self._walker(row) for row in range(rows))
        ends = [(int(walker.leaves.min()), int(walker.leaves.max())) for walker in self.walkers]
        self.votes = tuple(output if forest.aggregate is not Aggregate.SUM else holding(*pair) for pair in ends)
        self.combiner = Combiner(tuple(ends), forest.aggregate, output)

    @cached_property
    def empty(self) -> int:
        """A vote that counts nothing."""
        low, high = shape_range(self.output)
        return {Aggregate.SUM: 0, Aggregate.MIN: high, Aggregate.MAX: low}[self.forest.aggregate]

    def _walker(self, row: int) -> Walker:
        """Every `rows`-th tree: the roots come first, empty trees behind them, then all other nodes."""
        forest, groups = self.forest, self.groups
        mine = np.arange(row, len(forest.roots), self.rows)
        of_node, of_leaf = forest.tree_of
        roots = forest.roots[mine]
        others = np.setdiff1d(np.flatnonzero(np.isin(of_node, mine)), roots)
        leaves = np.flatnonzero(np.isin(of_leaf, mine))
        count = self.rounds * SLOTS
        nodes = np.concatenate([roots, np.full(count - len(roots), -1), others])
        there = nodes >= 0
        place = np.zeros(len(forest.features), np.int64)
        place[nodes[there]] = np.flatnonzero(there)
        leaf_place = np.zeros(len(forest.leaves), np.int64)
        leaf_place[leaves] = np.arange(len(leaves)) * groups
        child = forest.children[np.where(there, nodes, 0)]
        target = np.where(child >= 0, place[np.maximum(child, 0)], -1 - leaf_place[np.maximum(-1 - child, 0)])
        target = np.where(there[:, None], target, -1 - len(leaves) * groups)
        votes = forest.leaves[leaves]
        if count > len(roots):
            votes = np.concatenate([votes, np.full((1, forest.targets), self.empty)])
        clamped = forest.clamped(self.element)

        def of(values: IntArray) -> IntArray:
            return np.where(there, values[np.where(there, nodes, 0)], 0)

        return Walker(of(forest.features), of(clamped), of(forest.equal), target[:, 0], target[:, 1],
                      votes.reshape(-1, self.lanes))

    @property
    def levels(self) -> int:
        """Levels of a round: those of the nodes, and one for each group of targets."""
        return self.forest.depth + self.groups

    @property
    def cycles(self) -> int:
        """Of the walk through all trees."""
        return self.rounds * SLOTS * self.levels

    @cached_property
    def address(self) -> int:
        """Bits of the address of a node or of a leaf."""
        most = max(max(len(walker.features), len(walker.leaves)) for walker in self.walkers)
        return max(1, (most - 1).bit_length())

    @cached_property
    def threshold(self) -> Shape:
        return signed(self.element.width + 1 + (not self.element.signed))

    def word(self, cols: int, channels: int) -> tuple[int, int, int, int, int, int]:
        """Bits of the fields of a node: row of elements, lane, threshold, equal, and the children."""
        return (max(1, (channels // cols - 1).bit_length()), (cols - 1).bit_length(), self.threshold.width, 1,
                self.address + 1, self.address + 1)

    def nodes(self, row: int, cols: int, channels: int) -> npt.NDArray[np.uint8]:
        """The ROM of a walker's nodes.  The top bit of a child says that it is a leaf."""
        walker = self.walkers[row]
        children = [np.where(to >= 0, to, (1 << self.address) + (-1 - to)) for to in (walker.fails, walker.holds)]
        fields = (walker.features // cols, walker.features % cols, walker.thresholds, walker.equal, *children)
        return packed(list(zip(fields, self.word(cols, channels), strict=True)))

    def leaves(self, row: int) -> npt.NDArray[np.uint8]:
        """The ROM of the votes of a walker's leaves."""
        votes = self.walkers[row].leaves
        return packed([(votes[:, lane], self.votes[row].width) for lane in range(self.lanes)])


def rounds_of(trees: int, rows: int) -> int:
    """How often `rows` walkers begin with new trees."""
    return -(-trees // (rows * SLOTS))
