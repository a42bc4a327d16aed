"""Pooling: a window over every channel word, then the largest element or the rescaled sum of each lane."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Module, Mux, Shape, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..multiply.products import Operand
from ..rescale.ranges import shape_range
from ..rescale.rescaler import RescalerConstants
from ..stream.pipeline import adder_luts, delay
from ..stream.queue import Queue
from ..stream.streams import link, stream_of
from ..stream.times import StageTimes, Times, in_turn
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from ..window.line_buffer import LineBuffer
from ..window.ring import ring_depth
from ..window.shape import WindowShape
from .results import Results, drain, parts_of, rescaled

IntArray = npt.NDArray[np.int64]


def check_groups(shape: WindowShape) -> None:
    if shape.groups != shape.words or shape.tiles_per_group != 1:
        raise ValueError(f"a pooling window must have a group for each of its {shape.words} words and one tile, not "
                         f"{shape.groups} groups and {shape.tiles_per_group} tiles")


class MaxPoolStage(wiring.Component):
    """The largest element of each lane over a window; padding is the lowest integer and never wins.

    `smallest`: the smallest element; padding is the highest integer.

    Parameters
    ----------
    window
        With as many groups as words: a block is the taps of one channel word.
    lanes, element
        Of both streams.
    technology
        Makes the ring of the window.

    A block's result is at the output `latency` cycles after the window starts it; initiation interval of blocks: the
    taps of the window.  `busy` is the window's.
    """

    def __init__(
            self, *, window: WindowShape, lanes: int, element: Shape, technology: Technology, smallest: bool = False):
        check_groups(window)
        self.shape = window
        self.lanes, self.smallest = lanes, smallest
        self.element = Shape.cast(element)
        self.technology = technology
        self.line_buffer = LineBuffer(shape=window, element=element, lanes=lanes,
                                      pad_value=shape_range(self.element)[1 if smallest else 0],
                                      technology=technology)
        self.results = self.results_of(window, technology)
        super().__init__({"i": In(stream_of(element, lanes)), "o": Out(stream_of(element, lanes)), "busy": Out(1)})

    @staticmethod
    def results_of(window: WindowShape, technology: Technology) -> Results:
        latency = window_latency(technology) + window.beats
        return Results(words=1, interval=window.beats, latency=latency, technology=technology)

    @property
    def latency(self) -> int:
        return self.results.latency + Queue.latency_of(self.results.depth)

    @staticmethod
    def times(arrivals: Times, *, window: WindowShape, lanes: int, element: Shape, technology: Technology,
              smallest: bool = False, left: Times | None = None) -> StageTimes:
        """When words are taken and results given, for words that come as `arrivals` says; `left`: see `with_room`."""
        depth = ring_depth(shape=window, width=lanes * Shape.cast(element).width, technology=technology)
        results = MaxPoolStage.results_of(window, technology)
        ahead = window.lookahead()
        starts, taken = window.times(
            arrivals, depth, begin=lambda earliest, pace: in_turn(results.starts(earliest, left, ahead), pace))
        return StageTimes((taken,), starts + results.latency + Queue.latency_of(results.depth))

    @staticmethod
    def cycles(*, window: WindowShape) -> int:
        """Cycles from frame to frame."""
        return window.cycles()

    @staticmethod
    def work(*, window: WindowShape) -> int:
        """Cycles of a frame in which it is busy."""
        return window.blocks * window.beats

    @staticmethod
    def cost(*, window: WindowShape, lanes: int, element: Shape, technology: Technology,
             smallest: bool = False) -> Resources:
        """RAM exact, LUT and FF estimated."""
        width = lanes * Shape.cast(element).width
        return (LineBuffer.cost(shape=window, width=width, technology=technology)
                + Resources(lut=2 * width, ff=width + 1) + MaxPoolStage.results_of(window, technology).cost(width))

    def model(self, frames: IntArray) -> IntArray:
        """Beats at the output, [n, lanes]; frames are [n, height, width, channels]."""
        return (np.min if self.smallest else np.max)(self.line_buffer.model(frames), axis=1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.window = window = self.line_buffer
        link(m, wiring.flipped(self.i), window.i)
        m.d.comb += self.busy.eq(window.busy)
        beat = window.beat
        best = [Signal(self.element, name=f"best{lane}", reset_less=True) for lane in range(self.lanes)]
        for lane, value in enumerate(best):
            # The sign of a difference is one carry chain; yosys makes two of a signed comparison.
            less = Signal(Shape(self.element.width + 1, signed=True), name=f"less{lane}")
            m.d.comb += less.eq(beat.word[lane] - value if self.smallest else value - beat.word[lane])
            with m.If(beat.first | less[-1]):
                m.d.sync += value.eq(beat.word[lane])
        valid = delay(m, beat.valid & beat.last, 1, "valid", reset_less=False)
        m.d.comb += window.credit.eq(self.results.build(
            m, window.start, valid, Cat(*best), wiring.flipped(self.o), data.ArrayLayout(self.element, self.lanes)))
        return m


class AveragePoolStage(wiring.Component):
    """The sum of each lane over a window, rescaled: division, zero points and clamp are in the constants.

    Parameters
    ----------
    window
        With as many groups as words: a block is the taps of one channel word.
    lanes, element, bipolar
        Of the input stream; `bipolar`: the one bit of an element means +1 or -1.
    pad_value
        What a tap in the padding counts as.
    accumulator
        Shape that holds every sum of a window.
    rescaler
        The constants that rescale the sums: `RequantizerConstants` or `ThresholderConstants`, of all channels; with an
        `order` where windows at the edges count fewer elements than others.
    output
        Shape of an output.
    out_lanes
        Of the output stream, and the number of units that rescale; divides `lanes`.
    technology, name
        Makes ring, ROMs and multipliers; prefix of the ROMs' names.

    The last result of a block is at the output `latency` cycles after the window starts it; initiation interval of
    blocks: the taps of the window or lanes / out_lanes, whichever is more.  `busy` is the window's.
    """

    def __init__(self, *, window: WindowShape, lanes: int, element: Shape, pad_value: int, accumulator: Shape,
                 rescaler: RescalerConstants, output: Shape, out_lanes: int, technology: Technology, name: str,
                 bipolar: bool = False):
        schedule = _Schedule(window, lanes, out_lanes)
        self.schedule = schedule
        self.element = Shape.cast(element)
        self.operand = Operand(self.element, bipolar)
        self.accumulator = Shape.cast(accumulator)
        self.output = Shape.cast(output)
        self.line_buffer = LineBuffer(shape=window, element=element, lanes=lanes, pad_value=pad_value,
                                      technology=technology, interval=schedule.parts)
        self.rescalers = [
            part.unit(accumulator=self.accumulator, output=self.output, interval=schedule.step, technology=technology,
                      name=f"{name}_requantizer{k}")
            for k, part in enumerate(parts_of(rescaler, window, lanes, out_lanes))]
        self.results = results_of(schedule, technology, max(unit.latency for unit in self.rescalers))
        super().__init__({
            "i": In(stream_of(element, lanes)), "o": Out(stream_of(output, out_lanes)), "busy": Out(1)})

    @property
    def latency(self) -> int:
        return self.results.latency + Queue.latency_of(self.results.depth)

    @staticmethod
    def times(arrivals: Times, *, window: WindowShape, lanes: int, element: Shape, accumulator: Shape,
              rescaler: RescalerConstants, output: Shape, out_lanes: int, technology: Technology,
              left: Times | None = None) -> StageTimes:
        """When words are taken and results given, for words that come as `arrivals` says; `left`: see `with_room`."""
        schedule = _Schedule(window, lanes, out_lanes)
        depth = ring_depth(shape=window, width=lanes * Shape.cast(element).width, technology=technology,
                           interval=schedule.parts)
        slowest = max(part.latency(accumulator=Shape.cast(accumulator), output=Shape.cast(output),
                                   interval=schedule.step, technology=technology)
                      for part in parts_of(rescaler, window, lanes, out_lanes))
        results = results_of(schedule, technology, slowest)
        ahead = window.lookahead(schedule.parts)
        starts, taken = window.times(
            arrivals, depth, schedule.parts,
            lambda earliest, pace: in_turn(results.starts(earliest, left, ahead), pace))
        last = starts + results.latency + Queue.latency_of(results.depth)
        before = np.arange(1 - schedule.parts, 1) * schedule.step
        return StageTimes((taken,), (last[:, None] + before).reshape(-1))

    @staticmethod
    def cycles(*, window: WindowShape, lanes: int, out_lanes: int) -> int:
        """Cycles from frame to frame."""
        return window.cycles(lanes // out_lanes)

    @staticmethod
    def work(*, window: WindowShape) -> int:
        """Cycles of a frame in which it is busy."""
        return window.blocks * window.beats

    @staticmethod
    def cost(*, window: WindowShape, lanes: int, element: Shape, accumulator: Shape, rescaler: RescalerConstants,
             output: Shape, out_lanes: int, technology: Technology) -> Resources:
        """DSP and RAM exact, LUT and FF estimated."""
        schedule = _Schedule(window, lanes, out_lanes)
        sums = lanes * Shape.cast(accumulator).width
        waiting = sums - sums // schedule.parts
        resources = LineBuffer.cost(shape=window, width=lanes * Shape.cast(element).width, technology=technology,
                                    interval=schedule.parts)
        # Adders, which also clear their sums, and the multiplexers of the sums that wait for their turn.
        adders = lanes * adder_luts(Shape.cast(accumulator).width, technology)
        resources += Resources(lut=adders + waiting, ff=sums * (1 + (schedule.parts > 1)))
        resources += fitted("AveragePoolStage", parts=schedule.parts)
        latency = 0
        arguments = {"accumulator": Shape.cast(accumulator), "output": Shape.cast(output), "interval": schedule.step,
                     "technology": technology}
        for k, part in enumerate(parts_of(rescaler, window, lanes, out_lanes)):
            resources += part.cost(**arguments).within(f"requantizer{k}")
            latency = max(latency, part.latency(**arguments))
        width = out_lanes * Shape.cast(output).width
        return resources + results_of(schedule, technology, latency).cost(width)

    def model(self, frames: IntArray) -> IntArray:
        """Beats at the output, [n, out_lanes]; frames are [n, height, width, channels]."""
        sums = self.operand.decoded(self.line_buffer.model(frames)).sum(axis=1)
        columns = sums.reshape(-1, len(self.rescalers)).T
        return np.stack([unit.model(column) for unit, column in zip(self.rescalers, columns, strict=True)], axis=1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.window = window = self.line_buffer
        link(m, wiring.flipped(self.i), window.i)
        m.d.comb += self.busy.eq(window.busy)
        beat = window.beat
        sums = [Signal(self.accumulator, name=f"sum{lane}", reset_less=True) for lane in range(self.schedule.lanes)]
        for lane, value in enumerate(sums):
            element = Value.cast(beat.word[lane])
            if self.operand.bipolar:
                element = Cat(1, ~element).as_signed()
            m.d.sync += value.eq(Mux(beat.first, 0, value) + element)
        ready = delay(m, beat.valid & beat.last, 1, "ready", reset_less=False)
        valid, values = drain(m, ready, sums, self.schedule.parts, self.schedule.step)
        valid, word = rescaled(m, self.rescalers, valid, values)
        m.d.comb += window.credit.eq(self.results.build(
            m, window.start, valid, word, wiring.flipped(self.o),
            data.ArrayLayout(self.output, len(self.rescalers))))
        return m


@dataclass(frozen=True)
class _Schedule:
    """`parts` groups of `out_lanes` sums leave a block of `interval` cycles, `step` cycles apart."""

    window: WindowShape
    lanes: int
    out_lanes: int

    def __post_init__(self) -> None:
        check_groups(self.window)
        if self.lanes % self.out_lanes:
            raise ValueError(f"out_lanes of an average pool must divide its {self.lanes} lanes, not {self.out_lanes}")

    @property
    def parts(self) -> int:
        return self.lanes // self.out_lanes

    @property
    def interval(self) -> int:
        return max(self.window.beats, self.parts)

    @property
    def step(self) -> int:
        return self.interval // self.parts


def window_latency(technology: Technology) -> int:
    """Cycles from the start of a block to its first beat."""
    return technology.timing.ram + 2


def results_of(schedule: _Schedule, technology: Technology, requantize: int) -> Results:
    drain = 1 + (schedule.parts - 1) * schedule.step if schedule.parts > 1 else 0
    latency = window_latency(technology) + schedule.window.beats + drain + requantize
    return Results(words=schedule.parts, interval=schedule.interval, latency=latency, technology=technology)
