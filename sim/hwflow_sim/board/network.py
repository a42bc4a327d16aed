"""A simulated board with Ethernet as the port of a driver: between them a network with one host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil
from typing import Any

from .frames import Datagram, Host, answered_by, arp, on_line, received, received_datagram
from .process import SimulatedBoard

#: Bytes on the line in one second of the driver's time: a packet takes 4 ms, and a driver asks again after fifty.
BYTES_A_SECOND = 400_000
#: Cycles of the PHY's clock between two frames, the shortest that IEEE 802.3 allows; and in which an answer to a
#: question for the MAC comes that is not lost.
GAP, ANSWER = 12, 1000


class NetworkPort:
    """A `hwflow.host.wire.Line` to the board at an IP address and a port of UDP, and the clock that goes with it.

    Like the system of a host it asks for the board's MAC first; what is to be sent is lost where nobody answers.
    """

    ordered = False

    def __init__(self, board: SimulatedBoard, ip: str, port: int, *, host: Host | None = None,
                 name: str = "the simulated board"):
        self.board = board
        self.name = name
        self.host = host or Host()
        self.drops: Counter[Any] = Counter()
        self.bytes_sent = self.bytes_received = 0
        self._target = Host(b"", ip, port)
        self._waiting: list[bytes] = []

    def clock(self) -> float:
        """Seconds since the board started, as the line counts them."""
        return self.board.facts.cycles / self.board.line.byte_cycles / BYTES_A_SECOND

    def cycles(self, seconds: float) -> int:
        """Clock cycles of the board in a driver's seconds."""
        return round(seconds * BYTES_A_SECOND * self.board.line.byte_cycles)

    def send(self, packets: Sequence[bytes]) -> None:
        self._waiting += packets
        self.bytes_sent += sum(map(len, packets))

    def receive(self, timeout: float) -> list[bytes]:
        """Receive what has arrived; waits at most `timeout` seconds for the first packet, and at least the time of a
        byte, in whole cycles: time has to go on for a driver that waits for less than one."""
        lines, self._waiting = self._frames(), []
        data = self.board.wait(b"".join(len(line).to_bytes(2, "little") + bytes([GAP]) + line for line in lines),
                               max(self.cycles(timeout), ceil(self.board.line.byte_cycles)))
        packets = []
        for frame in filter(None, map(received, cut(data))):
            found = received_datagram(frame)
            if found is not None and (found.source, found.target) == (self._target, self.host):
                packets.append(found.payload)
        self.bytes_received += sum(map(len, packets))
        return packets

    def close(self) -> None:
        """The board belongs to its own `with` statement."""

    def _frames(self) -> list[bytes]:
        """The frames that wait, as the PHY gives them; nothing where the board's MAC cannot be found out."""
        if self._waiting and not self._target.mac:
            line = on_line(arp(1, self.host, self._target))
            data = self.board.wait(len(line).to_bytes(2, "little") + bytes([GAP]) + line,
                                   round(ANSWER * self.board.line.byte_cycles))
            macs = [answered_by(frame, self.host, self._target) for frame in filter(None, map(received, cut(data)))]
            self._target = Host(next(filter(None, macs), b""), self._target.ip, self._target.port)
        if not self._target.mac:
            return []
        return [on_line(Datagram(self.host, self._target, packet).frame()) for packet in self._waiting]


def cut(data: bytes) -> list[bytes]:
    """Frames as `RgmiiLine` gives them, behind their lengths."""
    frames = []
    while data:
        size = int.from_bytes(data[:2], "little")
        frames.append(data[2:2 + size])
        data = data[2 + size:]
    return frames
