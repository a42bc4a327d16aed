"""Pools whose windows do not overlap: a partial result for each window in reach, and no ring.

A pool over the whole frame keeps one partial result for each channel; others a row of them.  They compute while the
frame comes, take a word in every cycle and frames without a gap, and give a result as soon as its last element is
there.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Const, Module, Shape, Signal, Value
from amaranth.lib import data, wiring

from ..stream.credit import CreditCounter
from ..stream.queue import Queue
from ..stream.times import StageTimes, Times, in_turn, with_room
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from ..window.shape import WindowShape
from .fold import Folds, FoldShape, FoldsShape, add, larger, smaller
from .results import Results, drain, rescaled
from .shape import PoolShape, RescaledPoolShape

IntArray = npt.NDArray[np.int64]

#: Cycles for a sum that a rescaler makes use of.
MOST_STEPS = 4
#: Words that the queue of sums holds in addition to those of the schedule, so that short stalls do not stop the input.
SPARE = 2


def windows_of(frames: IntArray, window: WindowShape) -> IntArray:
    """[n, out_h, out_w, kernel height, kernel width, channels] of frames [n, height, width, channels]."""
    rows, columns = window.rows_at(), window.columns_at()
    return np.asarray(frames)[:, rows[:, None, :, None], columns[None, :, None, :]]


@dataclass(frozen=True, kw_only=True, eq=False)
class FoldPoolShape(PoolShape):
    """A pool over windows that `FoldShape.fits`.

    Initiation interval 1 word.  While the output waits, words that complete no result are taken.
    """

    @cached_property
    def fold(self) -> FoldShape:
        return FoldShape(self.window)

    @property
    @abstractmethod
    def partial(self) -> Shape:
        """Shape of a partial result."""

    @property
    def folds(self) -> FoldsShape:
        return FoldsShape(fold=self.fold, element=self.element, partial=self.partial, lanes=self.lanes)

    @property
    def cycles(self) -> int:
        """Also words of no window go in."""
        return self.window.input_words

    def steady_times(self, technology: Technology, arrivals: Times, left: Times | None) -> tuple[Times, Times]:
        """When words are taken, and when those that complete a result are, where no result waits for another."""
        fold, results = self.fold, self.results(technology)
        taken = fold.taken(arrivals, results.starts(fold.complete(arrivals), left))
        return taken, fold.complete(taken)

    def times(self, technology: Technology, *arrivals: Times, left: Times | None = None) -> StageTimes:
        taken, starts = self.steady_times(technology, arrivals[0], left)
        return StageTimes((taken,), self.departures(starts, technology))


@dataclass(frozen=True, kw_only=True)
class FoldMaxPoolShape(FoldPoolShape):
    """The largest element of each lane over a window or, with `smallest`, the smallest."""

    smallest: bool = False

    @property
    def partial(self) -> Shape:
        return self.element

    def results(self, technology: Technology) -> Results:
        return Results(words=1, interval=1, latency=self.folds.latency(technology), technology=technology)

    def cost(self, technology: Technology) -> Resources:
        """RAM exact, LUT and FF estimated."""
        return self.folds.cost(technology) + self.results(technology).cost(self.width_out)

    def build(self, technology: Technology, name: str) -> FoldMaxPoolStage:
        return FoldMaxPoolStage(shape=self, technology=technology)


@dataclass(frozen=True, kw_only=True, eq=False)
class FoldAveragePoolShape(RescaledPoolShape, FoldPoolShape):
    """The sums of windows, rescaled, which leave in `parts` parts, `step` cycles apart.

    Sums that come faster than they leave wait in a queue; all have left within the time of a frame.
    """

    @staticmethod
    def fits(window: WindowShape, parts: int) -> bool:
        """Whether such a stage keeps up with one word a cycle."""
        return FoldShape.fits(window) and window.blocks * parts <= window.input_words

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.fits(self.window, self.parts):
            raise ValueError(f"windows of an average pool without a ring must not overlap, and must end at "
                             f"least {self.parts} cycles apart, not {self.window}")

    @property
    def partial(self) -> Shape:
        return self.accumulator

    @property
    def steady(self) -> bool:
        """Sums come so far apart that none waits for another."""
        return self.parts == 1 or (self.window.words == 1 and self.fold.pace >= self.parts)

    @property
    def step(self) -> int:
        if self.window.words == 1 and self.steady:
            return min(MOST_STEPS, self.fold.pace // self.parts)
        return 1

    @property
    def pause(self) -> Shape:
        """The shape of the counter of the cycles until the next sum that waits may start, less one."""
        return Shape.cast(range(-1, max(1, self.parts - 1)))

    def waiting(self, technology: Technology) -> int:
        """Words of the queue in front of the drain, with which the input never waits."""
        complete = self.fold.complete(np.arange(2 * self.window.input_words))
        starts = in_turn(complete + self.folds.latency(technology) + 2, self.parts)
        gone = np.searchsorted(starts + 2, complete)  # the credit is back two cycles after the start
        return max(2, int((np.arange(1, len(complete) + 1) - gone).max()) + SPARE)

    def waited(self, technology: Technology, arrivals: Times, left: Times | None) -> tuple[Times, Times]:
        """When words are taken, and when sums that waited start to leave.

        A word that completes a sum waits for a place in the queue, which the start of an earlier sum frees.
        """
        depth, results, completing = self.waiting(technology), self.results(technology), self.fold.complete(arrivals)
        latency = self.folds.latency(technology) + Queue.latency_of(depth)
        started = None
        while True:  # each round is right for longer than the one before; most need two
            taken = self.fold.taken(arrivals, with_room(completing, started, depth, back=1))
            starts = in_turn(results.starts(self.fold.complete(taken) + latency, left), self.parts)
            if started is not None and np.array_equal(starts, started):
                return taken, starts
            started = starts

    def results(self, technology: Technology) -> Results:
        """A block begins with the word that completes a sum or, where sums wait, with the start of their drain."""
        first = self.folds.latency(technology) if self.steady else 0
        interval = self.parts if not self.steady else 1 if self.window.words > 1 else self.fold.pace
        return Results(words=self.parts, interval=interval,
                       latency=first + self.drain_latency + self.rescale_latency(technology), technology=technology)

    def times(self, technology: Technology, *arrivals: Times, left: Times | None = None) -> StageTimes:
        taken, starts = (self.steady_times if self.steady else self.waited)(technology, arrivals[0], left)
        return StageTimes((taken,), self.departures(starts, technology))

    def cost(self, technology: Technology) -> Resources:
        """DSP and RAM exact, LUT and FF estimated."""
        resources, sums = self.folds.cost(technology), self.sums_width
        if self.parts > 1:
            resources += Resources(lut=sums - sums // self.parts, ff=sums)
            resources += fitted("AveragePoolStage", parts=self.parts)
        if not self.steady:
            waiting = self.waiting(technology)
            resources += Queue.cost(width=sums, depth=waiting, technology=technology)
            resources += CreditCounter.cost(words=waiting)
            resources += fitted("FoldAveragePoolStage waiting", counter_bits=self.pause.width)
        return resources + self.rescale_cost(technology) + self.results(technology).cost(self.width_out)

    def build(self, technology: Technology, name: str) -> FoldAveragePoolStage:
        return FoldAveragePoolStage(shape=self, technology=technology, name=name)


class FoldMaxPoolStage(wiring.Component):
    """The largest or the smallest element of each lane over windows that `FoldShape.fits`.

    The result of a window is at the output `latency` cycles after its last word was taken; initiation interval 1 word.
    While the output waits, words that complete no result are taken.  `busy` says that a word goes in.
    """

    def __init__(self, *, shape: FoldMaxPoolShape, technology: Technology):
        self.shape = shape
        self.technology = technology
        self.results = shape.results(technology)
        super().__init__(shape.ports)

    @property
    def latency(self) -> int:
        return self.results.latency + Queue.latency_of(self.results.depth)

    def model(self, frames: IntArray) -> IntArray:
        """Beats at the output, [n, lanes]; frames are [n, height, width, channels]."""
        best = np.min if self.shape.smallest else np.max
        return best(windows_of(frames, self.shape.window), axis=(3, 4)).reshape(-1, self.shape.lanes)

    def elaborate(self, platform):
        m = Module()
        shape = self.shape
        m.submodules.folds = folds = Folds(
            shape=shape.folds, combine=smaller if shape.smallest else larger, technology=self.technology)
        credit = self.results.build(
            m, folds.take & folds.completes, folds.valid, Value.cast(folds.made), wiring.flipped(self.o),
            data.ArrayLayout(shape.element, shape.lanes))
        accept(m, self, folds, credit)
        m.d.comb += Value.cast(folds.word).eq(Value.cast(self.i.payload))
        return m


def accept(m: Module, stage, folds: Folds, credit: Value) -> None:
    """Take a word that completes a result only if there is room for the result; take every other word at once."""
    m.d.comb += [
        stage.i.ready.eq(credit | ~folds.completes), folds.take.eq(stage.i.valid & stage.i.ready),
        stage.busy.eq(folds.take),
    ]


class FoldAveragePoolStage(wiring.Component):
    """The sum of each lane over windows that do not overlap, rescaled.

    `technology` and `name` make memories and multipliers, and begin the ROMs' names.

    Initiation interval 1 word.  While the output waits, words that complete no result are taken.  `busy` says that a
    word goes in.
    """

    def __init__(self, *, shape: FoldAveragePoolShape, technology: Technology, name: str):
        self.shape = shape
        self.technology = technology
        self.rescalers = shape.rescalers(technology, name)
        self.results = shape.results(technology)
        super().__init__(shape.ports)

    def model(self, frames: IntArray) -> IntArray:
        """Beats at the output, [n, out_lanes]; frames are [n, height, width, channels]."""
        sums = self.shape.operand.decoded(windows_of(frames, self.shape.window)).sum(axis=(3, 4))
        columns = sums.reshape(-1, len(self.rescalers)).T
        return np.stack([unit.model(column) for unit, column in zip(self.rescalers, columns, strict=True)], axis=1)

    def elaborate(self, platform):
        m = Module()
        shape = self.shape
        summed = Shape(2, signed=True) if shape.bipolar else shape.element
        m.submodules.folds = folds = Folds(
            shape=replace(shape.folds, element=summed), combine=add, technology=self.technology)
        for lane in range(shape.lanes):
            code = Value.cast(self.i.payload[lane])
            m.d.comb += folds.word[lane].eq(Cat(Const(1, 1), ~code).as_signed() if shape.bipolar else code)
        completes = folds.take & folds.completes
        sums = [folds.made[lane] for lane in range(shape.lanes)]
        if shape.steady:
            start, valid = completes, folds.valid
            valid, values = drain(m, valid, sums, shape.parts, shape.step)
        else:
            depth = shape.waiting(self.technology)
            m.submodules.waiting = waiting = Queue(
                shape=folds.made.shape(), depth=depth, technology=self.technology)
            m.submodules.room = room = CreditCounter(words=depth, take=1)
            start = Signal()
            m.d.comb += [
                waiting.i.valid.eq(folds.valid), waiting.i.payload.eq(folds.made), room.taken.eq(completes),
                room.given.eq(start),
            ]
            sums = [waiting.o.payload[lane] for lane in range(shape.lanes)]
            valid, values = drain(m, start, sums, shape.parts, shape.step)
        valid, word = rescaled(m, self.rescalers, valid, values)
        credit = self.results.build(m, start, valid, word, wiring.flipped(self.o),
                                    data.ArrayLayout(shape.output, shape.out_lanes))
        if not shape.steady:
            left = Signal(shape.pause, init=-1)
            m.d.comb += [start.eq(waiting.o.valid & credit & left[-1]), waiting.o.ready.eq(credit & left[-1])]
            with m.If(start):
                m.d.sync += left.eq(shape.parts - 2)
            with m.Elif(~left[-1]):
                m.d.sync += left.eq(left - 1)
            credit = room.credit
        accept(m, self, folds, credit)
        return m
