"""Pooling: a window over every channel word, then the largest element or the rescaled sum of each lane."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Module, Mux, Shape, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .pipeline import delay
from .products import Operand
from .requantize_numbers import shape_range
from .rescaling import Rescaling, RescalingUnit
from .streams import CreditCounter, Queue, link, stream_of
from .times import StageTimes, Times
from .vendor.base import Resources, Technology
from .window import Window, WindowShape

__all__ = ["AveragePoolStage", "MaxPoolStage"]

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Results:
    """The queue behind a datapath that cannot stall: `words` a block, a block every `interval` cycles.

    `latency` is the cycles from the start of a block to its last word's entry into the queue.
    """

    words: int
    interval: int
    latency: int
    technology: Technology

    @property
    def depth(self) -> int:
        """So many words that blocks never wait while the words leave at once.

        A block's credit is back after its latency, the queue's (2 at most) and the counter's; until then further
        blocks start.
        """
        return max(2, self.words * (-(-(self.latency + 3) // self.interval) + 1))

    def cost(self, width: int) -> Resources:
        bits = self.depth.bit_length() + 1
        return Queue.cost(width=width, depth=self.depth, technology=self.technology) + Resources(lut=2 * bits, ff=bits)

    def build(self, m: Module, window: Window, valid: Value, word: Value, sink, shape: data.Layout) -> None:
        m.submodules.queue = queue = Queue(shape=shape, depth=self.depth, technology=self.technology)
        m.submodules.credit = credit = CreditCounter(words=self.depth, take=self.words)
        m.d.comb += [
            window.credit.eq(credit.credit), credit.taken.eq(window.start),
            credit.given.eq(queue.o.valid & queue.o.ready),
            queue.i.valid.eq(valid), Value.cast(queue.i.payload).eq(word),
        ]
        link(m, queue.o, sink)


def check_groups(shape: WindowShape) -> None:
    if shape.groups != shape.words or shape.tiles_per_group != 1:
        raise ValueError(f"a pooling window must have a group for each of its {shape.words} words and one tile, not "
                         f"{shape.groups} groups and {shape.tiles_per_group} tiles")


class MaxPoolStage(wiring.Component):
    """The largest element of each lane over a window; padding is the lowest integer and never wins.

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

    def __init__(self, *, window: WindowShape, lanes: int, element: Shape, technology: Technology):
        check_groups(window)
        self.shape = window
        self.lanes = lanes
        self.element = Shape.cast(element)
        self.technology = technology
        self.window = Window(shape=window, element=element, lanes=lanes, pad_value=shape_range(self.element)[0],
                             technology=technology)
        self.results = self.results_of(window, technology)
        super().__init__({"i": In(stream_of(element, lanes)), "o": Out(stream_of(element, lanes)), "busy": Out(1)})

    @staticmethod
    def results_of(window: WindowShape, technology: Technology) -> _Results:
        latency = window_latency(technology) + window.beats
        return _Results(words=1, interval=window.beats, latency=latency, technology=technology)

    @property
    def latency(self) -> int:
        return self.results.latency + Queue.latency_of(self.results.depth)

    @staticmethod
    def times(arrivals: Times, *, window: WindowShape, technology: Technology) -> StageTimes:
        """When words are taken and results given, for words that come as `arrivals` says."""
        starts, taken = window.times(arrivals)
        results = MaxPoolStage.results_of(window, technology)
        return StageTimes((taken,), starts + results.latency + Queue.latency_of(results.depth))

    @staticmethod
    def cycles(*, window: WindowShape) -> int:
        """Cycles from frame to frame."""
        return window.cycles()

    @staticmethod
    def cost(*, window: WindowShape, lanes: int, element: Shape, technology: Technology) -> Resources:
        """RAM exact, LUT and FF estimated."""
        width = lanes * Shape.cast(element).width
        return (Window.cost(shape=window, width=width, technology=technology) + Resources(lut=2 * width, ff=width + 1)
                + MaxPoolStage.results_of(window, technology).cost(width))

    def model(self, frames: IntArray) -> IntArray:
        """Beats at the output, [n, lanes]; frames are [n, height, width, channels]."""
        return self.window.model(frames).max(axis=1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.window = window = self.window
        link(m, wiring.flipped(self.i), window.i)
        m.d.comb += self.busy.eq(window.busy)
        beat = window.beat
        largest = [Signal(self.element, name=f"largest{lane}", reset_less=True) for lane in range(self.lanes)]
        for lane, value in enumerate(largest):
            # The sign of a difference is one carry chain; yosys makes two of a signed comparison.
            less = Signal(Shape(self.element.width + 1, signed=True), name=f"less{lane}")
            m.d.comb += less.eq(value - beat.word[lane])
            with m.If(beat.first | less[-1]):
                m.d.sync += value.eq(beat.word[lane])
        valid = delay(m, beat.valid & beat.last, 1, "valid", reset_less=False)
        self.results.build(m, window, valid, Cat(*largest), wiring.flipped(self.o),
                           data.ArrayLayout(self.element, self.lanes))
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
    rescaling
        What makes outputs of the sums: `Requantization` or `Thresholding`, of all channels; with an `order` where
        windows at the edges count fewer elements than others.
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
                 rescaling: Rescaling, output: Shape, out_lanes: int, technology: Technology, name: str,
                 bipolar: bool = False):
        schedule = _Schedule(window, lanes, out_lanes)
        self.schedule = schedule
        self.element = Shape.cast(element)
        self.operand = Operand(self.element, bipolar)
        self.accumulator = Shape.cast(accumulator)
        self.output = Shape.cast(output)
        self.window = Window(shape=window, element=element, lanes=lanes, pad_value=pad_value, technology=technology,
                             interval=schedule.parts)
        self.rescalers = [
            part.unit(accumulator=self.accumulator, output=self.output, interval=schedule.step, technology=technology,
                      name=f"{name}_{k}")
            for k, part in enumerate(parts_of(rescaling, schedule))]
        self.delays = delays_of(self.rescalers)
        self.results = results_of(schedule, technology, max(unit.latency for unit in self.rescalers))
        super().__init__({
            "i": In(stream_of(element, lanes)), "o": Out(stream_of(output, out_lanes)), "busy": Out(1)})

    @property
    def latency(self) -> int:
        return self.results.latency + Queue.latency_of(self.results.depth)

    @staticmethod
    def times(arrivals: Times, *, window: WindowShape, lanes: int, accumulator: Shape, rescaling: Rescaling,
              output: Shape, out_lanes: int, technology: Technology) -> StageTimes:
        """When words are taken and results given, for words that come as `arrivals` says."""
        schedule = _Schedule(window, lanes, out_lanes)
        starts, taken = window.times(arrivals, schedule.parts)
        slowest = max(part.latency(accumulator=Shape.cast(accumulator), output=Shape.cast(output),
                                   interval=schedule.step, technology=technology)
                      for part in parts_of(rescaling, schedule))
        results = results_of(schedule, technology, slowest)
        last = starts + results.latency + Queue.latency_of(results.depth)
        before = np.arange(1 - schedule.parts, 1) * schedule.step
        return StageTimes((taken,), (last[:, None] + before).reshape(-1))

    @staticmethod
    def cycles(*, window: WindowShape, lanes: int, out_lanes: int) -> int:
        """Cycles from frame to frame."""
        return window.cycles(lanes // out_lanes)

    @staticmethod
    def cost(*, window: WindowShape, lanes: int, element: Shape, accumulator: Shape, rescaling: Rescaling,
             output: Shape, out_lanes: int, technology: Technology) -> Resources:
        """DSP and RAM exact, LUT and FF estimated."""
        schedule = _Schedule(window, lanes, out_lanes)
        total = lanes * Shape.cast(accumulator).width
        resources = Window.cost(shape=window, width=lanes * Shape.cast(element).width, technology=technology,
                                interval=schedule.parts)
        resources += Resources(lut=total + (total if schedule.parts > 1 else 0), ff=total * (1 + (schedule.parts > 1)))
        resources += Resources(lut=schedule.parts + 6, ff=schedule.parts + 6)
        latency = 0
        arguments = {"accumulator": Shape.cast(accumulator), "output": Shape.cast(output), "interval": schedule.step,
                     "technology": technology}
        for part in parts_of(rescaling, schedule):
            resources += part.cost(**arguments)
            latency = max(latency, part.latency(**arguments))
        width = out_lanes * Shape.cast(output).width
        return resources + results_of(schedule, technology, latency).cost(width)

    def model(self, frames: IntArray) -> IntArray:
        """Beats at the output, [n, out_lanes]; frames are [n, height, width, channels]."""
        sums = self.operand.decoded(self.window.model(frames)).sum(axis=1)
        columns = sums.reshape(-1, len(self.rescalers)).T
        return np.stack([unit.model(column) for unit, column in zip(self.rescalers, columns, strict=True)], axis=1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.window = window = self.window
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
        valid, values = self.drain(m, ready, sums)
        words = []
        for k, (unit, value) in enumerate(zip(self.rescalers, values, strict=True)):
            m.submodules[f"requantizer{k}"] = unit
            m.d.comb += [unit.i_valid.eq(valid), unit.i_value.eq(value)]
            words.append(delay(m, unit.o_value, self.delays[k], f"result{k}"))
        slowest = self.delays.index(0)
        self.results.build(m, window, self.rescalers[slowest].o_valid, Cat(*words), wiring.flipped(self.o),
                           data.ArrayLayout(self.output, len(words)))
        return m

    def drain(self, m: Module, ready: Value, sums: list[Signal]) -> tuple[Value, list[Value]]:
        """The sums that are complete in the cycle of `ready`, `out_lanes` at a time, every `step` cycles."""
        parts, step, lanes = self.schedule.parts, self.schedule.step, len(self.rescalers)
        if parts == 1:
            return ready, list(sums)
        rest = [Signal(self.accumulator, name=f"rest{n}", reset_less=True) for n in range(len(sums))]
        pulses = Signal(step * (parts - 1) + 1) if step * parts <= 16 else None
        valid = Signal()
        if pulses is not None:
            mask = sum(1 << (step * part) for part in range(parts))
            m.d.sync += pulses.eq(Mux(ready, mask, pulses >> 1))
            m.d.comb += valid.eq(pulses[0])
        else:
            left, wait = Signal(Shape.cast(range(-1, parts)), init=-1), Signal(Shape.cast(range(-1, step)))
            m.d.comb += valid.eq(~left[-1] & wait[-1])
            with m.If(ready):
                m.d.sync += [left.eq(parts - 1), wait.eq(-1)]
            with m.Elif(valid):
                m.d.sync += [left.eq(left - 1), wait.eq(step - 2)]
            with m.Elif(~wait[-1]):
                m.d.sync += wait.eq(wait - 1)
        for n, value in enumerate(rest):
            with m.If(ready):
                m.d.sync += value.eq(sums[n])
            if n + lanes < len(rest):
                with m.Elif(valid):
                    m.d.sync += value.eq(rest[n + lanes])
        return valid, rest[:lanes]


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


def results_of(schedule: _Schedule, technology: Technology, requantize: int) -> _Results:
    drain = 1 + (schedule.parts - 1) * schedule.step if schedule.parts > 1 else 0
    latency = window_latency(technology) + schedule.window.beats + drain + requantize
    return _Results(words=schedule.parts, interval=schedule.interval, latency=latency, technology=technology)


def parts_of(rescaling: Rescaling, schedule: _Schedule) -> list[Rescaling]:
    """The constants of each unit: number k has the channels k, k + out_lanes, ..."""
    channels = schedule.window.words * schedule.lanes
    if rescaling.channels != channels:
        raise ValueError(f"constants of an average pool must be those of its {channels} channels, not of "
                         f"{rescaling.channels}")
    order, pixels = rescaling.order, (schedule.window.out_height, schedule.window.out_width)
    if order is not None and (len(order.rows), len(order.columns)) != pixels:
        raise ValueError(f"classes of the pixels of an average pool must be those of {pixels[0]} rows and {pixels[1]} "
                         f"columns, not {len(order.rows)} and {len(order.columns)}")
    return [rescaling.of_lane(k, schedule.out_lanes) for k in range(schedule.out_lanes)]


def delays_of(units: list[RescalingUnit]) -> list[int]:
    """Cycles that each one's result waits for the slowest: their constants may need different pipelines."""
    slowest = max(unit.latency for unit in units)
    return [slowest - unit.latency for unit in units]
