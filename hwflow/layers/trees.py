"""Ensembles of decision trees over the channels of a pixel, with integer thresholds and integer votes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from hwflow.layers.base import Layer, LayerGraph
from hwflow.layers.formats import Frame, IntArray, IntFormat
from hwflow.layers.matrix import require
from hwflow.layers.planes import Planes, compact

AGGREGATES = ("sum", "min", "max")

#: Trees times pixels that the golden model walks at a time.
_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class Trees(Layer):
    """y[t] = the sum, over all trees, of the votes for target t of the leaves that x reaches.

    `aggregate`: "sum", or "min" or "max" for the least or the greatest vote.  Node n holds where x[features[n]] >=
    thresholds[n], or, where `equal[n]` is 1, where both are equal.  From it, x goes to `children[n, 1]` where it holds,
    else to `children[n, 0]`: a node's number, or -1 - j for leaf j.  Each tree begins at one of `roots`.  `leaves`
    [leaves, targets] are the votes.
    """

    kind: ClassVar[str] = "trees"

    name: str
    inputs: tuple[str, ...]
    output: str
    input_format: IntFormat
    features: IntArray
    thresholds: IntArray
    equal: IntArray
    children: IntArray
    roots: IntArray
    leaves: IntArray
    aggregate: str = "sum"

    def output_frame(self, *inputs: Frame) -> Frame:
        (frame,) = inputs
        if self.features.size and not (self.features.min() >= 0 and self.features.max() < frame.channels):
            raise ValueError(f"layer '{self.name}': features must be channels 0 to {frame.channels - 1}, not "
                             f"{self.features.min()} to {self.features.max()}")
        return Frame(frame.height, frame.width, self.leaves.shape[1])

    def check(self, graph: LayerGraph) -> None:
        self._check_fields()
        super().check(graph)
        self.check_input_format(graph, self.input_format)
        if self.input_format.bipolar:
            raise ValueError(f"layer '{self.name}': the input must be numbers, not {self.input_format}")
        y = graph.tensors[self.output].format
        require(f"layer '{self.name}': the results", self.ends, y)
        if self.aggregate != "sum":
            require(f"layer '{self.name}': votes", self.leaves, y)

    def _check_fields(self) -> None:
        count, leaves = len(self.features), len(self.leaves)
        shapes = {"thresholds": (count,), "equal": (count,), "children": (count, 2)}
        for field, shape in shapes.items():
            if getattr(self, field).shape != shape:
                raise ValueError(f"layer '{self.name}': {field} must have the shape {list(shape)}, not "
                                 f"{list(getattr(self, field).shape)}")
        if self.aggregate not in AGGREGATES:
            raise ValueError(f"layer '{self.name}': aggregate must be {', '.join(AGGREGATES)}, not {self.aggregate}")
        if self.leaves.ndim != 2 or not self.leaves.size or not self.roots.size:
            raise ValueError(f"layer '{self.name}': there must be a tree, a leaf and a target")
        reached = np.concatenate([self.roots, self.children[self.children >= 0]])
        if reached.min() < 0 or reached.max() >= count or not np.array_equal(np.sort(reached), np.arange(count)):
            raise ValueError(f"layer '{self.name}': each of the {count} nodes must be a root or the child of one node")
        ends = -1 - self.children[self.children < 0]
        if ends.max() >= leaves or len(np.unique(ends)) != len(ends):
            raise ValueError(f"layer '{self.name}': each of the {leaves} leaves must be the child of one node at most")
        if sum(len(level) for level in self.levels) != count:
            raise ValueError(f"layer '{self.name}': nodes must not follow each other in a circle")

    @cached_property
    def levels(self) -> list[IntArray]:
        """The nodes of each level, the roots first.  Nodes with one parent each end, or are in no level."""
        levels, level = [], self.roots
        while level.size:
            levels.append(level)
            below = self.children[level].ravel()
            level = below[below >= 0]
        return levels

    @cached_property
    def ends(self) -> IntArray:
        """The lowest and the highest result of each target, over all leaves that trees could end in: [2, targets]."""
        count = len(self.features)
        found = []
        for best in (np.minimum, np.maximum):
            values = np.zeros((count, self.leaves.shape[1]), np.int64)
            for level in reversed(self.levels):
                at_node, at_leaf = np.maximum(self.children[level], 0), np.maximum(-1 - self.children[level], 0)
                sides = np.where(self.children[level][..., None] >= 0, values[at_node], self.leaves[at_leaf])
                values[level] = best(sides[:, 0], sides[:, 1])
            trees = values[self.roots]
            found.append({"sum": trees.sum(axis=0), "min": trees.min(axis=0), "max": trees.max(axis=0)}[self.aggregate])
        return np.stack(found)

    def compute(self, graph: LayerGraph, *inputs: Planes) -> Planes:
        (x,) = inputs
        pixels = x.reshape(len(x), -1)
        made = np.empty((self.leaves.shape[1], pixels.shape[1]), compact(graph.tensors[self.output].format))
        step = max(1, _BLOCK // len(self.roots))
        for start in range(0, pixels.shape[1], step):
            part = pixels[:, start:start + step]
            made[:, start:start + step] = self._votes(self._reached(part)).T
        return made.reshape(len(made), *x.shape[1:])

    def _reached(self, pixels: Planes) -> IntArray:
        """The leaf of each tree for each pixel [channels, pixels]: [trees, pixels]."""
        count = len(self.features)
        # Behind the nodes come the leaves, which follow themselves.
        itself = count + np.arange(len(self.leaves))
        after = np.concatenate([np.where(self.children >= 0, self.children, count - 1 - self.children),
                                np.stack([itself, itself], axis=1)])
        none = np.zeros(len(self.leaves), np.int64)
        features, thresholds, equal = (np.concatenate([values, none]) for values in (
            self.features, self.thresholds, self.equal))
        here = np.repeat(self.roots[:, None], pixels.shape[1], axis=1)
        each = np.arange(pixels.shape[1])
        for _ in self.levels:
            values, limits = pixels[features[here], each].astype(np.int64), thresholds[here]
            holds = np.where(equal[here] != 0, values == limits, values >= limits)
            here = after[here, holds.astype(np.intp)]
        return here - count

    def _votes(self, reached: IntArray) -> IntArray:
        """[trees, pixels] to [pixels, targets]."""
        combine = {"sum": np.add, "min": np.minimum, "max": np.maximum}[self.aggregate]
        total: IntArray = self.leaves[reached[0]]
        for leaf in reached[1:]:
            total = combine(total, self.leaves[leaf])
        return total

    @property
    def said(self) -> str:
        return f"{len(self.roots)} tree{'s' if len(self.roots) > 1 else ''}"

    def multiplications(self, graph: LayerGraph) -> int:
        return 0
