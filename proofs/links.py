"""Proofs of the receivers of the host link: whatever comes on the line, only what a right packet said is done.

The `Packet` here reads tokens as docs/host-link.md describes packets: it counts bytes, keeps the header, and runs a
CRC-32 of its own.  What a receiver does must be what the packet said that ended just before.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from amaranth.hdl import Array, Cat, Const, Mux, Signal, Value
from hwflow_rtl.io.link.receiver import FastReceiver, PacketReceiver
from hwflow_rtl.io.link.shape import LinkShape

from .methods import Bound, Induction
from .proof import Proof
from .scene import Inside, Scene

RESET, DATA, POLL = 1, 2, 3
HEADER, CHECK = 5, 4
#: The smallest packets that a link may have.
SHAPE = LinkShape(payload=32, room=64)
#: Of a receiver, cycles from the transfer of a flag to what its packet says.
LAG = {PacketReceiver: 1, FastReceiver: 3}


def crc_of(crc: Value, byte: Value) -> Value:
    """The register behind one more byte, bit by bit."""
    for bit in range(8):
        low = crc[0] ^ byte[bit]
        crc = (crc >> 1) ^ Mux(low, Const(0xEDB88320, 32), Const(0, 32))
    return crc[:32]


class Packet:
    """What the last packet said, in the cycle in which it must be done: `lag` cycles behind the flag."""

    def __init__(self, s: Scene, port: Any, payload: int, lag: int):
        m, token = s.m, port.payload
        taken = port.valid & port.ready
        most = HEADER + payload + CHECK + 1
        self.count, self.crc = Signal(range(most + 1), name="count"), Signal(32, init=0xFFFFFFFF, name="crc")
        fields = [Signal(8, name=name) for name in ("kind", "sequence", "acknowledge", "low", "high")]
        self.fields, self.left = fields, Cat(fields[3], fields[4])
        length, self.checked = self.left, Signal(range(CHECK + 1), name="checked")
        self.body, self.matched = Signal(32, name="body"), Signal(name="matched")  # the register behind the payload
        with m.If(taken & token.flag):
            m.d.sync += [self.count.eq(0), self.crc.eq(0xFFFFFFFF), self.matched.eq(1)]
        with m.Elif(taken):
            m.d.sync += self.crc.eq(crc_of(self.crc, token.byte))
            for k in range(CHECK):  # the low byte first, and inverted, as in zlib
                body = self.crc if k == 0 else self.body
                with m.If((self.count >= HEADER) & (self.count == length + HEADER + k)):
                    m.d.sync += [self.body.eq(body), self.matched.eq(
                        (self.matched | (k == 0)) & (token.byte == ~body[8 * k:8 * k + 8]))]
            with m.If(self.count != most):
                m.d.sync += self.count.eq(self.count + 1)
            for place, field in enumerate(fields):
                with m.If(self.count == place):
                    m.d.sync += field.eq(token.byte)
        right = (~token.bad & (length <= payload) & (self.count == length + HEADER + CHECK) & self.matched)
        said = Cat(taken & token.flag & right, *fields)
        for age in range(lag):
            later = Signal(len(said), name=f"said{age}")
            m.d.sync += later.eq(said)
            said = later
        self.right, kind, self.sequence, self.acknowledge = said[0], said[1:9], said[9:17], said[17:25]
        self.length = said[25:41]
        empty = self.length == 0
        self.is_reset = self.right & (kind == RESET) & empty
        self.is_data = self.right & (kind == DATA) & ~empty
        self.is_poll = self.right & (kind == POLL) & empty
        # The byte of payload at a place that is any one.
        self.place, self.byte = s.fixed(range(payload), "place"), Signal(8, name="byte")
        with m.If(taken & ~token.flag & (self.count == HEADER + self.place)):
            m.d.sync += self.byte.eq(token.byte)


def receiver(kind: type[PacketReceiver]) -> Scene:
    s = Scene()
    m, unit = s.m, kind(shape=SHAPE)
    inside = s.put("receiver", unit)
    m.d.comb += [
        unit.i.valid.eq(s.free(1, "valid")), Value.cast(unit.i.payload).eq(s.free(10, "token")),
        unit.room.eq(s.free(range(SHAPE.room + 1), "room")), unit.identity_sent.eq(s.free(1, "identity_sent")),
        unit.stopped.eq(s.free(1, "stopped"))]
    if kind is PacketReceiver:  # a stream: what waits stays
        waited, token = Signal(name="waited"), Signal(10, name="token_kept")
        m.d.sync += [waited.eq(unit.i.valid & ~unit.i.ready), token.eq(Value.cast(unit.i.payload))]
        s.assume(~waited | (unit.i.valid & (Value.cast(unit.i.payload) == token)))
    packet = Packet(s, unit.i, SHAPE.payload, LAG[kind])
    does_what_was_said(s, unit, inside, packet)
    written = writes_what_came(s, unit, packet)
    if kind is PacketReceiver:
        walks_with_us(s, unit, inside, packet, written)
    s.reach("begins_a_packet", packet.count == HEADER)
    return s


def does_what_was_said(s: Scene, unit: PacketReceiver, inside: Inside, packet: Packet) -> None:
    m = s.m
    awake, expected, restarts = Signal(name="was_reset"), Signal(8, name="is_due"), Signal(init=1, name="restarts")
    acknowledge = Signal(8, name="was_acknowledged")
    m.d.sync += [awake.eq(awake | packet.is_reset), restarts.eq(unit.restart)]
    with m.If(packet.is_reset):
        m.d.sync += expected.eq(0)
    with m.Elif(unit.commit):
        m.d.sync += expected.eq(expected + 1)
    with m.If(packet.is_data | packet.is_poll):
        m.d.sync += acknowledge.eq(packet.acknowledge)
    s.claim("commits_data_that_are_due", ~unit.commit | (packet.is_data & awake & (packet.sequence == expected)))
    s.claim("awake", inside.signal("awake") == awake)
    s.claim("expects", unit.expected == expected)
    s.claim("hears_what_is_acknowledged", unit.acknowledged == (packet.is_data | packet.is_poll))
    s.claim("acknowledges", unit.acknowledge == acknowledge)
    s.claim("repeats_when_polled", unit.repeat == packet.is_poll)
    s.claim("answers_what_is_right", ~unit.wants_status | (packet.right & awake))
    reset = Signal(name="reset_said")
    m.d.sync += reset.eq(packet.is_reset)
    s.claim("restarts_when_told", ~unit.restart | restarts | reset)


def writes_what_came(s: Scene, unit: PacketReceiver, packet: Packet) -> Signal:
    """Of the data that are committed all bytes were written, in order and as they came."""
    m = s.m
    written = Signal(range(SHAPE.payload + 2), name="written")
    with m.If(unit.commit | unit.rollback):
        m.d.sync += written.eq(0)
    with m.Elif(unit.write & (written <= SHAPE.payload)):
        m.d.sync += written.eq(written + 1)
    if type(unit) is PacketReceiver:  # it writes a byte in the cycle in which it takes it
        s.claim("writes_the_bytes", ~unit.write | (
            unit.i.valid & unit.i.ready & (packet.count == HEADER + written) & (unit.byte == unit.i.payload.byte)))
    else:
        s.claim("writes_the_bytes", ~(unit.write & (written == packet.place)) | (unit.byte == packet.byte))
    s.claim("writes_no_more", ~unit.write | (written < SHAPE.payload))
    s.claim("writes_all", ~unit.commit | (written == packet.length))
    return written


def partly(crc: Value, byte: Value, bits: Value) -> Value:
    """The register behind the first bits of a byte, up to all eight."""
    steps = [crc]
    for bit in range(8):
        crc = (crc >> 1) ^ Mux(crc[0] ^ byte[bit], Const(0xEDB88320, 32), Const(0, 32))
        steps.append(crc)
    return Array(steps)[bits]


class Place:
    """Where the packet that comes is, by our count of its bytes, and whether the receiver takes part in it."""

    def __init__(self, inside: Inside, packet: Packet):
        count, length = packet.count, packet.left
        self.count, self.length, self.header, self.long = count, length, count < HEADER, length > SHAPE.payload
        behind = ~self.header & ~self.long
        self.payload = behind & (count < HEADER + length)
        self.check = behind & (count >= HEADER + length) & (count < HEADER + CHECK + length)
        self.end = behind & (count == HEADER + CHECK + length)
        self.started, self.taken, self.closed = (inside.signal(name) for name in ("started", "taken", "closed"))


def walks_with_us(s: Scene, unit: PacketReceiver, inside: Inside, packet: Packet, written: Signal) -> None:
    """What helps: the state of a `PacketReceiver` is what our count of bytes says."""
    at = Place(inside, packet)
    said_what_we_heard(s, inside, packet, at)
    counts_with_us(s, inside, packet, at)
    sums_with_us(s, inside["crc"], unit.i.payload.byte, packet, at)
    read_the_header(s, unit, inside, packet, at)
    s.claim("written", at.closed | (written == Mux(at.header | ~at.taken | at.long, 0, Mux(
        at.payload, at.count - HEADER, at.length))))


def said_what_we_heard(s: Scene, inside: Inside, packet: Packet, at: Place) -> None:
    """Of the packet before, in the cycle in which it is obeyed."""
    accepted = inside.signal("accepted")
    s.claim("closed", ~at.closed | ((at.count == 0) & ~at.started & ~inside["crc"].signal("done")))
    s.claim("accepted", (accepted == packet.right) & (~accepted | at.closed))
    for name, said in (("is_reset", packet.is_reset), ("is_data", packet.is_data), ("is_poll", packet.is_poll)):
        s.claim(f"{name}_said", said == (accepted & inside.signal(name)))
    s.claim("numbers_said", ~accepted | ((inside.signal("given_acknowledge") == packet.acknowledge) & (
        inside.signal("given_sequence") == packet.sequence)))


def counts_with_us(s: Scene, inside: Inside, packet: Packet, at: Place) -> None:
    """The bytes of header, payload and checksum."""
    state, place, left = (inside.signal(name) for name in ("state", "place", "left"))
    count, length, header, payload, check = at.count, at.length, at.header, at.payload, at.check
    s.claim("count", count <= HEADER + SHAPE.payload + CHECK + 1)
    s.claim("state", Value.cast(state) == Mux(header, 0, Mux(payload, 1, Mux(check, 2, Mux(at.end, 3, 4)))))
    s.claim("place", Mux(header, place == count, Mux(check, place == count - HEADER - length, ~(
        payload & (place != 0)))))
    s.claim("left", Mux(payload, left == HEADER + length - count, (count != HEADER - 1) | (
        left[:8] == packet.fields[3])))
    s.claim("last", ~at.started | ~payload | (inside.signal("last") == (left == 1)))
    s.claim("writes", ~at.started | (inside.signal("writes") == (at.taken & payload)))


def sums_with_us(s: Scene, crc: Inside, byte: Value, packet: Packet, at: Place) -> None:
    """The checksum, which takes a bit in a cycle."""
    rest, good, step, runs, done = (crc.signal(name) for name in ("rest", "good", "count", "runs", "done"))
    bits = Signal(4, name="bits")
    s.m.d.comb += bits.eq(Mux(done, 8, Mux(runs, step, 0)))
    place = Mux(at.check, at.count - HEADER - at.length, 0)
    body = Mux(at.check & (place == 0), packet.crc, packet.body)
    differs = (byte ^ ~body.word_select(place[:2], 8)) & ((1 << bits) - 1)[:8]
    s.claim("bits", ~(runs & done) & (runs | (step == 0)) & ((runs | done) == at.started))
    s.claim("rest", at.end | (~at.header & ~at.payload & ~at.check) | (rest == Mux(
        at.check, (body >> (8 * place[:2] + bits))[:32], partly(packet.crc, byte, bits))))
    s.claim("good", Mux(at.header | at.payload, good, ~(at.check | at.end) | (good == Mux(
        at.check, ((place == 0) | packet.matched) & ~differs.any(), packet.matched))))


def read_the_header(s: Scene, unit: PacketReceiver, inside: Inside, packet: Packet, at: Place) -> None:
    """What its bytes said, as far as they are there."""
    kind, empty, count = packet.fields[0], at.length == 0, at.count
    for name, code, is_right in (("is_reset", RESET, empty), ("is_data", DATA, ~empty), ("is_poll", POLL, empty)):
        s.claim(name, (count == 0) | (inside.signal(name) == ((kind == code) & (at.header | is_right))))
    s.claim("sequence", (count < 2) | (inside.signal("given_sequence") == packet.fields[1]))
    s.claim("acknowledge", (count < 3) | (inside.signal("given_acknowledge") == packet.fields[2]))
    s.claim("in_turn", (count < 2) | (inside.signal("in_turn") == (packet.fields[1] == unit.expected)))
    s.claim("taken", at.header | ~at.taken | (
        (kind == DATA) & inside.signal("in_turn") & inside.signal("awake")))


LINK_PROOFS = tuple(
    Proof(kind.__name__, "arbitrary tokens, packets of up to 32 bytes",
          "what is committed, acknowledged, repeated and restarted is what a packet with the right length and checksum "
          "said; its bytes are written once, in order", partial(receiver, kind), method, 60)
    for kind, method in ((PacketReceiver, Induction(1)), (FastReceiver, Bound(12))))
