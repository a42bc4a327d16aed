"""Both ends of the host's part of the protocol as counts, without a line or a clock: what to send, what to believe.

Sequences are counted without end here and put on the line modulo 256.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterator

from hwflow.host.packets import MAX_PAYLOAD

__all__ = ["Arrival", "Collector", "Outbox", "near"]

MODULUS = 256
#: Packets of data that are on their way at a time, at most: fewer than half of the sequences, so that an old one is
#: never taken for a new one, and a sequence that is surely not expected exists.
MOST_IN_FLIGHT = 64


def near(sequence: int, count: int) -> int:
    """The number modulo 256 that `sequence` says, as the one nearest to `count` (128 before it up to 127 behind it)."""
    return count + (sequence - count + MODULUS // 2) % MODULUS - MODULUS // 2


class Outbox:
    """Data on their way to the board: cut into packets, kept until the board has them, sent again from where one was
    lost (go-back-N), and never more than the board has room for.

    `base` is the first packet that the board is not known to have, `cursor` the next one for the line, `end` the
    first that is not cut yet: base <= cursor <= end.
    """

    def __init__(self, room: int) -> None:
        self.base = self.cursor = self.end = 0
        #: Free bytes on the board behind all packets before `base`.
        self.room = room
        self.capacity = room
        #: The first packet that was never on the line.
        self.fresh = 0
        self._packets: deque[bytes] = deque()
        self._data = memoryview(b"")

    def offer(self, data: bytes) -> None:
        """Bytes to send behind those that the board has; all before must have arrived."""
        assert self.done, "data wait already"
        self._data = memoryview(data)

    @property
    def in_flight(self) -> int:
        """Packets on the line that the board is not known to have."""
        return self.cursor - self.base

    @property
    def done(self) -> bool:
        """Whether the board has everything."""
        return self.base == self.end and not self._data

    @property
    def again(self) -> bool:
        """Whether the next packet was on the line before."""
        return self.cursor < self.fresh

    def next(self) -> tuple[int, bytes] | None:
        """The next packet for the line, as sequence and payload; None where there is none or no room for it."""
        before = sum(map(len, self._first(self.in_flight)))
        if self.cursor == self.end and not self._cut(self.room - before):
            return None
        payload = self._packets[self.in_flight]
        if before + len(payload) > self.room or self.in_flight >= MOST_IN_FLIGHT:
            return None
        self.cursor += 1
        self.fresh = max(self.fresh, self.cursor)
        return (self.cursor - 1) % MODULUS, payload

    def _first(self, count: int) -> Iterator[bytes]:
        return (self._packets[k] for k in range(count))

    def _cut(self, room: int) -> bool:
        """Make the next packet of the data, where it has room."""
        size = min(MAX_PAYLOAD, self.capacity, len(self._data))
        if not size or size > room:
            return False
        self._packets.append(bytes(self._data[:size]))
        self._data = self._data[size:]
        self.end += 1
        return True

    def unexpected(self) -> int:
        """A sequence that the board does not expect, whatever it has."""
        return (self.base - MODULUS // 2) % MODULUS

    def status(self, expected: int, room: int) -> int | None:
        """The board expects `expected` and has `room` bytes: how many packets more it has than was known.

        None where that cannot be: it expects what was never sent, or what it had already.
        """
        count = near(expected, self.base)
        if not self.base <= count <= self.fresh:
            return None
        arrived = count - self.base
        for _ in range(arrived):
            self._packets.popleft()
        self.base, self.room = count, room
        self.cursor = max(self.cursor, count)
        return arrived

    def go_back(self) -> None:
        """Send again all that the board is not known to have."""
        self.cursor = self.base


class Arrival(enum.Enum):
    """What a packet of results is to the host."""

    NEXT = "next"
    REPEAT = "repeat"
    BEHIND_A_GAP = "behind a gap"


class Collector:
    """Results in their order.  `expected` counts the packets taken."""

    def __init__(self) -> None:
        self.expected = 0
        self.data = bytearray()

    @property
    def acknowledge(self) -> int:
        return self.expected % MODULUS

    def take(self, sequence: int, payload: bytes) -> Arrival:
        """Keep the payload where it is the next one."""
        ahead = near(sequence, self.expected) - self.expected
        if ahead:
            return Arrival.BEHIND_A_GAP if ahead > 0 else Arrival.REPEAT
        self.expected += 1
        self.data += payload
        return Arrival.NEXT
