"""Streams between units: `link()` connects two, `Queue` buffers one, `Gearbox` changes its lanes, `CreditCounter` keeps
a unit that cannot stall from starting what its queue could not take.

In every unit here `ready` at the input and `valid` at the output come from registers, so that a chain of units has no
combinational path from its end to its start.
"""

from __future__ import annotations

from math import lcm

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Module, Mux, Shape, ShapeLike, Signal, Value
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..vendor.base import Resources, Technology
from .pipeline import adder_luts, flip_flops
from .times import Times, in_turn

__all__ = ["CreditCounter", "Gearbox", "Queue", "lanes_of", "link", "payload_of", "stream_of", "used_places"]


def stream_of(shape: ShapeLike, lanes: int) -> stream.Signature:
    """The signature of a stream whose beats hold `lanes` elements of `shape`, lane 0 first."""
    return stream.Signature(data.ArrayLayout(shape, lanes))


def payload_of(port) -> ShapeLike:
    """The shape of a stream port's payload."""
    return port.signature.members["payload"].shape


def lanes_of(port) -> int:
    """The lanes of a stream port made with `stream_of()`."""
    return payload_of(port).length


def link(m: Module, source, sink, *, names: tuple[str, str] | None = None) -> None:
    """Connect the stream `source` to the stream `sink`, whose payloads must be of the same shape.

    `wiring.connect` compares widths alone: it joins signed(8) to unsigned(8) without a word.  `names` says in the
    message of the `wiring.ConnectionError` which streams these are; by default the names of their signals do.
    """
    ours, theirs = payload_of(source), payload_of(sink)
    if not same_shape(ours, theirs):
        first, second = names or (signal_name(source), signal_name(sink))
        raise wiring.ConnectionError(
            f"payload of stream '{second}' must be of the shape of '{first}' which feeds it, {ours!r}, not {theirs!r}; "
            f"convert the elements, or put a Gearbox between them if only the lanes differ")
    wiring.connect(m, source, sink)


def same_shape(a: ShapeLike, b: ShapeLike) -> bool:
    if isinstance(a, data.Layout) or isinstance(b, data.Layout):
        return a == b
    return Shape.cast(a) == Shape.cast(b)


def signal_name(port) -> str:
    value = Value.cast(port.payload)
    return getattr(value, "name", repr(value)).removesuffix("__payload")


