"""Packets from the host (docs/host-link.md): what is right is done, everything else is dropped."""

from __future__ import annotations

from enum import IntEnum

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import enum, stream, wiring
from amaranth.lib.wiring import In, Out

from .link_bytes import TOKEN, Crc32
from .link_queues import MAX_PAYLOAD, ROOM

__all__ = ["Kind", "PacketReceiver"]


class Kind(IntEnum):
    """The first byte of a packet."""

    RESET = 0x01
    DATA = 0x02
    POLL = 0x03
    IDENTITY = 0x81
    STATUS = 0x82
    RESULT = 0x83


class State(enum.Enum, shape=3):
    """Which part of a packet comes next."""

    HEADER = 0
    PAYLOAD = 1
    CHECK = 2
    END = 3
    #: Too much came: nothing counts before the next flag.
    DROP = 4


class PacketReceiver(wiring.Component):
    """Takes the tokens of a `Deframer` and says what to do.

    All pulses but `write` come one cycle after the flag that ends a packet.  A token takes ten cycles, in which the
    checksum is counted; what is compared with its byte has all that time.

    Attributes
    ----------
    i, aborted
        From the Deframer.
    room : In(range(ROOM + 1))
        Of the data queue.
    write : Out(1)
        The byte of `i` is payload of DATA that are expected and have room.
    commit, rollback : Out(1)
        To the data queue: take what was written; forget it, after every flag else.
    expected : Out(8)
        Sequence of the data that are expected.
    wants_status, repeat : Out(1)
        Pulses: the host is to have a STATUS; it is to have all results again.
    wants_identity, sequence : Out(1), Out(8)
        The host is to have an IDENTITY with this sequence.
    identity_sent : In(1)
        It has.
    acknowledged, acknowledge : Out(1), Out(8)
        A pulse, and in the cycles behind it the sequence of results that the host expects.
    restart, stopped : Out(1), In(1)
        As in `CoreCrossing`; while one of them is high, DATA are dropped.
    error : Out(1)
        A pulse: what stood between two flags was no packet.
    """

    def __init__(self):
        super().__init__({
            "i": In(stream.Signature(TOKEN)), "aborted": In(1), "room": In(range(ROOM + 1)),
            "write": Out(1), "commit": Out(1), "rollback": Out(1), "expected": Out(8),
            "wants_status": Out(1), "repeat": Out(1),
            "wants_identity": Out(1), "sequence": Out(8), "identity_sent": In(1),
            "acknowledged": Out(1), "acknowledge": Out(8), "restart": Out(1, init=1), "stopped": In(1),
            "error": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.crc = crc = Crc32()
        byte = self.i.payload.byte
        started, act, end, closed = Signal(), Signal(), Signal(), Signal()
        taken, writes, accepted, last = Signal(), Signal(), Signal(), Signal()
        state, place, left = Signal(State), Signal(2), Signal(range(MAX_PAYLOAD + 1))
        # The checksum runs over a flag as well, which does no harm: the flag clears it.
        m.d.comb += [
            crc.byte.eq(byte), crc.start.eq(self.i.valid & ~started), self.i.ready.eq(crc.done),
            act.eq(crc.done & ~self.i.payload.flag), end.eq(crc.done & self.i.payload.flag), crc.clear.eq(end),
            crc.tail.eq(state == State.CHECK), self.write.eq(act & writes),
            self.rollback.eq(closed & ~self.commit),
        ]
        good = (state == State.END) & crc.good & ~self.aborted
        empty = (state == State.HEADER) & (place == 0)
        m.d.sync += [started.eq(self.i.valid & ~crc.done), closed.eq(end), accepted.eq(end & good),
                     self.error.eq(end & ~good & ~empty), writes.eq(taken & (state == State.PAYLOAD)),
                     last.eq(left == 1)]
        with m.If(act):
            m.d.sync += place.eq(place + 1)
            with m.Switch(state):
                with m.Case(State.HEADER), m.If(place == 3):
                    m.d.sync += [left.eq(byte), state.eq(State.PAYLOAD)]
                    with m.If(byte == 0):
                        m.d.sync += state.eq(State.CHECK)
                    with m.Elif(byte > MAX_PAYLOAD):
                        m.d.sync += state.eq(State.DROP)
                with m.Case(State.PAYLOAD):
                    m.d.sync += [left.eq(left - 1), place.eq(0)]
                    with m.If(last):
                        m.d.sync += state.eq(State.CHECK)
                with m.Case(State.CHECK), m.If(place == 3):
                    m.d.sync += state.eq(State.END)
                with m.Case(State.END):
                    m.d.sync += state.eq(State.DROP)
        with m.If(end):
            m.d.sync += [state.eq(State.HEADER), place.eq(0)]
        self.kinds(m, accepted, taken, [act & (state == State.HEADER) & (place == k) for k in range(4)])
        return m

    def kinds(self, m: Module, accepted: Signal, taken: Signal, fields: list[Value]) -> None:
        """Keep the four fields of the header, and do what an accepted packet says.  `taken`: DATA that can be used."""
        byte = self.i.payload.byte
        is_reset, is_data, is_poll, in_turn = Signal(), Signal(), Signal(), Signal()
        awake, ready, empty, resets = Signal(), Signal(), Signal(), Signal()
        given_sequence, acknowledge = Signal(8), Signal(8)
        kind, sequence, ack, length = fields
        with m.If(kind):
            m.d.sync += [is_reset.eq(byte == Kind.RESET), is_data.eq(byte == Kind.DATA), is_poll.eq(byte == Kind.POLL)]
        with m.If(sequence):
            m.d.sync += [given_sequence.eq(byte), in_turn.eq(byte == self.expected)]
        with m.If(ack):
            m.d.sync += acknowledge.eq(byte)
        m.d.comb += [empty.eq(byte == 0), ready.eq(~self.restart & ~self.stopped)]
        with m.If(length):
            m.d.sync += [is_reset.eq(is_reset & empty), is_data.eq(is_data & ~empty), is_poll.eq(is_poll & empty),
                         taken.eq(is_data & in_turn & awake & ready & (self.room >= byte))]

        asks = Signal()
        m.d.comb += [
            asks.eq(accepted & (is_data | is_poll)), resets.eq(accepted & is_reset),
            self.commit.eq(accepted & is_data & taken), self.acknowledged.eq(asks), self.wants_status.eq(asks & awake),
            self.repeat.eq(accepted & is_poll),
        ]
        with m.If(asks):
            m.d.sync += self.acknowledge.eq(acknowledge)
        m.d.sync += self.expected.eq(self.expected + self.commit)
        with m.If(self.identity_sent):
            m.d.sync += self.wants_identity.eq(0)
        with m.If(resets | asks & ~awake):
            m.d.sync += [self.wants_identity.eq(1), self.sequence.eq(given_sequence)]
        with m.If(resets):
            m.d.sync += [awake.eq(1), self.expected.eq(0)]
        # A RESET at the end of a restart finds everything new.
        m.d.sync += self.restart.eq((self.restart | resets) & ~self.stopped)
