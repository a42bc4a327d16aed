"""Frames of Ethernet: where the fields of ARP, IPv4 and UDP are, its two checks, the addresses of peers."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import xor

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...stream.pipeline import delay
from ...vendor.blocks import LutRam

#: Bytes of the headers of a datagram, which are as many as those of an ARP packet with its Ethernet header.
BODY = 42
UDP_HEADER, IP_HEADER = 8, 20
#: Bytes of a datagram with its UDP header, as many as fit into a frame.
LARGEST_UDP = 1500 - IP_HEADER
IPV4, ARP, UDP = (0x08, 0x00), (0x08, 0x06), 17
TIME_TO_LIVE = 64
#: An address of a peer has 12 bytes: its MAC, its IP, its port.  Each is at a slot of a memory.
SLOTS = 16


@dataclass(frozen=True)
class Address:
    """Our own IP and UDP port.

    The MAC follows from the IP: locally administered (02), then 00 and the four bytes of the IP.  So it is unique in a
    network in which the IP is.
    """

    ip: str
    port: int

    def __post_init__(self) -> None:
        first = ipaddress.IPv4Address(self.ip).packed[0]
        if not 1 <= first <= 223 or first == 127:
            raise ValueError(f"address must be one of a host, not of a group or of the host itself, as {self.ip} is")
        if not 1 <= self.port <= 0xFFFF:
            raise ValueError(f"port must be from 1 to 65535, not {self.port}")

    @property
    def ip_bytes(self) -> bytes:
        return ipaddress.IPv4Address(self.ip).packed

    @property
    def mac(self) -> bytes:
        return bytes((0x02, 0x00)) + self.ip_bytes

    @property
    def port_bytes(self) -> bytes:
        return self.port.to_bytes(2, "big")


def fields(*parts: tuple[int, bytes]) -> dict[int, int]:
    """The byte at each place of some fields, given as their first places and their bytes."""
    return {place + k: byte for place, octets in parts for k, byte in enumerate(octets)}


#: What a byte of a frame must be: its value, and which of its bits count.
Expected = Mapping[int, tuple[int, int]]


def expected(octets: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    return {place: (byte, 0xFF) for place, byte in octets.items()}


def ethernet_header(own: Address) -> dict[int, tuple[int, int]]:
    """Our MAC, a sender that is no group, and the type of IPv4 or ARP but for the bits in which they differ."""
    return expected(fields((0, own.mac))) | {6: (0, 0x01), 12: (0x08, 0xFF), 13: (0, 0xFF ^ ARP[1])}


def datagram_to_us(own: Address) -> Expected:
    """Without lengths and checksums.

    A length of IP below 2048, no options; no fragment, whatever the flag says that forbids one.
    """
    return ethernet_header(own) | expected(fields(
        (14, b"\x45"), (23, bytes((UDP,))), (30, own.ip_bytes), (36, own.port_bytes))) | {
            16: (0, 0xF8), 20: (0, 0x3F), 21: (0, 0xFF)}


def arp_request(own: Address) -> Expected:
    """Who has our IP?"""
    return ethernet_header(own) | expected(fields((14, b"\x00\x01\x08\x00\x06\x04\x00\x01"), (38, own.ip_bytes)))


def datagram_from_us(own: Address) -> dict[int, int]:
    """Without the peer's address, lengths, and the checksum of IP; without fragments and without a checksum of UDP."""
    return fields((6, own.mac), (12, bytes(IPV4)), (14, b"\x45\x00"), (18, b"\x00\x00\x40\x00"),
                  (22, bytes((TIME_TO_LIVE, UDP))), (26, own.ip_bytes), (34, own.port_bytes), (40, bytes(2)))


def arp_reply(own: Address) -> dict[int, int]:
    """Without the address of the one who asked."""
    return fields((6, own.mac), (12, bytes(ARP)), (14, b"\x00\x01\x08\x00\x06\x04\x00\x02"), (22, own.mac),
                  (28, own.ip_bytes))


def slots(*parts: tuple[int, int, int]) -> dict[int, int]:
    """The slot of each place of some fields, given as first places, first slots and lengths."""
    return {place + k: slot + k for place, slot, length in parts for k in range(length)}


#: Of the sender of a datagram, of the one who asks for our MAC, of whom a datagram goes to, and of whom an answer does.
SENDER = slots((6, 0, 6), (26, 6, 4), (34, 10, 2))
ASKER = slots((22, 0, 6), (28, 6, 4))
RECEIVER = slots((0, 0, 6), (30, 6, 4), (36, 10, 2))
ANSWERED = slots((0, 0, 6), (32, 0, 6), (38, 6, 4))


# The two checks of an Ethernet frame, a byte in a cycle: CRC-32 of the frame, ones' complement sum of IP and UDP.


#: CRC-32 of IEEE 802.3, the first bit lowest.
POLYNOMIAL = 0xEDB88320
#: What the register holds after a frame with its right FCS: the same for every frame.
RESIDUE = 0xDEBB20E3


def crc_after(crc: Value, byte: Value) -> Value:
    """The CRC register, 32 bits and all ones at first, after a byte.

    The CRC is linear: each bit of the next register is the XOR of some bits of `crc` and of `byte`.  Which ones, the
    division by the polynomial tells for one bit at a time; a bit of the register's low byte does as one of `byte`.
    """
    mixed = crc[:8] ^ byte
    terms: list[list[Value]] = [[crc[n + 8]] if n < 24 else [] for n in range(32)]
    for k in range(8):
        effect = 1 << k
        for _ in range(8):
            effect = effect >> 1 ^ (POLYNOMIAL if effect & 1 else 0)
        for n in range(32):
            if effect >> n & 1:
                terms[n].append(mixed[k])
    return Cat(reduce(xor, bits) for bits in terms)


