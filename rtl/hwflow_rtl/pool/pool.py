"""Pooling: a window over every channel word, then the largest element or the rescaled sum of each lane."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Module, Mux, Shape, Signal, Value
from amaranth.lib import data, wiring

from ..rescale.ranges import shape_range
from ..stream.pipeline import adder_luts, delay
from ..stream.queue import Queue
from ..stream.streams import link
from ..stream.times import StageTimes, Times, in_turn
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from ..window.line_buffer import LineBufferShape
from .results import Results, drain, rescaled
from .shape import PoolShape, RescaledPoolShape

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class WindowPoolShape(PoolShape):
    """A pool whose window is a `LineBuffer`, with as many groups as words: a block is the taps of one channel word."""

    def __post_init__(self) -> None:
        window = self.window
        if window.groups != window.words or window.tiles_per_group != 1:
            raise ValueError(f"a pooling window must have a group for each of its {window.words} words and one tile, "
                             f"not {window.groups} groups and {window.tiles_per_group} tiles")

    @property
    @abstractmethod
    def padding(self) -> int:
        """The value of an element of the padding."""

    @property
    def interval(self) -> int:
        """Cycles from block to block."""
        return max(self.window.beats, self.parts)

    @property
    def cycles(self) -> int:
        return self.window.cycles(self.parts)

    @property
    def work(self) -> int:
        return self.window.blocks * self.window.beats

    @property
    def line_buffer(self) -> LineBufferShape:
        return LineBufferShape(window=self.window, element=self.element, lanes=self.lanes, pad_value=self.padding,
                               interval=self.parts)

    def times(self, technology: Technology, *arrivals: Times, left: Times | None = None) -> StageTimes:
        window, results = self.window, self.results(technology)
        depth = self.line_buffer.depth(technology)
        ahead = window.lookahead(self.parts)
        starts, taken = window.times(
            arrivals[0], depth, self.parts,
            lambda earliest, pace: in_turn(results.starts(earliest, left, ahead), pace))
        return StageTimes((taken,), self.departures(starts, technology))


@dataclass(frozen=True, kw_only=True)
class MaxPoolShape(WindowPoolShape):
    """The largest element of each lane over a window or, with `smallest`, the smallest."""

    smallest: bool = False

    @property
    def padding(self) -> int:
        """The value that never wins."""
        return shape_range(self.element)[1 if self.smallest else 0]

    def results(self, technology: Technology) -> Results:
        latency = window_latency(technology) + self.window.beats
        return Results(words=1, interval=self.window.beats, latency=latency, technology=technology)

    def cost(self, technology: Technology) -> Resources:
        """RAM exact, LUT and FF estimated."""
        return (self.line_buffer.cost(technology) + Resources(lut=2 * self.width, ff=self.width + 1)
                + self.results(technology).cost(self.width_out))

    def build(self, technology: Technology, name: str) -> MaxPoolStage:
        return MaxPoolStage(shape=self, technology=technology)


@dataclass(frozen=True, kw_only=True, eq=False)
class AveragePoolShape(RescaledPoolShape, WindowPoolShape):
    """The sums of windows, rescaled; `pad_value` is what a tap in the padding counts as."""

    pad_value: int = 0

    def __post_init__(self) -> None:
        WindowPoolShape.__post_init__(self)
        RescaledPoolShape.__post_init__(self)

    @property
    def padding(self) -> int:
        return self.pad_value

    @property
    def step(self) -> int:
        return self.interval // self.parts

    def results(self, technology: Technology) -> Results:
        latency = window_latency(technology) + self.window.beats + self.drain_latency + self.rescale_latency(technology)
        return Results(words=self.parts, interval=self.interval, latency=latency, technology=technology)

    def cost(self, technology: Technology) -> Resources:
        """DSP and RAM exact, LUT and FF estimated."""
        sums = self.sums_width
        waiting = sums - sums // self.parts
        # Adders, which also clear their sums, and the multiplexers of the sums that wait for their turn.
        adders = self.lanes * adder_luts(self.accumulator.width, technology)
        return (self.line_buffer.cost(technology)
                + Resources(lut=adders + waiting, ff=sums * (1 + (self.parts > 1)))
                + fitted("AveragePoolStage", parts=self.parts) + self.rescale_cost(technology)
                + self.results(technology).cost(self.width_out))

    def build(self, technology: Technology, name: str) -> AveragePoolStage:
        return AveragePoolStage(shape=self, technology=technology, name=name)


class MaxPoolStage(wiring.Component):
    """The largest element of each lane over a window; padding is the lowest integer and never wins.

    With `smallest`: the smallest element; padding is the highest integer.  `technology` makes the ring of the window.

    A block's result is at the output `latency` cycles after the window starts it; initiation interval of blocks: the
    taps of the window.  `busy` is the window's.
    """

    def __init__(self, *, shape: MaxPoolShape, technology: Technology):
        self.shape = shape
        self.line_buffer = shape.line_buffer.build(technology)
        self.results = shape.results(technology)
        super().__init__(shape.ports)

    @property
    def latency(self) -> int:
        return self.results.latency + Queue.latency_of(self.results.depth)

    def model(self, frames: IntArray) -> IntArray:
        """Beats at the output, [n, lanes]; frames are [n, height, width, channels]."""
        return (np.min if self.shape.smallest else np.max)(self.line_buffer.model(frames), axis=1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.window = window = self.line_buffer
        link(m, wiring.flipped(self.i), window.i)
        m.d.comb += self.busy.eq(window.busy)
        shape, beat = self.shape, window.beat
        best = [Signal(shape.element, name=f"best{lane}", reset_less=True) for lane in range(shape.lanes)]
        for lane, value in enumerate(best):
            # The sign of a difference is one carry chain; yosys makes two of a signed comparison.
            less = Signal(Shape(shape.element.width + 1, signed=True), name=f"less{lane}")
            m.d.comb += less.eq(beat.word[lane] - value if shape.smallest else value - beat.word[lane])
            with m.If(beat.first | less[-1]):
                m.d.sync += value.eq(beat.word[lane])
        valid = delay(m, beat.valid & beat.last, 1, "valid", reset_less=False)
        m.d.comb += window.credit.eq(self.results.build(
            m, window.start, valid, Cat(*best), wiring.flipped(self.o), data.ArrayLayout(shape.element, shape.lanes)))
        return m


class AveragePoolStage(wiring.Component):
    """The sum of each lane over a window, rescaled: division, zero points and clamp are in the constants.

    `technology` and `name` make ring, ROMs and multipliers, and begin the ROMs' names.

    The last result of a block is at the output `latency` cycles after the window starts it; initiation interval of
    blocks: the taps of the window or lanes / out_lanes, whichever is more.  `busy` is the window's.
    """

    def __init__(self, *, shape: AveragePoolShape, technology: Technology, name: str):
        self.shape = shape
        self.line_buffer = shape.line_buffer.build(technology)
        self.rescalers = shape.rescalers(technology, name)
        self.results = shape.results(technology)
        super().__init__(shape.ports)

    @property
    def latency(self) -> int:
        return self.results.latency + Queue.latency_of(self.results.depth)

    def model(self, frames: IntArray) -> IntArray:
        """Beats at the output, [n, out_lanes]; frames are [n, height, width, channels]."""
        sums = self.shape.operand.decoded(self.line_buffer.model(frames)).sum(axis=1)
        columns = sums.reshape(-1, len(self.rescalers)).T
        return np.stack([unit.model(column) for unit, column in zip(self.rescalers, columns, strict=True)], axis=1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.window = window = self.line_buffer
        link(m, wiring.flipped(self.i), window.i)
        m.d.comb += self.busy.eq(window.busy)
        shape, beat = self.shape, window.beat
        sums = [Signal(shape.accumulator, name=f"sum{lane}", reset_less=True) for lane in range(shape.lanes)]
        for lane, value in enumerate(sums):
            element = Value.cast(beat.word[lane])
            if shape.bipolar:
                element = Cat(1, ~element).as_signed()
            m.d.sync += value.eq(Mux(beat.first, 0, value) + element)
        ready = delay(m, beat.valid & beat.last, 1, "ready", reset_less=False)
        valid, values = drain(m, ready, sums, shape.parts, shape.step)
        valid, word = rescaled(m, self.rescalers, valid, values)
        m.d.comb += window.credit.eq(self.results.build(
            m, window.start, valid, word, wiring.flipped(self.o),
            data.ArrayLayout(shape.output, shape.out_lanes)))
        return m


def window_latency(technology: Technology) -> int:
    """Cycles from the start of a block to its first beat."""
    return technology.timing.ram + 2

