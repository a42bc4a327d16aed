"""Layered drawing of a directed acyclic graph: rows by longest path, few crossings, nothing on top of another.

After K. Sugiyama, S. Tagawa, M. Toda, "Methods for visual understanding of hierarchical system structures", IEEE
Trans. SMC 11(2), 1981.  Edges over many rows get a bend in each, so that they go around the boxes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: Between neighbours of a row, and the width of a bend of an edge.
GAP, BEND = 24.0, 10.0
#: With more bends than this, none are drawn: long edges then go straight, behind the boxes.
MAX_BENDS = 20_000
_SWEEPS = 6


@dataclass(frozen=True)
class Drawing:
    """`x` is the middle and `row` the row of each vertex; `bends` the middles of an edge in the rows it crosses.

    With labels, boxes are in even rows and labels in odd rows: the last bend of an edge with a label is its label.
    """

    x: tuple[float, ...]
    row: tuple[int, ...]
    bends: Mapping[tuple[int, int], tuple[float, ...]]
    width: float


def draw(
    widths: Sequence[float], edges: Sequence[tuple[int, int]], labels: Mapping[tuple[int, int], float] | None = None
) -> Drawing:
    """Place vertices of given widths.  Every edge goes from a lower to a higher number.

    `labels` has the widths of texts on edges; each gets a place of its own in the row above the edge's end.
    """
    edges = sorted(set(edges))
    rows = _rows(len(widths), edges)
    labels = labels or {}
    if labels:
        rows = [2 * row for row in rows]
    sizes, rank = list(widths), list(rows)
    chains: dict[tuple[int, int], list[int]] = {}
    bent = sum(rows[b] - rows[a] - 1 for a, b in edges) <= MAX_BENDS
    links: list[tuple[int, int]] = []
    for a, b in edges:
        chain = [a]
        for row in range(rows[a] + 1, rows[b]) if bent else ():
            sizes.append(labels.get((a, b), BEND) if row == rows[b] - 1 else BEND)
            rank.append(row)
            chain.append(len(sizes) - 1)
        chain.append(b)
        chains[a, b] = chain[1:-1]
        links += itertools.pairwise(chain)
    above: list[list[int]] = [[] for _ in sizes]
    below: list[list[int]] = [[] for _ in sizes]
    for a, b in links:
        above[b].append(a)
        below[a].append(b)
    layers = _ordered(rank, above, below)
    x = _placed(layers, sizes, above, below)
    bends = {edge: tuple(x[vertex] for vertex in chain) for edge, chain in chains.items()}
    right = max((x[v] + sizes[v] / 2 for v in range(len(sizes))), default=0.0)
    return Drawing(tuple(x[: len(widths)]), tuple(rows), bends, right)


def _rows(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The row of each vertex: the longest path from above; a vertex without one is right above its first reader."""
    rows = [0] * count
    targets: list[list[int]] = [[] for _ in range(count)]
    has_source = [False] * count
    for a, b in edges:
        rows[b] = max(rows[b], rows[a] + 1)  # edges are sorted by their source, so that rows[a] is final
        targets[a].append(b)
        has_source[b] = True
    for vertex in range(count):
        if not has_source[vertex] and targets[vertex]:
            rows[vertex] = min(rows[b] for b in targets[vertex]) - 1
    return rows


def _ordered(rank: Sequence[int], above: Sequence[list[int]], below: Sequence[list[int]]) -> list[list[int]]:
    """Order each row, down and up in turns, so that vertices are near the middle of their neighbours."""
    layers: list[list[int]] = [[] for _ in range(max(rank, default=-1) + 1)]
    for vertex, row in enumerate(rank):
        layers[row].append(vertex)
    place = {vertex: float(i) for layer in layers for i, vertex in enumerate(layer)}
    for sweep in range(_SWEEPS):
        near = below if sweep % 2 else above
        for layer in reversed(layers) if sweep % 2 else layers:
            layer.sort(key=lambda v: sum(place[u] for u in near[v]) / len(near[v]) if near[v] else place[v])
            place.update((vertex, float(i)) for i, vertex in enumerate(layer))
    return layers


def _placed(
    layers: Sequence[list[int]], sizes: Sequence[float], above: Sequence[list[int]], below: Sequence[list[int]]
) -> list[float]:
    """Middles: each vertex near its neighbours, pushed aside as far as the order and the widths of its row ask."""
    x = [0.0] * len(sizes)
    for layer in layers:
        _spread(layer, [0.0] * len(layer), sizes, x)
    for sweep in range(_SWEEPS):
        near = below if sweep % 2 else above
        for layer in reversed(layers) if sweep % 2 else layers:
            ideal = [sum(x[u] for u in near[v]) / len(near[v]) if near[v] else x[v] for v in layer]
            _spread(layer, ideal, sizes, x)
    left = min((x[v] - sizes[v] / 2 for v in range(len(sizes))), default=0.0)
    return [middle - left for middle in x]


def _spread(layer: Sequence[int], ideal: Sequence[float], sizes: Sequence[float], x: list[float]) -> None:
    """Least squares for one row in a fixed order: neighbours that would overlap move as one block (pool adjacent)."""
    blocks: list[tuple[float, int, list[int]]] = []  # sum of wanted starts, number, vertices
    offset = 0.0
    offsets = []
    for vertex, middle in zip(layer, ideal, strict=True):
        offset += sizes[vertex] / 2
        offsets.append(offset)
        total, count, members = middle - offset, 1, [vertex]
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / count:
            before, number, others = blocks.pop()
            total, count, members = before + total, number + count, others + members
        blocks.append((total, count, members))
        offset += sizes[vertex] / 2 + GAP
    shifts = [total / count for total, count, members in blocks for _ in members]
    for vertex, shift, at in zip(layer, shifts, offsets, strict=True):
        x[vertex] = shift + at


# Columns for a long drawing: its rows are cut where few edges cross, and set side by side.  A chain of 70 boxes under
# each other is a strip that nobody can read at once.  In columns it is read like a newspaper.


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
    firsts, at = [], len(places) - 1
    while at:
        at = best[at][1]
        firsts.append(places[at])
    return tuple(reversed(firsts))
