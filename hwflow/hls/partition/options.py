"""Options that bounds allow: the partitions that may fit at an interval, thousands of them compared with the budget at
once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
import numpy.typing as npt

from hwflow.hls.foldings.computed_once import Counts
from hwflow.hls.partition.bounds import KINDS, DataflowBounds, Run

#: Of more runs than these, the cheapest for each layer are compared in pairs.
SIDE = 1024
#: Options with as many shared stages that are listed, and the cheapest that are asked what they promise.
LISTED, ASKED = 64, 2048
Places = npt.NDArray[np.int64]


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
        self.firsts, self.ends, self.promised = (np.array([getattr(run, name) for run in runs], np.int64)
                                                 for name in ("first", "end", "promised"))
        self.coming = np.array([run.coming for run in runs])
        self.counts = np.array([run.counts for run in runs]).reshape(-1, len(KINDS))
        #: The options at the interval that was asked for last.
        self.allowed: dict[int, list[Option]] = {}

    def at(self, target: int) -> list[Option]:
        """List what bounds allow at an interval, the cheapest first: the `LISTED` cheapest with one shared stage and
        with two."""
        if target not in self.allowed:
            listed = (list(islice(self.promising(target, *promising), LISTED)) for promising in self.cheap(target))
            self.allowed = {target: sorted((option for options in listed for option in options),
                                           key=lambda option: option.price)}
        return self.allowed[target]

    def promising(self, target: int, runs: Places, prices: Counts) -> Iterator[Option]:
        """Give those of the `runs` [options, shared stages] with these `prices` that promise the interval, the cheapest
        first."""
        cheap = np.sort(np.argpartition(prices, ASKED)[:ASKED]) if len(prices) > ASKED else np.arange(len(prices))
        for k in cheap[np.argsort(prices[cheap], kind="stable")]:
            option = Option(tuple(self.runs[run] for run in runs[k]), float(prices[k]))
            if option.promised <= target:
                yield option

    def cheap(self, target: int) -> Iterator[tuple[Places, Counts]]:
        """Find what bounds of costs allow at an interval, with one shared stage and with two: the positions of their
        runs [options, shared stages], and their prices."""
        alone = self.alone.at(target)
        before = np.concatenate([np.zeros((1, len(KINDS))), np.cumsum(np.where(np.isinf(alone), 0, alone), axis=0)])
        slow = np.concatenate([[0], np.cumsum(np.isinf(alone).any(axis=1))])
        fast = np.flatnonzero(self.promised <= target)  # in the order of their first layers
        firsts, ends = self.firsts[fast], self.ends[fast]
        saved = self.counts[fast] - (before[ends] - before[firsts])
        spared = slow[ends] - slow[firsts]
        limits = self.limits - before[-1]

        def prices(more: Counts) -> Counts:
            shares: Counts = ((before[-1] + more) / np.maximum(self.limits, 1)).sum(axis=-1)
            return shares

        singles = np.flatnonzero((saved <= limits).all(axis=1) & (spared == slow[-1]))
        yield fast[singles][:, None], prices(saved[singles])
        by_end, count = np.argsort(ends, kind="stable"), len(fast)
        partners = ((np.arange(count)[::-1], count - np.searchsorted(firsts, ends)),
                    (by_end, np.searchsorted(ends[by_end], firsts, side="right")))
        ahead, behind = (
            thinned(partnered(saved, spared, *partner, limits, slow[-1]), layers, prices(saved))
            for partner, layers in zip(partners, (ends, firsts), strict=True))
        fits = ((ends[ahead][:, None] <= firsts[behind]) & (spared[ahead][:, None] + spared[behind] == slow[-1])
                & (self.coming[fast[ahead]][:, None] + self.coming[fast[behind]] <= target))
        for kind, limit in enumerate(limits):
            fits &= saved[ahead, kind][:, None] + saved[behind, kind] <= limit
        one, other = np.nonzero(fits)
        pairs = np.stack([ahead[one], behind[other]], axis=1)
        yield fast[pairs], prices(saved[pairs[:, 0]] + saved[pairs[:, 1]])


def partnered(saved: Counts, spared: Places, order: Places, partners: Places, limits: Counts, all_slow: int) -> Places:
    """The runs that might fit beside a run that saves as much of each resource, and spares as many slow layers, as any
    of their partners: those of each are the first so many of `order`."""
    least = np.concatenate([np.full((1, len(KINDS)), np.inf), np.minimum.accumulate(saved[order])])[partners]
    most = np.concatenate([[0], np.maximum.accumulate(spared[order])])[partners]
    fitting: Places = np.flatnonzero((saved + least <= limits).all(axis=1) & (spared + most >= all_slow))
    return fitting


def thinned(runs: Places, layers: Places, prices: Counts) -> Places:
    """The cheapest of `runs` for each of the `layers` at which they end, or begin: at most about `SIDE`."""
    if len(runs) <= SIDE:
        return runs
    order = runs[np.lexsort((prices[runs], layers[runs]))]
    rank = np.arange(len(order)) - np.searchsorted(layers[order], layers[order])
    return np.sort(order[rank < SIDE // len(np.unique(layers[order]))])