class InternetSum(wiring.Component):
    """The ones' complement sum of 16-bit words (RFC 1071), the high byte of a word first.

    The sum does not change when the bytes of all words are swapped but that its own are: so a byte is added to the low
    half, and the halves are swapped for the next one.  A carry is added in the cycle that follows it.

    Attributes
    ----------
    load, first : In(1), In(16)
        Begin with this sum.
    add, byte : In(1), In(8)
        Add a byte.
    sum : Out(16)
        In the order of bytes of the words where their number is even.  It has no carry left two zeros after a byte.
    good : Out(1)
        A cycle after the last byte, whether the sum of all, with its checksum among them, is right: all ones.
    """

    def __init__(self) -> None:
        super().__init__({"load": In(1), "first": In(16), "add": In(1), "byte": In(8), "sum": Out(16),
                          "good": Out(1)})

    @staticmethod
    def model(octets: bytes) -> int:
        """The sum of `octets`, with a zero behind an odd number of them."""
        padded = octets + bytes(len(octets) % 2)
        total = sum(int.from_bytes(padded[k:k + 2], "big") for k in range(0, len(padded), 2))
        while total > 0xFFFF:
            total = (total & 0xFFFF) + (total >> 16)
        return total

    def elaborate(self, platform):
        m = Module()
        carry = Signal()
        with m.If(self.load):
            m.d.sync += [self.sum.eq(self.first), carry.eq(0)]
        with m.Elif(self.add):
            # A carry of the last addition is worth one, and 256 behind the swap.
            m.d.sync += Cat(self.sum, carry).eq(Cat(self.sum[8:], self.sum[:8]) + Cat(self.byte, carry))
        # All ones and no carry, or one less and a carry.
        m.d.comb += self.good.eq(self.sum[1:].all() & (self.sum[0] ^ carry))
        return m


# Who is at the other end: the addresses of the peer, of the sender of what comes in, and of who asks for our MAC.


class Peers(wiring.Component):
    """Addresses, a byte at each slot (`headers`).  The sender of a datagram becomes the peer by `adopt`.

    One bank holds the peer, the next one the sender, and `adopt` goes on by a bank.  A frame is sent to one bank while
    the next peers come: the shortest datagrams take 57 cycles each, and its header 74 at most, in which no bank of four
    is the sender's again.

    Attributes
    ----------
    byte, slot, sends, asks : In(8), In(range(SLOTS)), In(1), In(1)
        A byte of the address of a sender, or of who asks for our MAC.
    begin : In(1)
        A new frame comes in.
    same : Out(1)
        All bytes of the sender since then are those of the peer; LATENCY + 1 cycles after the last one.
    adopt : In(1)
        A pulse: the sender is the peer.
    hold : In(1)
        The header of a frame is sent: read the bank that was the peer's before.
    read_slot, read_asker : In(range(SLOTS)), In(1)
    read_byte : Out(8)
        Of the peer, or of who asked; LATENCY cycles later.
    """

    #: Cycles in which an address is read: the memories are in tables, for RAM blocks are dear.
    LATENCY = 2

    def __init__(self) -> None:
        super().__init__({
            "byte": In(8), "slot": In(range(SLOTS)), "sends": In(1), "asks": In(1), "begin": In(1), "same": Out(1),
            "adopt": In(1), "hold": In(1), "read_slot": In(range(SLOTS)), "read_asker": In(1), "read_byte": Out(8)})

    def elaborate(self, platform):
        m = Module()
        latency, bank, following, held = self.LATENCY, Signal(2), Signal(2), Signal(2)
        m.d.comb += following.eq(bank + 1)
        with m.If(self.adopt):
            m.d.sync += bank.eq(following)
        with m.If(~self.hold):
            m.d.sync += held.eq(bank)
        # The peer is read in two places at a time, so there are two copies of it.
        m.submodules.compared = compared = LutRam(width=8, depth=2 * SLOTS)
        m.submodules.sent = sent = LutRam(width=8, depth=4 * SLOTS)
        m.submodules.asker = asker = LutRam(width=8, depth=SLOTS)
        for ram, write in ((compared, self.sends), (sent, self.sends), (asker, self.asks)):
            m.d.comb += [ram.write_en.eq(write), ram.write_addr.eq(Cat(self.slot, following)[:len(ram.write_addr)]),
                         ram.write_data.eq(self.byte)]
        m.d.comb += [
            compared.read_addr.eq(Cat(self.slot, bank[0])), sent.read_addr.eq(Cat(self.read_slot, held)),
            asker.read_addr.eq(self.read_slot),
            self.read_byte.eq(Mux(delay(m, self.read_asker, latency, "read_asker"), asker.read_data, sent.read_data))]
        differs = delay(m, self.sends, latency, "sends") & (
            compared.read_data != delay(m, self.byte, latency, "byte"))
        # Of a frame that was cut the last byte is compared behind its end.
        m.d.sync += self.same.eq((self.same | delay(m, self.begin, latency, "begin")) & ~differs)
        return m
