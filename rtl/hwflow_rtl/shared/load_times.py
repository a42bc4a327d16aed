"""When a shared stage takes the beats of its inputs: as soon as a frame is let in, beside the results of others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..stream.times import Times, in_turn
from .program import Program
from .steps import IntArray, Load

__all__ = ["Loading"]


class Loading:
    """Follows the frames of all inputs while a program is played, step after step.

    `results` gets arrays of the cycles in which words of results are complete, in order, None where no frame comes in
    meanwhile.
    """

    def __init__(self, program: Program, arrivals: Sequence[Times], lanes_in: Sequence[int]):
        self.program = program
        self.arrivals = arrivals
        self.lanes_in = lanes_in
        self.results: list[Times] | None = None if program.opens is None else []
        #: By port the first cycle in which a beat may be taken.
        self.ready = [1 for _ in arrivals]

    def begins(self, number: int, begin: int) -> None:
        """The step of this number begins in cycle `begin`."""
        step = self.program.steps[number]
        if number == self.program.opens and self.results is not None:
            self.ready = [begin + 2 for _ in self.arrivals]
            self.results[:] = [each for each in self.results if each[-1] > begin]
        elif self.program.opens is None and isinstance(step, Load):
            self.ready[step.port] = begin + 2

    def times(self, step: Load, frame: int) -> Times:
        """The cycles in which the beats of a frame are taken."""
        lanes = self.lanes_in[step.port]
        beats = step.pixels * step.channels // lanes
        came = np.maximum(self.arrivals[step.port][frame * beats:(frame + 1) * beats], self.ready[step.port])
        if self.results is None:
            return in_turn(came)
        ends = words_ending(step, self.program.shape.columns, lanes)
        return completed(came, ends, self.results, step.port, len(self.arrivals))


def words_ending(step: Load, columns: int, lanes: int) -> IntArray:
    """The beats of a frame that complete a word."""
    of_pixel, of_word = step.channels // lanes, max(1, columns // lanes)
    ends = np.unique(np.append(np.arange(of_word, of_pixel + 1, of_word), of_pixel)) - 1
    return (np.arange(step.pixels)[:, None] * of_pixel + ends).reshape(-1)


def completed(earliest: Times, ends: IntArray, results: Sequence[Times], port: int, ports: int) -> Times:
    """The cycles in which the beats of a frame are taken, none before its `earliest`, while others are computed.

    The beats `ends` complete words.  They are taken in turn with those of the other ports, and in no cycle in which a
    word of results is complete.
    """
    busy = set(np.concatenate(results).tolist()) if results else set()
    counts = np.diff(ends, prepend=-1)
    in_word = np.arange(len(earliest)) - np.repeat(ends - counts + 1, counts)
    slack = np.repeat(counts, counts) - 1 - in_word  # beats of the word after each
    alone = np.maximum.reduceat(earliest + slack, ends - counts + 1)
    at, found = -1, []
    for word, count in zip(alone.tolist(), counts.tolist(), strict=True):
        at = max(word, at + count)
        at += (port - at) % ports
        while at in busy:
            at += ports
        found.append(at)
    last = np.array(found, np.int64)
    begins = np.concatenate([[0], last[:-1] + 1])
    times = in_turn(np.maximum(earliest, np.repeat(begins, counts)))
    times[ends] = last
    return times
