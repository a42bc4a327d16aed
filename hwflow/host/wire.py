"""Packets on a line: what goes out and comes in, counted."""

from __future__ import annotations

import re
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from hwflow_base.errors import HwflowError

from hwflow.host.packets import LONGEST, Drop, Kind, Packet, decode, encode

# Packets on a line of bytes (docs/host-link.md): flags between them, escapes inside.


FLAG, ESCAPE = b"\x7e", b"\x7d"
ESCAPED_FLAG, ESCAPED_ESCAPE = b"\x7d\x5e", b"\x7d\x5d"
#: An escape in front of nothing that is escaped.
WRONG_ESCAPE = re.compile(rb"\x7d(?![\x5d\x5e])")
#: The longest packet between two flags, where every byte may be two.
LONGEST_ESCAPED = 2 * LONGEST


def framed(packet: bytes) -> bytes:
    """The packet between two flags."""
    return FLAG + packet.replace(ESCAPE, ESCAPED_ESCAPE).replace(FLAG, ESCAPED_FLAG) + FLAG


class Deframer:
    """Takes bytes in pieces of any size and gives what stood between flags; no bytes make it raise.

    `drops` counts what stood there and can be no packet.  How the bytes are cut makes no difference.
    """

    def __init__(self) -> None:
        self.drops: Counter[Drop] = Counter()
        self._begun = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The packets that end in `data`, in order."""
        *whole, rest = data.split(FLAG)
        packets = []
        for piece in whole:
            self._keep(piece)
            if self._begun:
                packet = unescaped(bytes(self._begun))
                if isinstance(packet, Drop):
                    self.drops[packet] += 1
                else:
                    packets.append(packet)
            self._begun.clear()
        self._keep(rest)
        return packets

    def _keep(self, piece: bytes) -> None:
        """Not more than is enough to know that it is too long."""
        self._begun += piece[:max(0, LONGEST_ESCAPED + 1 - len(self._begun))]


def unescaped(escaped: bytes) -> bytes | Drop:
    """The bytes between two flags."""
    if len(escaped) > LONGEST_ESCAPED:
        return Drop.TOO_LONG
    if WRONG_ESCAPE.search(escaped):
        return Drop.ESCAPE
    return escaped.replace(ESCAPED_FLAG, FLAG).replace(ESCAPED_ESCAPE, ESCAPE)


class HdlcLine:
    """A `Line` of the bytes of `port`."""

    ordered = True

    def __init__(self, port: BytePort) -> None:
        self.port = port
        self.bytes_sent = self.bytes_received = 0
        self._deframer = Deframer()

    @property
    def name(self) -> str:
        return self.port.name

    @property
    def drops(self) -> Counter[Drop]:
        return self._deframer.drops

    def send(self, packets: Sequence[bytes]) -> None:
        data = b"".join(map(framed, packets))
        self.bytes_sent += len(data)
        self.port.write(data)

    def receive(self, timeout: float) -> list[bytes]:
        data = self.port.read(timeout)
        self.bytes_received += len(data)
        return self._deframer.feed(data)

    def close(self) -> None:
        self.port.close()


#: Packets whose sequences are remembered: more than are ever on their way, and fewer than there are sequences.
REMEMBERED = 160


class LinkFailed(HwflowError):
    """The board cannot be reached, or the link to it was lost; the message says which and what to do.  Exit code 2."""


class BytePort(Protocol):
    """A line that carries bytes both ways.  Errors of the device are LinkFailed."""

    @property
    def name(self) -> str:
        """The name in messages."""

    def read(self, timeout: float) -> bytes:
        """Read what has arrived; waits at most `timeout` seconds for the first byte.  Nothing where none comes."""

    def write(self, data: bytes) -> None:
        """Send all of `data`."""

    def close(self) -> None:
        """Let the line go.  May be called twice."""


@runtime_checkable
class Line(Protocol):
    """A line that carries packets both ways, each with its checksum; it may lose and damage them.

    Where it is not `ordered` it may double and reorder them, too, but brings none later than two round trips.
    `bytes_sent` and `bytes_received` count what went over it, with all that stands around packets; `drops` what came
    and can be no packet.  Errors of the device are LinkFailed.
    """

    bytes_sent: int
    bytes_received: int
    ordered: bool

    @property
    def name(self) -> str:
        """The name in messages."""

    @property
    def drops(self) -> Counter[Drop]: ...

    def send(self, packets: Sequence[bytes]) -> None:
        """Send all of them."""

    def receive(self, timeout: float) -> list[bytes]:
        """Receive what has arrived; waits at most `timeout` seconds for something."""

    def close(self) -> None:
        """Let the line go.  May be called twice."""


@dataclass
class Statistics:
    """The traffic on the line since it was opened.

    `resent`: packets of data sent once more because the board had not got them; `repeated`: packets of results that
    came once more; `gaps`: times a packet of results was missing in front of one that came; `polls`: questions after
    an answer had not come in time, or after a gap; `drops`: what came and was no packet, by reason; `unknown`: packets
    of an unknown kind or form.
    """

    packets_sent: int = 0
    packets_received: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    resent: int = 0
    repeated: int = 0
    gaps: int = 0
    polls: int = 0
    unknown: int = 0
    drops: Counter[Drop] = field(default_factory=Counter)

    @property
    def dropped(self) -> int:
        return sum(self.drops.values())

    @property
    def losses(self) -> int:
        """Signs that something was lost or damaged on the line: 0 on a line without errors."""
        return self.resent + self.gaps + self.unknown + self.dropped

    def facts(self) -> dict[str, object]:
        """Plain data for JSON."""
        names = ("packets_sent", "packets_received", "bytes_sent", "bytes_received", "resent", "repeated", "gaps",
                 "polls", "unknown", "dropped")  # fmt: skip
        return {**{name: getattr(self, name) for name in names},
                "checksum_errors": self.drops[Drop.CHECKSUM],
                "drops": {drop.value: count for drop, count in sorted(self.drops.items())}}


class Wire:
    """Packets over `port`, with the clock (in seconds) by which both ends of a wait are measured."""

    def __init__(self, port: BytePort | Line, clock: Callable[[], float] = time.monotonic) -> None:
        self.line = port if isinstance(port, Line) else HdlcLine(port)
        self.clock = clock
        self.statistics = Statistics(drops=self.line.drops)
        #: Seconds in which the port was waited for.
        self.waited = 0.0
        #: Sequences of what was sent last, which late answers may have.
        self.recent: deque[int] = deque(maxlen=REMEMBERED)

    @property
    def name(self) -> str:
        return self.line.name

    def send(self, *packets: Packet) -> None:
        self.recent.extend(packet.sequence for packet in packets)
        self.statistics.packets_sent += len(packets)
        self.statistics.polls += sum(packet.kind == Kind.POLL for packet in packets)
        since = self.clock()
        self.line.send([encode(packet) for packet in packets])
        self.waited += self.clock() - since
        self.statistics.bytes_sent = self.line.bytes_sent

    def receive(self, timeout: float) -> list[Packet]:
        """The packets that have come; waits at most `timeout` seconds for something."""
        since = self.clock()
        received = self.line.receive(max(timeout, 0.0))
        self.waited += self.clock() - since
        packets = []
        for whole in received:
            packet = decode(whole)
            if isinstance(packet, Packet):
                packets.append(packet)
            else:
                self.statistics.drops[packet] += 1
        self.statistics.bytes_received = self.line.bytes_received
        self.statistics.packets_received += len(packets)
        return packets
