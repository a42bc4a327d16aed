"""Packets to the host, a token in every cycle: see `PacketSender`, which takes ten."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, wiring

from ..stream.credit import CreditCounter
from ..stream.pipeline import delay
from ..stream.queue import Queue
from ..stream.streams import link
from .link_bytes import TOKEN
from .link_fast_bytes import START, with_byte
from .link_receiver import HEADER_BYTES, Kind
from .link_sender import LENGTHS, Chosen, PacketSender, State

__all__ = ["FastSender"]

#: What a token is to be, where its byte is found; `field` is its place in a header.
PLAN = data.StructLayout({"opens": 1, "closes": 1, "header": 1, "check": 1, "field": 3})
#: Tokens behind the bytes of a header, and of a checksum.
CHECK_BYTES = 4
#: Cycles for a byte of the answers, which are short and few, and of that until they have room in one moment.
SLOW, ROOM_AT = 16, 8


class FastSender(PacketSender):
    """A `PacketSender` that gives a token in every cycle of a packet of results.

    What each token is to be goes through a pipeline, which ends in a queue and begins only what that has room for: to
    the place of a byte in a result comes the byte, then the checksum takes it.  The payload of the answers, from many
    sources, has `SLOW` cycles for each byte.
    """

    def elaborate(self, platform):
        m = Module()
        latency = max(self.technology.timing.ram, 2)  # of a place until its byte
        state, place, step = Signal(State), Signal(range(self.shape.payload)), Signal()
        chosen, go, sequence = Chosen(*self.asked, Kind.STATUS), Signal(), Signal(8)
        length = Signal(16)
        m.d.comb += [self.place.eq(place), length.eq(chosen.of({**LENGTHS, Kind.RESULT: self.length}))]
        words = latency + 7  # from a credit to the same one again
        m.submodules.credits = credits = CreditCounter(words=words, take=1)
        settled, pace = Signal(), Signal(range(SLOW))
        m.d.comb += [step.eq((state != State.IDLE) & credits.credit & settled), credits.taken.eq(step)]
        m.d.comb += settled.eq((state != State.PAYLOAD) | chosen.result | pace.all())
        m.d.sync += pace.eq(Mux(step | (state != State.PAYLOAD), 0, pace + ~pace.all()))
        last = self.walk(m, state, place, chosen, go, step)

        plan = Signal(PLAN)
        m.d.comb += [plan.opens.eq(state == State.OPEN), plan.closes.eq(state == State.CLOSE),
                     plan.header.eq(state == State.HEADER), plan.check.eq(state == State.CHECK), plan.field.eq(place)]
        planned = delay(m, step, latency, "planned", reset_less=False)
        early = data.View(PLAN, Value.cast(delay(m, plan, latency - 1, "early")))
        now = data.View(PLAN, Value.cast(delay(m, plan, latency, "now")))
        field, answer = Signal(8), Signal(8)
        m.d.sync += field.eq(self.header(chosen, sequence, length)[early.field])
        octet = self.payload(m, (state == State.PAYLOAD) & (pace == ROOM_AT) & (place == 0), place, chosen)
        with m.If(step & (state == State.PAYLOAD)):  # the next one is not before this one was taken
            m.d.sync += answer.eq(octet)
        byte = Mux(now.header, field, Mux(chosen.result, self.byte, answer))
        m.submodules.queue = queue = Queue(shape=TOKEN, depth=words, technology=self.technology)
        self.check(m, planned, now, byte, queue)
        m.d.comb += credits.given.eq(self.o.valid & self.o.ready)
        link(m, queue.o, wiring.flipped(self.o))

        closed, sent_one = step & last & (state == State.CLOSE), Signal()
        self.choose(m, state, chosen, go)
        m.d.sync += sent_one.eq(closed & chosen.result)
        for kind, (_, sent) in self.asked.items():
            m.d.sync += sent.eq(closed & chosen.kinds[kind])
        self.window(m, sequence, sent_one)
        return m

    def walk(self, m: Module, state: Signal, place: Signal, chosen: Chosen, go: Signal, step: Signal) -> Value:
        """Through the parts of a packet, each of so many tokens; whether this is the last one of its part."""
        left = Signal(range(-1, self.shape.payload), init=-1)  # down to its sign bit
        sizes = chosen.of({**{kind: size - 2 for kind, size in LENGTHS.items()}, Kind.RESULT: self.last - 1})
        size = Signal.like(left)
        m.d.sync += size.eq(sizes)  # holds long before it is used
        with m.If(go):
            m.d.sync += state.eq(State.OPEN)
        with m.If(step):
            m.d.sync += [place.eq(place + 1), left.eq(left - 1)]
            with m.If(left[-1]):
                m.d.sync += [place.eq(0), left.eq(-1)]
                with m.Switch(state):
                    with m.Case(State.OPEN):
                        m.d.sync += left.eq(HEADER_BYTES - 2)
                    with m.Case(State.HEADER):
                        m.d.sync += left.eq(size)
                    with m.Case(State.PAYLOAD):
                        m.d.sync += left.eq(CHECK_BYTES - 2)
                m.d.sync += state.eq(Mux(state == State.CLOSE, State.IDLE, state.as_value() + 1))
        return left[-1]

    def check(self, m: Module, planned: Value, now: data.View, byte: Value, queue: Queue) -> None:
        """The byte, or its part of the checksum of those before it, into the queue."""
        word, ready = Signal(8), Signal()
        kept = Signal(PLAN)
        m.d.sync += [word.eq(byte), ready.eq(planned), kept.eq(now)]
        rest = Signal(32, init=START)
        flag = kept.opens | kept.closes
        with m.If(ready):
            m.d.sync += rest.eq(Mux(kept.check, rest >> 8, with_byte(m, rest, word, "low")))
            with m.If(flag):
                m.d.sync += rest.eq(START)
        m.d.comb += [
            queue.i.valid.eq(ready), queue.i.payload.flag.eq(flag), queue.i.payload.bad.eq(kept.opens),
            queue.i.payload.byte.eq(Mux(kept.check, ~rest[:8], word))]
