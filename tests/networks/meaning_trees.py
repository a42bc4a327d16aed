"""What decision trees mean, in plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hwflow.layers import LayerGraph

Ints = npt.NDArray[np.int64]


def leaf_of(layer: Any, pixel: list[int], here: int) -> int:
    while here >= 0:
        value, limit = pixel[layer.features[here]], layer.thresholds[here]
        holds = value == limit if layer.equal[here] else value >= limit
        here = int(layer.children[here][1 if holds else 0])
    return -1 - here


def trees(graph: LayerGraph, layer: Any, x: Ints) -> Ints:
    combine = {"sum": sum, "min": min, "max": max}[layer.aggregate]
    made = np.zeros((*x.shape[:3], layer.leaves.shape[1]), np.int64)
    for place in np.ndindex(x.shape[:3]):
        reached = [leaf_of(layer, x[place].tolist(), int(root)) for root in layer.roots]
        made[place] = [combine(int(layer.leaves[leaf, target]) for leaf in reached)
                       for target in range(layer.leaves.shape[1])]
    return made
