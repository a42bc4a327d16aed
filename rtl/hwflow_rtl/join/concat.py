"""Concatenates several streams along the channels: for every pixel some beats of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Module, Mux, Shape, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..core import port_names
from ..stream.queue import Pair
from ..stream.streams import link, payload_of, stream_of
from ..stream.times import StageTimes, Times, in_turn, with_room
from ..stream.unit import UnitShape
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class ConcatShape(UnitShape):
    """Frames of `pixels`, and for each of them `words[0]` beats of the first input, then `words[1]` of the second, ...

    `element` and `lanes` are those of all streams.
    """

    element: Shape
    lanes: int
    pixels: int
    words: tuple[int, ...]

    LATENCY: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not self.words or min(self.words) < 1:
            raise ValueError(f"words of a Concat must be one or more for each input, not {list(self.words)}")

    @property
    def names(self) -> list[str]:
        """The names of the inputs."""
        return port_names("i", len(self.words))

    @property
    def lanes_in(self) -> tuple[int, ...]:
        return (self.lanes,) * len(self.words)

    @property
    def cycles(self) -> int:
        return self.pixels * sum(self.words)

    def times(self, technology: Technology, *arrivals: Times, left: Times | None = None) -> StageTimes:
        pixels = len(arrivals[0]) // self.words[0]
        rows = [times.reshape(pixels, count) for times, count in zip(arrivals, self.words, strict=True)]
        earliest = np.concatenate(rows, axis=1).reshape(-1)
        taken = in_turn(with_room(earliest, left, Pair.DEPTH, back=1)).reshape(pixels, -1)
        parts = np.split(taken, np.cumsum(self.words)[:-1], axis=1)
        return StageTimes(tuple(part.reshape(-1) for part in parts), taken.reshape(-1) + self.LATENCY)

    def cost(self, technology: Technology) -> Resources:
        """LUT and FF estimated; there is nothing else."""
        width, count = self.lanes * self.element.width, len(self.words)
        if count == 1:
            return Pair.cost(width=width)
        bits = (max(self.words) - 1).bit_length() + 1
        # A multiplexer of three words is a table of five inputs, made of two; each further word is one more.
        return Pair.cost(width=width) + Resources(lut=width * (count - 1)) + fitted(
            "ConcatStage", inputs=count, count_bits=bits)

    def build(self, technology: Technology, name: str) -> ConcatStage:
        return ConcatStage(shape=self)


class ConcatStage(wiring.Component):
    """The beats of the inputs in turn.

    Ports
    -----
    i0, i1, ...
        The inputs; of one alone, `i`.
    o, busy
        The output; a beat goes in.

    Latency `ConcatShape.LATENCY`; initiation interval 1 beat, over the ends of pixels and frames too.  A beat is taken
    from an input only when it is the next to leave, so that no input waits for what it does not need.  Every `ready` is
    the conjunction of two registers: whose turn it is, and whether the queue has room.
    """

    def __init__(self, *, shape: ConcatShape):
        self.shape = shape
        beats = stream_of(shape.element, shape.lanes)
        super().__init__({**{name: In(beats) for name in shape.names}, "o": Out(beats), "busy": Out(1)})

    def model(self, *inputs: IntArray) -> IntArray:
        """Codes [beats, lanes] of each input to [beats, lanes] of the output."""
        rows = [np.asarray(codes, np.int64).reshape(-1, count * self.shape.lanes)
                for codes, count in zip(inputs, self.shape.words, strict=True)]
        return np.concatenate(rows, axis=1).reshape(-1, self.shape.lanes)

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = Pair(shape=payload_of(self.o))
        inputs = [getattr(self, name) for name in self.shape.names]
        turn = Signal(len(inputs), init=1)
        taken = Signal()
        m.d.comb += [
            queue.i.valid.eq(Cat(port.valid & mine for port, mine in zip(inputs, turn, strict=True)).any()),
            taken.eq(queue.i.valid & queue.i.ready), self.busy.eq(taken),
        ]
        for port, mine in zip(inputs, turn, strict=True):
            m.d.comb += port.ready.eq(mine & queue.i.ready)
        m.d.comb += Value.cast(queue.i.payload).eq(chosen([Value.cast(port.payload) for port in inputs], turn))
        if len(inputs) > 1:
            self.take_turns(m, turn, taken)
        link(m, queue.o, wiring.flipped(self.o))
        return m

    def take_turns(self, m: Module, turn: Signal, taken: Value) -> None:
        """The turn goes on with the last beat; beats are counted down to the sign bit."""
        words = self.shape.words
        left = Signal(Shape.cast(range(-1, max(2, *words) - 1)), init=words[0] - 2)
        with m.If(taken & left[-1]):
            m.d.sync += turn.eq(turn.rotate_left(1))
            for mine, following in zip(turn, (*words[1:], words[0]), strict=True):
                with m.If(mine):
                    m.d.sync += left.eq(following - 2)
        with m.Elif(taken):
            m.d.sync += left.eq(left - 1)


def chosen(words: Sequence[Value], turn: Signal) -> Value:
    """The word whose bit of `turn` is set, which one alone is.  Two of them are one table a bit, and so are four pairs
    in the next level."""
    if len(words) <= 2:
        return Mux(turn[-1], words[-1], words[0])
    masked = [word & mine.replicate(len(word)) for word, mine in zip(words, turn, strict=True)]
    pairs = [masked[k] | masked[k + 1] if k + 1 < len(masked) else masked[k] for k in range(0, len(masked), 2)]
    made = pairs[0]
    for pair in pairs[1:]:
        made = made | pair
    return made
