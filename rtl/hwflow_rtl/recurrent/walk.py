"""The cycles of a recurrent stage, without simulation: when blocks start, and when beats are taken and given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..matrix.stage import rescaler_latency
from ..rescale.requantizer import RequantizerConstants
from ..rescale.rescaler import RescalerConstants
from ..stream.queue import Queue
from ..stream.times import StageTimes, Times
from ..vendor.base import Technology
from .shape import RecurrentShape
from .timing import LoopPace, LoopTiming

#: Cycles from a beat that leaves to the start of a block that counts its place: two registers.
BACK = 2


@dataclass(frozen=True)
class LoopWalk:
    """What the cycles of a stage follow from.

    rescaling
        Cycles from the first lane's sum to a beat of gate sums.
    output
        From a beat of hidden states to its elements.
    waiting, results
        Words of the queues of gate sums of the input, and of elements.
    """

    shape: RecurrentShape
    pace: LoopPace
    timing: LoopTiming
    rescaling: int
    output: int
    waiting: int
    results: int

    @staticmethod
    def of(shape: RecurrentShape, pace: LoopPace, rescaler: RescalerConstants, output: RequantizerConstants,
           technology: Technology) -> LoopWalk:
        rescaling = rescaler_latency(shape.matrix, rescaler, technology)
        timing = LoopTiming.of(shape, technology, rescaling)
        leaving = output.latency(
            accumulator=shape.state, output=shape.output, interval=shape.matrix.drain_interval, technology=technology)
        drain, block = shape.matrix.drain, pace.block
        # Of the blocks that have started, so many still have all of their beats in a queue.
        waiting = drain * (2 + -(-(timing.sums + timing.x) // block)) + 2
        # Places are taken at the start of a block, and free again when its results have left.
        kept = timing.sums + timing.state + leaving + 2 + BACK
        steps = 2 + kept // (len(shape.gates) * shape.blocks * block)
        results = min(drain * (2 + -(-kept // block)), steps * shape.beats)
        return LoopWalk(shape, pace, timing, rescaling, leaving, places(waiting), places(results))

    def times(self, arrivals: Times, left: Times | None) -> StageTimes:
        """As `RecurrentStageShape.times`."""
        shape, drain = self.shape, self.shape.matrix.drain
        beats = np.arange(drain) * shape.matrix.drain_interval
        starts = self.starts(arrivals, left)
        taken = self.taken(arrivals, starts, len(arrivals))
        frames = starts.reshape(-1, len(shape.gates), shape.blocks)
        latency = self.timing.sums + self.timing.state + self.output + Queue.latency_of(self.results)
        given = (frames[:, -1].reshape(-1, 1) + beats).reshape(-1) + latency
        return StageTimes((np.array(taken, np.int64),), given)

    def starts(self, arrivals: Times, left: Times | None) -> Times:
        """Of all blocks."""
        shape, drain, pace = self.shape, self.shape.matrix.drain, self.pace
        gates, blocks = len(shape.gates), shape.blocks
        count, step = len(arrivals) // drain, gates * blocks
        capacity, places_out = Queue.capacity_of(self.waiting), Queue.capacity_of(self.results)
        spacing, first_pop = shape.matrix.drain_interval, self.timing.sums + self.timing.x
        come = arrivals.tolist()
        gone = None if left is None else left.tolist()
        starts: list[int] = []
        last_taken, given, reset_block = -1, 0, 0
        for number in range(count):
            place = number % step
            for beat in range(number * drain, (number + 1) * drain):
                last_taken = max(come[beat], last_taken + 1, self.freed(starts, beat - capacity, first_pop, spacing))
            start = last_taken + 1
            if starts:
                anew = not shape.streaming and number % (step * shape.steps) == 0
                start = max(start, starts[-1] + (pace.step if place == 0 and not anew else pace.block))
            if shape.reset_before and place == 2 * blocks:
                reset_block = starts[number - blocks - 1]
            if shape.reset_before and place >= 2 * blocks:
                start = max(start, reset_block + pace.reset)
            if place >= step - blocks:
                given += drain
                if gone is not None and given > places_out:
                    start = max(start, gone[given - places_out - 1] + BACK)
            starts.append(start)
        return np.array(starts, np.int64)

    def freed(self, starts: list[int], beat: int, first: int, spacing: int) -> int:
        """The cycle in which the place of `beat` in the queue of gate sums may be taken again."""
        if beat < 0:
            return 0
        block, part = divmod(beat, self.shape.matrix.drain)
        return starts[block] + first + part * spacing + 1

    def taken(self, arrivals: Times, starts: Times, count: int) -> list[int]:
        """When beats of gate sums are taken."""
        capacity, spacing = Queue.capacity_of(self.waiting), self.shape.matrix.drain_interval
        first, known, found = self.timing.sums + self.timing.x, starts.tolist(), []
        last = -1
        for beat, come in enumerate(arrivals.tolist()[:count]):
            last = max(come, last + 1, self.freed(known, beat - capacity, first, spacing))
            found.append(last)
        return found


def places(count: int) -> int:
    """Words of a queue for `count`: few are in registers, more in tables of 16."""
    return max(2, count) if count <= Queue.SHIFT_DEPTH else -(-count // 16) * 16
