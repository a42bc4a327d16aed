"""The host's side of docs/host-link.md, written from that page alone: packets, and a host that repeats what is lost."""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

RESET, DATA, POLL, CLEAR, IMAGE, LINE = 0x01, 0x02, 0x03, 0x04, 0x05, 0x06
IDENTITY, STATUS, RESULT, MEMORY, SETTINGS = 0x81, 0x82, 0x83, 0x84, 0x85
FLAG, ESCAPE = 0x7E, 0x7D
#: An escape of nothing that is escaped.
WRONG_ESCAPE = re.compile(rb"\x7d(?![\x5d\x5e])")


def whole_of(body: bytes) -> bytes:
    """A packet with its checksum."""
    return body + zlib.crc32(body).to_bytes(4, "little")


def frame_of(body: bytes) -> bytes:
    """A packet with its checksum, escaped, between flags."""
    return bytes([FLAG]) + escaped(whole_of(body)) + bytes([FLAG])


def escaped(whole: bytes) -> bytes:
    """As it is between flags."""
    return whole.replace(b"\x7d", b"\x7d\x5d").replace(b"\x7e", b"\x7d\x5e")


def packet(kind: int, sequence: int = 0, acknowledge: int = 0, payload: bytes = b"") -> bytes:
    return frame_of(body_of(kind, sequence, acknowledge, payload))


def body_of(kind: int, sequence: int, acknowledge: int, payload: bytes) -> bytes:
    return bytes([kind, sequence, acknowledge]) + len(payload).to_bytes(2, "little") + payload


@dataclass(frozen=True)
class Seen:
    """A packet that came without an error."""

    kind: int
    sequence: int
    acknowledge: int
    payload: bytes = b""


def packet_in(whole: bytes) -> Seen | None:
    """What a packet with its checksum is; None where it is none."""
    if len(whole) < 9 or zlib.crc32(whole[:-4]) != int.from_bytes(whole[-4:], "little"):
        return None
    return Seen(*whole[:3], payload=whole[5:-4]) if len(whole) == 9 + whole[3] + 256 * whole[4] else None


def packets_in(octets: Iterable[int]) -> tuple[list[Seen], int, bytes]:
    """What came: packets, how many times something else stood between flags, and what stands behind the last flag."""
    found, wrong = [], 0
    *bodies, rest = bytes(octets).split(bytes([FLAG]))
    for between in filter(None, bodies):
        body = between.replace(b"\x7d\x5e", b"\x7e").replace(b"\x7d\x5d", b"\x7d")
        seen = None if WRONG_ESCAPE.search(between) else packet_in(body)
        if seen is not None:
            found.append(seen)
        else:
            wrong += 1
    return found, wrong, rest


class Host:
    """Sends `data` in order and collects results; asks again when nothing comes for long.

    `send()` is the next thing to put on the line, b"" where it waits; `receive(octets)` takes what came; `silence()`
    says that nothing has come for long.
    """

    def __init__(self, data: bytes, wanted: int, seed: int = 0, sizes: tuple[int, ...] = (1, 2, 17, 64, 127, 128)):
        self.noise = random.Random(seed)
        self.data = data
        self.wanted = wanted
        self.results = b""
        self.next_result = 0
        self.identity: Seen | None = None
        self.token = self.noise.randrange(256)
        self.chunks: list[bytes] = []
        while data:
            size = self.noise.choice(sizes)
            self.chunks.append(data[:size])
            data = data[size:]
        self.taken = self.sent = 0  # chunks
        self.room = 0
        self.queue = [packet(RESET, self.token)]
        self.pending = b""
        self.resets = 0

    @property
    def done(self) -> bool:
        return len(self.results) >= self.wanted

    def send(self) -> bytes:
        if self.queue:
            return self.queue.pop(0)
        outstanding = sum(map(len, self.chunks[self.taken:self.sent]))
        if self.identity and self.sent < len(self.chunks) and self.sent - self.taken < 4:
            chunk = self.chunks[self.sent]
            if outstanding + len(chunk) <= self.room:
                self.sent += 1
                return packet(DATA, self.sent - 1 & 255, self.next_result & 255, chunk)
        return b""

    def silence(self) -> None:
        self.sent = self.taken
        self.queue = [packet(POLL, 0, self.next_result & 255) if self.identity else packet(RESET, self.token)]

    def receive(self, octets: bytes) -> None:
        found, _, self.pending = packets_in(self.pending + octets)
        for seen in found:
            if seen.kind == IDENTITY and seen.sequence == self.token and self.identity is None:
                self.identity, self.room = seen, int.from_bytes(seen.payload[17:19], "little")
            elif self.identity and seen.kind == STATUS:
                self.taken += (seen.acknowledge - self.taken) & 255
                self.sent = max(self.sent, self.taken)
                self.room = int.from_bytes(seen.payload, "little")
            elif self.identity and seen.kind == RESULT and seen.sequence == self.next_result & 255:
                self.results += seen.payload
                self.next_result += 1
                if self.taken == len(self.chunks):  # an acknowledgement alone: these data are not expected
                    self.queue.append(packet(DATA, self.taken - 1 & 255, self.next_result & 255, b"\0"))
