"""Packets from the host (docs/host-link.md): what is right is done, everything else is dropped."""

from __future__ import annotations

from enum import IntEnum

from amaranth.hdl import Const, Module, Signal, Value
from amaranth.lib import enum, stream, wiring
from amaranth.lib.wiring import In, Out

from .link_bytes import TOKEN, Crc32
from .link_image import DIGEST_BYTES, IMAGE_PACKETS, Beside
from .link_queues import MAX_PAYLOAD, ROOM

__all__ = ["Kind", "PacketReceiver"]


class Kind(IntEnum):
    """The first byte of a packet."""

    RESET = 0x01
    DATA = 0x02
    POLL = 0x03
    CLEAR = 0x04
    IMAGE = 0x05
    IDENTITY = 0x81
    STATUS = 0x82
    RESULT = 0x83
    MEMORY = 0x84


class State(enum.Enum, shape=3):
    """Which part of a packet comes next."""

    HEADER = 0
    PAYLOAD = 1
    CHECK = 2
    END = 3
    #: Too much came: nothing counts before the next flag.
    DROP = 4


class PacketReceiver(wiring.Component):
    """Takes the tokens of a line and says what to do.

    All pulses but `write` come one cycle after the flag that ends a packet.  A token takes ten cycles, in which the
    checksum is counted; what is compared with its byte has all that time.

    Parameters
    ----------
    memory
        What stands beside the FPGA: what follows `error` is only there with a memory, `clear` and `cleared` with one
        that the host fills.

    Attributes
    ----------
    i
        From the line: the `o` of a `Transport`.
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
    image : Out(IMAGE_PACKETS)
        To the `ImageState`.
    clear, cleared : Out(1), In(1)
        The memory is to forget its image; it has.  Each falls after the other; DATA are dropped meanwhile.
    wants_memory, memory_sent : Out(1), In(1)
        The host is to have a MEMORY with `sequence`; it has.
    """

    def __init__(self, *, memory: Beside = Beside.NOTHING):
        self.names, self.fills = memory is not Beside.NOTHING, memory is Beside.FILLED
        super().__init__({
            "i": In(stream.Signature(TOKEN)), "room": In(range(ROOM + 1)),
            "write": Out(1), "commit": Out(1), "rollback": Out(1), "expected": Out(8),
            "wants_status": Out(1), "repeat": Out(1),
            "wants_identity": Out(1), "sequence": Out(8), "identity_sent": In(1),
            "acknowledged": Out(1), "acknowledge": Out(8), "restart": Out(1, init=1), "stopped": In(1),
            "error": Out(1),
            **({"image": Out(IMAGE_PACKETS), "wants_memory": Out(1), "memory_sent": In(1)} if self.names else {}),
            **({"clear": Out(1), "cleared": In(1)} if self.fills else {}),
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
        good = (state == State.END) & crc.good & ~self.i.payload.bad
        empty = (state == State.HEADER) & (place == 0)
        m.d.sync += [started.eq(self.i.valid & ~crc.done), closed.eq(end), accepted.eq(end & good),
                     self.error.eq(end & ~good & ~empty), writes.eq(taken & (state == State.PAYLOAD)),
                     last.eq(left == 1)]
        self.parts(m, act, state, place, left, last)
        with m.If(end):
            m.d.sync += [state.eq(State.HEADER), place.eq(0)]
        header = Header(m, byte, [act & (state == State.HEADER) & (place == k) for k in range(4)],
                        names=self.names, fills=self.fills)
        usable, ready = Const(1, 1), ~self.restart & ~self.stopped
        if self.fills:
            ready = ready & ~self.clear & ~self.cleared
        if self.names:
            usable = self.image.usable
            m.d.comb += [self.image.begin.eq(header.begins), self.image.byte.eq(byte), self.image.place.eq(left),
                         self.image.write.eq(act & header.is_image & (state == State.PAYLOAD))]
        in_turn, awake = Signal(), Signal()
        with m.If(header.has_sequence):
            m.d.sync += in_turn.eq(byte == self.expected)
        with m.If(header.has_length):
            m.d.sync += taken.eq(header.is_data & in_turn & awake & usable & ready & (self.room >= byte))
        self.obey(m, header, accepted, taken, awake, usable)
        return m

    def parts(self, m: Module, act: Signal, state: Signal, place: Signal, left: Signal, last: Signal) -> None:
        """Which part of the packet comes next.  `last`: the byte is the last one of the payload."""
        byte = self.i.payload.byte
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

    def obey(self, m: Module, header: Header, accepted: Signal, taken: Signal, awake: Signal, usable: Value) -> None:
        """What an accepted packet says.  `taken`: DATA that can be used; `awake`: there was a RESET."""
        asks, resets, answers = Signal(), Signal(), Signal()  # `answers` to what comes in a session
        m.d.comb += [
            asks.eq(accepted & (header.is_data | header.is_poll)), resets.eq(accepted & header.is_reset),
            self.commit.eq(accepted & header.is_data & taken), self.acknowledged.eq(asks),
            self.wants_status.eq(asks & awake & usable), self.repeat.eq(accepted & header.is_poll),
            answers.eq(accepted & (header.is_data | header.is_poll | header.is_image)),
        ]
        with m.If(asks):
            m.d.sync += self.acknowledge.eq(header.acknowledge)
        m.d.sync += self.expected.eq(self.expected + self.commit)
        with m.If(self.identity_sent):
            m.d.sync += self.wants_identity.eq(0)
        with m.If(resets | answers & ~awake):
            m.d.sync += [self.wants_identity.eq(1), self.sequence.eq(header.sequence)]
        with m.If(resets):
            m.d.sync += [awake.eq(1), self.expected.eq(0)]
        # A RESET at the end of a restart finds everything new, and so does a CLEAR.
        m.d.sync += self.restart.eq((self.restart | resets) & ~self.stopped)
        if self.fills:
            m.d.sync += self.clear.eq((self.clear | resets & header.is_clear) & ~self.cleared)
        if self.names:
            m.d.comb += [self.image.resets.eq(resets), self.image.clears.eq(resets & header.is_clear),
                         self.image.asked.eq(accepted & awake & header.is_image)]
            with m.If(self.memory_sent):
                m.d.sync += self.wants_memory.eq(0)
            with m.If(answers & awake & (header.is_image | ~usable)):
                m.d.sync += [self.wants_memory.eq(1), self.sequence.eq(header.sequence)]


class Header:
    """What the header of a packet says: signals that hold from the byte of its length to the next packet.

    `fields` are the moments of its four bytes.  CLEAR is a RESET that does more.
    """

    def __init__(self, m: Module, byte: Value, fields: list[Value], *, names: bool, fills: bool):
        self.begins, self.has_sequence, has_acknowledge, self.has_length = fields
        self.is_reset, self.is_data, self.is_poll = (Signal(name=f"is_{kind}") for kind in ("reset", "data", "poll"))
        self.is_clear, self.is_image = (Signal(name=f"is_{kind}") for kind in ("clear", "image"))
        self.sequence, self.acknowledge = Signal(8, name="given_sequence"), Signal(8, name="given_acknowledge")
        reset, empty = byte == Kind.RESET, byte == 0
        with m.If(self.begins):
            m.d.sync += [self.is_reset.eq(reset | (byte == Kind.CLEAR) if fills else reset),
                         self.is_data.eq(byte == Kind.DATA), self.is_poll.eq(byte == Kind.POLL)]
        with m.If(self.has_sequence):
            m.d.sync += self.sequence.eq(byte)
        with m.If(has_acknowledge):
            m.d.sync += self.acknowledge.eq(byte)
        with m.If(self.has_length):
            m.d.sync += [self.is_reset.eq(self.is_reset & empty), self.is_data.eq(self.is_data & ~empty),
                         self.is_poll.eq(self.is_poll & empty)]
        if fills:
            with m.If(self.begins):
                m.d.sync += self.is_clear.eq(byte == Kind.CLEAR)
        if names:
            with m.If(self.begins):
                m.d.sync += self.is_image.eq(byte == Kind.IMAGE)
            with m.If(self.has_length):
                m.d.sync += self.is_image.eq(self.is_image & (byte == DIGEST_BYTES))
