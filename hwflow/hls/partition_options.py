"""What bounds allow: the partitions that may fit at an interval, thousands of them compared with the budget at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .partition_bounds import KINDS, Counts, DataflowBounds, Run

__all__ = ["Option", "Options"]


@dataclass(frozen=True)
class Option:
    """Shared stages that may fit, with the dataflow stages beside them, at a price (the share of the budget)."""

    runs: tuple[Run, ...]
    price: float

    @cached_property
    def crowds(self) -> tuple[float, ...]:
        """How many times as long weights of each stage take, for those of the others come from the same memory."""
        coming = sum(run.coming for run in self.runs)
        return tuple(coming / run.coming if run.coming else 1.0 for run in self.runs)

    @cached_property
    def promised(self) -> int:
        """Cycles of a frame in the slowest shared stage."""
        return max(run.promised_beside(crowd) for run, crowd in zip(self.runs, self.crowds, strict=True))


class Options:
    """Partitions with one of `runs` or two in shared stages; `alone` is of all layers, `limits` are those of a design.
    """

    def __init__(self, runs: Sequence[Run], alone: DataflowBounds, limits: Counts):
        self.runs = runs
        self.alone = alone
        self.limits = limits
        #: The options at the interval that was asked for last.
        self.allowed: dict[int, list[Option]] = {}

    def at(self, target: int) -> list[Option]:
        """What bounds allow at an interval, the cheapest first."""
        if target not in self.allowed:
            self.allowed = {target: [option for option in self.cheap(target) if option.promised <= target]}
        return self.allowed[target]

    def cheap(self, target: int) -> list[Option]:
        """What bounds of costs allow at an interval, the cheapest first."""
        alone = self.alone.at(target)
        before = np.concatenate([np.zeros((1, len(KINDS))), np.cumsum(np.where(np.isinf(alone), 0, alone), axis=0)])
        slow = np.concatenate([[0], np.cumsum(np.isinf(alone).any(axis=1))])
        fast = [run for run in self.runs if run.promised <= target]  # in the order of their first layers
        if not fast:
            return []
        firsts, ends = np.array([(run.first, run.end) for run in fast]).T
        coming = np.array([run.coming for run in fast])
        saved = np.array([run.counts for run in fast]) - (before[ends] - before[firsts])
        spared = slow[ends] - slow[firsts]
        limits = self.limits - before[-1]
        found: list[tuple[tuple[Run, ...], Counts]] = [((fast[k],), saved[k]) for k in np.flatnonzero(
            (saved <= limits).all(axis=1) & (spared == slow[-1])).tolist()]
        begins = np.searchsorted(firsts, ends)  # of the runs behind each, for they are in order
        least, most = (np.concatenate([function.accumulate(each[::-1], axis=0)[::-1], each[-1:]])
                       for function, each in ((np.minimum, saved), (np.maximum, spared)))
        possible = ((begins < len(fast)) & (saved + least[begins] <= limits).all(axis=1)
                    & (spared + most[begins] >= slow[-1]))
        for k in np.flatnonzero(possible).tolist():
            begin = begins[k]
            others = ((spared[begin:] + spared[k] == slow[-1]) & (coming[begin:] + coming[k] <= target)
                      & (saved[begin:] + saved[k] <= limits).all(axis=1))
            found += [((fast[k], fast[begin + other]), saved[k] + saved[begin + other])
                      for other in np.flatnonzero(others).tolist()]
        prices = 1 / np.maximum(self.limits, 1)
        priced = [Option(runs, float(((before[-1] + more) * prices).sum())) for runs, more in found]
        return sorted(priced, key=lambda option: option.price)
