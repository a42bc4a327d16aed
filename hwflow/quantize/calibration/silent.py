"""Ranges for tensors that are 0 everywhere in the calibration data, where any scale is as good for the tensor itself.

The layer that reads such a tensor adds a bias, in steps of the tensor's scale times the weight's.  A scale of 1 would
make these steps as coarse as the weight's, so the tensor takes the range of the reader's result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from hwflow.onnx.model import Graph
from hwflow.quantize.graphs import consumers

__all__ = ["ranges_of_silent"]

Range: TypeAlias = tuple[float, float]

NOTHING: Range = (0.0, 0.0)


def ranges_of_silent(graph: Graph, ranges: Mapping[str, Range]) -> dict[str, Range]:
    """The range for each tensor of `ranges` that has only 0: the narrowest one of the results made of it.

    A result is the next tensor of `ranges` on the way to the outputs of `graph`, which is in topological order.  Where
    all results have only 0, too, theirs is taken; where there is none, the tensor is not in the answer.
    """
    read, found = consumers(graph), dict[str, Range]()
    #: For a tensor: the narrowest range of what is made of it, itself included where it has one.
    narrowest: dict[str, Range] = {}
    names = [*(value.name for value in graph.inputs), *(name for node in graph.nodes for name in node.outputs if name)]
    for name in reversed(names):
        own = ranges.get(name, NOTHING)
        if own != NOTHING:
            narrowest[name] = own
            continue
        results = [result for node in read.get(name, []) for result in node.outputs if result in narrowest]
        if results:
            narrowest[name] = min((narrowest[result] for result in results), key=lambda ends: ends[1] - ends[0])
            if name in ranges:
                found[name] = narrowest[name]
    return found
