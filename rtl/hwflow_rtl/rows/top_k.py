"""The k largest or smallest channels of each pixel: a tournament between the lanes, then a chain of the best so far."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

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

#: Longest chain: a new candidate is compared with all of it in one cycle.
MOST = 16


@dataclass(frozen=True)
class Candidate:
    """A value, the lane that it came in, and the first channel of its beat."""

    value: Value
    lane: Value
    base: Value


@dataclass(frozen=True, kw_only=True)
class TopKShape(PixelsShape):
    """Pixels of `channels` channels, `lanes` of them in a beat, and what is looked for in each pixel.

    pixels
        Of a frame.
    element, output
        Shapes of the elements that arrive, and of those that leave, k in a beat.
    k, largest, gives_indices, last_index
        How many, at most `MOST`, with k above 1 from one lane; the largest or the smallest; what leaves, indices or
        values; which of equal channels comes first.
    """

    element: Shape
    k: int = 1
    largest: bool = True
    gives_indices: bool = True
    last_index: bool = False

    def __post_init__(self) -> None:
        channels, lanes, k, output = self.channels, self.lanes, self.k, self.output
        if channels % lanes or (k > 1 and lanes > 1):
            raise ValueError(f"lanes of a TopKStage must divide its {channels} channels, and be 1 for k above 1, not "
                             f"{lanes} for k = {k}")
        if not 1 <= k <= min(channels, MOST):
            raise ValueError(f"k of a TopKStage must be from 1 to its {channels} channels and at most {MOST}, not {k}")
        low, high = shape_range(output)
        if self.gives_indices and not low <= 0 <= channels - 1 <= high:
            raise ValueError(f"output of a TopKStage must hold the indices 0 to {channels - 1}, not be {output!r}")
        if not self.gives_indices and output != self.element:
            raise ValueError(f"output of a TopKStage that gives values must be {self.element!r}, not {output!r}")

    @property
    def ports(self) -> dict[str, Any]:
        return {"i": In(stream_of(self.element, self.lanes)), "o": Out(stream_of(self.output, self.k)), "busy": Out(1)}

    def results(self, technology: Technology) -> Results:
        """The tournament, the chain and the outcome come between the last beat of a pixel and its result."""
        return Results(words=1, interval=self.beats, latency=ceil_log2(self.lanes) + 2, technology=technology)

    def times(self, technology: Technology, *arrivals: Times, left: Times | None = None) -> StageTimes:
        (earliest,), results, last = arrivals, self.results(technology), slice(self.beats - 1, None, self.beats)
        room = earliest.copy()
        room[last] = results.starts(earliest[last], left)
        taken = in_turn(room)
        return StageTimes((taken,), taken[last] + self.latency(technology))

    def cost(self, technology: Technology) -> Resources:
        """LUT and FF estimated; there is nothing else."""
        base, k = (self.channels - 1).bit_length(), self.k
        lane = ceil_log2(self.lanes) if self.gives_indices else 0
        bits = self.element.width
        carried = bits + lane + (base if self.gives_indices else 0)
        compare = adder_luts(bits + 1, technology)
        matches, levels = self.lanes - 1, ceil_log2(self.lanes)
        index = adder_luts(base, technology) if lane else 0
        width = k * self.output.width
        return self.results(technology).cost(width) + fitted(
            "TopKStage", counter_bits=(self.beats - 1).bit_length()) + Resources(
            lut=matches * (compare + bits + lane) + k * compare + (k - 1) * 2 * carried + k * index + base,
            ff=matches * (bits + lane) + levels * (base + 3) + k * (carried + 1) + width + 2 * base)

    def build(self, technology: Technology, name: str) -> TopKStage:
        return TopKStage(shape=self, technology=technology)


class TopKStage(ShapedUnit):
    """The k best channels of each pixel, the best first: their indices or their values.

    `technology` makes the queue of the results.  The result of a pixel is at the output `TopKShape.latency` cycles
    after its last beat was taken; initiation interval 1 beat.  While the output waits, beats that end no pixel are
    taken.  `busy` says that a beat goes in.
    """

    def model(self, frames: IntArray) -> IntArray:
        """Beats at the output, [n, k]; frames are [n, height, width, channels]."""
        shape = self.shape
        sign, back = -1 if shape.largest else 1, -1 if shape.last_index else 1
        best = []
        for pixel in np.asarray(frames).reshape(-1, shape.channels).tolist():
            order = sorted(range(shape.channels), key=lambda c: (sign * pixel[c], back * c))[:shape.k]
            best.append(order if shape.gives_indices else [pixel[c] for c in order])
        return np.array(best, dtype=np.int64).reshape(-1, shape.k)

    def elaborate(self, platform):
        shape = self.shape
        m = Module()
        nest = Nest(m, (shape.channels // shape.lanes,), name="left")
        take, last = Signal(name="take"), nest.last[0]
        nest.advance(take)
        first, base = Signal(init=1, name="first"), Signal(range(shape.channels), name="base")
        with m.If(take):
            m.d.sync += [first.eq(last), base.eq(Mux(last, 0, base + shape.lanes))]
        best, flags = self.tournament(m, base, Cat(take, first, last))
        places, done = self.chain(m, best, flags)
        word = Cat(*(self.outcome(m, place, n) for n, place in enumerate(places)))
        valid = delay(m, done, 1, "result", reset_less=False)
        credit = shape.results(self.technology).build(
            m, take & last, valid, word, wiring.flipped(self.o), data.ArrayLayout(shape.output, shape.k))
        m.d.comb += [
            self.i.ready.eq(credit | ~last), take.eq(self.i.valid & self.i.ready), self.busy.eq(take),
        ]
        return m

    def wins(self, m: Module, new: Value, old: Value, name: str) -> Value:
        """Whether the one with the higher index comes first: a carry chain."""
        shape = self.shape
        greater, less = (old, new) if shape.largest else (new, old)  # greater - less < 0: the new one is better
        if shape.last_index:
            greater, less = less, greater
        difference = Signal(Shape(shape.element.width + 1, signed=True), name=f"difference_{name}")
        m.d.comb += difference.eq(greater - less)
        return ~difference[-1] if shape.last_index else difference[-1]

    def tournament(self, m: Module, base: Value, flags: Value) -> tuple[Candidate, Value]:
        """The best lane of a beat, a cycle for each doubling of the lanes; neighbours meet: indices stay in order."""
        shape = self.shape
        bits = ceil_log2(shape.lanes)
        players = [(self.i.payload[lane], Const(lane, bits)) for lane in range(shape.lanes)]
        for level in range(bits):
            winners = []
            for n, (low, high) in enumerate(zip_longest(players[::2], players[1::2])):
                value, lane = low if high is None else choose(self.wins(m, high[0], low[0], f"{level}_{n}"), high, low)
                winner = Signal(shape.element, name=f"value{level}_{n}", reset_less=True)
                number = Signal(bits, name=f"lane{level}_{n}", reset_less=True)
                m.d.sync += [winner.eq(value), number.eq(lane)]
                winners.append((winner, number))
            players = winners
        ((value, lane),) = players
        return (Candidate(value, lane, delay(m, base, bits, "base")), delay(m, flags, bits, "flags", reset_less=False))

    def chain(self, m: Module, new: Candidate, flags: Value) -> tuple[list[Candidate], Value]:
        """The best so far, in order, and whether they are those of a whole pixel.

        What comes takes the place of the first that it beats or that is empty; those behind it move on by one.
        """
        valid, first, last = flags[0], flags[1], flags[2]
        places: list[Candidate] = []
        moved, wins_before, filled_before = new, Const(0, 1), Const(0, 1)
        for n in range(self.shape.k):
            place = Candidate(*(Signal.like(part, name=f"{name}{n}", reset_less=True) for name, part in (
                ("best", new.value), ("best_lane", new.lane), ("best_base", new.base))))
            full, filled, wins = Signal(name=f"full{n}"), Signal(name=f"filled{n}"), Signal(name=f"wins{n}")
            m.d.comb += [
                filled.eq(full & ~first), wins.eq(~filled | self.wins(m, new.value, place.value, f"{n}"))]
            with m.If(valid):
                m.d.sync += full.eq(Mux(wins & wins_before, filled_before, 1))
            with m.If(valid & wins):
                for part in ("value", "lane", "base"):
                    m.d.sync += getattr(place, part).eq(Mux(wins_before, getattr(moved, part), getattr(new, part)))
            moved, wins_before, filled_before = place, wins, filled
            places.append(place)
        return places, delay(m, valid & last, 1, "done", reset_less=False)

    def outcome(self, m: Module, place: Candidate, n: int) -> Value:
        """Build what leaves for one of the best."""
        made = Signal(self.shape.output, name=f"outcome{n}", reset_less=True)
        m.d.sync += made.eq(place.base + place.lane if self.shape.gives_indices else place.value)
        return made


def choose(new_wins: Value, new: tuple[Value, Value], old: tuple[Value, Value]) -> tuple[Value, Value]:
    return Mux(new_wins, new[0], old[0]), Mux(new_wins, new[1], old[1])
