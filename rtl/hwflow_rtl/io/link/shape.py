"""How large a host link is, and how fast: what its transport and its RAM make of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...vendor.base import Technology

#: Bytes of payload in a packet, at most: with header and checksum it fits in an UDP datagram of 1472 bytes, which is
#: what an Ethernet frame of 1500 carries.
LARGEST_PAYLOAD = 1463
#: Of the payload, so that the answers with a fixed payload fit, and so that two sequences never mean the same data.
SMALLEST_PAYLOAD, LARGEST_ROOM = 32, 1 << 15
#: Bytes of each queue: a RAM block of an iCE40, the smallest of the families', and one of the others.
SMALL_BLOCK, BLOCK = 512, 2048


@dataclass(frozen=True)
class LinkShape:
    """The size of packets and queues of a `HostLink`.

    Attributes
    ----------
    payload
        Bytes of payload in a packet, at most, in both directions.
    room
        Bytes of each of the queues, of data and of results: a power of two, at least two packets.
    fast
        Whether the line may bring and take a byte in every cycle; else it takes 12 cycles for one.
    settings
        Whether the line has settings that the host can change; a fast one has none.
    """

    payload: int = 128
    room: int = SMALL_BLOCK
    fast: bool = False
    settings: bool = False

    def __post_init__(self) -> None:
        if not SMALLEST_PAYLOAD <= self.payload <= LARGEST_PAYLOAD:
            raise ValueError(f"payload must be {SMALLEST_PAYLOAD} to {LARGEST_PAYLOAD} bytes, not {self.payload}")
        if self.room & (self.room - 1) or not 2 * self.payload <= self.room <= LARGEST_ROOM:
            raise ValueError(f"room must be a power of two of at least two packets, {2 * self.payload} bytes, and at "
                             f"most {LARGEST_ROOM}, not {self.room}")
        if self.fast and self.settings:
            raise ValueError("settings must be those of a line that is not fast")

    @classmethod
    def of(cls, technology: Technology, *, fast: bool = False, settings: bool = False) -> LinkShape:
        """Choose what fits a byte line best: a queue in one RAM block, and four packets in a queue."""
        small, large = (technology.ram_cost(width=8, depth=depth).ram for depth in (SMALL_BLOCK, BLOCK))
        shape = cls(fast=fast, settings=settings)
        return shape if large > small else replace(shape, payload=BLOCK // 4, room=BLOCK)

    @property
    def length_bits(self) -> int:
        """The bits of a number of bytes of payload."""
        return self.payload.bit_length()
