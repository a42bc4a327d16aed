"""The cycles of a recurrent stage, without simulation: when blocks start, and when beats are taken and given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from amaranth.hdl import Module, Mux, Shape, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..matrix.stage import rescaler_latency
from ..rescale.requantizer import RequantizerConstants
from ..rescale.rescaler import RescalerConstants
from ..stream.pipeline import Nest
from ..stream.queue import Queue
from ..stream.times import StageTimes, Times
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from .shape import LoopPace, LoopTiming, RecurrentShape

#: Cycles from a beat that leaves to the start of a block that counts its place: two registers.
BACK = 2


@dataclass(frozen=True)
class LoopWalk:
    """Holds what the cycles of a stage follow from.

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
        """The times of `RecurrentStageShape.times`."""
        shape, drain = self.shape, self.shape.matrix.drain
        beats = np.arange(drain) * shape.matrix.drain_interval
        starts = self.starts(arrivals, left)
        taken = self.taken(arrivals, starts, len(arrivals))
        frames = starts.reshape(-1, len(shape.gates), shape.blocks)
        latency = self.timing.sums + self.timing.state + self.output + Queue.latency_of(self.results)
        leaving = (frames[:, -1].reshape(-1, 1) + beats).reshape(-1) + latency
        return StageTimes((np.array(taken, np.int64),), leaving)

    def starts(self, arrivals: Times, left: Times | None) -> Times:
        """The starts of all blocks."""
        shape, drain, pace = self.shape, self.shape.matrix.drain, self.pace
        gates, blocks = len(shape.gates), shape.blocks
        count, step = len(arrivals) // drain, gates * blocks
        capacity, places_out = Queue.capacity_of(self.waiting), Queue.capacity_of(self.results)
        spacing, first_pop = shape.matrix.drain_interval, self.timing.sums + self.timing.x
        come = arrivals.tolist()
        gone = None if left is None else left.tolist()
        starts: list[int] = []
        last_taken, leaving, reset_block = -1, 0, 0
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
                leaving += drain
                if gone is not None and leaving > places_out:
                    start = max(start, gone[leaving - places_out - 1] + BACK)
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
        first, known, arrived = self.timing.sums + self.timing.x, starts.tolist(), []
        last = -1
        for beat, come in enumerate(arrivals.tolist()[:count]):
            last = max(come, last + 1, self.freed(known, beat - capacity, first, spacing))
            arrived.append(last)
        return arrived


def places(count: int) -> int:
    """Words of a queue for `count`: few are in registers, more in tables of 16."""
    return max(2, count) if count <= Queue.SHIFT_DEPTH else -(-count // 16) * 16


class LoopSequencer(wiring.Component):
    """Blocks in the order of gates and their units, step by step.

    A block starts when its gate sums of the input wait (`arrived` says that one more beat of them does), when the
    states that it multiplies are there, and, for those of the last gate, when there is `credit` for its results.

    Ports
    -----
    start, results
        A block starts, and its results leave the stage.
    busy, word, bank, initial
        Which word a block reads; `initial`: the state in which a sequence begins.  Bank 2 has what r leaves of states.
    first, last
        With `busy`: of the words of a block.

    The first word comes a cycle after `start`.
    """

    def __init__(self, *, shape: RecurrentShape, pace: LoopPace, waiting: int):
        """At most `waiting` beats of gate sums wait."""
        self.shape, self.pace, self.waiting = shape, pace, waiting
        super().__init__({
            "arrived": In(1), "credit": In(1), "start": Out(1), "results": Out(1), "busy": Out(1),
            "word": Out(range(max(2, shape.words))), "bank": Out(range(3 if shape.reset_before else 2)),
            "initial": Out(1), "first": Out(1), "last": Out(1)})

    @staticmethod
    def cost(shape: RecurrentShape, pace: LoopPace, waiting: int) -> Resources:
        """Estimated."""
        counters = (Nest.bits((shape.blocks, len(shape.gates), shape.steps)) + pace.step.bit_length()
                    + pace.reset.bit_length() + waiting.bit_length() + 2 * (shape.words - 1).bit_length())
        return fitted("LoopSequencer", counter_bits=counters)

    def elaborate(self, platform):
        m = Module()
        shape, pace = self.shape, self.pace
        nest = Nest(m, (shape.blocks, len(shape.gates), shape.steps), name="block")
        nest.advance(self.start)
        last_gate = nest.at(1, [len(shape.gates) - 1])
        ends = nest.last[0] & last_gate  # the last block of a step
        anew = ends & nest.last[2] if not shape.streaming else 0
        paced = self.waited(m, self.start, Mux(ends & ~anew if not shape.streaming else ends, pace.step, pace.block),
                            max(pace.step, pace.block), "pace")
        ready = paced & self.sums_there(m) & (self.credit | ~last_gate)
        if shape.reset_before:
            left = self.waited(m, self.start & nest.last[0] & nest.at(1, [0]), pace.reset, pace.reset, "reset")
            ready &= left | ~last_gate
        m.d.comb += [self.start.eq(ready), self.results.eq(self.start & last_gate)]
        self.play(m, nest, ends, anew, last_gate)
        return m

    def waited(self, m: Module, begin: Value, cycles: Value | int, most: int, name: str) -> Value:
        """Whether `cycles` have gone by since `begin`."""
        left = Signal(Shape.cast(range(-1, max(1, most - 1))), init=-1, name=f"{name}_left")
        with m.If(begin):
            m.d.sync += left.eq(cycles - 2)
        with m.Elif(~left[-1]):
            m.d.sync += left.eq(left - 1)
        return left[-1]

    def sums_there(self, m: Module) -> Value:
        """Whether the gate sums of a block wait that no block has been started for."""
        take = self.shape.matrix.drain
        more = Signal(Shape.cast(range(-take, self.waiting - take + 1)), init=-take)
        step = Signal(Shape.cast(range(-take, 2)))
        m.d.comb += step.eq(Mux(self.start, self.arrived - take, self.arrived))
        m.d.sync += more.eq(more + step)
        return ~more[-1]

    def play(self, m: Module, nest: Nest, ends: Value, anew: Value | int, last_gate: Value) -> None:
        """The words of a block."""
        shape = self.shape
        fresh, turn = Signal(init=1, name="fresh"), Signal(name="turn")
        with m.If(self.start & ends):
            m.d.sync += [fresh.eq(anew), turn.eq(~turn)]
        left = Signal(Shape.cast(range(-1, max(1, shape.words - 1))), init=-1)
        with m.If(self.start):
            m.d.sync += [
                self.busy.eq(1), self.first.eq(1), left.eq(shape.words - 2), self.word.eq(0), self.bank.eq(turn),
                self.initial.eq(fresh)]
            if shape.reset_before:  # n reads what r has left
                with m.If(last_gate):
                    m.d.sync += [self.bank.eq(2), self.initial.eq(0)]
        with m.Else():
            m.d.sync += [self.busy.eq(self.busy & ~left[-1]), self.first.eq(0), left.eq(Mux(left[-1], -1, left - 1))]
            with m.If(self.busy & ~left[-1]):
                m.d.sync += self.word.eq(self.word + 1)
        m.d.comb += self.last.eq(self.busy & left[-1])
