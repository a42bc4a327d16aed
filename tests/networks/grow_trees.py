"""Adds random decision trees to a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hwflow.layers import IntFormat, Trees

if TYPE_CHECKING:
    from tests.networks.grow import Growing


def trees(grown: Growing, x: str) -> str:
    """Trees of up to three levels over the channels of each pixel; a table where elements are no numbers."""
    from tests.networks.grow import Elements

    rng, tensor = grown.rng, grown.tensors[x]
    if tensor.format.bipolar:
        return grown.lookup(x)
    nodes: list[tuple[int, int, int]] = []
    children: list[list[int]] = []
    leaves = 0

    def node(depth: int) -> int:
        nonlocal leaves
        if depth == 0:
            leaves += 1
            return -leaves
        own = len(nodes)
        threshold = int(rng.integers(tensor.format.low, tensor.format.high + 2))
        nodes.append((int(rng.integers(tensor.frame.channels)), threshold, int(rng.random() < 0.1)))
        children.append([0, 0])
        children[own] = [node(depth - 1 if rng.random() < 0.8 else 0) for _ in range(2)]
        return own

    roots = [node(int(rng.integers(1, 4))) for _ in range(int(rng.integers(1, 9)))]
    targets = int(rng.integers(1, min(4, grown.taste.channels) + 1))
    votes = rng.integers(-3, 4, (leaves, targets))
    features, thresholds, equal = np.array(nodes).T
    aggregate = str(rng.choice(["sum", "min", "max"]))
    most = 3 * len(roots)
    format = IntFormat.covering(-most, most)
    return grown.put(Trees, (x,), Elements(format, 0), input_format=tensor.format, features=features,
                     thresholds=thresholds, equal=equal, children=np.array(children), roots=np.array(roots),
                     leaves=votes, aggregate=aggregate)
