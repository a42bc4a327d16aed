"""Packets to the host (docs/host-link.md): what it asked for, and the results that it has not acknowledged.

`PacketSender` takes ten cycles or more for a token, `FastSender` one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from ...stream.credit import CreditCounter
from ...stream.pipeline import delay
from ...stream.queue import Queue
from ...stream.streams import link
from ...vendor.base import Rom, Technology
from .bytes import START, TOKEN, Crc32, with_byte
from .image import DIGEST_BYTES, IMAGE_CONTENTS, TURN_CYCLES
from .queues import ResultQueue
from .receiver import HEADER_BYTES, SETTINGS_BYTES, Kind

#: Version of the protocol.
VERSION = 2
#: Length of what names a design.
IDENTITY_BYTES = 8
#: Bytes of payload of the packets that always have the same.
LENGTHS = {Kind.IDENTITY: 1 + IDENTITY_BYTES + 12, Kind.STATUS: 2, Kind.MEMORY: 1 + DIGEST_BYTES + 4,
           Kind.SETTINGS: SETTINGS_BYTES}


class State(enum.Enum, shape=3):
    """Which part of a packet is sent."""

    IDLE = 0
    OPEN = 1
    HEADER = 2
    PAYLOAD = 3
    CHECK = 4
    CLOSE = 5


def identity_rom(technology: Technology, identity: bytes) -> Rom:
    """The ROM of what names the design, a byte a word."""
    rows = np.frombuffer(identity, dtype=np.uint8).reshape(IDENTITY_BYTES, 1)
    return technology.rom(width=8, contents=rows, name="identity")


class Chosen:
    """Which packet is sent: a result where it is none of the others, of which there are those in `kinds`."""

    def __init__(self, *kinds: Kind):
        self.kinds = {kind: Signal(name=f"sends_{kind.name.lower()}") for kind in kinds}

    @property
    def result(self) -> Value:
        return ~Cat(*self.kinds.values()).any()

    def eq(self, chosen: Kind = Kind.RESULT) -> list[Any]:
        return [signal.eq(kind is chosen) for kind, signal in self.kinds.items()]

    def of(self, what: Mapping[Kind, ValueLike]) -> Value:
        """Say what is said of that packet."""
        value = Value.cast(what[Kind.RESULT])
        for kind, signal in reversed(self.kinds.items()):
            value = Mux(signal, what[kind], value)
        return value


class PacketSender(wiring.Component):
    """Sends one packet after the other: an identity, the state of the memory or a status that is wanted, else the next
    result.

    Between two packets it also frees what is acknowledged and begins anew where results are to be repeated, so that
    nothing changes under a packet.  An acknowledgement of what was never sent is ignored.

    Parameters
    ----------
    results
        The queue that it reads.
    identity, bytes_in
        What names the design; bytes of all inputs of a frame.
    image_bytes
        Of the image in the memory beside the FPGA, 0 without one: then the last two attributes are not there.

    Attributes
    ----------
    o : stream of TOKEN
    expected, room
        For the host.
    wants_status, repeat, wants_identity, identity_sent, sequence, acknowledged, acknowledge
        As in `PacketReceiver`.
    filled, free, slot, place, byte, length, last
        As in `ResultQueue`.
    wants_memory, memory_sent
        As in `PacketReceiver`.
    image : In(IMAGE_CONTENTS)
    wants_settings, settings_sent : In(1), Out(1)
        As in `PacketReceiver`.
    settings : In(32)
        What the line takes of those that the host wants.
    """

    def __init__(self, *, results: ResultQueue, identity: bytes, bytes_in: int, technology: Technology,
                 image_bytes: int = 0):
        if len(identity) != IDENTITY_BYTES:
            raise ValueError(f"identity must be {IDENTITY_BYTES} bytes, not {len(identity)}")
        self.results = results
        self.shape = results.shape
        self.identity = identity
        self.bytes_in = bytes_in
        self.image_bytes = image_bytes
        self.technology = technology
        queue = results.signature.members
        super().__init__({
            "o": Out(stream.Signature(TOKEN)), "expected": In(8), "room": In(range(results.shape.room + 1)),
            "wants_status": In(1), "repeat": In(1), "wants_identity": In(1), "identity_sent": Out(1),
            "sequence": In(8), "acknowledged": In(1), "acknowledge": In(8),
            **{name: queue[name].flip() for name in ("filled", "free", "slot", "place", "byte", "length", "last")},
            **({"wants_memory": In(1), "memory_sent": Out(1), "image": In(IMAGE_CONTENTS)} if image_bytes else {}),
            **({"wants_settings": In(1), "settings_sent": Out(1), "settings": In(8 * SETTINGS_BYTES)}
               if results.shape.settings else {}),
        })

    @property
    def asked(self) -> dict[Kind, tuple[Signal, Signal]]:
        """The answers that the host asked for by a sequence: whether it wants one, and that it was sent."""
        return {Kind.IDENTITY: (self.wants_identity, self.identity_sent),
                **({Kind.SETTINGS: (self.wants_settings, self.settings_sent)} if self.shape.settings else {}),
                **({Kind.MEMORY: (self.wants_memory, self.memory_sent)} if self.image_bytes else {})}

    @property
    def settle(self) -> int:
        """Cycles from the place of a byte to the byte in its register; a digest's may be in a RAM for two readers."""
        timing = self.technology.timing
        return max(timing.ram + (TURN_CYCLES if self.image_bytes else 0), timing.rom) + 2

    def elaborate(self, platform):
        m = Module()
        state, place, last, step = Signal(State), Signal(range(self.shape.payload)), Signal(), Signal()
        chosen, go, sequence = Chosen(*self.asked, Kind.STATUS), Signal(), Signal(8)
        flag, length = (state == State.OPEN) | (state == State.CLOSE), Signal(16)
        m.d.comb += [self.place.eq(place), length.eq(chosen.of({**LENGTHS, Kind.RESULT: self.length}))]
        # There are ten cycles from a step to the next.
        last_place = chosen.of({**{kind: size - 1 for kind, size in LENGTHS.items()}, Kind.RESULT: self.last})
        m.d.sync += last.eq(flag | Mux(state == State.PAYLOAD, place == last_place,
                                       Mux(state == State.HEADER, place[2], place[:2] == 3)))
        with m.If(go):
            m.d.sync += state.eq(State.OPEN)
        with m.If(step):
            m.d.sync += place.eq(place + 1)
            with m.If(last):
                m.d.sync += [place.eq(0), state.eq(Mux(state == State.CLOSE, State.IDLE, state.as_value() + 1))]

        # The room of one moment, which is not before that of `expected`: data are not taken for room.
        moment = (state == State.HEADER) & (place[:2] == 3)
        field, payload = Signal(8), Signal(8)
        m.d.sync += [field.eq(self.header(chosen, sequence, length)[place[:3]]),
                     payload.eq(self.payload(m, moment, place, chosen))]
        m.submodules.crc = crc = Crc32()
        m.d.comb += [crc.tail.eq(state == State.CHECK), crc.clear.eq(state == State.OPEN)]
        byte = Mux(state == State.HEADER, field, Mux(state == State.PAYLOAD, payload, crc.octet))
        closed = step & (state == State.CLOSE)
        self.offer(m, crc, byte, (flag, state == State.OPEN), go | step & ~closed, step)
        self.choose(m, state, chosen, go)
        sent_one = Signal()
        m.d.sync += sent_one.eq(closed & chosen.result)
        for kind, (_, sent) in self.asked.items():
            m.d.sync += sent.eq(closed & chosen.kinds[kind])
        self.window(m, sequence, sent_one)
        return m

    def offer(self, m: Module, crc: Crc32, byte: Value, flags: tuple[Value, Value], begin: Value, step: Signal
              ) -> None:
        """After `begin` a byte settles; then it is offered while its checksum is counted; then comes a `step`.

        `flags`: whether a flag is offered in its place, and whether it opens a packet.
        """
        flag, opens = flags
        settling, fresh, offered, counted = Signal(self.settle), Signal(), Signal(), Signal()
        word = Signal(8)
        m.d.comb += [
            self.o.valid.eq(offered), self.o.payload.byte.eq(word), self.o.payload.flag.eq(flag),
            # A reset cuts what is under way: the flag that follows says so.
            self.o.payload.bad.eq(opens), crc.byte.eq(word), crc.start.eq(fresh), step.eq(counted & ~offered),
        ]
        m.d.sync += [settling.eq(Cat(begin, settling)), fresh.eq(settling[-1])]
        with m.If(settling[-1]):
            m.d.sync += word.eq(byte)
        with m.If(fresh):
            m.d.sync += offered.eq(1)
        with m.Elif(self.o.ready):
            m.d.sync += offered.eq(0)
        m.d.sync += counted.eq(crc.done | counted & ~step)

    def header(self, chosen: Chosen, sequence: Signal, length: Signal) -> Array:
        """The bytes of a header."""
        given = dict.fromkeys((Kind.IDENTITY, Kind.SETTINGS, Kind.MEMORY), self.sequence)
        return Array([chosen.of({kind: kind for kind in Kind}),
                      chosen.of({**given, Kind.STATUS: sequence, Kind.RESULT: sequence}), self.expected,
                      length[:8], length[8:]])

    def payload(self, m: Module, moment: Value, place: Signal, chosen: Chosen) -> Value:
        """The byte at `place` of the payload; room is said of `moment`."""
        m.submodules.identity = rom = identity_rom(self.technology, self.identity)
        m.d.comb += rom.addr.eq(place[:3] - 1)
        numbers = b"".join(number.to_bytes(size, "little") for number, size in (
            (self.bytes_in, 4), (self.results.frame, 4), (self.shape.room, 2), (self.shape.payload, 2)))
        octet = Signal(8)
        with m.Switch(place[:5]):
            with m.Case(0):
                m.d.comb += octet.eq(VERSION)
            with m.Case(*range(1, 1 + IDENTITY_BYTES)):
                m.d.comb += octet.eq(rom.data)
            for k, number in enumerate(numbers, 1 + IDENTITY_BYTES):
                with m.Case(k):
                    m.d.comb += octet.eq(number)
        room = Signal.like(self.room)
        with m.If(moment):
            m.d.sync += room.eq(self.room)
        settings = self.settings.word_select(place[:2], 8) if self.shape.settings else 0
        return chosen.of({Kind.IDENTITY: octet, Kind.SETTINGS: settings, Kind.MEMORY: self.memory(m, place),
                          Kind.STATUS: Mux(place[0], room[8:], room[:8]), Kind.RESULT: self.byte})

    def memory(self, m: Module, place: Signal) -> Value:
        """The byte at `place` of the payload of MEMORY."""
        octet = Signal(8)
        if not self.image_bytes:
            return octet
        m.d.comb += self.image.place.eq(1 - place[:4])  # as `IMAGE_PACKETS` counts
        with m.Switch(place[:5]):
            with m.Case(0):
                m.d.comb += octet.eq(self.image.state)
            with m.Case(*range(1, 1 + DIGEST_BYTES)):
                m.d.comb += octet.eq(self.image.byte)
            for k, number in enumerate(self.image_bytes.to_bytes(4, "little"), 1 + DIGEST_BYTES):
                with m.Case(k):
                    m.d.comb += octet.eq(number)
        return octet

    def choose(self, m: Module, state: Signal, chosen: Chosen, go: Signal) -> None:
        """Between two packets: every fourth cycle one thing is done."""
        look, owes_status = Signal(2), Signal()
        self.acknowledging, self.repeating = Signal(), Signal()
        self.within, self.unsent, self.act = Signal(), Signal(), Signal()
        m.d.sync += look.eq(look + 1)
        with m.If(self.acknowledged | (state != State.IDLE)):
            m.d.sync += look.eq(0)
        m.d.comb += self.act.eq((look == 3) & (state == State.IDLE))
        with m.If(self.act):
            m.d.sync += chosen.eq()
            with m.If(self.acknowledging):
                m.d.comb += self.free.eq(self.within)
                m.d.sync += self.acknowledging.eq(self.within)
            with m.Elif(self.repeating):
                m.d.sync += self.repeating.eq(0)
            for kind, (wanted, _) in self.asked.items():
                with m.Elif(wanted):
                    m.d.comb += go.eq(1)
                    m.d.sync += chosen.eq(kind)
            with m.Elif(owes_status):
                m.d.comb += go.eq(1)
                m.d.sync += [*chosen.eq(Kind.STATUS), owes_status.eq(0)]
            with m.Else():
                m.d.comb += go.eq(self.unsent)
        for pulse, kept in ((self.acknowledged, self.acknowledging), (self.repeat, self.repeating),
                            (self.wants_status, owes_status)):
            with m.If(pulse):
                m.d.sync += kept.eq(1)

    def window(self, m: Module, sequence: Signal, sent_one: Value) -> None:
        """From the oldest result, of sequence `base`: `sent` are on their way, at most `reached` have ever been."""
        base, distance = Signal(8), Signal(8)
        sent, reached = Signal.like(self.filled), Signal.like(self.filled)
        m.d.comb += [self.slot.eq(sequence), self.unsent.eq(sent != self.filled)]
        m.d.sync += [sequence.eq(base + sent), distance.eq(self.acknowledge - base),
                     self.within.eq((distance != 0) & (distance <= reached))]
        with m.If(self.free):
            m.d.sync += [base.eq(base + 1), reached.eq(reached - 1), sent.eq(sent - (sent != 0))]
        with m.If(self.act & ~self.acknowledging & self.repeating):
            m.d.sync += sent.eq(0)
        with m.If(sent_one):
            m.d.sync += [sent.eq(sent + 1), reached.eq(reached + (sent == reached))]


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
