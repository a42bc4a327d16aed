"""Proofs of the receivers of the host link: whatever comes on the line, only what a right packet said is done.

The `Packet` here reads tokens as docs/host-link.md describes packets: it counts bytes, keeps the header, and runs a
CRC-32 of its own.  What a receiver does must be what the packet said that ended just before.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from amaranth.hdl import Cat, Const, Mux, Signal, Value
from hwflow_rtl.io.link.receiver import FastReceiver, PacketReceiver
from hwflow_rtl.io.link.shape import LinkShape

from .methods import Bound
from .proof import Proof
from .scene import Scene

RESET, DATA, POLL = 1, 2, 3
#: CRC-32 as in zlib: what the register holds behind a packet and its own checksum.
REST = 0xDEBB20E3
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
        length = Cat(fields[3], fields[4])
        with m.If(taken & token.flag):
            m.d.sync += [self.count.eq(0), self.crc.eq(0xFFFFFFFF)]
        with m.Elif(taken):
            m.d.sync += self.crc.eq(crc_of(self.crc, token.byte))
            with m.If(self.count != most):
                m.d.sync += self.count.eq(self.count + 1)
            for place, field in enumerate(fields):
                with m.If(self.count == place):
                    m.d.sync += field.eq(token.byte)
        right = (~token.bad & (length <= payload) & (self.count == length + HEADER + CHECK) & (self.crc == REST))
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
    s.put("receiver", unit)
    m.d.comb += [
        unit.i.valid.eq(s.free(1, "valid")), Value.cast(unit.i.payload).eq(s.free(10, "token")),
        unit.room.eq(s.free(range(SHAPE.room + 1), "room")), unit.identity_sent.eq(s.free(1, "identity_sent")),
        unit.stopped.eq(s.free(1, "stopped"))]
    if kind is PacketReceiver:  # a stream: what waits stays
        waited, token = Signal(name="waited"), Signal(10, name="token_kept")
        m.d.sync += [waited.eq(unit.i.valid & ~unit.i.ready), token.eq(Value.cast(unit.i.payload))]
        s.assume(~waited | (unit.i.valid & (Value.cast(unit.i.payload) == token)))
    packet = Packet(s, unit.i, SHAPE.payload, LAG[kind])
    does_what_was_said(s, unit, packet)
    writes_what_came(s, unit, packet)
    s.reach("begins_a_packet", packet.count == HEADER)
    return s


def does_what_was_said(s: Scene, unit: PacketReceiver, packet: Packet) -> None:
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
    s.claim("expects", unit.expected == expected)
    s.claim("hears_what_is_acknowledged", unit.acknowledged == (packet.is_data | packet.is_poll))
    s.claim("acknowledges", unit.acknowledge == acknowledge)
    s.claim("repeats_when_polled", unit.repeat == packet.is_poll)
    s.claim("answers_what_is_right", ~unit.wants_status | (packet.right & awake))
    reset = Signal(name="reset_said")
    m.d.sync += reset.eq(packet.is_reset)
    s.claim("restarts_when_told", ~unit.restart | restarts | reset)


def writes_what_came(s: Scene, unit: PacketReceiver, packet: Packet) -> None:
    """Of the data that are committed all bytes were written, in order and as they came."""
    m = s.m
    written = Signal(range(SHAPE.payload + 2), name="written")
    with m.If(unit.commit | unit.rollback):
        m.d.sync += written.eq(0)
    with m.Elif(unit.write & (written <= SHAPE.payload)):
        m.d.sync += written.eq(written + 1)
    s.claim("writes_the_bytes", ~(unit.write & (written == packet.place)) | (unit.byte == packet.byte))
    s.claim("writes_no_more", ~unit.write | (written < SHAPE.payload))
    s.claim("writes_all", ~unit.commit | (written == packet.length))


LINK_PROOFS = tuple(
    Proof(kind.__name__, "arbitrary tokens, packets of up to 32 bytes",
          "what is committed, acknowledged, repeated and restarted is what a packet with the right length and checksum "
          "said; its bytes are written once, in order", partial(receiver, kind), Bound(cycles), cycles)
    for kind, cycles in ((PacketReceiver, 60), (FastReceiver, 12)))
