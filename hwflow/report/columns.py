"""Columns for a long drawing: the rows of a layered drawing are cut where few edges cross, and set side by side.

A chain of 70 boxes under each other is a strip that nobody can read at once.  In columns it is read like a newspaper.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["first_rows"]

#: How much an edge that crosses a cut costs, against a column that is wrong by its whole height.
_CROSSING = 0.12
#: No column is higher than this, in heights of an even one.
_HIGHEST = 1.4


def first_rows(heights: Sequence[float], crossing: Sequence[int], columns: int) -> tuple[int, ...]:
    """The first row of each column, at most `columns` of them, all about as high.

    `heights` are those of the rows; `crossing[r]` is the number of edges that a cut after row r would cross, 0 where
    no cut is allowed.
    """
    cuts = [row + 1 for row, count in enumerate(crossing[:-1]) if count]
    total, count = sum(heights), len(heights)
    if columns < 2 or not cuts:
        return (0,)
    even, tops = total / columns, [0.0]
    for height in heights:
        tops.append(tops[-1] + height)
    places = [0, *cuts, count]
    best: list[tuple[float, int]] = [(0.0, 0)] + [(math.inf, 0)] * (len(places) - 1)
    for end in range(1, len(places)):
        for start in range(end - 1, -1, -1):
            height = tops[places[end]] - tops[places[start]]
            if height > _HIGHEST * even and start < end - 1:
                break
            wrong = (height / even - 1) ** 2 * (0.25 if end == len(places) - 1 and height < even else 1.0)
            edges = crossing[places[start] - 1] - 1 if start else 0
            best[end] = min(best[end], (best[start][0] + wrong + _CROSSING * edges, start))
    found, at = [], len(places) - 1
    while at:
        at = best[at][1]
        found.append(places[at])
    return tuple(reversed(found))
