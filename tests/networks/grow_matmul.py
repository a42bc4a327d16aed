"""Adds a random product of two computed matrices to a graph."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from hwflow.layers import Frame, MatMul, Requantize
from tests.networks.meaning_matmul import sums_of

if TYPE_CHECKING:
    from tests.networks.grow import Growing

#: Bits of an element whose difference to its zero point every multiplier takes.
WIDEST = 14


def matmul(grown: Growing, x: str) -> str:
    """`x` times itself or times another tensor, as any matrices that fit; a table where none do."""
    rng, most = grown.rng, grown.taste
    narrow = sorted(name for name, t in grown.tensors.items() if t.format.bits <= WIDEST)
    if x not in narrow:
        return grown.rearrange(x)
    other = x if rng.random() < 0.3 else str(rng.choice(narrow))
    pair = (x, other) if rng.integers(2) else (other, x)
    counts = [grown.frame(name).elements for name in pair]
    common = gcd(*counts)
    sizes = [(heads, counts[0] // shared, shared // heads, counts[1] // shared)
             for shared in range(1, common + 1) if common % shared == 0
             for heads in range(1, min(shared, 4) + 1) if shared % heads == 0]
    room = most.side * most.side * most.channels
    possible = [(h, m, k, n) for h, m, k, n in sizes if h * m * k * n <= most.multiplications and h * m * n <= room
                and n <= 2 * most.channels]
    if not possible:
        return grown.lookup(x)
    heads, rows, depth, columns = possible[int(rng.integers(len(possible)))]
    interleaved = bool(rng.integers(2))
    order = str(rng.choice(["hnk", "hkn", "nhk", "khn"] if interleaved else ["hnk", "hkn"]))
    frame = Frame(rows, heads, columns) if interleaved else Frame(heads, rows, columns)
    fields = {"heads": heads, "rows": rows, "depth": depth, "columns": columns, "interleaved": interleaved,
              "order": order, "frame": frame}
    one = np.ones(1, np.int64)
    plain = MatMul("sums", pair, "sums", **fields, requantize=Requantize(0 * one, one, 0 * one, 0, 0, 0))
    sums = sums_of(grown.graph, plain, *(grown.samples[name] for name in pair))
    like = grown.elements()
    places = rng.random() < 0.25
    made = grown.rescale(sums.reshape(-1, rows * columns if places else 1), like)
    return grown.put(MatMul, pair, like, **fields, requantize=made)
