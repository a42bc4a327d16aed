"""Bits of ECP5 bitstreams changed, and the file written anew: frames as they are, with the checksums of its parts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from hwflow.synth.families.ecp5.readback.container import Configuration, Layout, read_configuration
from hwflow.synth.families.ecp5.readback.database import Tile, database_folder, load_device

#: (frame, bit) of the device.
FrameBit = tuple[int, int]


class Ecp5Bits:
    """The configuration in `path`, of a device as board files call it."""

    def __init__(self, path: Path, device: str):
        self.path, self.device = path, load_device(device, database_folder())
        self.layout = self.device.layout
        self.configuration = read_configuration(path, self.layout)
        self.tiles = {tile.name: tile for tile in self.device.tiles}

    def bit(self, tile: str, place: str) -> FrameBit:
        """Bit "F3B10" of a tile."""
        frame, _, bit = place[1:].partition("B")
        return self.tiles[tile].frame + int(frame), self.tiles[tile].bit + int(bit)

    def named(self, tile: str, setting: str, value: str = "", digit: int = 0) -> FrameBit:
        """The first bit that is 1 where `setting` has `value`, or of the digit of a word."""
        kind = self.device.kind(self.tiles[tile].kind)
        group = kind.words[setting].digits[digit] if setting in kind.words else dict(
            (kind.settings | kind.muxes)[setting].options)[value]
        frame, bit, _ = next(place for place in group if place[2] or setting in kind.words)
        return self.tiles[tile].frame + frame, self.tiles[tile].bit + bit

    def of_kind(self, kind: str) -> list[Tile]:
        return [tile for tile in self.device.tiles if tile.kind == kind]

    def changed(self, bits: Iterable[FrameBit]) -> Configuration:
        """The configuration with these bits the other way round."""
        frames = self.configuration.frames.copy()
        for frame, bit in bits:
            frames[frame, bit] ^= True
        return Configuration(frames, dict(self.configuration.rams), self.configuration.control)


def written(configuration: Configuration, layout: Layout, *, idcode: int | None = None) -> bytes:
    """A bitstream with frames that are not compressed."""
    file = Parts()
    file.add(bytes.fromhex("3b000000"))
    file.crc = 0
    file.add(bytes.fromhex("e2000000") + (layout.idcode if idcode is None else idcode).to_bytes(4, "big"))
    file.add(bytes.fromhex("22000000") + configuration.control.to_bytes(4, "big") + bytes.fromhex("46000000"))
    file.add(bytes.fromhex("8291") + len(configuration.frames).to_bytes(2, "big"))
    for frame in configuration.frames[::-1]:
        bits = np.concatenate([np.zeros(layout.pad, np.bool_), frame[::-1]])
        file.add(np.packbits(bits).tobytes())
        file.checksum()
        file.add(b"\xff")
    file.add(bytes.fromhex("c280000000000000"))
    file.checksum()
    for number, words in configuration.rams.items():
        file.add(bytes.fromhex("f6000000") + (number << 11).to_bytes(4, "big") + bytes.fromhex("b2d00100"))
        bits = np.array([[word >> k & 1 for k in range(8, -1, -1)] for word in words.tolist()])
        file.add(np.packbits(bits).tobytes())
        file.checksum()
    file.add(bytes.fromhex("5e000000"))
    return b"\xff\x00test\0\xff\xff\xff\xbd\xb3" + bytes(file.data) + b"\xff" * 4


def remainders() -> list[int]:
    """Of each byte, 16 bits higher, divided by the polynomial of CRC-16/BUYPASS."""
    found = []
    for value in range(256):
        rest = value << 16
        for k in range(23, 15, -1):
            rest ^= (0x18005 << k - 16) * (rest >> k & 1)
        found.append(rest)
    return found


REST = remainders()


class Parts:
    """A file with the checksum of what was added since the last."""

    def __init__(self) -> None:
        self.data, self.crc = bytearray(), 0

    def add(self, data: bytes) -> None:
        self.data += data
        for value in data:
            self.crc = (self.crc & 0xFF) << 8 ^ REST[self.crc >> 8 ^ value]

    def checksum(self) -> None:
        self.data += self.crc.to_bytes(2, "big")
        self.crc = 0
