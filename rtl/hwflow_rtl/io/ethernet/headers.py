"""Where the fields of ARP, IPv4 and UDP are, in bytes from the beginning of an Ethernet frame; and our own address.

RFC 826 (ARP), RFC 791 (IPv4, without options), RFC 768 (UDP).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["ANSWERED", "ARP", "ASKER", "BODY", "IP_HEADER", "LARGEST_UDP", "RECEIVER", "SENDER", "SLOTS", "UDP",
           "UDP_HEADER", "Address", "Expected", "arp_reply", "arp_request", "datagram_from_us", "datagram_to_us"]

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
