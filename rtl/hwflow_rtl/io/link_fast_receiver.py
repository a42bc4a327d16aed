"""Packets from the host, a token in every cycle: see `PacketReceiver`, which takes ten."""

from __future__ import annotations

from amaranth.hdl import Const, Module, Signal, Value

from ..stream.pipeline import delay
from .link_fast_bytes import RESIDUE, START, with_byte
from .link_receiver import HEADER_BYTES, Header, PacketReceiver

__all__ = ["FastReceiver"]

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
        """What is left of the payload, less one, and of the checksum below that; whether all has come and no more;
        whether a byte of payload comes.  After too many bytes nothing does."""
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
    """What a header said, kept from the flag behind its packet to the next one."""

    def __init__(self, m: Module, header: Header, closes: Value):
        for name in ("is_reset", "is_data", "is_poll", "is_clear", "is_image", "sequence", "acknowledge"):
            kept = Signal.like(getattr(header, name), name=f"said_{name}")
            setattr(self, name, kept)
            with m.If(closes):
                m.d.sync += kept.eq(getattr(header, name))
