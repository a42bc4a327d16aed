"""Rows and their words, which move through phases; each begins a row when the phase before it knows all of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from amaranth.hdl import Module, Shape, Value
from amaranth.lib import data

from ..join.join import queue_depth
from ..pool.results import Results
from ..stream.credit import CreditCounter
from ..stream.pipeline import Nest
from ..stream.queue import Queue
from ..stream.streams import stream_of
from ..stream.times import StageTimes, Times, in_turn, with_room
from ..stream.unit import LanesShape, ShapedUnit, UnitShape
from ..vendor.base import Resources, Technology


@dataclass(frozen=True)
class Phase:
    """A pass over the words of a row, which come from a ring of `depth` words that the pass before it fills.

    What it must know of a row is in a queue for up to `rows` rows, `latency` cycles after the last word of the row
    started in the pass before it.
    """

    latency: int
    depth: int
    rows: int

    @staticmethod
    def of(words: int, latency: int) -> Phase:
        """For rows of `words` words, known `latency` cycles after their last word, without the queue.

        The ring is a power of two with which a word in every cycle never waits for room.  Rows that have come whole and
        have not started their last word are at most those whose words fill it, and one more.
        """
        depth = 1 << (words + latency + 2 - 1).bit_length()
        rows = max(2, 1 + (depth - 1) // words)
        return Phase(latency + Queue.latency_of(rows), depth, rows)


def play_rows(arrivals: Times, room: Times, words: int, phases: Sequence[Phase]) -> list[Times]:
    """The cycles in which words are taken, and in which they start in each of `phases`.

    `room`: the earliest cycles in which words may start in the last phase.
    A place of a ring is free again in the cycle after its word has started.
    """
    count = len(arrivals)
    starts = [np.zeros(count, np.int64) for _ in range(len(phases) + 1)]
    previous = [-1] * len(starts)
    for begin in range(0, count, words):
        row = slice(begin, begin + words)
        for n, start in enumerate(starts):
            if n == 0:
                earliest = arrivals[row].copy()
            else:
                earliest = np.full(words, starts[n - 1][begin + words - 1] + phases[n - 1].latency)
            if n < len(phases):  # the ring behind it; words are at most its depth, so what is read there is known
                first = begin - phases[n].depth
                known = max(0, -first)
                if known < words:
                    np.maximum(earliest[known:], starts[n + 1][first + known:first + words] + 1, out=earliest[known:])
            else:
                np.maximum(earliest, room[row], out=earliest)
            earliest[0] = max(earliest[0], previous[n] + 1)
            start[row] = in_turn(earliest)
            previous[n] = int(start[begin + words - 1])
    return starts


@dataclass(frozen=True, kw_only=True, eq=False)
class RowsShape(LanesShape):
    """Frames of `rows` rows of `elements`, `lanes` of them in a beat, from format `element` to format `output`."""

    rows: int
    elements: int
    output: Shape

    @property
    def words(self) -> int:
        """Beats of a row."""
        return self.elements // self.lanes

    @property
    def cycles(self) -> int:
        return self.rows * self.words

    @property
    def words_out(self) -> Any:
        return stream_of(self.output, self.lanes)

    @abstractmethod
    def phases(self, technology: Technology) -> tuple[Phase, ...]:
        """The phases: what comes of a row before its words are given."""

    @abstractmethod
    def result_latency(self, technology: Technology) -> int:
        """From the start of a word in the last phase to its result."""

    def times(self, technology: Technology, *arrivals: Times, left: Times | None = None) -> StageTimes:
        latency = self.result_latency(technology)
        depth = queue_depth(latency)
        room = with_room(np.zeros_like(arrivals[0]), left, depth, back=2)
        taken, *_, started = play_rows(arrivals[0], room, self.words, self.phases(technology))
        return StageTimes((taken,), started + latency + Queue.latency_of(depth))


class RowsStage(ShapedUnit):
    """A unit of rows; it gives their results through a queue with credits."""

    def last_word(self, m: Module, step: Value, name: str) -> Value:
        """Whether the word that comes next is the last of its row."""
        nest = Nest(m, (self.shape.words,), name=name)
        nest.advance(step)
        return nest.last[0]

    def results(self, m: Module, latency: int) -> tuple[Queue, CreditCounter]:
        """The queue of the results, which come `latency` cycles after their credit is taken."""
        depth = queue_depth(latency)
        m.submodules.queue = queue = Queue(
            shape=data.ArrayLayout(self.shape.output, self.shape.lanes), depth=depth, technology=self.technology)
        m.submodules.credit = credit = CreditCounter(words=depth, take=1)
        return queue, credit


def results_cost(shape: RowsShape, latency: int, technology: Technology) -> Resources:
    """Count what `RowsStage.results` takes."""
    depth = queue_depth(latency)
    return (Queue.cost(width=shape.output.width * shape.lanes, depth=depth, technology=technology)
            + CreditCounter.cost(words=depth))


@dataclass(frozen=True, kw_only=True)
class PixelsShape(UnitShape):
    """Frames of `pixels` pixels of `channels` channels, `lanes` of them in a beat; `output` is what leaves."""

    pixels: int
    channels: int
    lanes: int
    output: Shape

    @property
    def beats(self) -> int:
        """The beats of a pixel."""
        return self.channels // self.lanes

    @property
    def lanes_in(self) -> tuple[int, ...]:
        return (self.lanes,)

    @property
    def cycles(self) -> int:
        return self.pixels * self.beats

    @abstractmethod
    def results(self, technology: Technology) -> Results:
        """The queue after the datapath."""

    def latency(self, technology: Technology) -> int:
        """Cycles from the beat that completes a result to the result at the output."""
        results = self.results(technology)
        return results.latency + Queue.latency_of(results.depth)
