"""The packets between host and board (docs/host-link.md) as bytes, and back from bytes that may be anything.

In: `Packet` objects, or bytes in pieces of any size.  Out: bytes, or the packets that arrived whole, with a count of
what did not and why.
"""

from __future__ import annotations

import enum
import re
import zlib
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar, Self

__all__ = ["MAX_PAYLOAD", "VERSION", "Decoder", "Drop", "Identity", "Kind", "Memory", "MemoryState", "Packet", "Status",
           "encode"]

#: Version of the protocol.
VERSION = 1
#: Bytes of payload in one packet, at most.
MAX_PAYLOAD = 128

HEADER, CHECKSUM = 4, 4
#: The longest packet, and the longest between two flags, where every byte may be two.
LONGEST = HEADER + MAX_PAYLOAD + CHECKSUM
LONGEST_ESCAPED = 2 * LONGEST

FLAG, ESCAPE = b"\x7e", b"\x7d"
ESCAPED_FLAG, ESCAPED_ESCAPE = b"\x7d\x5e", b"\x7d\x5d"
#: An escape in front of nothing that is escaped.
WRONG_ESCAPE = re.compile(rb"\x7d(?![\x5d\x5e])")


class Kind(enum.IntEnum):
    """What a packet is; those from 0x80 come from the board."""

    RESET = 0x01
    DATA = 0x02
    POLL = 0x03
    CLEAR = 0x04
    IMAGE = 0x05
    IDENTITY = 0x81
    STATUS = 0x82
    RESULT = 0x83
    MEMORY = 0x84


class Drop(enum.StrEnum):
    """Why something between two flags is no packet."""

    CHECKSUM = "wrong checksum"
    LENGTH = "wrong length"
    ESCAPE = "wrong escape"
    TOO_LONG = "too long"
    TOO_SHORT = "too short"


@dataclass(frozen=True)
class Packet:
    """`kind`, `sequence` and `acknowledge` are bytes; `kind` may be one that is not in `Kind`."""

    kind: int
    sequence: int = 0
    acknowledge: int = 0
    payload: bytes = b""


def encode(packet: Packet) -> bytes:
    """The packet between two flags.  ValueError where it has more payload than a packet holds."""
    if len(packet.payload) > MAX_PAYLOAD:
        raise ValueError(f"the payload of a packet must have at most {MAX_PAYLOAD} bytes, not {len(packet.payload)}")
    body = bytes((packet.kind, packet.sequence, packet.acknowledge, len(packet.payload))) + packet.payload
    body += zlib.crc32(body).to_bytes(CHECKSUM, "little")
    return FLAG + body.replace(ESCAPE, ESCAPED_ESCAPE).replace(FLAG, ESCAPED_FLAG) + FLAG


class Decoder:
    """Takes bytes in pieces of any size and gives the packets in them; no bytes make it raise.

    `drops` counts what stood between two flags and was no packet.  How the bytes are cut makes no difference.
    """

    def __init__(self) -> None:
        self.drops: Counter[Drop] = Counter()
        self._begun = b""

    def feed(self, data: bytes) -> list[Packet]:
        """The packets that end in `data`, in order."""
        *whole, self._begun = (self._begun + data).split(FLAG)
        self._begun = self._begun[: LONGEST_ESCAPED + 1]  # enough to know that it is too long
        packets = []
        for escaped in filter(None, whole):
            found = decoded(escaped)
            if isinstance(found, Packet):
                packets.append(found)
            else:
                self.drops[found] += 1
        return packets


def decoded(escaped: bytes) -> Packet | Drop:
    """What stands between two flags."""
    if len(escaped) > LONGEST_ESCAPED:
        return Drop.TOO_LONG
    if WRONG_ESCAPE.search(escaped):
        return Drop.ESCAPE
    body = escaped.replace(ESCAPED_FLAG, FLAG).replace(ESCAPED_ESCAPE, ESCAPE)
    if len(body) > LONGEST:
        return Drop.TOO_LONG
    if len(body) < HEADER + CHECKSUM:
        return Drop.TOO_SHORT
    kind, sequence, acknowledge, length = body[:HEADER]
    if zlib.crc32(body[:-CHECKSUM]).to_bytes(CHECKSUM, "little") != body[-CHECKSUM:]:
        return Drop.CHECKSUM
    if len(body) != HEADER + length + CHECKSUM:
        return Drop.LENGTH
    return Packet(kind, sequence, acknowledge, body[HEADER:-CHECKSUM])


@dataclass(frozen=True)
class Identity:
    """What a board says of itself: the design, bytes of all inputs and of all outputs of a frame, room for data."""

    design: bytes
    bytes_in: int
    bytes_out: int
    room: int
    version: int = VERSION

    SIZE: ClassVar = 19

    @classmethod
    def parse(cls, payload: bytes) -> Self | None:
        """None for a payload of another length.  Of another `version` only that field counts."""
        if len(payload) != cls.SIZE:
            return cls(b"", 0, 0, 0, payload[0]) if payload and payload[0] != VERSION else None
        size_in, size_out, room = (int.from_bytes(payload[a:b], "little") for a, b in ((9, 13), (13, 17), (17, 19)))
        return cls(payload[1:9], size_in, size_out, room, payload[0])

    def payload(self) -> bytes:
        """The bytes that `parse` reads."""
        sizes = self.bytes_in.to_bytes(4, "little") + self.bytes_out.to_bytes(4, "little")
        return bytes([self.version]) + self.design + sizes + self.room.to_bytes(2, "little")


@dataclass(frozen=True)
class Status:
    """`expected` is the sequence of data that the board waits for, `room` the bytes that it can take behind those that
    it has."""

    expected: int
    room: int

    @staticmethod
    def of(packet: Packet) -> Status | None:
        """None for a payload of another length."""
        if len(packet.payload) != 2:
            return None
        return Status(packet.acknowledge, int.from_bytes(packet.payload, "little"))


class MemoryState(enum.IntEnum):
    """Whether a board's memory has its weights; from `NO_ANSWER` on why a flash has none."""

    EMPTY = 0
    FILLING = 1
    FILLED = 2
    NO_ANSWER = 3
    WRONG_PART = 4
    NOT_QUAD = 5
    OTHER_DESIGN = 6
    DAMAGED = 7


@dataclass(frozen=True)
class Memory:
    """What a board says of the memory with its weights: `digest` is that of its image where it is filled, and
    `image_bytes` what an image has."""

    state: MemoryState
    digest: bytes
    image_bytes: int

    SIZE: ClassVar = 21

    @classmethod
    def of(cls, packet: Packet) -> Self | None:
        """None for another kind, a payload of another length or an unknown state."""
        payload = packet.payload
        if packet.kind != Kind.MEMORY or len(payload) != cls.SIZE or payload[0] not in set(MemoryState):
            return None
        return cls(MemoryState(payload[0]), payload[1:17], int.from_bytes(payload[17:], "little"))

    def holds(self, digest: bytes) -> bool:
        """Whether the image with this digest is in it."""
        return self.state is MemoryState.FILLED and self.digest == digest
