"""Packets to the host (docs/host-link.md): what it asked for, and the results that it has not acknowledged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import enum, stream, wiring
from amaranth.lib.wiring import In, Out

from ..vendor.base import Rom, Technology
from .link_bytes import TOKEN, Crc32
from .link_image import DIGEST_BYTES, IMAGE_CONTENTS, TURN_CYCLES
from .link_queues import ResultQueue
from .link_receiver import SETTINGS_BYTES, Kind

__all__ = ["IDENTITY_BYTES", "VERSION", "PacketSender", "identity_rom"]

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
    """What names the design, a byte a word."""
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
        """What is said of that packet."""
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
