"""The checksum of a packet on a line that brings a byte in every cycle."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal, Value

from .link_bytes import POLYNOMIAL

__all__ = ["RESIDUE", "START", "with_byte"]

#: The register before a packet, and behind one with its checksum.
START, RESIDUE = 0xFFFFFFFF, 0xDEBB20E3


def shifted(octet: int) -> int:
    """The register that the low byte `octet` leaves behind when it is shifted out."""
    for _ in range(8):
        octet = octet >> 1 ^ (POLYNOMIAL if octet & 1 else 0)
    return octet


def with_byte(m: Module, rest: Value, byte: Value, name: str) -> Value:
    """The register `rest` behind one more byte, at once: each bit is the parity of some of the low byte's."""
    low = Signal(8, name=name)
    m.d.comb += low.eq(rest[:8] ^ byte)
    parities = [Cat(low[k] for k in range(8) if shifted(1 << k) >> bit & 1).xor() for bit in range(32)]
    return (rest >> 8) ^ Cat(parities)
