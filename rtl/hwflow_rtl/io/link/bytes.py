"""Bytes of the host link (docs/host-link.md): across the clock domains, into and out of their frames, and the checksum.

Bytes come at most every forty cycles, so everything here takes several cycles for one and little logic.
"""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from ...stream.streams import BYTE, stream_of

FLAG, ESCAPE, FLIP = 0x7E, 0x7D, 0x20
#: The polynomial of CRC-32 (IEEE 802.3), least significant bit first.
POLYNOMIAL = 0xEDB88320


#: A byte of a packet, or, where `flag` is set, what is between two packets; `byte` means nothing then.  A flag with
#: `bad` says that what came before it is to be dropped.
TOKEN = data.StructLayout({"byte": 8, "flag": 1, "bad": 1})


class ByteCrossing(wiring.Component):
    """Bytes from the clock domain `source` to the clock domain `target`, whatever the ratio of the two clocks.

    A toggle goes there and comes back; the byte itself does not move: a stream holds its payload until it is taken,
    and here it is taken after the other side has.  So `i.payload` must come from registers, which are kept through a
    reset.  The toggles have no reset: a reset of one side alone loses at most the byte on its way.

    One byte takes about three cycles of each clock.

    Attributes
    ----------
    i, o : streams of bytes
        In `source` and in `target`.
    busy : Out(1)
        In `source`, from a register: a byte is on its way, and is not known to have been taken.
    """

    def __init__(self, *, source: str, target: str):
        self.source = source
        self.target = target
        super().__init__({"i": In(stream_of(BYTE, 1)), "o": Out(stream_of(BYTE, 1)), "busy": Out(1)})

    @staticmethod
    def model(octets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return octets

    def elaborate(self, platform):
        m = Module()
        asked, waiting = Signal(reset_less=True), Signal(reset_less=True)
        taken = Signal(reset_less=True)
        seen_asked, seen_taken = Signal(), Signal()
        m.submodules.to_target = FFSynchronizer(asked, seen_asked, o_domain=self.target)
        m.submodules.to_source = FFSynchronizer(taken, seen_taken, o_domain=self.source)

        m.d.comb += [self.i.ready.eq(waiting & (asked == seen_taken)), self.busy.eq(waiting)]
        with m.If(~waiting):
            m.d[self.source] += [asked.eq(asked ^ self.i.valid), waiting.eq(self.i.valid)]
        with m.Elif(self.i.ready):
            m.d[self.source] += waiting.eq(0)

        m.d.comb += [self.o.valid.eq(seen_asked != taken), self.o.payload.eq(self.i.payload)]
        with m.If(self.o.ready):
            m.d[self.target] += taken.eq(seen_asked)
        return m


class Deframer(wiring.Component):
    """Bytes of the line to tokens: escapes are undone.  A flag behind an escape is `bad`.

    Latency 1 cycle; a byte every 2 cycles.
    """

    def __init__(self):
        super().__init__({"i": In(stream_of(BYTE, 1)), "o": Out(stream.Signature(TOKEN))})

    @staticmethod
    def model(octets: bytes) -> list[bytes]:
        """Give what stood between flags, nothing for what was bad or empty, without what follows the last flag."""
        packets = []
        for escaped in octets.split(bytes([FLAG]))[:-1]:
            packet, flip = bytearray(), 0
            for octet in escaped:
                if octet == ESCAPE and not flip:
                    flip = FLIP
                else:
                    packet.append(octet ^ flip)
                    flip = 0
            if packet and not flip:
                packets.append(bytes(packet))
        return packets

    def elaborate(self, platform):
        m = Module()
        byte = self.i.payload[0]
        looked, is_flag, is_escape, escaped = Signal(), Signal(), Signal(), Signal()
        begins = Signal()  # an escape, which is not itself escaped
        m.d.comb += [
            begins.eq(looked & is_escape & ~escaped), self.o.valid.eq(looked & ~begins),
            self.o.payload.flag.eq(is_flag), self.o.payload.bad.eq(escaped),
            self.o.payload.byte.eq(Cat(byte[:5], byte[5] ^ escaped, byte[6:])),
            self.i.ready.eq(begins | looked & self.o.ready),
        ]
        m.d.sync += [looked.eq(self.i.valid & ~self.i.ready), is_flag.eq(byte == FLAG), is_escape.eq(byte == ESCAPE)]
        with m.If(self.i.ready):
            m.d.sync += escaped.eq(begins)
        return m


class Framer(wiring.Component):
    """Tokens to bytes of the line: what looks like a flag or an escape is escaped.

    It has no reset, so that the byte that it offers stays; a flag in the middle of a packet ends it at any time.  One
    that is `bad` looks like any other: what it ends has no right checksum.
    """

    def __init__(self):
        super().__init__({"i": In(stream.Signature(TOKEN)), "o": Out(stream_of(BYTE, 1))})

    @staticmethod
    def model(packet: bytes) -> bytes:
        """A packet without its flags."""
        escape = bytes([ESCAPE])
        return b"".join(escape + bytes([octet ^ FLIP]) if octet in (FLAG, ESCAPE) else bytes([octet])
                        for octet in packet)

    def elaborate(self, platform):
        m = Module()
        token = self.i.payload
        full, escaped = Signal(reset_less=True), Signal(reset_less=True)
        word = Signal(8, reset_less=True)
        special = Signal()
        m.d.comb += [
            special.eq((token.byte == FLAG) | (token.byte == ESCAPE)), self.o.valid.eq(full),
            self.o.payload[0].eq(word), self.i.ready.eq(~full & (token.flag | escaped | ~special)),
        ]
        with m.If(full):
            m.d.sync += full.eq(~self.o.ready)
        with m.Elif(self.i.valid):
            m.d.sync += [full.eq(1), escaped.eq(~self.i.ready)]
            with m.If(token.flag):
                m.d.sync += word.eq(FLAG)
            with m.Elif(~self.i.ready):
                m.d.sync += word.eq(ESCAPE)
            with m.Else():
                m.d.sync += word.eq(Cat(token.byte[:5], token.byte[5] ^ escaped, token.byte[6:]))
        return m


class Crc32(wiring.Component):
    """The checksum of a packet, a bit in a cycle.

    `start` takes `byte`, which has to stay for the eight cycles until `done`, a pulse.  With `tail` set the byte is one
    of the checksum itself: it shifts the checksum out, low byte first as `octet` shows it, and `good` falls where it
    differs.  `clear` begins a new packet.

    Attributes
    ----------
    byte : In(8)
    start, tail, clear : In(1)
    octet : Out(8)
        The next byte of the checksum.
    done, good : Out(1)
    """

    def __init__(self):
        super().__init__({"byte": In(8), "start": In(1), "tail": In(1), "clear": In(1), "octet": Out(8),
                          "done": Out(1), "good": Out(1)})

    @staticmethod
    def model(packet: bytes) -> bytes:
        """The four bytes behind `packet`."""
        return zlib.crc32(packet).to_bytes(4, "little")

    def elaborate(self, platform):
        m = Module()
        rest = Signal(32, init=0xFFFFFFFF)
        good = Signal(init=1)
        count, runs = Signal(3), Signal()
        differs, fold = Signal(), Signal()
        m.d.comb += [
            differs.eq(self.byte.bit_select(count, 1) ^ rest[0]), fold.eq(differs & ~self.tail),
            self.octet.eq(~rest[:8]), self.good.eq(good),
        ]
        m.d.sync += self.done.eq(runs & (count == 7))
        with m.If(self.start):
            m.d.sync += runs.eq(1)
        with m.If(runs):
            m.d.sync += [
                count.eq(count + 1), runs.eq(count != 7), good.eq(good & (differs | ~self.tail)),
                rest.eq(Cat(rest[1:], 0) ^ (fold.replicate(32) & POLYNOMIAL)),
            ]
        with m.If(self.clear):
            m.d.sync += [rest.eq(rest.init), good.eq(1)]
        return m


# The checksum of a packet on a line that brings a byte in every cycle.


#: The register before a packet, and behind one with its checksum.
START, RESIDUE = 0xFFFFFFFF, 0xDEBB20E3


def shifted(octet: int) -> int:
    """The register that the low byte `octet` leaves behind when it is shifted out."""
    for _ in range(8):
        octet = octet >> 1 ^ (POLYNOMIAL if octet & 1 else 0)
    return octet


def with_byte(m: Module, rest: Value, byte: Value, name: str) -> Value:
    """The register `rest` behind one more byte, at once: each bit is the parity of some of the low byte's."""
    low = Signal(8, name=name)
    m.d.comb += low.eq(rest[:8] ^ byte)
    parities = [Cat(low[k] for k in range(8) if shifted(1 << k) >> bit & 1).xor() for bit in range(32)]
    return (rest >> 8) ^ Cat(parities)
