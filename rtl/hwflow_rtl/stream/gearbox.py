"""`Gearbox`, a width converter: it changes the number of elements in a beat of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Const, Module, Mux, ShapeLike, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from .pipeline import flip_flops
from .queue import Queue
from .streams import link, payload_of, stream_of
from .times import Times, in_turn


class Gearbox(wiring.Component):
    """Changes the lanes of a stream: the same elements in the same order, `lanes_out` instead of `lanes_in` a beat.

    A frame must have a whole number of beats on both sides; then no part of it stays inside.  If neither number of
    lanes divides the other, beats are first joined to the least common multiple and then split.  The narrower side
    moves a beat in every cycle.

    Latency from the last needed input beat to the output beat: 2 cycles, 4 through the least common multiple, 0 for
    equal lanes (wires).
    """

    #: Beats of the narrow side that wait while the wide one does: in front of a wider word, or in a queue behind it.
    SKID = 2

    def __init__(self, *, shape: ShapeLike, lanes_in: int, lanes_out: int):
        self.shape = shape
        self.lanes_in = lanes_in
        self.lanes_out = lanes_out
        super().__init__({"i": In(stream_of(shape, lanes_in)), "o": Out(stream_of(shape, lanes_out))})

    def model(self, beats: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """[beats, lanes_in] to [beats, lanes_out]; elements that do not fill a beat stay inside."""
        elements = np.asarray(beats).reshape(-1)
        whole = len(elements) // self.lanes_out * self.lanes_out
        return elements[:whole].reshape(-1, self.lanes_out)

    @staticmethod
    def times(arrivals: Times, *, lanes_in: int, lanes_out: int) -> Times:
        """The cycles in which beats are at the output; `arrivals` are those at the input."""
        if lanes_in == lanes_out:
            return arrivals
        if lanes_out % lanes_in and lanes_in % lanes_out:
            both = lcm(lanes_in, lanes_out)
            wide = Gearbox.times(arrivals, lanes_in=lanes_in, lanes_out=both)
            return Gearbox.times(wide, lanes_in=both, lanes_out=lanes_out)
        last = (np.arange(1, len(arrivals) * lanes_in // lanes_out + 1) * lanes_out - 1) // lanes_in
        return in_turn(arrivals[last] + 2)

    @staticmethod
    def cost(*, width: int, lanes_in: int, lanes_out: int, technology: Technology | None = None) -> Resources:
        """Estimate for elements of `width` bits."""
        if lanes_in == lanes_out:
            return Resources()
        if lanes_out % lanes_in == 0:
            parts = lanes_out // lanes_in
            waiting = Queue.cost(width=width * lanes_in, depth=Gearbox.SKID, technology=technology)
            word = width * lanes_out
            control = fitted("Gearbox to wider words", parts=parts)
            return waiting + Resources(lut=control.lut) + flip_flops(word + control.ff, word, technology)
        if lanes_in % lanes_out == 0:
            parts = lanes_in // lanes_out
            skid = Queue.cost(width=width * lanes_out, depth=Gearbox.SKID, technology=technology)
            kept = width * lanes_out
            control = fitted("Gearbox to narrower words", parts=parts)
            return (skid + Resources(lut=control.lut + width * (lanes_in - lanes_out))
                    + flip_flops(control.ff + width * lanes_in, kept, technology))
        both = lcm(lanes_in, lanes_out)
        return (Gearbox.cost(width=width, lanes_in=lanes_in, lanes_out=both, technology=technology)
                + Gearbox.cost(width=width, lanes_in=both, lanes_out=lanes_out, technology=technology))

    def elaborate(self, platform):
        m = Module()
        source, sink = wiring.flipped(self.i), wiring.flipped(self.o)
        if self.lanes_in == self.lanes_out:
            link(m, source, sink)
        elif self.lanes_out % self.lanes_in == 0:
            m.submodules.join = join = Join(shape=self.shape, lanes_in=self.lanes_in, lanes_out=self.lanes_out)
            link(m, source, join.i)
            link(m, join.o, sink)
        elif self.lanes_in % self.lanes_out == 0:
            m.submodules.split = split = Split(shape=self.shape, lanes_in=self.lanes_in, lanes_out=self.lanes_out)
            m.submodules.skid = skid = Queue(shape=payload_of(self.o), depth=Gearbox.SKID)
            chain(m, source, split, skid, sink)
        else:
            both = lcm(self.lanes_in, self.lanes_out)
            m.submodules.widen = widen = Gearbox(shape=self.shape, lanes_in=self.lanes_in, lanes_out=both)
            m.submodules.narrow = narrow = Gearbox(shape=self.shape, lanes_in=both, lanes_out=self.lanes_out)
            chain(m, source, widen, narrow, sink)
        return m


def chain(m: Module, source, first, second, sink) -> None:
    link(m, source, first.i)
    link(m, first.o, second.i)
    link(m, second.o, sink)


class Join(wiring.Component):
    """Several beats become one wider beat; two more wait while it does."""

    def __init__(self, *, shape: ShapeLike, lanes_in: int, lanes_out: int):
        self.parts = lanes_out // lanes_in
        super().__init__({"i": In(stream_of(shape, lanes_in)), "o": Out(stream_of(shape, lanes_out))})

    def elaborate(self, platform):
        m = Module()
        parts = [Signal(len(Value.cast(self.i.payload)), name=f"part{k}", reset_less=True) for k in range(self.parts)]
        m.d.comb += Value.cast(self.o.payload).eq(Cat(*parts))
        join_beats(m, self.i, parts, self.o, Const(0))
        return m


def join_beats(m: Module, source: Any, parts: Sequence[Signal], sink: Any, ends: Value) -> Value:
    """Fill the two or more `parts` of a word with beats of `source`, from the first one to the last, or until the word
    `ends`; `sink` takes it when it is whole.  Returns when a beat goes on from its first register.

        source ─▶ staged ─▶ part 0, or a spare one while the word waits for its reader
                        └─▶ part 1, part 2, ...

    The reader's `ready` comes late and has a long way to all of a wide word.  So it ends here: in `full`, in the first
    part, and in whether the spare one is taken, which alone stops the beats.  A part that is free loads any value.
    """
    stage, spare = (Signal(len(parts[0]), name=name, reset_less=True) for name in ("stage", "spare"))
    staged, spared, whole, full = (Signal(name=name) for name in ("staged", "spared", "spare_is_whole", "full"))
    place, moves, free = Signal(len(parts), init=1, name="place"), Signal(name="moves"), Signal(name="free")
    room = Signal(init=1, name="room")  # not both staged and spared
    m.d.comb += [
        source.ready.eq(room), moves.eq(staged & ~spared), free.eq(~full | sink.ready), sink.valid.eq(full),
    ]
    with m.If(source.ready):
        m.d.sync += [staged.eq(source.valid), stage.eq(Value.cast(source.payload))]
    with m.If(~spared):
        m.d.sync += [spare.eq(stage), whole.eq(ends)]
    m.d.sync += [
        spared.eq(~free & (spared | (moves & place[0]))),
        room.eq(free | ~(spared | (staged & place[0])) | (room & ~source.valid)),
        full.eq(~free | Mux(spared, whole, moves & (place[-1] | ends))),
        place[0].eq(Mux(moves, place[-1] | ends, place[0])),
        place[1].eq(Mux(moves, place[0] & ~ends, place[1])),
    ]
    with m.If(moves):
        m.d.sync += place[2:].eq(place[1:-1] & (~ends).replicate(len(place) - 2))
    with m.If(free & (place[0] | spared)):
        m.d.sync += parts[0].eq(Mux(spared, spare, stage))
    for part, here in zip(parts[1:], place[1:], strict=True):
        with m.If(here & ~spared):
            m.d.sync += part.eq(stage)
    return moves


class Split(wiring.Component):
    """One beat becomes several narrower beats.  `i.ready` depends on `o.ready`, so it needs a skid buffer after it."""

    def __init__(self, *, shape: ShapeLike, lanes_in: int, lanes_out: int):
        self.parts = lanes_in // lanes_out
        super().__init__({"i": In(stream_of(shape, lanes_in)), "o": Out(stream_of(shape, lanes_out))})

    def elaborate(self, platform):
        m = Module()
        width = len(Value.cast(self.o.payload))
        rest = Signal(len(Value.cast(self.i.payload)), reset_less=True)
        left = Signal(self.parts)  # one bit for each part that has not left
        m.d.comb += [
            self.o.valid.eq(left[0]), Value.cast(self.o.payload).eq(rest[:width]),
            self.i.ready.eq(~left[0] | (~left[1] & self.o.ready)),
        ]
        # No beat enters while two or more parts are left: a register selects the next value of each bit.
        with m.If(self.i.ready | self.o.ready):
            m.d.sync += [
                left.eq(Mux(left[1], left[1:], self.i.valid.replicate(self.parts))),
                rest.eq(Mux(left[1], rest[width:], Value.cast(self.i.payload))),
            ]
        return m
