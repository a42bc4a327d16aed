"""From the comparisons of a tree's nodes to the number of the leaf that is reached, from the leaves to the root.

The leaves below a node have *codes* 0, 1, ... with few gaps.  The side with more codes keeps its own; those of the
other side come behind, from a multiple of a power of two on, so that no bit of a code needs an adder: each is one of
two bits, chosen by the node's comparison.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .forest import Forest

#: Choices in a row between two registers.
CHOICES = 2


@dataclass(frozen=True)
class Side:
    """What is known of the leaves below a child: `codes` of the leaves `leaves`, `size` is above all codes.

    `node` makes the code, None for a leaf.  It is there `cycle` cycles after the comparisons, and has come through
    `choices` choices since the last register.
    """

    node: int | None
    codes: npt.NDArray[np.int64]
    leaves: npt.NDArray[np.int64]
    size: int
    cycle: int = 0
    choices: int = 0

    @property
    def width(self) -> int:
        return (self.size - 1).bit_length()


@dataclass(frozen=True)
class Merge:
    """A node chooses between the codes of `low`, which stay as they are, and `offset` + those of `high`.

    `high_holds`: it chooses `high` where its comparison holds.  The choice is made `start` cycles after the
    comparisons, and `registered` behind it or not.
    """

    node: int
    low: Side
    high: Side
    offset: int
    high_holds: bool
    start: int
    registered: bool
    made: Side

    @property
    def is_comparison(self) -> bool:
        """The code is the comparison itself, or its opposite."""
        return self.low.node is None and self.high.node is None


def merges(forest: Forest) -> tuple[Merge, ...]:
    """Of all nodes, children first."""
    sides: dict[int, Side] = {}
    found = []
    for level in reversed(forest.levels):
        for node in level.tolist():
            children = []
            for child in forest.children[node].tolist():
                leaf = np.array([-1 - child])
                children.append(sides.pop(child) if child >= 0 else Side(None, np.zeros(1, np.int64), leaf, 1))
            merge = merged(node, *children)
            sides[node] = merge.made
            found.append(merge)
    return tuple(found)


def merged(node: int, fails: Side, holds: Side) -> Merge:
    low, high = (holds, fails) if holds.size > fails.size else (fails, holds)
    step = 1 << high.width
    offset = -(-low.size // step) * step
    codes, leaves = (np.concatenate(pair) for pair in ((low.codes, offset + high.codes), (low.leaves, high.leaves)))
    size = offset + high.size
    if low.node is None and high.node is None:
        return Merge(node, low, high, offset, high is holds, 0, False, Side(node, codes, leaves, size))
    start = max(low.cycle, high.cycle)
    choices = 1 + max(side.choices for side in (low, high) if side.cycle == start)
    last = choices == CHOICES
    made = Side(node, codes, leaves, size, start + last, 0 if last else choices)
    return Merge(node, low, high, offset, high is holds, start, last, made)
