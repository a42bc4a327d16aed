"""Decision trees as plain arrays of integers, and small things that both units of trees need."""

from __future__ import annotations

import enum
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Module, Mux, Shape, Signal, Value
from amaranth.utils import ceil_log2

from ..join.tree import SumPlan, Term
from ..rescale.ranges import shape_range
from ..stream.pipeline import adder_luts
from ..stream.unit import UnitShape
from ..vendor.base import Resources, Technology

IntArray = npt.NDArray[np.int64]


class Aggregate(enum.Enum):
    """Says what becomes of the votes of all trees for a target."""

    SUM = "sum"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees over the channels of a pixel.

    Node n holds where channel `features[n]` >= `thresholds[n]`, or, with `equal[n]`, where both are equal.  Its child
    is `children[n, 1]` where it holds, else `children[n, 0]`: node k as k, leaf j as -1 - j.  `roots` are nodes, one
    for each tree.  `leaves` is [leaves, targets].
    """

    features: IntArray
    thresholds: IntArray
    equal: IntArray
    children: IntArray
    roots: IntArray
    leaves: IntArray
    aggregate: Aggregate = Aggregate.SUM

    @property
    def targets(self) -> int:
        return self.leaves.shape[1]

    @cached_property
    def levels(self) -> tuple[IntArray, ...]:
        """The nodes of each level, those of the roots first."""
        found, level = [], self.roots
        while level.size:
            found.append(level)
            below = self.children[level].ravel()
            level = below[below >= 0]
        return tuple(found)

    @property
    def depth(self) -> int:
        """Nodes from a root to the farthest leaf."""
        return len(self.levels)

    @cached_property
    def tree_of(self) -> tuple[IntArray, IntArray]:
        """The tree of each node and of each leaf; -1 where no tree has it."""
        nodes, leaves = np.full(len(self.features), -1), np.full(len(self.leaves), -1)
        nodes[self.roots] = np.arange(len(self.roots))
        for level in self.levels:
            for side in self.children[level].T:
                inner = side >= 0
                nodes[side[inner]] = nodes[level[inner]]
                leaves[-1 - side[~inner]] = nodes[level[~inner]]
        return nodes, leaves

    @cached_property
    def leaf_ends(self) -> IntArray:
        """The lowest and the highest vote of each tree, over its leaves and all targets: [trees, 2]."""
        of_leaf = self.tree_of[1]
        used = of_leaf >= 0
        low = np.full(len(self.roots), np.iinfo(np.int64).max)
        high = np.full(len(self.roots), np.iinfo(np.int64).min)
        np.minimum.at(low, of_leaf[used], self.leaves[used].min(axis=1))
        np.maximum.at(high, of_leaf[used], self.leaves[used].max(axis=1))
        return np.stack([low, high], axis=1)

    def clamped(self, element: Shape) -> IntArray:
        """The thresholds from the lowest element to one above the highest, which none reaches; the same trees."""
        low, high = shape_range(element)
        never = (self.equal != 0) & ((self.thresholds < low) | (self.thresholds > high))
        return np.where(never, high + 1, np.clip(self.thresholds, low, high + 1))


@dataclass(frozen=True)
class Combiner:
    """One number of the votes of several trees, a level of two operands a cycle; votes of tree k are in `ends[k]`."""

    ends: tuple[tuple[int, int], ...]
    aggregate: Aggregate
    output: Shape

    @cached_property
    def plan(self) -> SumPlan:
        return SumPlan(tuple(Term(low, high) for low, high in self.ends))

    @property
    def latency(self) -> int:
        return ceil_log2(len(self.ends))

    def cost(self, technology: Technology) -> Resources:
        """LUT and FF estimated."""
        if self.aggregate is Aggregate.SUM:
            return self.plan.cost(technology)
        width, count = self.output.width, len(self.ends) - 1
        return Resources(lut=count * (adder_luts(width + 1, technology) + width), ff=count * width)

    def build(self, m: Module, votes: Sequence[Value], name: str) -> Value:
        """`latency` cycles after `votes`."""
        if self.aggregate is Aggregate.SUM:
            return self.plan.build(m, votes, name)
        level = 0
        while len(votes) > 1:
            made = []
            for n in range(0, len(votes), 2):
                best = Signal(self.output, name=f"{name}_{level}_{n}", reset_less=True)
                m.d.sync += best.eq(self.best(*votes[n:n + 2]))
                made.append(best)
            votes, level = made, level + 1
        return votes[0]

    def best(self, first: Value, *second: Value) -> Value:
        """The vote that counts of two, or the only one."""
        if not second:
            return first
        wins = second[0] < first if self.aggregate is Aggregate.MIN else second[0] > first
        return Mux(wins, second[0], first)


def packed(fields: Sequence[tuple[IntArray, int]]) -> npt.NDArray[np.uint8]:
    """Words of a ROM, uint8[depth, bytes]: fields of (values [depth], bits), the first in the lowest bits."""
    bits = np.concatenate(
        [(values[:, None] >> np.arange(width)) & 1 for values, width in fields], axis=1).astype(np.uint8)
    return np.packbits(bits, axis=1, bitorder="little")


@dataclass(frozen=True, kw_only=True, eq=False)
class TreesShape(UnitShape):
    """Frames of `pixels` of `channels`, `cols` of them in a beat; each pixel goes through all trees."""

    pixels: int
    channels: int
    cols: int

    def check_sizes(self, lanes: int) -> None:
        if self.channels % self.cols or self.forest.targets % lanes:
            raise ValueError(f"cols and lanes of trees must divide their {self.channels} channels and "
                             f"{self.forest.targets} targets, not be {self.cols} and {lanes}")

    @property
    @abstractmethod
    def forest(self) -> Forest: ...

    @property
    def lanes_in(self) -> tuple[int, ...]:
        return (self.cols,)

    @property
    def beats(self) -> int:
        """Beats of a pixel."""
        return self.channels // self.cols

    @property
    @abstractmethod
    def groups(self) -> int:
        """Beats of a pixel's results."""
