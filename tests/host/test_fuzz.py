"""Random and mutated packets into the host's parsers, as bytes of a line and as datagrams, against one of their own."""

from __future__ import annotations

import binascii
import random
from collections.abc import Sequence
from dataclasses import astuple

import pytest

from hwflow.host.host_link import HostLink
from hwflow.host.packets import Drop, Identity, Memory, Packet, Status, decode
from hwflow.host.session import Patience
from hwflow.host.wire import Deframer, LinkFailed
from tests.host.board import IDENTITY, RESULT, STATUS, whole
from tests.host.test_datagrams import DatagramLine
from tests.host.test_link import board_of, frames_of
from tests.rtl.link_host import escaped, packet_in

#: Pieces of one call of the parser, and the longest rest that it may keep.
TOGETHER, KEPT = 200, 3000


def body_of(noise: random.Random) -> bytes:
    """Mostly a right packet of a kind that boards send, of any content; sometimes nothing like it."""
    kind = noise.choice((IDENTITY, STATUS, RESULT, 0x84, 0x85, noise.randrange(256)))
    size = noise.choice((0, 1, 2, 4, 19, 20, 21, 22, noise.randrange(40), noise.choice((128, 512, 1463, 1464, 1500))))
    sequence, acknowledge = noise.randrange(noise.choice((8, 256))), noise.randrange(noise.choice((8, 256)))
    body = whole(kind, sequence, acknowledge, noise.randbytes(size))
    what = noise.randrange(8)
    place = noise.randrange(len(body))
    if what == 0:
        return body[:place] + bytes([body[place] ^ 1 << noise.randrange(8)]) + body[place + 1:]
    if what == 1:
        return body[:place]
    if what == 2:
        return body[:place] + noise.randbytes(noise.choice((1, 2, 100))) + body[place:]
    if what == 3:  # any length, and a right checksum
        body = body[:3] + noise.randbytes(2) + body[5:-4]
        return body + binascii.crc32(body).to_bytes(4, "little")
    return noise.randbytes(noise.choice((1, 8, 9, 10, 50))) if what == 4 else body


def packet_of(body: bytes) -> tuple[int, int, int, bytes] | None:
    """What the page says of these bytes."""
    seen = packet_in(body) if len(body) <= 9 + 1463 else None
    return astuple(seen) if seen else None


def unescaped(line: bytes) -> Sequence[bytes | None]:
    """What stands between the flags, byte by byte; None for what is no packet because of its escapes or length."""
    found, body, escape, wrong = [], bytearray(), False, False
    length = 0
    for byte in line:
        if byte == 0x7E:
            if length:
                found.append(None if wrong or escape or length > 2 * 1472 else bytes(body))
            body, escape, wrong, length = bytearray(), False, False, 0
            continue
        length += 1
        if escape:
            wrong |= byte not in (0x5D, 0x5E)
            body.append(byte ^ 0x20)
            escape = False
        elif byte == 0x7D:
            escape = True
        else:
            body.append(byte)
    return found


def line_of(noise: random.Random, body: bytes) -> bytes:
    """Bytes of the line for it, sometimes damaged there."""
    line = bytearray(b"\x7e" + escaped(body) + b"\x7e")
    if noise.random() < 0.3:
        place = noise.randrange(len(line))
        line[place:place + noise.randrange(2)] = noise.choice((b"", b"\x7e", b"\x7d", b"\x7d\x7e", noise.randbytes(1)))
    return bytes(line)


COUNTS = [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)]


@pytest.mark.parametrize("count", COUNTS)
def test_any_datagrams(count: int) -> None:
    noise, right = random.Random(count), 0
    for _ in range(count):
        body = body_of(noise)
        found, expected = decode(body), packet_of(body)
        if expected is None:
            assert isinstance(found, Drop)
        else:
            assert (found.kind, found.sequence, found.acknowledge, found.payload) == expected
            look_into(found)
            right += 1
    assert count / 3 < right < count


def look_into(packet: Packet) -> None:
    """Every reader of a payload, on each."""
    payload = packet.payload
    assert (Status.of(packet) is None) == (len(payload) != 2)
    identity = Identity.parse(payload)
    assert identity is None or identity.version == payload[0]
    memory = Memory.of(packet)
    assert memory is None or (len(payload) == 21 and payload[0] < 8)


@pytest.mark.parametrize("count", COUNTS)
def test_any_bytes_of_a_line(count: int) -> None:
    noise, deframer, rest, right, wrong = random.Random(count), Deframer(), b"", 0, 0
    for _ in range(count // TOGETHER):
        line = b"".join(line_of(noise, body_of(noise)) for _ in range(TOGETHER))
        found = [decode(body) for body in deframer.feed(line)]
        *_, behind = (rest + line).split(b"\x7e")
        between = unescaped(rest + line)
        expected = [packet_of(body) for body in between if body is not None and packet_of(body) is not None]
        packets = [each for each in found if isinstance(each, Packet)]
        assert [(each.kind, each.sequence, each.acknowledge, each.payload) for each in packets] == expected
        rest, right, wrong = behind, right + len(packets), wrong + len(between) - len(packets)
        assert len(deframer._begun) <= KEPT
    assert right > count / 4
    assert wrong > count / 10


class Forger(DatagramLine):
    """A board among whose answers are any packets with a right checksum."""

    def receive(self, timeout: float) -> list[bytes]:
        came = super().receive(timeout)
        return [body_of(self.noise) for _ in range(self.noise.randrange(8))] + came


@pytest.mark.parametrize("runs", [40, pytest.param(2000, marks=pytest.mark.slow)])
def test_a_driver_that_hears_anything_ends(runs: int) -> None:
    """With an answer or with its one kind of error, and after no longer than its patience."""
    ends = {True: 0, False: 0}
    for seed in range(runs):
        board = board_of(64, 10)
        line = Forger(board, 1e-2, seed)
        link = HostLink(line, clock=line.clock, seed=seed, patience=Patience(0.5, 1.0))
        data, expected = frames_of(board, 100, seed)
        try:
            found = link.exchange(data)
        except LinkFailed:
            ends[False] += 1
        else:
            ends[True] += 1
            assert len(found) == len(expected)
        assert line.clock() < 10
    assert ends[False] > 0
