"""The checksums of bitstreams that Python does not have: those of the polynomial 0x8005."""

from __future__ import annotations

POLYNOMIAL = 0x8005
#: The bits of each byte the other way round.
REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def crc_of_byte(byte: int) -> int:
    crc = byte << 8
    for _ in range(8):
        crc = (crc << 1 ^ POLYNOMIAL) & 0xFFFF if crc & 0x8000 else crc << 1
    return crc


TABLE = tuple(map(crc_of_byte, range(256)))


def crc16_buypass(data: bytes, crc: int = 0) -> int:
    """CRC-16/BUYPASS: the highest bit of a byte first, beginning with `crc`."""
    for byte in data:
        crc = (crc << 8 & 0xFFFF) ^ TABLE[crc >> 8 ^ byte]
    return crc


def crc16_arc(data: bytes) -> int:
    """CRC-16/ARC: the same with the lowest bit of a byte first, beginning with 0."""
    return int(f"{crc16_buypass(data.translate(REVERSED)):016b}"[::-1], 2)
