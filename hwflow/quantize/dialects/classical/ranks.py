"""Features as ranks: how many of its thresholds a feature reaches (docs/trees.md has the proof).

Every comparison of a node with a threshold t becomes one of "x >= s" with a float32 s: x < t and x >= t with s = t,
x <= t and x > t with the next float32 above t, because there is none between.  A *column* is a feature with all such s
of its nodes in order.  The rank of x is the number of those that x reaches; x >= s is the same as rank >= place of s.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hwflow.layers.formats import IntArray
from hwflow.onnx.model import Array
from hwflow.onnx.ops.ml.trees import MEMBER, MODES, Forest
from hwflow.quantize.dialects.rewriting import Rewriting

Floats = npt.NDArray[np.float32]

_EQ, _NEQ = MODES.index("BRANCH_EQ"), MODES.index("BRANCH_NEQ")

#: Modes that hold for the next float above the threshold only, and those that hold where x does not reach it.
_ABOVE = np.array([mode in ("BRANCH_LEQ", "BRANCH_GT") for mode in (*MODES, "MEMBER")])
_TURNED = np.array([mode in ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_NEQ") for mode in (*MODES, "MEMBER")])


@dataclass
class _Column:
    """`steps` are the distinct s in order; not-a-number counts as reaching all of them (`nan_high`) or none."""

    feature: int
    nan_high: bool
    steps: Floats = field(default_factory=lambda: np.zeros(0, np.float32))

    @property
    def finite(self) -> Floats:
        return self.steps[np.isfinite(self.steps)]

    @property
    def base(self) -> int:
        """The steps that every number reaches."""
        return int(np.isneginf(self.steps).sum())


@dataclass
class _Set:
    """1 where a feature is one of `values`, or (`has_nan`) not-a-number; else 0."""

    feature: int
    values: Floats
    has_nan: bool


@dataclass(frozen=True)
class Comparisons:
    """The comparisons of the nodes of a forest, in integers: node n holds where rank[columns[n]] >= places[n], or is
    equal to it where `equal[n]`; where `turned[n]`, its sides change places.  `highest` is the highest rank.
    """

    columns: IntArray
    places: IntArray
    equal: IntArray
    turned: IntArray
    highest: int
    ranked: tuple[_Column, ...]
    sets: tuple[_Set, ...]


def compared(forest: Forest) -> Comparisons:
    """The comparisons of the nodes of `forest` that are no leaves; all thresholds are numbers."""
    inner = ~forest.leaf
    modes, features = forest.modes[inner], forest.features[inner]
    missing = forest.missing_is_true[inner]
    thresholds = forest.thresholds[inner].astype(np.float32)
    turned = _TURNED[modes]
    # Not-a-number goes where x goes that reaches the threshold, or equals it.
    high = missing != turned
    ranked = ~((modes == MEMBER) | (((modes == _EQ) | (modes == _NEQ)) & high))
    comparisons = _NodeComparisons(len(modes))
    comparisons.rank(np.flatnonzero(ranked), features, high, modes, thresholds)
    count = len(comparisons.ranked)
    for node in np.flatnonzero(~ranked).tolist():
        values = forest.members.get(int(np.flatnonzero(inner)[node]), thresholds[node:node + 1])
        values = np.unique(np.asarray(values, np.float32))
        comparisons.columns[node], comparisons.places[node] = count + len(comparisons.sets), 1
        comparisons.sets.append(_Set(int(features[node]), values, bool(high[node])))
    highest = max([len(column.steps) for column in comparisons.ranked] + [1])
    return Comparisons(comparisons.columns, comparisons.places, comparisons.equal, turned.astype(np.int64), highest,
                       tuple(comparisons.ranked), tuple(comparisons.sets))


class _NodeComparisons:
    """Columns and places of nodes, as they are collected."""

    def __init__(self, count: int) -> None:
        self.columns, self.places, self.equal = (np.zeros(count, np.int64) for _ in range(3))
        self.ranked: list[_Column] = []
        self.sets: list[_Set] = []

    def rank(
        self, nodes: IntArray, features: IntArray, high: npt.NDArray[np.bool_], modes: IntArray, thresholds: Floats
    ) -> None:
        """Take the nodes that compare with steps; a column for each feature and side of not-a-number."""
        with np.errstate(over="ignore"):
            above = np.nextafter(thresholds, np.float32(np.inf))
        never = np.isposinf(thresholds)  # nothing is above: what no number reaches, in order behind all others
        above[never] = np.float32(np.nan)
        steps = np.where(_ABOVE[modes], above, thresholds)
        equal = (modes == _EQ) | (modes == _NEQ)
        self.equal[nodes] = equal[nodes]
        keys = features * 2 + high
        for key in np.unique(keys[nodes]).tolist():
            mine = nodes[keys[nodes] == key]
            ends = above[mine[equal[mine]]]  # x == t: x >= t and not x >= the next one
            every = np.unique(np.concatenate([steps[mine], ends]))
            every = np.concatenate([every[~np.isnan(every)], np.full(int(np.isnan(every).any()), np.nan)])
            column = _Column(key // 2, bool(key % 2), every.astype(np.float32))
            self.columns[mine] = len(self.ranked)
            numbers = every[~np.isnan(every)]
            self.places[mine] = 1 + np.where(
                np.isnan(steps[mine]), len(numbers), np.searchsorted(numbers, steps[mine]))
            self.ranked.append(column)


def emit_ranks(r: Rewriting, x: str, comparisons: Comparisons, wish: str) -> str:
    """The nodes that make ranks [n, columns] of the float32 features `x` [n, features].

    They are uint8 or uint16, and then float32 again: a DequantizeLinear says that they enter the hardware here.
    """
    parts = []
    if comparisons.ranked:
        parts.append(_emit_columns(r, x, comparisons.ranked, f"{wish}.reached"))
    if comparisons.sets:
        parts.append(_emit_sets(r, x, comparisons.sets, f"{wish}.member"))
    counts = parts[0] if len(parts) == 1 else r.emit("Concat", *parts, wish=f"{wish}.counts", axis=1)
    code, dtype = (2, np.uint8) if comparisons.highest <= 255 else (4, np.uint16)
    ranks = r.emit("Cast", counts, wish=f"{wish}.integers", to=code)
    ends = [r.constant(f"{wish}.{name}", np.array(end, dtype))
            for name, end in (("low", 0), ("high", comparisons.highest))]
    limited = r.emit("Clip", ranks, *ends, wish=f"{wish}.limited")  # says how many bits they have
    scale, zero = r.float32(f"{wish}.scale", 1), r.constant(f"{wish}.zero", np.array(0, dtype))
    return r.emit("DequantizeLinear", limited, scale, zero, wish=wish)


def _table(rows: list[Floats]) -> tuple[Array, Array]:
    """Rows of different lengths as [rows, longest], and which entries are there."""
    longest = max(1, max(map(len, rows)))
    table, there = np.zeros((len(rows), longest), np.float32), np.zeros((len(rows), longest), np.bool_)
    for row, values in enumerate(rows):
        table[row, :len(values)], there[row, :len(values)] = values, True
    return table, there


def _emit_columns(r: Rewriting, x: str, columns: tuple[_Column, ...], wish: str) -> str:
    features, rows = [column.feature for column in columns], [column.finite for column in columns]
    counts, picked = _emit_counts(r, x, "GreaterOrEqual", features, rows, wish)
    base = np.array([[column.base for column in columns]], np.float32)
    if base.any():
        counts = r.emit("Add", counts, r.constant(f"{wish}.base", base), wish=wish)
    of_nan = np.array([[len(column.steps) * column.nan_high for column in columns]], np.float32)
    return _emit_where_nan(r, picked, of_nan, counts, wish) if of_nan.any() or base.any() else counts


def _emit_sets(r: Rewriting, x: str, sets: tuple[_Set, ...], wish: str) -> str:
    counts, picked = _emit_counts(r, x, "Equal", [s.feature for s in sets], [s.values for s in sets], wish)
    of_nan = np.array([[s.has_nan for s in sets]], np.float32)
    return _emit_where_nan(r, picked, of_nan, counts, wish) if of_nan.any() else counts


def _emit_counts(
    r: Rewriting, x: str, op: str, features: list[int], rows: list[Floats], wish: str
) -> tuple[str, str]:
    """How often `op` holds between each feature and the values of its row, float32[n, features]; and the features."""
    table, there = _table(rows)
    index = r.int64(f"{wish}.features", features)
    picked = r.emit("Gather", x, index, wish=f"{wish}.picked", axis=1)
    shape = r.int64(f"{wish}.shape", [-1, len(features), 1])
    column = r.emit("Reshape", picked, shape, wish=f"{wish}.column")
    holds = r.emit(op, column, r.constant(f"{wish}.thresholds", table[None]), wish=f"{wish}.holds")
    if not there.all():
        holds = r.emit("And", holds, r.constant(f"{wish}.there", there[None]), wish=f"{wish}.holds")
    numbers = r.emit("Cast", holds, wish=f"{wish}.numbers", to=1)
    axes = r.int64(f"{wish}.axes", [2])
    return r.emit("ReduceSum", numbers, axes, wish=f"{wish}.count", keepdims=0), picked


def _emit_where_nan(r: Rewriting, picked: str, of_nan: Array, counts: str, wish: str) -> str:
    missing = r.emit("IsNaN", picked, wish=f"{wish}.missing")
    return r.emit("Where", missing, r.constant(f"{wish}.of_missing", of_nan), counts, wish=f"{wish}.count")


