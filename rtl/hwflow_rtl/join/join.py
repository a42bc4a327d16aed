"""Two streams become one, element by element: the shape of the streams, and the function of two elements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Module, Shape, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..multiply.products import Operand, table
from ..stream.credit import CreditCounter
from ..stream.pipeline import delay
from ..stream.queue import Queue
from ..stream.streams import link, stream_of
from ..stream.times import StageTimes, Times, in_turn, with_room
from ..stream.unit import UnitShape
from ..vendor.base import Resources, Technology
from .feed import Feed

IntArray = npt.NDArray[np.int64]

#: Bits of both operands together up to which a table holds the results: two levels of 4-input tables and multiplexers.
TABLE_BITS = 6


@dataclass(frozen=True)
class JoinFunction(ABC):
    """y = f(a, b) of two elements, of which `operands` say what their bits mean; y has the shape `output`."""

    operands: tuple[Operand, Operand]
    output: Shape

    @abstractmethod
    def exactly(self, a: int, b: int) -> int:
        """f of numbers, by its definition."""

    @abstractmethod
    def unit(self, technology: Technology) -> wiring.Component:
        """With the ports `a`, `b` and `y`; y comes `latency(technology)` cycles after a and b, in every cycle."""

    @abstractmethod
    def latency(self, technology: Technology) -> int:
        """Follows from the technology's timing alone, so that a simulation in another one takes the same cycles."""

    @abstractmethod
    def cost(self, technology: Technology) -> Resources:
        """DSP exact, LUT and FF estimated."""

    @property
    def is_narrow(self) -> bool:
        """A table is the cheapest way."""
        return sum(operand.width for operand in self.operands) <= TABLE_BITS

    @property
    def multiplies(self) -> bool:
        """It multiplies its operands with each other."""
        return False

    @property
    def begins_in_tables(self) -> bool:
        """Only small tables are between the operands and the first registers."""
        return False

    @property
    def ports(self) -> dict[str, Any]:
        a, b = self.operands
        return {"a": In(a.shape), "b": In(b.shape), "y": Out(self.output)}

    def model(self, a: IntArray, b: IntArray) -> IntArray:
        """Compute the codes of the results of codes, as they are on the streams."""
        one, two = (operand.decoded(np.asarray(codes, np.int64))
                    for operand, codes in zip(self.operands, (a, b), strict=True))
        pairs = zip(one.reshape(-1).tolist(), two.reshape(-1).tolist(), strict=True)
        return np.array([self.exactly(*pair) for pair in pairs], np.int64).reshape(one.shape)


@dataclass(frozen=True)
class TabledFunction:
    """The results of a narrow function, one for all bits of both operands.  Latency 1."""

    function: JoinFunction

    LATENCY = 1

    @property
    def results(self) -> list[int]:
        """The results by the bits of both operands, those of the first lowest."""
        a, b = self.function.operands
        return [self.function.exactly(a.meaning(bits % (1 << a.width)), b.meaning(bits >> a.width))
                for bits in range(1 << (a.width + b.width))]

    def cost(self) -> Resources:
        width = self.function.output.width
        bits = sum(operand.width for operand in self.function.operands)
        return Resources(lut=width * (1 if bits <= 4 else 1 << (bits - 4)), ff=width)


class Tabled(wiring.Component):
    """A `TabledFunction`; latency 1."""

    def __init__(self, tabled: TabledFunction):
        self.tabled = tabled
        super().__init__(tabled.function.ports)

    def elaborate(self, platform):
        m = Module()
        result = Signal(self.tabled.function.output, reset_less=True)
        bits = Cat(Value.cast(self.a), Value.cast(self.b))
        m.d.sync += result.eq(table(m, bits, self.tabled.results, result.shape(), "found"))
        m.d.comb += Value.cast(self.y).eq(result)
        return m


