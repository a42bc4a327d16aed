"""Packets from the host (docs/host-link.md): what is right is done, everything else is dropped.

`PacketReceiver` takes ten cycles or more for a token, `FastReceiver` one.
"""

from __future__ import annotations

from enum import IntEnum

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import enum, stream, wiring
from amaranth.lib.wiring import In, Out

from ...stream.pipeline import delay
from .bytes import RESIDUE, START, TOKEN, Crc32, with_byte
from .image import DIGEST_BYTES, IMAGE_PACKETS, Beside
from .shape import LinkShape

#: Length of a header, and of what a line can be set to.
HEADER_BYTES, SETTINGS_BYTES = 5, 4


class Kind(IntEnum):
    """The first byte of a packet."""

    RESET = 0x01
    DATA = 0x02
    POLL = 0x03
    CLEAR = 0x04
    IMAGE = 0x05
    LINE = 0x06
    IDENTITY = 0x81
    STATUS = 0x82
    RESULT = 0x83
    MEMORY = 0x84
    SETTINGS = 0x85


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
    shape
        The size of packets; what follows `memory_sent` is only there where the line has settings.
    memory
        What stands beside the FPGA: what follows `error` is only there with a memory, `clear` and `cleared` with one
        that the host fills.

    Attributes
    ----------
        From the line: the `o` of a `Transport`.
    room : In(range(shape.room + 1))
        Of the data queue.
    write, byte : Out(1), Out(8)
        A byte of payload of DATA that are expected and have room.
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
    wants_settings, settings_sent : Out(1), In(1)
        The host is to have a SETTINGS with `sequence`; it has.
    settings : Out(32)
        What the host wants; holds while `wants_settings`.
    """

    def __init__(self, *, shape: LinkShape, memory: Beside = Beside.NOTHING):
        self.shape = shape
        self.names, self.fills = memory is not Beside.NOTHING, memory is Beside.FILLED
        super().__init__({
            "i": In(stream.Signature(TOKEN)), "room": In(range(shape.room + 1)),
            "write": Out(1), "byte": Out(8), "commit": Out(1), "rollback": Out(1), "expected": Out(8),
            "wants_status": Out(1), "repeat": Out(1),
            "wants_identity": Out(1), "sequence": Out(8), "identity_sent": In(1),
            "acknowledged": Out(1), "acknowledge": Out(8), "restart": Out(1, init=1), "stopped": In(1),
            "error": Out(1),
            **({"image": Out(IMAGE_PACKETS), "wants_memory": Out(1), "memory_sent": In(1)} if self.names else {}),
            **({"clear": Out(1), "cleared": In(1)} if self.fills else {}),
            **({"wants_settings": Out(1), "settings_sent": In(1), "settings": Out(8 * SETTINGS_BYTES)}
               if shape.settings else {}),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.crc = crc = Crc32()
        byte = self.i.payload.byte
        started, act, end, closed = Signal(), Signal(), Signal(), Signal()
        taken, writes, accepted = Signal(), Signal(), Signal()
        state, place, left = Signal(State), Signal(range(HEADER_BYTES)), Signal(max(8, self.shape.length_bits))
        # The checksum runs over a flag as well, which does no harm: the flag clears it.
        m.d.comb += [
            crc.byte.eq(byte), crc.start.eq(self.i.valid & ~started), self.i.ready.eq(crc.done),
            act.eq(crc.done & ~self.i.payload.flag), end.eq(crc.done & self.i.payload.flag), crc.clear.eq(end),
            crc.tail.eq(state == State.CHECK), self.write.eq(act & writes), self.byte.eq(byte),
            self.rollback.eq(closed & ~self.commit),
        ]
        good = (state == State.END) & crc.good & ~self.i.payload.bad
        empty = (state == State.HEADER) & (place == 0)
        m.d.sync += [started.eq(self.i.valid & ~crc.done), closed.eq(end), accepted.eq(end & good),
                     self.error.eq(end & ~good & ~empty), writes.eq(taken & (state == State.PAYLOAD))]
        fields = [act & (state == State.HEADER) & (place == k) for k in range(HEADER_BYTES)]
        header = Header(m, byte, left, fields, names=self.names, fills=self.fills,
                        asks=~self.wants_settings if self.shape.settings else None)
        self.parts(m, act, state, place, left, header)
        with m.If(end):  # whatever the part was
            m.d.sync += [state.eq(State.HEADER), place.eq(0)]
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
            m.d.sync += taken.eq(header.is_data & in_turn & awake & usable & ready & (self.room >= header.count))
        self.obey(m, header, accepted, taken, awake, usable)
        if self.shape.settings:
            self.set_line(m, header, act & (state == State.PAYLOAD), accepted)
        return m

    def parts(self, m: Module, act: Signal, state: Signal, place: Signal, left: Signal, header: Header) -> None:
        """Which part of the packet comes next.  `left`: the low byte of its length, then the bytes of payload."""
        length, last = header.length, Signal()  # the byte is the last one of the payload
        m.d.sync += last.eq(left == 1)
        with m.If(act):
            m.d.sync += place.eq(place + 1)
            with m.Switch(state):
                with m.Case(State.HEADER):
                    m.d.sync += left.eq(Mux(place[-1], length, length[8:]))
                    with m.If(place[-1]):
                        m.d.sync += [place.eq(0), state.eq(State.PAYLOAD)]
                        with m.If(length == 0):
                            m.d.sync += state.eq(State.CHECK)
                        with m.Elif(length > self.shape.payload):
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
        """Do what an accepted packet says.  `taken`: DATA that can be used; `awake`: there was a RESET."""
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

    def set_line(self, m: Module, header: Header, act: Value, accepted: Signal) -> None:
        """A LINE is kept, right or wrong; a right one is answered, and no other is kept until that has left."""
        with m.If(act & header.is_line):
            m.d.sync += self.settings.eq(Cat(self.settings[8:], self.i.payload.byte))
        with m.If(self.settings_sent):
            m.d.sync += self.wants_settings.eq(0)
        with m.If(accepted & header.is_line):
            m.d.sync += [self.wants_settings.eq(1), self.sequence.eq(header.sequence)]


class Header:
    """Holds what the header of a packet says: signals that hold from the last byte of its length to the next packet.

    `fields` are the moments of its bytes; in the last one `left` has the low byte of the length.  CLEAR is a RESET that
    does more.  `asks`: whether a LINE may come, None where the line has no settings.
    """

    def __init__(self, m: Module, byte: Value, left: Signal, fields: list[Value], *, names: bool, fills: bool,
                 asks: Value | None):
        self.begins, self.has_sequence, has_acknowledge, _, self.has_length = fields
        #: In the moment `has_length`; `count` is enough where it is not too long.
        self.length = Cat(left[:8], byte)
        self.count = self.length[:len(left)]
        self.is_reset, self.is_data, self.is_poll = (Signal(name=f"is_{kind}") for kind in ("reset", "data", "poll"))
        self.is_clear, self.is_image, self.is_line = (Signal(name=f"is_{kind}") for kind in ("clear", "image", "line"))
        self.sequence, self.acknowledge = Signal(8, name="given_sequence"), Signal(8, name="given_acknowledge")
        reset, empty = byte == Kind.RESET, self.length == 0
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
        for there, signal, allowed, kind, size in (
                (names, self.is_image, Const(1, 1), Kind.IMAGE, DIGEST_BYTES),
                (asks is not None, self.is_line, asks, Kind.LINE, SETTINGS_BYTES)):
            if there:
                with m.If(self.begins):
                    m.d.sync += signal.eq((byte == kind) & allowed)
                with m.If(self.has_length):
                    m.d.sync += signal.eq(signal & (self.length == size))


#: Bytes of the checksum behind the payload.
CHECK_BYTES = 4
#: Cycles from a byte of payload to its `write`: so many pass until it is known whether the DATA are taken.
TO_WRITE = 3
#: Cycles in which the packet before is obeyed.
TO_OBEY = 3


class FastReceiver(PacketReceiver):
    """A `PacketReceiver` that takes a token in every cycle.

    It is a pipeline that never stops.  The bytes are counted down from the length on; the checksum runs over the whole
    packet, and leaves a known rest where it was right.  `write` comes `TO_WRITE` cycles behind its byte, and what a
    packet says is done two cycles behind the flag.  By then no new header can have come further than its second byte,
    so what is compared with the next one is compared later.
    """

    def elaborate(self, platform):
        m = Module()
        valid, token = Signal(), Signal.like(self.i.payload)
        act, end, byte = Signal(), Signal(), Signal(8)
        m.d.comb += [self.i.ready.eq(1), act.eq(valid & ~token.flag), end.eq(valid & token.flag), byte.eq(token.byte)]
        m.d.sync += [valid.eq(self.i.valid), token.eq(self.i.payload)]
        place, low = Signal(HEADER_BYTES + 1, init=1), Signal(8)  # which byte of the header, or any behind it, is next
        with m.If(end):
            m.d.sync += place.eq(1)
        with m.Elif(act & ~place[-1]):
            m.d.sync += place.eq(place << 1)
        with m.If(act & place[HEADER_BYTES - 2]):
            m.d.sync += low.eq(byte)
        header = Header(m, byte, low, [act & place[k] for k in range(HEADER_BYTES)], names=self.names,
                        fills=self.fills, asks=None)
        left, whole, in_payload = self.count(m, header, act & place[-1])
        usable = self.image.usable if self.names else Const(1, 1)
        taken, awake = Signal(), Signal()
        self.decide(m, header, taken, awake, usable)
        writes = delay(m, in_payload, TO_WRITE - 1, "payload", reset_less=False)
        m.d.sync += self.write.eq(writes & taken)
        m.d.comb += self.byte.eq(delay(m, byte, TO_WRITE, "byte"))

        accepted, said, said_taken = self.judge(m, header, byte, act, end, whole & place[-1] & ~token.bad,
                                                end & ~place[0], taken)
        if self.names:
            m.d.comb += [
                self.image.begin.eq(delay(m, header.begins, TO_OBEY, "begins", reset_less=False)),
                self.image.write.eq(delay(m, in_payload & header.is_image, TO_WRITE, "digest", reset_less=False)),
                self.image.byte.eq(self.byte), self.image.place.eq(delay(m, (left + 1)[:4], TO_WRITE, "digest_place"))]
        self.obey(m, said, accepted, said_taken, awake, usable)
        return m

    def count(self, m: Module, header: Header, body: Value) -> tuple[Signal, Signal, Signal]:
        """Count what is left of the payload, less one, and of the checksum below that; whether all has come and no
        more; whether a byte of payload comes.  After too many bytes nothing does."""
        left, over = Signal(range(-2 - CHECK_BYTES, self.shape.payload)), Signal()
        whole, in_payload = Signal(), Signal()
        m.d.comb += [whole.eq((left == -1 - CHECK_BYTES) & ~over), in_payload.eq(body & ~left[-1] & ~over)]
        with m.If(header.has_length):
            m.d.sync += [left.eq(header.length - 1), over.eq(header.length > self.shape.payload)]
        with m.Elif(body):
            m.d.sync += [left.eq(left - 1), over.eq(over | (left == -1 - CHECK_BYTES))]
        return left, whole, in_payload

    def decide(self, m: Module, header: Header, taken: Signal, awake: Signal, usable: Value) -> None:
        """Whether the payload that follows is taken, in two steps behind the header."""
        counted, fits, in_turn, length = Signal(), Signal(), Signal(), Signal(self.shape.length_bits)
        ready = ~self.restart & ~self.stopped
        if self.fills:
            ready = ready & ~self.clear & ~self.cleared
        m.d.sync += [counted.eq(delay(m, header.has_length, 1, "has_length", reset_less=False)),
                     fits.eq(self.room >= length), in_turn.eq(header.sequence == self.expected)]
        with m.If(header.has_length):
            m.d.sync += length.eq(header.length)
        with m.If(counted):
            m.d.sync += taken.eq(header.is_data & in_turn & fits & awake & usable & ready)

    def judge(self, m: Module, header: Header, byte: Value, act: Value, end: Value, whole: Value, closes: Value,
              taken: Signal) -> tuple[Signal, Said, Signal]:
        """Two cycles behind a flag: whether the packet was right, what it said, and whether its payload was taken."""
        rest, matches = Signal(32, init=START), Signal(4)
        with m.If(end):
            m.d.sync += rest.eq(START)
        with m.Elif(act):
            m.d.sync += rest.eq(with_byte(m, rest, byte, "low"))
        m.d.sync += [matches[k].eq(rest[8 * k:8 * k + 8] == RESIDUE >> 8 * k & 0xFF) for k in range(4)]
        was_whole, closing, closed, accepted = Signal(), Signal(), Signal(), Signal()
        good = was_whole & matches.all()
        m.d.sync += [was_whole.eq(whole), closing.eq(closes), closed.eq(closing), accepted.eq(closing & good),
                     self.error.eq(closing & ~good)]
        m.d.comb += self.rollback.eq(closed & ~self.commit)
        said, said_taken = Said(m, header, closes), Signal()
        with m.If(closes):
            m.d.sync += said_taken.eq(taken)
        return accepted, said, said_taken


class Said:
    """Holds what a header said, from the flag behind its packet to the next one."""

    def __init__(self, m: Module, header: Header, closes: Value):
        for name in ("is_reset", "is_data", "is_poll", "is_clear", "is_image", "sequence", "acknowledge"):
            kept = Signal.like(getattr(header, name), name=f"said_{name}")
            setattr(self, name, kept)
            with m.If(closes):
                m.d.sync += kept.eq(getattr(header, name))
