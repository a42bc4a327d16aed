"""Both ends of the host's part of the protocol as counts, without a line or a clock: what to send, what to believe.

Sequences are counted without end here and put on the line modulo 256.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterator

MODULUS = 256
#: Packets of data that are on their way at a time, at most: fewer than half of the sequences, so that an old one is
#: never taken for a new one, and a sequence that is surely not expected exists.
MOST_IN_FLIGHT = 64
#: The same where many are lost.
LEAST_IN_FLIGHT = 3
#: Bytes of the packets on a line that loses many, and packets in a row that arrive before larger ones are tried.
FEW, STREAK = 128, 16


def near(sequence: int, count: int) -> int:
    """The number modulo 256 that `sequence` says, as the one nearest to `count` (128 before it up to 127 behind it)."""
    return count + (sequence - count + MODULUS // 2) % MODULUS - MODULUS // 2


class Outbox:
    """Data on their way to the board: cut into packets, kept until the board has them, sent again from where one was
    lost (go-back-N), and never more than the board has room for.

    `base` is the first packet that the board is not known to have, `cursor` the next one for the line, `end` the
    first that is not cut yet: base <= cursor <= end.
    """

    def __init__(self, room: int, largest: int) -> None:
        """`room`: bytes that the board can take at first; `largest`: bytes of its largest payload."""
        self.base = self.cursor = self.end = 0
        #: Free bytes on the board behind all packets before `base`.
        self.room = room
        self.capacity = room
        #: Bytes of the packets that are cut: at first few, which pass a bad line, and more and more on a good one.
        self.most = min(room, largest)
        self.size = self.least = min(self.most, FEW)
        #: Packets that arrived since the last that did not, and how many may be on their way: all behind a lost one are
        #: sent again.
        self.streak, self.window = 0, MOST_IN_FLIGHT
        #: The first packet that was never on the line.
        self.fresh = 0
        self._packets: deque[bytes] = deque()
        self._data: deque[memoryview] = deque()
        #: Bytes that are not cut into packets yet.
        self.uncut = 0

    def offer(self, data: bytes) -> None:
        """Bytes to send behind all before."""
        if data:
            self._data.append(memoryview(data))
            self.uncut += len(data)

    @property
    def in_flight(self) -> int:
        """Packets on the line that the board is not known to have."""
        return self.cursor - self.base

    @property
    def done(self) -> bool:
        """Whether the board has everything."""
        return self.base == self.end and not self.uncut

    @property
    def left(self) -> int:
        """Bytes that the board is not known to have."""
        return sum(map(len, self._packets)) + self.uncut

    @property
    def again(self) -> bool:
        """Whether the next packet was on the line before."""
        return self.cursor < self.fresh

    def next(self, *, short: bool = True) -> tuple[int, bytes] | None:
        """The next packet for the line, as sequence and payload; None where there is none or no room for it.

        Without `short` no packet is cut that more data would make longer.
        """
        before = sum(map(len, self._first(self.in_flight)))
        if self.cursor == self.end and not self._cut(self.room - before, short):
            return None
        payload = self._packets[self.in_flight]
        if before + len(payload) > self.room or self.in_flight >= self.window:
            return None
        self.cursor += 1
        self.fresh = max(self.fresh, self.cursor)
        return (self.cursor - 1) % MODULUS, payload

    def _first(self, count: int) -> Iterator[bytes]:
        return (self._packets[k] for k in range(count))

    def _cut(self, room: int, short: bool) -> bool:
        """Make the next packet of the data, where it has room."""
        size = min(self.size, self.uncut)
        if not size or size > room or (size < self.size and not short):
            return False
        self._packets.append(self._taken(size))
        self.uncut -= size
        self.end += 1
        return True

    def _taken(self, size: int) -> bytes:
        """The next bytes of the data."""
        parts: list[memoryview] = []
        while size:
            first = self._data[0]
            parts.append(first[:size])
            size -= len(parts[-1])
            if len(first) == len(parts[-1]):
                self._data.popleft()
            else:
                self._data[0] = first[len(parts[-1]):]
        return b"".join(parts)

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
        self.window = min(self.window + arrived, MOST_IN_FLIGHT)
        self.streak += arrived
        if self.streak >= STREAK:
            self.size, self.streak = min(2 * self.size, self.most), 0
        self.cursor = max(self.cursor, count)
        return arrived

    def go_back(self) -> None:
        """Send again all that the board is not known to have."""
        self.cursor = self.base
        self.size, self.streak = max(self.size // 2, self.least), 0
        self.window = max(self.window // 2, LEAST_IN_FLIGHT)


class Unanswered:
    """The packets that are on the line and were not answered, in order: packets of data by their number, None for
    others.

    Each has one STATUS for an answer, and the answers come in order, where neither was lost.  So a STATUS that brings
    nothing new means that data were dropped where the oldest one without an answer is data that the board has not got;
    and nothing where that is another one, or data would be repeated for ever.  A lost answer would leave one without
    for good, and the count behind: what is too old for an answer is forgotten, and where no data are left that wait for
    one, those on the line were dropped.
    """

    def __init__(self) -> None:
        self._open: deque[tuple[int | None, float]] = deque()

    def add(self, packet: int | None, now: float) -> None:
        self._open.append((packet, now))

    def forget(self, before: float) -> None:
        """Forget packets that were sent before that moment: they have no answer any more."""
        while self._open and self._open[0][1] < before:
            self._open.popleft()

    def settle(self, packet: int) -> None:
        """A STATUS says that this packet of data, and all before it, are on the board."""
        if any(sent == packet for sent, _ in self._open):
            while self._open.popleft()[0] != packet:
                pass
        elif self._open:
            self._open.popleft()

    def dropped(self, base: int) -> bool:
        """A STATUS says nothing new: whether the board has not got the data from packet `base` on, which it expects."""
        if not self._open:
            return False
        oldest = self._open.popleft()[0]
        if oldest is None or oldest < base:
            return not any(sent is not None and sent >= base for sent, _ in self._open)
        if self._open:  # what this answers; what stands behind it brings nothing new any more
            self._open.popleft()
        self._open = deque((None, since) for _, since in self._open)
        return True


class Arrival(enum.Enum):
    """The meaning of a packet of results to the host."""

    NEXT = "next"
    REPEAT = "repeat"
    BEHIND_A_GAP = "behind a gap"


class Collector:
    """Results in their order.  `expected` counts the packets taken; `data` are those that nobody took away yet."""

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

    def away(self, size: int) -> bytes:
        """The first bytes of `data`, which are gone from it."""
        first = bytes(self.data[:size])
        del self.data[:size]
        return first
