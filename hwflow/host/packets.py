"""The packets between host and board (docs/host-link.md) as bytes, and back from bytes that may be anything.

In: `Packet` objects, or what a line says is one packet.  Out: bytes, or the packet, or why there is none.
"""

from __future__ import annotations

import enum
import zlib
from dataclasses import dataclass
from typing import ClassVar, Self

#: Version of the protocol.
VERSION = 2
#: Bytes of payload in one packet, at most, whatever the board says.
LARGEST_PAYLOAD = 1463

HEADER, CHECKSUM = 5, 4
#: The longest packet.
LONGEST = HEADER + LARGEST_PAYLOAD + CHECKSUM


class Kind(enum.IntEnum):
    """The kinds of packets; those from 0x80 come from the board."""

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


class Drop(enum.StrEnum):
    """Why what came is no packet."""

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
    """The packet with its checksum.  ValueError where it has more payload than a packet holds."""
    size = len(packet.payload)
    if size > LARGEST_PAYLOAD:
        raise ValueError(f"the payload of a packet must have at most {LARGEST_PAYLOAD} bytes, not {size}")
    header = bytes((packet.kind, packet.sequence, packet.acknowledge)) + size.to_bytes(2, "little")
    body = header + packet.payload
    return body + zlib.crc32(body).to_bytes(CHECKSUM, "little")


def decode(whole: bytes) -> Packet | Drop:
    """The packet that `whole` is, or why it is none; no bytes make it raise."""
    if len(whole) > LONGEST:
        return Drop.TOO_LONG
    if len(whole) < HEADER + CHECKSUM:
        return Drop.TOO_SHORT
    body = whole[:-CHECKSUM]
    if zlib.crc32(body).to_bytes(CHECKSUM, "little") != whole[-CHECKSUM:]:
        return Drop.CHECKSUM
    if int.from_bytes(body[3:HEADER], "little") != len(body) - HEADER:
        return Drop.LENGTH
    return Packet(body[0], body[1], body[2], body[HEADER:])


@dataclass(frozen=True)
class Identity:
    """The identity that a board tells: the design, bytes of all inputs and of all outputs of a frame, room for data in
    bytes, and bytes of the largest payload."""

    design: bytes
    bytes_in: int
    bytes_out: int
    room: int
    largest: int
    version: int = VERSION

    SIZE: ClassVar = 21

    @classmethod
    def parse(cls, payload: bytes) -> Self | None:
        """None for a payload of another length.  Of another `version` only that field counts."""
        if payload and payload[0] != VERSION:
            return cls(b"", 0, 0, 0, 0, payload[0])
        if len(payload) != cls.SIZE:
            return None
        places = ((9, 13), (13, 17), (17, 19), (19, 21))
        return cls(payload[1:9], *(int.from_bytes(payload[a:b], "little") for a, b in places))

    def payload(self) -> bytes:
        """The bytes that `parse` reads."""
        numbers = ((self.bytes_in, 4), (self.bytes_out, 4), (self.room, 2), (self.largest, 2))
        return bytes([self.version]) + self.design + b"".join(number.to_bytes(size, "little")
                                                              for number, size in numbers)


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
    """The state of the memory with a board's weights: `digest` is that of its image where it is filled, and
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
