"""A board as docs/host-link.md describes it, in Python; and lines that lose and damage bytes.

Written from that page alone and without the driver's code, so that a mistake in one is not made in the other.  It takes
bytes and gives bytes; it has no timers.
"""

from __future__ import annotations

import binascii
import itertools
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.rtl.link_host import (
    CLEAR,
    DATA,
    IDENTITY,
    IMAGE,
    MEMORY,
    POLL,
    RESET,
    RESULT,
    STATUS,
    body_of,
    frame_of,
    whole_of,
)

#: Bytes of a frame's inputs to bytes of its outputs.
Network = Callable[[bytes], bytes]


def whole(kind: int, sequence: int, acknowledge: int, payload: bytes = b"") -> bytes:
    """A packet with its checksum."""
    return whole_of(body_of(kind, sequence, acknowledge, payload))


def framed(kind: int, sequence: int, acknowledge: int, payload: bytes = b"") -> bytes:
    return frame_of(body_of(kind, sequence, acknowledge, payload))


@dataclass
class ReferenceBoard:
    """`speed`: frames that the core computes for each packet that comes in; `window`: packets of results on their way.

    `started` without a RESET it takes nothing.  `lost` counts packets with errors, `refused` data dropped because they
    were not expected, `full` those without room.

    With `image_bytes` it has a memory for so many bytes of weights, in `memory`; `busy`: how many IMAGE it answers
    before all of an image is in the memory.  With `in_flash`, the digest of an image, this is a flash: then `busy` is
    how many it answers before it has read that.
    """

    network: Network
    bytes_in: int
    bytes_out: int
    design: bytes = b"hwflow01"
    room: int = 512
    largest: int = 128
    window: int = 4
    speed: float = 1e9
    version: int = 2
    lost: int = 0
    refused: int = 0
    full: int = 0
    resets: int = 0
    taken: int = 0
    image_bytes: int = 0
    busy: int = 0
    clears: int = 0
    in_flash: bytes = b""
    begun: bytearray = field(default_factory=bytearray)
    escape: bool = False

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Power on."""
        self.open = False
        self.memory, self.digest, self.chosen, self.filling = bytearray(), b"", b"", False
        self.clear()

    def clear(self) -> None:
        self.queue = bytearray()  # data in front of the core
        self.inside = bytearray()  # a frame that the core has begun
        self.done = 0.0
        self.results: list[bytes] = []  # packets of results from `base` on
        self.expected = self.base = self.next = 0
        self.sent_again = 0

    # -- the line

    def datagram(self, data: bytes) -> list[bytes]:
        """The packets that it says to one, without framing."""
        pieces = filter(None, self.packet(data, whole=True).split(b"\x7e"))
        return [re.sub(rb"\x7d(.)", lambda found: bytes([found[1][0] ^ 0x20]), piece, flags=re.S) for piece in pieces]

    def feed(self, data: bytes) -> bytes:
        """What it says to these bytes."""
        answers = bytearray()
        for byte in data:
            if byte == 0x7E:
                if self.begun or self.escape:
                    answers += self.packet(bytes(self.begun), whole=not self.escape)
                self.begun.clear()
                self.escape = False
            elif self.escape:
                self.begun.append(byte ^ 0x20 if byte ^ 0x20 in (0x7E, 0x7D) else 0)
                self.escape = False
            elif byte == 0x7D:
                self.escape = True
            elif len(self.begun) <= 9 + self.largest:
                self.begun.append(byte)
        return bytes(answers)

    def packet(self, body: bytes, *, whole: bool) -> bytes:
        right = whole and 9 <= len(body) <= 9 + self.largest and len(body) == 9 + body[3] + 256 * body[4]
        if not right or binascii.crc32(body[:-4]) != int.from_bytes(body[-4:], "little"):
            self.lost += 1
            return b""
        kind, sequence, acknowledge = body[:3]
        if kind == RESET or (kind == CLEAR and self.image_bytes and not self.in_flash):
            self.resets += 1
            self.open = True
            self.chosen, self.filling = b"", kind == CLEAR
            if kind == CLEAR:
                self.clears += 1
                self.memory, self.digest = bytearray(), b""
            self.clear()
            return self.identity(sequence)
        if kind not in (DATA, POLL) and (kind != IMAGE or not self.image_bytes):
            return b""
        if not self.open:
            return self.identity(sequence)
        if kind == IMAGE:
            return self.image(sequence, body[5:-4])
        if self.image_bytes and not self.filling and (not self.digest or self.chosen != self.digest):
            return self.state(sequence)
        self.acknowledged(acknowledge)
        if kind == DATA:
            self.data(sequence, body[5:-4])
        else:
            self.sent_again += self.next - self.base
            self.next = self.base
        self.compute()
        free = self.room - len(self.queue)
        return framed(STATUS, 0, self.expected % 256, free.to_bytes(2, "little")) + self.give()

    def identity(self, sequence: int) -> bytes:
        sizes = self.bytes_in.to_bytes(4, "little") + self.bytes_out.to_bytes(4, "little")
        sizes += self.room.to_bytes(2, "little") + self.largest.to_bytes(2, "little")
        said = bytes([self.version]) + self.design + sizes
        return framed(IDENTITY, sequence, 0, said)

    def image(self, sequence: int, digest: bytes) -> bytes:
        """A digest: the name of what was filled in, or of what frames are for."""
        if self.in_flash:
            self.busy -= 1
            self.digest = self.in_flash if self.busy < 0 else b""
            self.chosen = digest if self.digest else b""
        elif not self.filling:
            self.chosen = digest
        elif len(self.memory) == self.image_bytes and not self.digest:
            self.busy -= 1
            if self.busy < 0:
                self.digest = digest
        return self.state(sequence)

    def state(self, sequence: int) -> bytes:
        state = 2 if self.digest else 1 if self.filling or self.in_flash else 0
        said = bytes([state]) + self.digest.ljust(16, b"?") + self.image_bytes.to_bytes(4, "little")
        return framed(MEMORY, sequence, self.expected % 256, said)

    def data(self, sequence: int, payload: bytes) -> None:
        if sequence != self.expected % 256:
            self.refused += 1
        elif len(self.queue) + len(payload) > self.room:
            self.full += 1
        else:
            self.queue += payload
            self.expected += 1
            self.taken += 1

    def acknowledged(self, acknowledge: int) -> None:
        count = (acknowledge - self.base) % 256
        if count <= len(self.results):
            del self.results[:count]
            self.base += count
            self.next = max(self.next, self.base)

    # -- the core

    def compute(self) -> None:
        """As much as the core manages until the next packet; it stops when nobody takes its results."""
        if self.filling:
            take = self.image_bytes - len(self.memory)
            self.memory += self.queue[:take]
            del self.queue[:take]
            return
        self.done = min(self.done + self.speed, 1e9)
        while len(self.results) < 4 * self.window:
            take = min(self.bytes_in - len(self.inside), len(self.queue))
            self.inside += self.queue[:take]
            del self.queue[:take]
            if len(self.inside) < self.bytes_in or self.done < 1:
                return
            made = self.network(bytes(self.inside))
            assert len(made) == self.bytes_out
            self.results += [made[k : k + self.largest] for k in range(0, len(made), self.largest)]
            self.inside.clear()
            self.done -= 1

    def give(self) -> bytes:
        """Packets of results, while fewer than the window are on their way."""
        answers = b""
        while self.next - self.base < min(self.window, len(self.results)):
            answers += framed(RESULT, self.next % 256, self.expected % 256, self.results[self.next - self.base])
            self.next += 1
        return answers


@dataclass
class Line:
    """One direction of a line.  `bits`: probability that a bit is wrong; `bytes_`: that a byte is lost, or comes twice
    (half of them each); `bursts`: that behind a byte comes noise; `cuts`: that behind a byte all is lost for a while.

    `damaged` counts everything that it did; `hits` the packets that did not pass as they were, by kind and low byte
    of length.
    """

    seed: int = 0
    bits: float = 0.0
    bytes_: float = 0.0
    bursts: float = 0.0
    cuts: float = 0.0
    damaged: int = 0
    cut: int = 0
    hits: Counter[tuple[int, int]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def __call__(self, data: bytes) -> bytes:
        if not (self.bits or self.bytes_ or self.bursts or self.cuts):
            return data
        return b"".join(map(self.packet, re.findall(rb"\x7e[^\x7e]+\x7e", data)))

    def packet(self, data: bytes) -> bytes:
        passed = b"".join(map(self.byte, data))
        if passed != data:
            self.hits[data[1], data[4]] += 1
        return passed

    def byte(self, byte: int) -> bytes:
        if self.cut:
            self.cut -= 1
            return b""
        chance = self.random.random()
        limits = itertools.accumulate((8 * self.bits, self.bytes_, self.bursts, self.cuts))
        what = next((k for k, limit in enumerate(limits) if chance < limit), None)
        self.damaged += what is not None
        if what == 0:
            return bytes([byte ^ 1 << self.random.randrange(8)])
        if what == 1:
            return bytes([byte]) * self.random.choice((0, 2))
        if what == 2:
            return bytes([byte]) + self.random.randbytes(self.random.randrange(1, 300))
        if what == 3:
            self.cut = self.random.randrange(1, 40)
        return bytes([byte])


class MemoryPort:
    """The driver's port on a board in memory, with a clock that runs only while somebody waits.

    `pieces` cuts what comes into pieces of at most so many bytes.
    """

    name = "the line of the test"

    def __init__(self, board: ReferenceBoard, there: Line | None = None, back: Line | None = None, *, pieces: int = 0,
                 byte_time: float = 1e-5) -> None:
        self.board, self.there, self.back = board, there or Line(), back or Line()
        self.pieces, self.byte_time = pieces, byte_time
        self.time = 0.0
        self.coming = bytearray()
        self.closed = False
        self.before_write: Callable[[bytes], None] = lambda data: None

    def clock(self) -> float:
        return self.time

    def write(self, data: bytes) -> None:
        self.before_write(data)
        self.time += len(data) * self.byte_time
        self.coming += self.back(self.board.feed(self.there(data)))

    def read(self, timeout: float) -> bytes:
        if not self.coming:
            self.time += timeout + 1e-6
            return b""
        count = self.pieces or len(self.coming)
        data = bytes(self.coming[:count])
        del self.coming[:count]
        self.time += len(data) * self.byte_time
        return data

    def close(self) -> None:
        self.closed = True