class Queue(wiring.Component):
    """A first-in first-out buffer that takes and gives a word in every cycle.

    Parameters
    ----------
    shape
        Of the payload of both streams.
    depth
        Words it holds, at least 2.  Up to `SHIFT_DEPTH` they stand in a shift register; beyond that in a memory, and
        one more word in the output register.
    technology
        Decides whether the memory stands in tables or, where a family has no such memory, in RAM blocks whose output
        register is the queue's.  Without it synthesis decides.  The queue behaves the same in every case.

    `level` is the number of words inside; what nobody looks at costs nothing.

    Latency 1 cycle (shift register) or 2 (memory); initiation interval 1.
    """

    SHIFT_DEPTH = 4

    def __init__(self, *, shape: ShapeLike, depth: int, technology: Technology | None = None):
        if depth < 2:
            raise ValueError(f"depth of a Queue must be at least 2, not {depth}: a single register passes a word only "
                             f"every other cycle")
        self.shape = shape
        self.depth = depth
        self.technology = technology
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)),
                          "level": Out(range(self.capacity + 1))})

    @property
    def latency(self) -> int:
        return self.latency_of(self.depth)

    @staticmethod
    def latency_of(depth: int) -> int:
        """Cycles from a word's way in to its way out."""
        return 1 if depth <= Queue.SHIFT_DEPTH else 2

    @property
    def capacity(self) -> int:
        """Words that go in before the first has left."""
        return self.depth if self.depth <= self.SHIFT_DEPTH else self.depth + 1

    @staticmethod
    def cost(*, width: int, depth: int, technology: Technology | None = None) -> Resources:
        """Of words of `width` bits: LUT and FF estimated; RAM exact, and 0 without a technology."""
        if depth <= Queue.SHIFT_DEPTH:
            return Resources(lut=(depth - 1) * width + 3 * depth) + flip_flops(depth * (width + 1), width, technology)
        count = ceil_log2(depth + 1)
        if technology is not None and not has_tables(technology):
            # The block gives a word late: what is written meanwhile is kept beside it.
            blocks = technology.ram_cost(width=width, depth=1 << ceil_log2(depth)).ram
            return (Resources(lut=7 * count + width + 4, ram=blocks)
                    + flip_flops(2 * width + 4 * count + 6, 2 * width + 8, technology))
        # Up to four bits are counted in tables, more in carry chains.
        chains = 4 * adder_luts(0, technology) if technology is not None and count > 4 else 0
        blocks = -(-(1 << ceil_log2(depth)) // 16)
        # A TRELLIS_DPR16X4 takes four tables and a write slice.
        table = 6 if technology is None else technology.ram_cost(width=4, depth=16).lut
        return Resources(lut=7 * count + chains + blocks * -(-width // 4) * table + (blocks - 1) * width,
                         ff=3 * count + 3 + width)

    @staticmethod
    def model(beats: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return beats

    def elaborate(self, platform):
        return self.shift_register() if self.depth <= self.SHIFT_DEPTH else self.ring()

    def shift_register(self) -> Module:
        """Word k is in use where `used[k]` is set; a word enters at the first free place."""
        m = Module()
        used = Signal(self.depth)
        words = [Signal(self.shape, name=f"word{k}", reset_less=True) for k in range(self.depth)]
        m.d.comb += [
            self.i.ready.eq(~used[-1]), self.o.valid.eq(used[0]), self.o.payload.eq(words[0]),
            self.level.eq(sum(used)),
        ]
        pop = used_places(m, used, self.i.valid & self.i.ready, self.o.ready)
        for k, word in enumerate(words):
            with m.If(~used[k] | pop):  # a free place may take anything
                m.d.sync += word.eq(self.i.payload)
                if k + 1 < self.depth:
                    with m.If(used[k + 1]):
                        m.d.sync += word.eq(words[k + 1])
        return m

    def ring(self) -> Module:
        """`stored` counts the words in the memory; `some` and `self.i.ready` are its comparisons, one cycle ahead.

        They are written out for the same reason as in `used_places`.
        """
        m = Module()
        places = 1 << ceil_log2(self.depth)
        style = {} if self.technology is None else {
            "ram_style": "distributed" if has_tables(self.technology) else "block"}
        m.submodules.ring = ring = memory.Memory(shape=self.shape, depth=places, init=[], attrs=style)
        write, read = ring.write_port(), ring.read_port(domain="comb")
        stored, some = Signal(range(self.depth + 1), name="stored"), Signal(name="some")
        space = Signal(init=1)
        word, full = Signal(self.shape, reset_less=True, name="word"), Signal(name="full")
        push, pull = Signal(name="push"), Signal(name="pull")
        m.d.comb += [
            self.i.ready.eq(space), self.o.valid.eq(full), self.o.payload.eq(word),
            push.eq(self.i.valid & space), pull.eq(some & (~full | self.o.ready)),
            write.en.eq(push), write.data.eq(self.i.payload), self.level.eq(stored + full),
        ]
        m.d.sync += [
            write.addr.eq(write.addr + push), read.addr.eq(read.addr + pull), full.eq(pull | (full & ~self.o.ready)),
            some.eq(push | (some & ~(pull & (stored == 1)))),
            space.eq(pull | (space & ~(self.i.valid & (stored == self.depth - 1)))),
        ]
        with m.If(push ^ pull):
            m.d.sync += stored.eq(stored + Mux(push, 1, -1))
        with m.If(pull):
            m.d.sync += word.eq(read.data)
        return m


def used_places(m: Module, used: Signal, push: Value, ready: Value) -> Signal:
    """Keeps `used`, whose lowest bits are set: one more for each `push`, one less where its first is and `ready` too.

    That is what is returned.  What each bit becomes is written out: with conditions in its place synthesis makes
    tables for enable and reset, and a chain of them stands between `ready`, which comes late, and the register.
    """
    pop = Signal(name="pop")
    m.d.comb += pop.eq(used[0] & ready)
    below, above = Cat(1, used[:-1]), Cat(used[1:], 0)
    stays, enters = push | ~pop, push & ~pop
    m.d.sync += used.eq(above | (used & stays.replicate(len(used))) | (below & enters.replicate(len(used))))
    return pop


def has_tables(technology: Technology) -> bool:
    """Whether the family can make a small memory without a RAM block."""
    return technology.ram_cost(width=4, depth=16).ram == 0


class CreditCounter(wiring.Component):
    """Grants blocks of `take` words as long as a queue of `words` words will have room for them.

    `taken` says that a block starts in this cycle; `given` how many words, up to `give`, leave the queue or will not
    come into it.  `credit` is a register: it is set when `1 + slack` more blocks may start, counting everything up to
    the cycle before.  A starter that looks at `credit` s cycles before it raises `taken` may start up to s blocks on
    what it saw: give it `slack` = s.

    Few words that come and go one by one are counted by a register that is filled from one end: no carry chain.
    """

    #: So many words take no more logic cells without a carry chain than with one.
    FEW = 10

    def __init__(self, *, words: int, take: int, slack: int = 0, give: int = 1):
        if words < take * (1 + slack):
            raise ValueError(f"words of a CreditCounter must be at least take * (1 + slack) = {take * (1 + slack)}, "
                             f"not {words}")
        self.words = words
        self.take = take
        self.slack = slack
        self.give = give
        super().__init__({"taken": In(1), "given": In(range(give + 1)), "credit": Out(1)})

    @staticmethod
    def cost(*, words: int, take: int = 1, give: int = 1) -> Resources:
        """LUT and FF estimated."""
        if take == give == 1 and words <= CreditCounter.FEW:
            return Resources(lut=words + 2, ff=words)
        bits = words.bit_length() + 1
        return Resources(lut=2 * bits, ff=bits)

    def elaborate(self, platform):
        if self.take == self.give == 1 and self.words <= self.FEW:
            return self.filled()
        m = Module()
        spare = self.words - self.take * (1 + self.slack)
        low = -self.take * (1 + self.slack)
        # The sign bit is the answer.
        count = Signal(Shape.cast(range(low, max(spare, 0) + 1)), init=spare)
        m.d.comb += self.credit.eq(~count[-1])
        step = Signal(Shape.cast(range(-self.take, self.give + 1)))
        with m.If(self.taken):
            m.d.comb += step.eq(self.given - self.take)
        with m.Else():
            m.d.comb += step.eq(self.given)
        m.d.sync += count.eq(count + step)
        return m

    def filled(self) -> Module:
        """Bit k says that there is room for more than k words."""
        m = Module()
        room = Signal(self.words, init=-1)
        m.d.comb += self.credit.eq(room[self.slack])
        with m.If(self.taken ^ self.given):
            m.d.sync += room.eq(Mux(self.given, Cat(1, room[:-1]), room[1:]))
        return m


class Gearbox(wiring.Component):
    """Changes the lanes of a stream: the same elements in the same order, `lanes_out` instead of `lanes_in` a beat.

    A frame must have a whole number of beats on both sides; then nothing of it stays inside.  Where neither number of
    lanes divides the other, beats are first joined to their least common multiple, which keeps the full rate: the
    narrower side moves a beat in every cycle.

    Latency from the last needed input beat to the output beat: 2 cycles, 4 through the least common multiple, 0 for
    equal lanes (wires).
    """

    #: Beats of the narrow side that wait in front of a change to more lanes, or behind one to fewer.
    SKID = 2

    def __init__(self, *, shape: ShapeLike, lanes_in: int, lanes_out: int):
        self.shape = shape
        self.lanes_in = lanes_in
        self.lanes_out = lanes_out
        super().__init__({"i": In(stream_of(shape, lanes_in)), "o": Out(stream_of(shape, lanes_out))})

    def model(self, beats: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """[beats, lanes_in] to [beats, lanes_out]; elements that fill no beat stay inside."""
        elements = np.asarray(beats).reshape(-1)
        whole = len(elements) // self.lanes_out * self.lanes_out
        return elements[:whole].reshape(-1, self.lanes_out)

    @staticmethod
    def times(arrivals: Times, *, lanes_in: int, lanes_out: int) -> Times:
        """When the beats behind the gearbox are there; `arrivals` are those in front of it."""
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
            skid = Queue.cost(width=width * lanes_in, depth=Gearbox.SKID, technology=technology)
            word = width * lanes_out
            return skid + Resources(lut=parts + 5) + flip_flops(word + parts + 1, word, technology)
        if lanes_in % lanes_out == 0:
            parts = lanes_in // lanes_out
            skid = Queue.cost(width=width * lanes_out, depth=Gearbox.SKID, technology=technology)
            kept = width * lanes_out
            return (skid + Resources(lut=width * (lanes_in - lanes_out) + parts + 2)
                    + flip_flops(width * lanes_in + parts, kept, technology))
        both = lcm(lanes_in, lanes_out)
        return (Gearbox.cost(width=width, lanes_in=lanes_in, lanes_out=both, technology=technology)
                + Gearbox.cost(width=width, lanes_in=both, lanes_out=lanes_out, technology=technology))

    def elaborate(self, platform):
        m = Module()
        source, sink = wiring.flipped(self.i), wiring.flipped(self.o)
        if self.lanes_in == self.lanes_out:
            link(m, source, sink)
        elif self.lanes_out % self.lanes_in == 0:
            m.submodules.skid = skid = Queue(shape=payload_of(self.i), depth=Gearbox.SKID)
            m.submodules.join = join = Join(shape=self.shape, lanes_in=self.lanes_in, lanes_out=self.lanes_out)
            chain(m, source, skid, join, sink)
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
    """Several beats become one wider beat.  `i.ready` depends on `o.ready`: wants a skid in front."""

    def __init__(self, *, shape: ShapeLike, lanes_in: int, lanes_out: int):
        self.parts = lanes_out // lanes_in
        super().__init__({"i": In(stream_of(shape, lanes_in)), "o": Out(stream_of(shape, lanes_out))})

    def elaborate(self, platform):
        m = Module()
        place = Signal(self.parts, init=1)
        parts = [Signal(len(Value.cast(self.i.payload)), name=f"part{k}", reset_less=True) for k in range(self.parts)]
        full = Signal()
        m.d.comb += [
            self.i.ready.eq(~full | self.o.ready), self.o.valid.eq(full),
            Value.cast(self.o.payload).eq(Cat(*parts)),
        ]
        with m.If(self.i.ready):
            m.d.sync += full.eq(self.i.valid & place[-1])
        with m.If(self.i.ready & self.i.valid):
            m.d.sync += place.eq(place.rotate_left(1))
        for k, part in enumerate(parts):
            with m.If(self.i.ready & place[k]):  # valid or not: what comes at last stays
                m.d.sync += part.eq(Value.cast(self.i.payload))
        return m


class Split(wiring.Component):
    """One beat becomes several narrower beats.  `i.ready` depends on `o.ready`: wants a skid behind."""

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
        # Where two parts or more are left nothing comes in: a register chooses what each bit becomes.
        with m.If(self.i.ready | self.o.ready):
            m.d.sync += [
                left.eq(Mux(left[1], left[1:], self.i.valid.replicate(self.parts))),
                rest.eq(Mux(left[1], rest[width:], Value.cast(self.i.payload))),
            ]
        return m
