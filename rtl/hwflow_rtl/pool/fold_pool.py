"""Pools whose windows do not overlap: a partial result for each window in reach, and no ring.

A pool over the whole frame keeps one partial result for each channel; others a row of them.  They compute while the
frame comes, take a word in every cycle and frames without a gap, and give a result as soon as its last element is
there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Const, Module, Shape, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..multiply.products import Operand
from ..rescale.rescaler import RescalerConstants
from ..stream.credit import CreditCounter
from ..stream.queue import Queue
from ..stream.streams import stream_of
from ..stream.times import StageTimes, Times, in_turn, with_room
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from ..window.shape import WindowShape
from .fold import Folds, FoldShape, add, larger, smaller
from .results import Results, drain, parts_of, rescaled

IntArray = npt.NDArray[np.int64]

#: Cycles for a sum that a rescaler makes use of.
MOST_STEPS = 4
#: Words that the queue of sums holds in addition to those of the schedule, so that short stalls do not stop the input.
SPARE = 2


def windows_of(frames: IntArray, window: WindowShape) -> IntArray:
    """[n, out_h, out_w, kernel height, kernel width, channels] of frames [n, height, width, channels]."""
    rows, columns = window.rows_at(), window.columns_at()
    return np.asarray(frames)[:, rows[:, None, :, None], columns[None, :, None, :]]


class FoldMaxPoolStage(wiring.Component):
    """The largest or the smallest element of each lane over windows that `FoldShape.fits`.

    Parameters
    ----------
    window, lanes, element, technology, smallest
        As of a `MaxPoolStage`.

    The result of a window is at the output `latency` cycles after its last word was taken; initiation interval 1 word.
    While the output waits, words that complete no result are taken.  `busy` says that a word goes in.
    """

    def __init__(
            self, *, window: WindowShape, lanes: int, element: Shape, technology: Technology, smallest: bool = False):
        self.shape = FoldShape(window)
        self.lanes, self.smallest = lanes, smallest
        self.element = Shape.cast(element)
        self.technology = technology
        self.results = self.results_of(window, lanes, self.element, technology)
        super().__init__({"i": In(stream_of(element, lanes)), "o": Out(stream_of(element, lanes)), "busy": Out(1)})

    @staticmethod
    def results_of(window: WindowShape, lanes: int, element: Shape, technology: Technology) -> Results:
        latency = Folds.latency_of(FoldShape(window), lanes * element.width, technology)
        return Results(words=1, interval=1, latency=latency, technology=technology)

    @property
    def latency(self) -> int:
        return self.results.latency + Queue.latency_of(self.results.depth)

    @staticmethod
    def times(arrivals: Times, *, window: WindowShape, lanes: int, element: Shape, technology: Technology,
              smallest: bool = False, left: Times | None = None) -> StageTimes:
        """When words are taken and results given, for words that come as `arrivals` says; `left`: see `with_room`."""
        shape, results = FoldShape(window), FoldMaxPoolStage.results_of(window, lanes, Shape.cast(element), technology)
        taken = shape.taken(arrivals, results.starts(shape.complete(arrivals), left))
        departures = shape.complete(taken) + results.latency + Queue.latency_of(results.depth)
        return StageTimes((taken,), departures)

    @staticmethod
    def cycles(*, window: WindowShape) -> int:
        """Cycles from frame to frame."""
        return window.input_words

    @staticmethod
    def work(*, window: WindowShape) -> int:
        """Cycles of a frame in which it is busy: also words of no window go in."""
        return window.input_words

    @staticmethod
    def cost(*, window: WindowShape, lanes: int, element: Shape, technology: Technology,
             smallest: bool = False) -> Resources:
        """RAM exact, LUT and FF estimated."""
        width = lanes * Shape.cast(element).width
        results = FoldMaxPoolStage.results_of(window, lanes, Shape.cast(element), technology)
        return Folds.cost(FoldShape(window), width, width, lanes, technology) + results.cost(width)

    def model(self, frames: IntArray) -> IntArray:
        """Beats at the output, [n, lanes]; frames are [n, height, width, channels]."""
        best = np.min if self.smallest else np.max
        return best(windows_of(frames, self.shape.window), axis=(3, 4)).reshape(-1, self.lanes)

    def elaborate(self, platform):
        m = Module()
        m.submodules.folds = folds = Folds(
            shape=self.shape, element=self.element, partial=self.element, lanes=self.lanes,
            combine=smaller if self.smallest else larger, technology=self.technology)
        credit = self.results.build(
            m, folds.take & folds.completes, folds.valid, Value.cast(folds.made), wiring.flipped(self.o),
            data.ArrayLayout(self.element, self.lanes))
        accept(m, self, folds, credit)
        m.d.comb += Value.cast(folds.word).eq(Value.cast(self.i.payload))
        return m


def accept(m: Module, stage, folds: Folds, credit: Value) -> None:
    """Take a word that completes a result only if there is room for the result; take every other word at once."""
    m.d.comb += [
        stage.i.ready.eq(credit | ~folds.completes), folds.take.eq(stage.i.valid & stage.i.ready),
        stage.busy.eq(folds.take),
    ]


@dataclass(frozen=True, eq=False)
class AverageSchedule:
    """The sums of a word, `width` bits together, leave in `parts` parts, `step` cycles apart.

    Sums that come faster than they leave wait in a queue; all have left within the time of a frame.
    """

    shape: FoldShape
    lanes: int
    out_lanes: int
    width: int
    technology: Technology

    @staticmethod
    def fits(window: WindowShape, parts: int) -> bool:
        """Whether such a stage keeps up with one word a cycle."""
        return FoldShape.fits(window) and window.blocks * parts <= window.input_words

    def __post_init__(self) -> None:
        if self.lanes % self.out_lanes:
            raise ValueError(f"out_lanes of an average pool must divide its {self.lanes} lanes, not {self.out_lanes}")
        if not self.fits(self.shape.window, self.parts):
            raise ValueError(f"windows of an average pool without a ring must not overlap, and must end at "
                             f"least {self.parts} cycles apart, not {self.shape.window}")

    @property
    def parts(self) -> int:
        return self.lanes // self.out_lanes

    @property
    def steady(self) -> bool:
        """Sums come so far apart that none waits for another."""
        return self.parts == 1 or (self.shape.window.words == 1 and self.shape.pace >= self.parts)

    @property
    def step(self) -> int:
        if self.shape.window.words == 1 and self.steady:
            return min(MOST_STEPS, self.shape.pace // self.parts)
        return 1

    @property
    def fold_latency(self) -> int:
        return Folds.latency_of(self.shape, self.width, self.technology)

    @property
    def drain_latency(self) -> int:
        """From the sums of a word to the last part of them."""
        return 1 + (self.parts - 1) * self.step if self.parts > 1 else 0

    @cached_property
    def waiting(self) -> int:
        """Words of the queue in front of the drain, with which the input never waits."""
        window = self.shape.window
        complete = self.shape.complete(np.arange(2 * window.input_words))
        starts = in_turn(complete + self.fold_latency + 2, self.parts)
        gone = np.searchsorted(starts + 2, complete)  # the credit is back two cycles after the start
        return max(2, int((np.arange(1, len(complete) + 1) - gone).max()) + SPARE)

    def waited(self, arrivals: Times, completing: Times, results: Results, left: Times | None) -> tuple[Times, Times]:
        """When words are taken, and when sums that waited start to leave; `completing`: `arrivals` of the last words.

        A word that completes a sum waits for a place in the queue, which the start of an earlier sum frees.
        """
        started = None
        while True:  # each round is right for longer than the one before; most need two
            taken = self.shape.taken(arrivals, with_room(completing, started, self.waiting, back=1))
            waiting = self.shape.complete(taken) + self.fold_latency + Queue.latency_of(self.waiting)
            starts = in_turn(results.starts(waiting, left), self.parts)
            if started is not None and np.array_equal(starts, started):
                return taken, starts
            started = starts

    def results(self, rescale: int) -> Results:
        """The queue after the rescalers, whose latency is `rescale`.

        A block begins with the word that completes a sum or, where sums wait, with the start of their drain.
        """
        first = self.fold_latency if self.steady else 0
        interval = self.parts if not self.steady else 1 if self.shape.window.words > 1 else self.shape.pace
        return Results(words=self.parts, interval=interval, latency=first + self.drain_latency + rescale,
                       technology=self.technology)


class FoldAveragePoolStage(wiring.Component):
    """The sum of each lane over windows that `fits`, rescaled.

    Parameters
    ----------
    window, lanes, element, accumulator, rescaler, output, out_lanes, technology, name, bipolar
        As of an `AveragePoolStage`.

    Initiation interval 1 word.  While the output waits, words that complete no result are taken.  `busy` says that a
    word goes in.
    """

    def __init__(self, *, window: WindowShape, lanes: int, element: Shape, accumulator: Shape,
                 rescaler: RescalerConstants, output: Shape, out_lanes: int, technology: Technology, name: str,
                 bipolar: bool = False):
        self.element = Shape.cast(element)
        self.operand = Operand(self.element, bipolar)
        self.accumulator = Shape.cast(accumulator)
        self.output = Shape.cast(output)
        self.schedule = AverageSchedule(
            FoldShape(window), lanes, out_lanes, lanes * self.accumulator.width, technology)
        self.rescalers = [
            part.unit(accumulator=self.accumulator, output=self.output, interval=self.schedule.step,
                      technology=technology, name=f"{name}_requantizer{k}")
            for k, part in enumerate(parts_of(rescaler, window, lanes, out_lanes))]
        self.results = self.schedule.results(max(unit.latency for unit in self.rescalers))
        super().__init__({
            "i": In(stream_of(element, lanes)), "o": Out(stream_of(output, out_lanes)), "busy": Out(1)})

    @staticmethod
    def fits(window: WindowShape, lanes: int, out_lanes: int) -> bool:
        """Whether there is such a stage."""
        return AverageSchedule.fits(window, lanes // out_lanes)

    @staticmethod
    def times(arrivals: Times, *, window: WindowShape, lanes: int, element: Shape, accumulator: Shape,
              rescaler: RescalerConstants, output: Shape, out_lanes: int, technology: Technology,
              left: Times | None = None) -> StageTimes:
        """When words are taken and results given, for words that come as `arrivals` says; `left`: see `with_room`."""
        schedule, results = planned(window, lanes, accumulator, rescaler, output, out_lanes, technology)
        completing = schedule.shape.complete(arrivals)
        if schedule.steady:
            taken = schedule.shape.taken(arrivals, results.starts(completing, left))
            starts = schedule.shape.complete(taken)
        else:
            taken, starts = schedule.waited(arrivals, completing, results, left)
        last = starts + results.latency + Queue.latency_of(results.depth)
        before = np.arange(1 - schedule.parts, 1) * schedule.step
        return StageTimes((taken,), (last[:, None] + before).reshape(-1))

    @staticmethod
    def cycles(*, window: WindowShape, lanes: int, out_lanes: int) -> int:
        """Cycles from frame to frame."""
        return window.input_words

    @staticmethod
    def work(*, window: WindowShape) -> int:
        """Cycles of a frame in which it is busy: also words of no window go in."""
        return window.input_words

    @staticmethod
    def cost(*, window: WindowShape, lanes: int, element: Shape, accumulator: Shape, rescaler: RescalerConstants,
             output: Shape, out_lanes: int, technology: Technology) -> Resources:
        """DSP and RAM exact, LUT and FF estimated."""
        schedule, results = planned(window, lanes, accumulator, rescaler, output, out_lanes, technology)
        resources = Folds.cost(schedule.shape, schedule.width, lanes * Shape.cast(element).width, lanes, technology)
        if schedule.parts > 1:
            resources += Resources(lut=schedule.width - schedule.width // schedule.parts, ff=schedule.width)
            resources += fitted("AveragePoolStage", parts=schedule.parts)
        if not schedule.steady:
            resources += Queue.cost(width=schedule.width, depth=schedule.waiting, technology=technology)
            resources += CreditCounter.cost(words=schedule.waiting)
            resources += fitted("FoldAveragePoolStage waiting", counter_bits=pause_of(schedule).width)
        for k, part in enumerate(parts_of(rescaler, window, lanes, out_lanes)):
            resources += part.cost(accumulator=Shape.cast(accumulator), output=Shape.cast(output),
                                   interval=schedule.step, technology=technology).within(f"requantizer{k}")
        return resources + results.cost(out_lanes * Shape.cast(output).width)

    def model(self, frames: IntArray) -> IntArray:
        """Beats at the output, [n, out_lanes]; frames are [n, height, width, channels]."""
        sums = self.operand.decoded(windows_of(frames, self.schedule.shape.window)).sum(axis=(3, 4))
        columns = sums.reshape(-1, len(self.rescalers)).T
        return np.stack([unit.model(column) for unit, column in zip(self.rescalers, columns, strict=True)], axis=1)

    def elaborate(self, platform):
        m = Module()
        schedule = self.schedule
        element = Shape(2, signed=True) if self.operand.bipolar else self.element
        m.submodules.folds = folds = Folds(
            shape=schedule.shape, element=element, partial=self.accumulator, lanes=schedule.lanes, combine=add,
            technology=schedule.technology)
        for lane in range(schedule.lanes):
            code = Value.cast(self.i.payload[lane])
            m.d.comb += folds.word[lane].eq(Cat(Const(1, 1), ~code).as_signed() if self.operand.bipolar else code)
        completes = folds.take & folds.completes
        sums = [folds.made[lane] for lane in range(schedule.lanes)]
        if schedule.steady:
            start, valid = completes, folds.valid
            valid, values = drain(m, valid, sums, schedule.parts, schedule.step)
        else:
            m.submodules.waiting = waiting = Queue(
                shape=folds.made.shape(), depth=schedule.waiting, technology=schedule.technology)
            m.submodules.room = room = CreditCounter(words=schedule.waiting, take=1)
            start = Signal()
            m.d.comb += [
                waiting.i.valid.eq(folds.valid), waiting.i.payload.eq(folds.made), room.taken.eq(completes),
                room.given.eq(start),
            ]
            sums = [waiting.o.payload[lane] for lane in range(schedule.lanes)]
            valid, values = drain(m, start, sums, schedule.parts, schedule.step)
        valid, word = rescaled(m, self.rescalers, valid, values)
        credit = self.results.build(m, start, valid, word, wiring.flipped(self.o),
                                    data.ArrayLayout(self.output, len(self.rescalers)))
        if not schedule.steady:
            left = Signal(pause_of(schedule), init=-1)
            m.d.comb += [start.eq(waiting.o.valid & credit & left[-1]), waiting.o.ready.eq(credit & left[-1])]
            with m.If(start):
                m.d.sync += left.eq(schedule.parts - 2)
            with m.Elif(~left[-1]):
                m.d.sync += left.eq(left - 1)
            credit = room.credit
        accept(m, self, folds, credit)
        return m


def pause_of(schedule: AverageSchedule) -> Shape:
    """Of the counter of the cycles until the next sum that waits may start, less one."""
    return Shape.cast(range(-1, max(1, schedule.parts - 1)))


def planned(window: WindowShape, lanes: int, accumulator: Shape, rescaler: RescalerConstants, output: Shape,
            out_lanes: int, technology: Technology) -> tuple[AverageSchedule, Results]:
    """Schedule and results of a stage that is not built."""
    accumulator = Shape.cast(accumulator)
    schedule = AverageSchedule(FoldShape(window), lanes, out_lanes, lanes * accumulator.width, technology)
    slowest = max(part.latency(accumulator=accumulator, output=Shape.cast(output), interval=schedule.step,
                               technology=technology) for part in parts_of(rescaler, window, lanes, out_lanes))
    return schedule, schedule.results(slowest)
