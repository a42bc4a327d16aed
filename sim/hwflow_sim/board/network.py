"""A simulated board with Ethernet as the port of a driver: between them a network with one host."""

from __future__ import annotations

import ipaddress
import struct
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .port import BoardPort
from .process import SimulatedBoard

PREAMBLE = b"\x55" * 7 + b"\xd5"
EVERYBODY = b"\xff" * 6


@dataclass(frozen=True)
class Host:
    """Who talks to the board."""

    mac: bytes = bytes.fromhex("001122334455")
    ip: str = "192.168.1.7"
    port: int = 40000

    @property
    def ip_bytes(self) -> bytes:
        return ipaddress.IPv4Address(self.ip).packed


def fcs(frame: bytes) -> bytes:
    return zlib.crc32(frame).to_bytes(4, "little")


def internet_sum(data: bytes) -> int:
    """RFC 1071: what goes into a checksum field that is zero in `data`."""
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total


@dataclass(frozen=True)
class Datagram:
    """A frame with a datagram, of which every field may be wrong.  None: what is right."""

    source: Host
    target: Host
    payload: bytes
    ethertype: int = 0x0800
    version: int = 0x45
    service: int = 0
    total: int | None = None
    identification: int = 0
    fragment: int = 0x4000
    lifetime: int = 64
    protocol: int = 17
    ip_sum: int | None = None
    length: int | None = None
    udp_sum: int | None = None
    shortest: int = 60

    def frame(self) -> bytes:
        """Without its FCS."""
        length = 8 + len(self.payload) if self.length is None else self.length
        total = 28 + len(self.payload) if self.total is None else self.total
        head = struct.pack(">BBHHHBBH4s4s", self.version, self.service, total & 0xFFFF, self.identification,
                           self.fragment, self.lifetime, self.protocol, 0, self.source.ip_bytes, self.target.ip_bytes)
        check = internet_sum(head) if self.ip_sum is None else self.ip_sum
        head = head[:10] + check.to_bytes(2, "big") + head[12:]
        udp = struct.pack(">HHHH", self.source.port, self.target.port, length & 0xFFFF, 0)
        pseudo = self.source.ip_bytes + self.target.ip_bytes + struct.pack(">BBH", 0, 17, length & 0xFFFF)
        check = internet_sum(pseudo + udp + self.payload) or 0xFFFF if self.udp_sum is None else self.udp_sum
        udp = udp[:6] + check.to_bytes(2, "big")
        frame = self.target.mac + self.source.mac + self.ethertype.to_bytes(2, "big") + head + udp + self.payload
        return frame.ljust(self.shortest, b"\0")


def arp(operation: int, sender: Host, target: Host, *, to: bytes = EVERYBODY, asked: bytes = bytes(6)) -> bytes:
    body = struct.pack(">HHBBH", 1, 0x0800, 6, 4, operation)
    body += sender.mac + sender.ip_bytes + asked + target.ip_bytes
    return (to + sender.mac + b"\x08\x06" + body).ljust(60, b"\0")


def on_line(frame: bytes) -> bytes:
    """With preamble and FCS."""
    return PREAMBLE + frame + fcs(frame)


def received(data: bytes) -> bytes | None:
    """The frame of what came with preamble and FCS; None where either is wrong, or it is too short for one."""
    frame, check = data[8:-4], data[-4:]
    return frame if data[:8] == PREAMBLE and check == fcs(frame) and len(frame) >= 60 else None


def answered_by(frame: bytes, host: Host, target: Host) -> bytes | None:
    """The MAC of `target`, where the frame is its answer to `host`."""
    mac = frame[22:28]
    return mac if frame == arp(2, Host(mac, target.ip), host, to=host.mac, asked=host.mac) else None


def received_datagram(frame: bytes) -> Datagram | None:
    """A datagram of a board: without options, fragments and a checksum of UDP; None where it is none, or has a wrong
    length or a wrong checksum."""
    source = Host(frame[6:12], str(ipaddress.IPv4Address(frame[26:30])), int.from_bytes(frame[34:36], "big"))
    target = Host(frame[:6], str(ipaddress.IPv4Address(frame[30:34])), int.from_bytes(frame[36:38], "big"))
    length = int.from_bytes(frame[38:40], "big")
    datagram = Datagram(source, target, frame[42:34 + length], udp_sum=0)
    return datagram if frame == datagram.frame() else None


#: Cycles of the PHY's clock between two frames, the shortest that IEEE 802.3 allows; and in which an answer to a
#: question for the MAC comes that is not lost.
GAP, ANSWER = 12, 1000


class NetworkPort(BoardPort):
    """A `hwflow.host.wire.Line` to the board at an IP address and a port of UDP, and the clock that goes with it.

    Like the system of a host it asks for the board's MAC first; what is to be sent is lost where nobody answers.
    """

    ordered = False
    #: A packet takes 4 ms, and a driver asks again after fifty.
    BYTES_A_SECOND = 400_000

    def __init__(self, board: SimulatedBoard, ip: str, port: int, *, host: Host | None = None,
                 name: str = "the simulated board", clock_hz: float | None = None):
        super().__init__(board, name, clock_hz)
        self.host = host or Host()
        self.drops: Counter[Any] = Counter()
        self.bytes_sent = self.bytes_received = 0
        self._target = Host(b"", ip, port)
        self._waiting: list[bytes] = []

    def send(self, packets: Sequence[bytes]) -> None:
        self._waiting += packets
        self.bytes_sent += sum(map(len, packets))

    def receive(self, timeout: float) -> list[bytes]:
        """Receive what has arrived; waits as `wait` for the first packet."""
        lines, self._waiting = self._frames(), []
        data = self.wait(b"".join(len(line).to_bytes(2, "little") + bytes([GAP]) + line for line in lines), timeout)
        packets = []
        for frame in filter(None, map(received, cut(data))):
            datagram = received_datagram(frame)
            if datagram is not None and (datagram.source, datagram.target) == (self._target, self.host):
                packets.append(datagram.payload)
        self.bytes_received += sum(map(len, packets))
        return packets

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
