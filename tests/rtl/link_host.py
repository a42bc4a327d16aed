"""The host's side of docs/host-link.md, written from that page alone: packets, and a host that repeats what is lost."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

RESET, DATA, POLL, CLEAR, IMAGE = 0x01, 0x02, 0x03, 0x04, 0x05
IDENTITY, STATUS, RESULT, MEMORY = 0x81, 0x82, 0x83, 0x84
FLAG, ESCAPE = 0x7E, 0x7D


def frame_of(body: bytes) -> bytes:
    """A packet with its checksum, escaped, between flags."""
    whole = body + zlib.crc32(body).to_bytes(4, "little")
    escaped = b"".join(bytes([ESCAPE, octet ^ 0x20]) if octet in (FLAG, ESCAPE) else bytes([octet]) for octet in whole)
    return bytes([FLAG]) + escaped + bytes([FLAG])


def packet(kind: int, sequence: int = 0, acknowledge: int = 0, payload: bytes = b"") -> bytes:
    return frame_of(bytes([kind, sequence, acknowledge, len(payload)]) + payload)


@dataclass(frozen=True)
class Seen:
    """A packet that came without an error."""

    kind: int
    sequence: int
    acknowledge: int
    payload: bytes = b""


def packets_in(octets: Iterable[int]) -> tuple[list[Seen], int, bytes]:
    """What came: packets, how many times something else stood between flags, and what stands behind the last flag."""
    found, wrong = [], 0
    *bodies, rest = bytes(octets).split(bytes([FLAG]))
    for escaped in filter(None, bodies):
        body = escaped.replace(b"\x7d\x5e", b"\x7e").replace(b"\x7d\x5d", b"\x7d")
        whole = len(body) >= 8 and zlib.crc32(body[:-4]) == int.from_bytes(body[-4:], "little")
        if whole and len(body) == 8 + body[3] and escaped[-1] != ESCAPE:
            found.append(Seen(*body[:3], payload=body[4:-4]))
        else:
            wrong += 1
    return found, wrong, rest


class Host:
    """Sends `data` in order and collects results; asks again when nothing comes for long.

    `send()` is the next thing to put on the line, b"" where it waits; `receive(octets)` takes what came; `silence()`
    says that nothing has come for long.
    """

    def __init__(self, data: bytes, wanted: int, seed: int = 0):
        self.noise = random.Random(seed)
        self.data = data
        self.wanted = wanted
        self.results = b""
        self.next_result = 0
        self.identity: Seen | None = None
        self.token = self.noise.randrange(256)
        self.chunks: list[bytes] = []
        while data:
            size = self.noise.choice((1, 2, 17, 64, 127, 128))
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
