"""Packets on a line of bytes (docs/host-link.md): flags between them, escapes inside.

In: packets, or bytes in pieces of any size.  Out: bytes, or what stood between two flags, with a count of what
was none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hwflow.host.packets import LONGEST, Drop

if TYPE_CHECKING:
    from hwflow.host.wire import BytePort

__all__ = ["Deframer", "HdlcLine", "framed"]

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
        """What ends in `data`, in order."""
        *whole, rest = data.split(FLAG)
        packets = []
        for piece in whole:
            self._keep(piece)
            if self._begun:
                found = unescaped(bytes(self._begun))
                if isinstance(found, Drop):
                    self.drops[found] += 1
                else:
                    packets.append(found)
            self._begun.clear()
        self._keep(rest)
        return packets

    def _keep(self, piece: bytes) -> None:
        """Not more than is enough to know that it is too long."""
        self._begun += piece[:max(0, LONGEST_ESCAPED + 1 - len(self._begun))]


def unescaped(escaped: bytes) -> bytes | Drop:
    """What stands between two flags."""
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
