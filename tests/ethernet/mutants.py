"""Frames that are right, nearly right, and wrong in every way that comes to mind, at random from a seed."""

from __future__ import annotations

import random
from dataclasses import replace

from hwflow_sim.board.network import EVERYBODY, PREAMBLE, Datagram, Host, arp, fcs, on_line

HOSTS = (Host(), Host(mac=bytes.fromhex("020304050607")), Host(ip="192.168.1.8"), Host(port=40001))
LENGTHS = (1, 2, 9, 17, 18, 19, 100, 1471, 1472)


class Mutants:
    """Frames to `board` as the PHY gives them, preamble and FCS included."""

    def __init__(self, board: Host, seed: int):
        self.board = board
        self.random = random.Random(seed)

    def datagram(self) -> Datagram:
        """One that is right."""
        chance = self.random
        length = chance.choice(LENGTHS) if chance.random() < 0.2 else chance.randrange(1, 40)
        packet = bytes([chance.choice((1, 2, 2, 2, 3, 4))]) + chance.randbytes(length - 1)
        sums = {"udp_sum": 0} if chance.random() < 0.2 else {}
        return Datagram(chance.choices(HOSTS, (20, 1, 1, 1))[0], self.board, packet, service=chance.randrange(256),
                        identification=chance.randrange(1 << 16), fragment=chance.choice((0, 0x4000)),
                        lifetime=chance.randrange(256), shortest=chance.choice((60, 60, 60, 70, 100)), **sums)

    def wrong_field(self) -> Datagram:
        """One with a wrong field."""
        chance, good = self.random, self.datagram()
        number = chance.choice((0, 1, 7, 8, 19, 20, 27, 28, 29, 1480, 1481, 1500, 1501, 2047, 2048, 65535,
                                len(good.payload) + chance.randrange(-2, 60)))
        key, value = chance.choice((
            ("total", number), ("length", number), ("ip_sum", chance.randrange(1 << 16)),
            ("udp_sum", chance.randrange(1 << 16)), ("version", chance.choice((0x44, 0x46, 0x65, 0x4F, 0))),
            ("fragment", chance.choice((0x2000, 1, 0x1FFF, 0x2001, 0x6000, 0x8000))),
            ("protocol", chance.randrange(256)), ("ethertype", chance.choice((0x0802, 0x0804, 0x86DD, 0x8100, 0x0900))),
            ("payload", b"" if chance.random() < 0.5 else chance.randbytes(chance.choice((1473, 1500, 3000, 9000)))),
            ("shortest", 0), ("target", replace(self.board, port=chance.randrange(1 << 16))),
            ("target", replace(self.board, ip=chance.choice(("192.168.1.51", "255.255.255.255", "192.168.1.255")))),
            ("target", replace(self.board, mac=chance.choice((EVERYBODY, chance.randbytes(6))))),
            ("source", replace(good.source, mac=bytes([1 | chance.randrange(256)]) + chance.randbytes(5)))))
        changed = replace(good, **{key: value})
        if key in ("total", "length") and chance.random() < 0.5:  # both agree, and the frame has other bytes
            changed = replace(changed, total=(number + 20) & 0xFFFF, length=number)
        return changed

    def question(self) -> bytes:
        """A request for the MAC, or nearly one."""
        chance = self.random
        to = chance.choice((EVERYBODY, self.board.mac, chance.randbytes(6)))
        whom = chance.choice((self.board, self.board, self.board, *HOSTS))
        frame = bytearray(arp(chance.choice((1, 1, 1, 2)), chance.choice(HOSTS), whom, to=to))
        if chance.random() < 0.3:
            frame[chance.randrange(42)] = chance.randrange(256)
        return bytes(frame)

    def damaged(self, frame: bytes) -> bytes:
        """Bytes changed, cut off, put in or behind, with a right FCS for what there is."""
        chance, changed = self.random, bytearray(frame)
        for _ in range(chance.choice((1, 1, 2, 10))):
            kind, at = chance.randrange(4), chance.randrange(len(changed) + 1)
            if kind == 0:
                changed[at:at + 1] = chance.randbytes(1)
            elif kind == 1:
                del changed[at:]
            elif kind == 2:
                changed[at:at] = chance.randbytes(chance.randrange(1, 20))
            else:
                changed += chance.randbytes(chance.randrange(1, 60))
        return bytes(changed)

    def line(self) -> bytes:
        """What the PHY gives between two gaps."""
        chance = self.random
        kind = chance.random()
        frame = (self.datagram().frame() if kind < 0.3 else self.question() if kind < 0.4
                 else self.wrong_field().frame() if kind < 0.75 else self.damaged(self.datagram().frame())
                 if kind < 0.95 else chance.randbytes(chance.randrange(200)))
        data = on_line(frame)
        where = chance.random()
        if where < 0.05:  # a wrong FCS
            cut = chance.randrange(1, len(data))
            data = data[:cut] + bytes([data[cut] ^ 1 << chance.randrange(8)]) + data[cut + 1:]
        elif where < 0.1:  # another preamble
            data = chance.choice((b"", b"\xd5", b"\x55\xd5", b"\x55" * 40 + b"\xd5", PREAMBLE[1:], b"\x54" + PREAMBLE,
                                  b"\x55" * 8)) + frame + fcs(frame)
        elif where < 0.13:
            data = data[:chance.randrange(len(data) + 1)]
        return data or b"\x55"
