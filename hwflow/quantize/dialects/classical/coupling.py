"""Probabilities of several classes from those of their pairs, in standard operators for the host.

T.-F. Wu, C.-J. Lin, R. C. Weng, "Probability estimates for multi-class classification by pairwise coupling" (2004),
second method: p with the least sum of (r_ji p_i - r_ij p_j)^2.  The p_i and a multiplier solve linear equations whose
last one says that they add up to 1; by Cramer's rule p_i is the minor of that row and column i over the sum of all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hwflow.quantize.dialects.classical.features import by_host
from hwflow.quantize.dialects.rewriting import Rewriting

_DOUBLE, _FLOAT = 11, 1


def coupled(r: Rewriting, pairwise: str, pairs: Sequence[tuple[int, int]], count: int, wish: str) -> str:
    """Probabilities [n, count] from those of the first classes of `pairs`, `pairwise` [n, pairs], in float64 inside."""

    def constant(name: str, values: object, dtype: type = np.float64) -> str:
        return r.constant(f"{wish}.{name}", np.asarray(values, dtype))

    def do(op: str, *inputs: str, **attributes: int | tuple[int, ...]) -> str:
        return r.emit(op, *inputs, wish=f"{wish}.coupled", attributes=dict(attributes))

    first = do("Cast", by_host(r, pairwise, len(pairs), f"{wish}.pairs"), to=_DOUBLE)
    both = do("Concat", first, do("Sub", constant("one", 1), first), axis=1)
    places, apart = np.zeros((count, count), np.int64), 1 - np.eye(count)
    for number, (i, j) in enumerate(pairs):
        places[i, j], places[j, i] = number, len(pairs) + number
    square = constant("square", [-1, count, count], np.int64)
    ratios, turned = (
        do("Mul", do("Reshape", do("Gather", both, constant("places", at.ravel(), np.int64), axis=1), square),
           constant("apart", apart[None]))
        for at in (places, places.T))  # fmt: skip
    of_itself = do("ReduceSum", do("Mul", ratios, ratios), constant("axis", [1], np.int64), keepdims=1)
    matrix = do("Sub", do("Mul", of_itself, constant("eye", np.eye(count)[None])), do("Mul", ratios, turned))
    # [n, count, count + 1]: the last column is that of the multiplier.
    whole = do("Concat", matrix, do("Add", do("Mul", do("Gather", matrix, constant("any", [0], np.int64), axis=2),
               constant("none", 0)), constant("ones", 1)), axis=2)
    others = np.array([[column for column in range(count + 1) if column != k] for k in range(count)])
    minors = do("Det", do("Transpose", do("Gather", whole, constant("others", others, np.int64), axis=2),
                          perm=(0, 2, 1, 3)))
    signed = do("Mul", minors, constant("signs", [[(-1.0) ** k for k in range(count)]]))
    total = do("ReduceSum", signed, constant("axis", [1], np.int64), keepdims=1)
    return do("Cast", do("Div", signed, total), to=_FLOAT)