@dataclass(frozen=True)
class JoinShape:
    """How the beats of two inputs meet: `beats` a frame, each of `lanes` elements.

    `words`: beats of each input in a frame.  One of them may have as many as a pixel only, which then come again for
    all pixels, or a single one of one element, which counts for all elements.
    """

    beats: int
    lanes: int
    words: tuple[int, int]
    lanes_in: tuple[int, int]

    def __post_init__(self) -> None:
        for words, lanes in zip(self.words, self.lanes_in, strict=True):
            if self.beats % words or lanes not in (1, self.lanes) or (lanes < self.lanes and words > 1):
                raise ValueError(
                    f"inputs of a join of {self.beats} beats of {self.lanes} lanes must have a divisor of the beats "
                    f"and its lanes, or one beat of one lane, not {words} beats of {lanes} lanes")

    def feeds(self, technology: Technology, paired: bool = False) -> list[Feed]:
        return [Feed(words, self.beats // words, technology, paired) for words in self.words]


@dataclass(frozen=True, kw_only=True)
class JoinStageShape(UnitShape):
    """The beats of the streams, and what is computed in each lane."""

    streams: JoinShape
    function: JoinFunction

    @property
    def lanes_in(self) -> tuple[int, ...]:
        return self.streams.lanes_in

    @property
    def cycles(self) -> int:
        return self.streams.beats

    @property
    def multipliers(self) -> int:
        return self.streams.lanes if self.function.multiplies else 0

    def lane_latency(self, technology: Technology) -> int:
        """Cycles from two elements to their result."""
        return TabledFunction.LATENCY if self.function.is_narrow else self.function.latency(technology)

    def queue_depth(self, technology: Technology) -> int:
        return queue_depth(self.lane_latency(technology))

    def latency(self, technology: Technology) -> int:
        """Cycles from a beat at the later of the inputs to its result at the output, through feed, lanes and queue."""
        return 1 + self.lane_latency(technology) + Queue.latency_of(self.queue_depth(technology))

    def times(self, technology: Technology, *arrivals: Times, left: Times | None = None) -> StageTimes:
        feeds = self.streams.feeds(technology)
        earliest = np.maximum(*(feed.earliest(times) for feed, times in zip(feeds, arrivals, strict=True)))
        starts = in_turn(with_room(earliest, left, self.queue_depth(technology), back=2))
        taken = tuple(feed.taken(times, starts) for feed, times in zip(feeds, arrivals, strict=True))
        return StageTimes(taken, starts + self.latency(technology) - 1)

    def feeds(self, technology: Technology) -> list[Feed]:
        return self.streams.feeds(technology, self.function.begins_in_tables)

    def cost(self, technology: Technology) -> Resources:
        """DSP and RAM exact, LUT and FF estimated."""
        streams, function, total = self.streams, self.function, Resources(ff=1)  # `given`
        for feed, lanes, operand in zip(self.feeds(technology), streams.lanes_in, function.operands, strict=True):
            total += feed.cost(lanes * operand.width)
        lane = TabledFunction(function).cost() if function.is_narrow else function.cost(technology)
        for _ in range(streams.lanes):
            total += lane
        depth = self.queue_depth(technology)
        queue = Queue.cost(width=streams.lanes * function.output.width, depth=depth, technology=technology)
        return total + queue + CreditCounter.cost(words=depth) + Resources(ff=self.lane_latency(technology))

    def build(self, technology: Technology, name: str) -> JoinStage:
        return JoinStage(shape=self, technology=technology)


class JoinStage(wiring.Component):
    """`o` = function(`i0`, `i1`), element by element.  `technology` makes memories and multipliers.

    A beat goes in when both inputs have theirs and the queue at the output has room for the result; it is at the
    output `JoinStageShape.latency` cycles after it was at the inputs, where both come for each beat.  Initiation
    interval 1.

    Words that one input offers are taken while the other has none: those of the next two beats, and of a small operand
    those of the next frame.  They wait in places that belong to this input alone and become free in order, so
    they block nothing else.  An output beat needs no words but its own: a network of such stages deadlocks only if a
    queue before it is too short.

    `busy` says that a beat goes in.
    """

    def __init__(self, *, shape: JoinStageShape, technology: Technology):
        self.shape = shape
        self.technology = technology
        elements = [operand.shape for operand in shape.function.operands]
        inputs = {f"i{k}": In(stream_of(element, lanes))
                  for k, (element, lanes) in enumerate(zip(elements, shape.lanes_in, strict=True))}
        super().__init__({**inputs, "o": Out(stream_of(shape.function.output, shape.streams.lanes)), "busy": Out(1)})

    def model(self, *inputs: IntArray) -> IntArray:
        """Codes of whole frames, [beats, lanes] of each input, to [beats, lanes] of the output."""
        streams, operands = self.shape.streams, []
        for codes, words, lanes in zip(inputs, streams.words, streams.lanes_in, strict=True):
            frames = np.asarray(codes, np.int64).reshape(-1, words, lanes)
            again = np.tile(frames, (1, streams.beats // words, streams.lanes // lanes))
            operands.append(again.reshape(-1, streams.lanes))
        return self.shape.function.model(*operands)

    def elaborate(self, platform):
        m = Module()
        shape, lanes_out = self.shape, self.shape.streams.lanes
        inner, depth = shape.lane_latency(self.technology), shape.queue_depth(self.technology)
        m.submodules.queue = queue = Queue(
            shape=data.ArrayLayout(shape.function.output, lanes_out), depth=depth, technology=self.technology)
        m.submodules.credit = credit = CreditCounter(words=depth, take=1)
        streams = []
        for k, feed in enumerate(shape.feeds(self.technology)):
            source = wiring.flipped(getattr(self, f"i{k}"))
            m.submodules[f"feed{k}"] = unit = feed.unit(source.payload.shape())
            link(m, source, unit.i)
            streams.append(unit.o)
        taken = Signal()
        m.d.comb += [
            taken.eq(Cat(stream.valid for stream in streams).all() & credit.credit), credit.taken.eq(taken),
            self.busy.eq(taken),
            credit.given.eq(delay(m, queue.o.valid & queue.o.ready, 1, "given", reset_less=False)),
            queue.i.valid.eq(delay(m, taken, inner, "valid", reset_less=False)),
        ]
        for stream in streams:
            m.d.comb += stream.ready.eq(taken)
        for lane in range(lanes_out):
            m.submodules[f"lane{lane}"] = unit = self.lane_unit()
            for port, stream, lanes in zip((unit.a, unit.b), streams, shape.lanes_in, strict=True):
                m.d.comb += Value.cast(port).eq(Value.cast(stream.payload[lane if lanes > 1 else 0]))
            m.d.comb += Value.cast(queue.i.payload[lane]).eq(Value.cast(unit.y))
        link(m, queue.o, wiring.flipped(self.o))
        return m

    def lane_unit(self) -> wiring.Component:
        function = self.shape.function
        return Tabled(TabledFunction(function)) if function.is_narrow else function.unit(self.technology)


def queue_depth(latency: int) -> int:
    """Words for a beat in every cycle: the lanes, the queue, and the two cycles in which the credit comes back."""
    return next(depth for depth in range(2, 256) if depth > latency + Queue.latency_of(depth) + 1)

