"""What a product of two computed matrices means: sums over named axes, of integers without their zero points."""

from __future__ import annotations

from typing import Any

import numpy as np

from hwflow.layers import LayerGraph


def sums_of(graph: LayerGraph, layer: Any, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The exact sums of frames [n, ...]: [n, heads, rows, columns]."""
    sizes = {"z": len(a), "h": layer.heads, "m": layer.rows, "k": layer.depth, "n": layer.columns}
    orders = ("mhk" if layer.interleaved else "hmk", layer.order)
    operands = [(x - graph.tensors[name].zero_point).reshape([sizes[letter] for letter in f"z{order}"])
                for x, name, order in zip((a, b), layer.inputs, orders, strict=True)]
    return np.einsum(f"z{orders[0]},z{orders[1]}->zhmn", *operands)
