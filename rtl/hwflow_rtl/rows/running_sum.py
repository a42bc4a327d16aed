"""Sums of the channels of each pixel so far: adders from lane to lane in a pipeline, then the sum of earlier beats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..multiply.products import Operand
from ..pool.results import Results
from ..rescale.ranges import shape_range
from ..stream.pipeline import Nest, adder_luts, delay
from ..stream.streams import stream_of
from ..stream.times import StageTimes, Times, in_turn
from ..stream.unit import ShapedUnit
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from .shape import PixelsShape

IntArray = npt.NDArray[np.int64]

#: Most elements of a beat: each waits for those before it, so that registers grow with the square.
MOST_LANES = 8


@dataclass(frozen=True, kw_only=True)
class RunningSumShape(PixelsShape):
    """Pixels of `channels` channels, `lanes` of them in a beat; y[c] = sum of x[k] - `zero_point` over k up to c.

    pixels
        Of a frame.
    operand, output
        The elements that arrive, and the shape of the sums, which must hold every sum.
    exclusive
        Whether a sum ends before its own channel.
    """

    operand: Operand
    zero_point: int = 0
    exclusive: bool = False

    def __post_init__(self) -> None:
        if self.channels % self.lanes or self.lanes > MOST_LANES:
            raise ValueError(f"lanes of {self.called('running sum')} must divide its {self.channels} channels, and be "
                             f"at most {MOST_LANES}, not {self.lanes}")
        low, high = (self.channels * (end - self.zero_point) for end in self.operand.range)
        least, most = shape_range(self.output)
        if min(low, 0) < least or max(high, 0) > most:
            raise ValueError(f"output of {self.called('running sum')} must hold {min(low, 0)} to {max(high, 0)}, not "
                             f"be {self.output!r}")

    def total_of(self, count: int) -> Shape:
        """The shape of a sum of `count` channels."""
        low, high = (count * (end - self.zero_point) for end in self.operand.range)
        return Shape.cast(range(min(low, 0), max(high, 0) + 1))

    @property
    def ports(self) -> dict[str, Any]:
        return {"i": In(stream_of(self.operand.shape, self.lanes)), "o": Out(stream_of(self.output, self.lanes)),
                "busy": Out(1)}

    def results(self, technology: Technology) -> Results:
        """A cycle for each lane, and one for the sum of the beats before."""
        return Results(words=1, interval=1, latency=self.lanes + 1, technology=technology)

    def times(self, technology: Technology, *arrivals: Times, left: Times | None = None) -> StageTimes:
        taken = in_turn(self.results(technology).starts(arrivals[0], left))
        return StageTimes((taken,), taken + self.latency(technology))

    def cost(self, technology: Technology) -> Resources:
        """LUT and FF estimated; there is nothing else."""
        lanes, width = self.lanes, self.output.width
        totals = [self.total_of(count).width for count in range(1, lanes + 1)]
        waits = range(lanes - 1, -1, -1)
        elements = self.operand.width * sum(waits)
        sums = sum(bits * (wait + 1) for bits, wait in zip(totals, waits, strict=True))
        adders = sum(adder_luts(bits, technology) for bits in totals[self.zero_point == 0:])
        return self.results(technology).cost(lanes * width) + fitted(
            "RunningSumUnit", counter_bits=(self.beats - 1).bit_length(), lanes=lanes) + Resources(
            lut=adders + (lanes + 1) * adder_luts(width, technology), ff=elements + sums + (lanes + 1) * width)

    def build(self, technology: Technology, name: str) -> RunningSumUnit:
        return RunningSumUnit(shape=self, technology=technology)


class RunningSumUnit(ShapedUnit):
    """Initiation interval 1 beat, latency `RunningSumShape.latency`.  `busy` says that a beat goes in."""

    def model(self, frames: IntArray) -> IntArray:
        """Beats at the output, [n, lanes]; frames are [n, height, width, channels]."""
        shape, sums = self.shape, []
        for pixel in shape.operand.decoded(np.asarray(frames)).reshape(-1, shape.channels).tolist():
            total = 0
            for value in pixel:
                before, total = total, total + value - shape.zero_point
                sums.append(before if shape.exclusive else total)
        return np.array(sums, dtype=np.int64).reshape(-1, shape.lanes)

    def elaborate(self, platform):
        shape = self.shape
        m = Module()
        nest = Nest(m, (shape.beats,), name="left")
        take, first = Signal(name="take"), Signal(init=1, name="first")
        nest.advance(take)
        with m.If(take):
            m.d.sync += first.eq(nest.last[0])
        inner, total = self.sums_of_beat(m)
        valid = delay(m, take, shape.lanes, "valid", reset_less=False)
        base = self.sum_of_beats_before(m, valid, delay(m, first, shape.lanes, "first"), total)
        word = Signal(shape.lanes * shape.output.width, name="word", reset_less=True)
        m.d.sync += word.eq(Cat(*((base + value)[:shape.output.width] for value in inner)))
        done = delay(m, valid, 1, "done", reset_less=False)
        credit = shape.results(self.technology).build(
            m, take, done, word, wiring.flipped(self.o), data.ArrayLayout(shape.output, shape.lanes))
        m.d.comb += [self.i.ready.eq(credit), take.eq(self.i.valid & credit), self.busy.eq(take)]
        return m

    def sums_of_beat(self, m: Module) -> tuple[list[Value], Value]:
        """For each lane the sum of the lanes up to it, and that of all; `lanes` cycles after the beat."""
        shape = self.shape
        sums: list[Value] = []
        total: Value | None = None
        for lane in range(shape.lanes):
            code = delay(m, self.i.payload[lane], lane, f"element{lane}")
            value = Cat(Const(1, 1), ~code).as_signed() if shape.operand.bipolar else code - shape.zero_point
            before, total = total, Signal(shape.total_of(lane + 1), name=f"total{lane}", reset_less=True)
            m.d.sync += total.eq(value if before is None else before + value)
            chosen = before if shape.exclusive else total
            wait = shape.lanes - lane - (0 if shape.exclusive else 1)
            sums.append(Value.cast(0) if chosen is None else delay(m, chosen, wait, f"sum{lane}"))
        assert total is not None
        return sums, total

    def sum_of_beats_before(self, m: Module, valid: Value, first: Value, total: Value) -> Value:
        """Sum the earlier beats of the pixel, when `total` of a beat comes with `valid`."""
        before, base = Signal(self.shape.output, reset_less=True), Signal(self.shape.output)
        m.d.comb += base.eq(Mux(first, 0, before))
        with m.If(valid):
            m.d.sync += before.eq(base + total)
        return base
