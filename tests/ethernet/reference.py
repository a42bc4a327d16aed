"""What a board does with the bytes of a frame, from the RFCs and docs/ethernet.md: the judge of the gateware."""

from __future__ import annotations

from dataclasses import dataclass, field

from hwflow_sim.board.network import EVERYBODY, Host, fcs, internet_sum

#: Kinds of packets that begin a session, as the host link has them.
RESET, CLEAR = 1, 4


@dataclass
class Reference:
    """`packets` has what came in, with whom it came from; `answers` who asked for the MAC."""

    board: Host
    peer: Host | None = None
    session: bool = False
    packets: list[tuple[Host, bytes]] = field(default_factory=list)
    answers: list[Host] = field(default_factory=list)

    def take(self, line: bytes) -> None:
        """All bytes that the PHY gives between two gaps."""
        head, sfd, data = line.partition(b"\xd5")
        if not sfd or head.strip(b"\x55") or len(data) < 4 or data[-4:] != fcs(data[:-4]):
            return
        frame = data[:-4]
        if len(frame) < 42 or frame[6] & 1:
            return
        if frame[12:14] == b"\x08\x06":
            self.arp(frame)
        elif frame[12:14] == b"\x08\x00" and frame[:6] == self.board.mac:
            self.ip(frame)

    def arp(self, frame: bytes) -> None:
        asked = frame[14:22] == bytes.fromhex("0001080006040001") and frame[38:42] == self.board.ip_bytes
        if asked and frame[:6] in (self.board.mac, EVERYBODY):
            self.answers.append(Host(frame[22:28], ".".join(map(str, frame[28:32])), 0))

    def ip(self, frame: bytes) -> None:
        header, udp = frame[14:34], frame[34:]
        total, length = int.from_bytes(header[2:4], "big"), int.from_bytes(udp[4:6], "big")
        if header[0] != 0x45 or internet_sum(header) or int.from_bytes(header[6:8], "big") & 0x3FFF:
            return
        if header[9] != 17 or header[16:] != self.board.ip_bytes or udp[2:4] != self.board.port.to_bytes(2, "big"):
            return
        if total != length + 20 or not 8 < length <= 1480 or len(udp) < length:
            return
        pseudo = header[12:] + bytes((0, 17)) + udp[4:6]
        if udp[6:8] != bytes(2) and internet_sum(pseudo + udp[:length]):
            return
        sender = Host(frame[6:12], ".".join(map(str, header[12:16])), int.from_bytes(udp[:2], "big"))
        self.packet(sender, udp[8:length])

    def packet(self, sender: Host, packet: bytes) -> None:
        resets = packet[0] in (RESET, CLEAR) and len(packet) == 9
        if self.session and not resets and sender != self.peer:
            return
        self.peer, self.session = sender, self.session or resets
        self.packets.append((sender, packet))
