"""Concatenates several streams along the channels: for every pixel some beats of each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Module, Mux, Shape, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..core import port_names
from ..stream.queue import Pair
from ..stream.streams import link, payload_of, stream_of
from ..stream.times import StageTimes, Times, in_turn, with_room
from ..vendor.base import Resources
from ..vendor.fitted import fitted

IntArray = npt.NDArray[np.int64]


class ConcatStage(wiring.Component):
    """`words[0]` beats of the first input, then `words[1]` of the second, and so on, and begins again.

    Parameters
    ----------
    element, lanes
        Of all streams.
    words
        Beats of a pixel, for each input.

    Ports
    -----
    i0, i1, ...
        The inputs; of one alone, `i`.
    o, busy
        The output; a beat goes in.

    Latency `LATENCY`; initiation interval 1 beat, over the ends of pixels and frames too.  A beat is taken from an
    input only when it is the next to leave, so that no input waits for what it does not need.  Every `ready` is the
    conjunction of two registers: whose turn it is, and whether the queue has room.
    """

    LATENCY = 1

    def __init__(self, *, element: Shape, lanes: int, words: Sequence[int]):
        if not words or min(words) < 1:
            raise ValueError(f"words of a Concat must be one or more for each input, not {list(words)}")
        self.element = Shape.cast(element)
        self.lanes = lanes
        self.words = tuple(words)
        self.names = port_names("i", len(self.words))
        beats = stream_of(element, lanes)
        super().__init__({**{name: In(beats) for name in self.names}, "o": Out(beats), "busy": Out(1)})

    @staticmethod
    def times(*arrivals: Times, words: Sequence[int], left: Times | None = None) -> StageTimes:
        """When beats are taken and given, for those that come as `arrivals` say; `left`: see `with_room`."""
        pixels = len(arrivals[0]) // words[0]
        rows = [each.reshape(pixels, count) for each, count in zip(arrivals, words, strict=True)]
        earliest = np.concatenate(rows, axis=1).reshape(-1)
        taken = in_turn(with_room(earliest, left, Pair.DEPTH, back=1)).reshape(pixels, -1)
        parts = np.split(taken, np.cumsum(words)[:-1], axis=1)
        return StageTimes(tuple(part.reshape(-1) for part in parts), taken.reshape(-1) + ConcatStage.LATENCY)

    @staticmethod
    def cost(*, element: Shape, lanes: int, words: Sequence[int]) -> Resources:
        """LUT and FF estimated; there is nothing else."""
        width, count = lanes * Shape.cast(element).width, len(words)
        if count == 1:
            return Pair.cost(width=width)
        bits = (max(words) - 1).bit_length() + 1
        # A multiplexer of three words is a table of five inputs, made of two; each further word is one more.
        return Pair.cost(width=width) + Resources(lut=width * (count - 1)) + fitted(
            "ConcatStage", inputs=count, count_bits=bits)

    def model(self, *inputs: IntArray) -> IntArray:
        """Codes [beats, lanes] of each input to [beats, lanes] of the output."""
        rows = [np.asarray(codes, np.int64).reshape(-1, count * self.lanes)
                for codes, count in zip(inputs, self.words, strict=True)]
        return np.concatenate(rows, axis=1).reshape(-1, self.lanes)

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = Pair(shape=payload_of(self.o))
        inputs = [getattr(self, name) for name in self.names]
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
        left = Signal(Shape.cast(range(-1, max(2, *self.words) - 1)), init=self.words[0] - 2)
        with m.If(taken & left[-1]):
            m.d.sync += turn.eq(turn.rotate_left(1))
            for mine, following in zip(turn, (*self.words[1:], self.words[0]), strict=True):
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
