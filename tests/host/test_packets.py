"""The codec: whatever is encoded comes back, whatever comes is counted, nothing raises."""

from __future__ import annotations

import zlib
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwflow.host.packets import LARGEST_PAYLOAD, Drop, Identity, Kind, Packet, Status, decode, encode
from hwflow.host.wire import Deframer, framed
from tests.host import board

byte = st.integers(0, 255)
packets = st.builds(Packet, byte, byte, byte, st.binary(max_size=300))
#: Bytes that look like packets more often than others do.
line = st.lists(st.one_of(st.binary(max_size=20), st.sampled_from([b"\x7e", b"\x7d", b"\x7d\x5e"]),
                          packets.map(lambda packet: framed(encode(packet))),
                          st.binary(min_size=1400, max_size=3100))).map(b"".join)


class Decoder:
    """From bytes of a line to packets, with a count of what is none."""

    def __init__(self) -> None:
        self.deframer = Deframer()
        self.wrong: Counter[Drop] = Counter()

    @property
    def drops(self) -> Counter[Drop]:
        return self.wrong + self.deframer.drops

    def feed(self, data: bytes) -> list[Packet]:
        found = list(map(decode, self.deframer.feed(data)))
        self.wrong.update(each for each in found if isinstance(each, Drop))
        return [each for each in found if isinstance(each, Packet)]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    marks = sorted({place % (len(data) + 1) for place in places})
    return [data[a:b] for a, b in zip([0, *marks], [*marks, len(data)], strict=True)]


def checked(body: bytes) -> bytes:
    """The body with its checksum, between flags, where nothing is escaped."""
    body += zlib.crc32(body).to_bytes(4, "little")
    assert b"\x7e" not in body
    assert b"\x7d" not in body
    return b"\x7e" + body + b"\x7e"


def test_the_bytes_of_the_page():
    """A RESET by hand: CRC-32 of 01 37 00 00 00 is that of zlib, low byte first."""
    reset = bytes.fromhex("01370000 00")
    assert encode(Packet(Kind.RESET, 0x37)) == reset + zlib.crc32(reset).to_bytes(4, "little")
    data = Packet(Kind.DATA, 0x7E, 0x7D, b"\x7e\x7d" + bytes(508))
    assert framed(encode(data))[:13] == bytes.fromhex("7e 02 7d5e 7d5d fe01 7d5e 7d5d 00")


@given(packets)
def test_two_encoders_agree(packet):
    assert encode(packet) == board.whole(packet.kind, packet.sequence, packet.acknowledge, packet.payload)
    assert framed(encode(packet)) == board.framed(packet.kind, packet.sequence, packet.acknowledge, packet.payload)


@given(st.lists(packets, max_size=8), st.lists(st.integers(0, 5000), max_size=8))
def test_packets_come_back_from_pieces(sent, places):
    decoder = Decoder()
    data = b"".join(framed(encode(packet)) for packet in sent)
    assert [packet for piece in cut(data, places) for packet in decoder.feed(piece)] == sent
    assert decoder.drops.total() == 0


@given(line, st.lists(st.integers(0, 5000), max_size=12))
def test_pieces_make_no_difference(data, places):
    whole, parts = Decoder(), Decoder()
    found = whole.feed(data)
    assert [packet for piece in cut(data, places) for packet in parts.feed(piece)] == found
    assert parts.drops == whole.drops
    assert all(board.framed(p.kind, p.sequence, p.acknowledge, p.payload)[1:-1] in data for p in found)


@given(line, packets)
def test_after_anything_a_flag_puts_both_in_step(data, packet):
    decoder = Decoder()
    decoder.feed(data + b"\x7e")
    assert decoder.feed(framed(encode(packet))) == [packet]


@pytest.mark.parametrize("data, drop", [
    (checked(b"\x02\x00\x00\x01\x00"), Drop.LENGTH),
    (checked(b"\x02\x00\x00\x00\x00a"), Drop.LENGTH),
    (checked(b"\x02\x00\x00\x01\x01a"), Drop.LENGTH),
    (checked(b"\x02\x00\x00\x01a"), Drop.LENGTH),  # of the first version
    (checked(b"\x82\x00\x00\xff\xff" + b"a" * 100), Drop.LENGTH),
    (b"\x7eabcdefghi\x7e", Drop.CHECKSUM),
    (b"\x7eabcdefgh\x7e", Drop.TOO_SHORT),
    (b"\x7ea\x7e", Drop.TOO_SHORT),
    (b"\x7e" + b"a" * 1473 + b"\x7e", Drop.TOO_LONG),
    (b"\x7e" + b"a" * 100_000 + b"\x7e", Drop.TOO_LONG),
    (b"\x7e" + b"\x7d\x5e" * 1472 + b"a\x7e", Drop.TOO_LONG),
    (b"\x7eabcd\x7d\x7e", Drop.ESCAPE),
    (b"\x7eabcd\x7dxyzabc\x7e", Drop.ESCAPE),
])
def test_what_is_no_packet_is_counted_with_its_reason(data, drop):
    decoder = Decoder()
    assert decoder.feed(data) == []
    assert decoder.drops == {drop: 1}


def test_endless_bytes_without_a_flag_take_no_memory():
    decoder = Decoder()
    for _ in range(200):
        decoder.feed(b"a" * 10_000)
    assert len(decoder.deframer._begun) < 3000


def test_the_largest_packet_comes_back():
    packet = Packet(Kind.RESULT, 1, 2, b"\x7e" * LARGEST_PAYLOAD)
    assert Decoder().feed(framed(encode(packet))) == [packet]
    with pytest.raises(ValueError, match="the payload of a packet must have at most 1463 bytes, not 1464"):
        encode(Packet(Kind.DATA, 0, 0, bytes(LARGEST_PAYLOAD + 1)))


@given(st.binary(min_size=8, max_size=8), *[st.integers(0, 2**32 - 1)] * 2, *[st.integers(0, 2**16 - 1)] * 2)
def test_identities_come_back(design, bytes_in, bytes_out, room, largest):
    identity = Identity(design, bytes_in, bytes_out, room, largest)
    assert len(identity.payload()) == 21
    assert Identity.parse(identity.payload()) == identity


@given(st.binary(max_size=128))
def test_payloads_of_any_bytes_are_parsed_or_refused(payload):
    identity = Identity.parse(payload)
    if payload[:1] == b"\x02":
        assert (identity is not None) == (len(payload) == 21)
    elif payload:
        assert identity is not None
        assert identity.version == payload[0]
    status = Status.of(Packet(Kind.STATUS, 0, 7, payload))
    assert (status is not None) == (len(payload) == 2)
