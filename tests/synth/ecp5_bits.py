"""Bits of ECP5 bitstreams changed, and the file written anew: frames as they are, with the checksums of its parts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from hwflow.synth.families.ecp5.readback.container import (
    RAM_BITS,
    RAM_WORDS,
    Configuration,
    Layout,
    read_configuration,
)
from hwflow.synth.families.ecp5.readback.database import Tile, database_folder, load_device
from hwflow.synth.families.ecp5.readback.tiles import TileBits

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


class ECP5Bits:
    """The bits of a bitstream that `bench.bit_flips` turns: those of tiles with bits that say more than in a device in
    which nothing is used, and the contents of block RAMs that are used."""

    def __init__(self, path: Path, device: str):
        self.all = Ecp5Bits(path, device)
        self.plain = written(self.all.configuration, self.all.layout)

    def places(self) -> list[tuple[str, int, int]]:
        """("frame", frame, bit) or ("memory", its number, a bit of its words)."""
        bits = TileBits(self.all.device, self.all.configuration.frames)
        bits.usual()
        found = [("frame", tile.frame + frame, tile.bit + bit)
                 for decided in bits.kinds.values() for number, tile in enumerate(decided.tiles)
                 if (decided.bits[:, :, number] & ~decided.known[:, :, number]).any()
                 for frame in range(tile.frames) for bit in range(tile.bits)]
        return list(dict.fromkeys(found)) + [("memory", number, bit) for number in self.all.configuration.rams
                                             for bit in range(RAM_WORDS * RAM_BITS)]

    def turned(self, place: tuple[str, int, int]) -> bytes:
        kind, number, bit = place
        if kind == "frame":
            return self.with_frame(number, bit)
        words = self.all.configuration.rams[number].copy()
        words[bit // RAM_BITS] ^= 1 << bit % RAM_BITS
        rams = self.all.configuration.rams | {number: words}
        return written(Configuration(self.all.configuration.frames, rams, self.all.configuration.control),
                       self.all.layout)

    def with_frame(self, number: int, bit: int) -> bytes:
        """The file with one bit of a frame turned; every other frame has the checksum that it had."""
        layout, frames = self.all.layout, self.all.configuration.frames
        if number == layout.frames - 1:  # the first in the file, whose checksum is of all before
            return written(self.all.changed([(number, bit)]), layout)
        size = layout.frame_bytes + 3
        start = self.plain.index(bytes.fromhex("8291")) + 4 + (layout.frames - 1 - number) * size
        frame = frames[number].copy()
        frame[bit] ^= True
        part = Parts()
        part.add(b"\xff")
        part.add(np.packbits(np.concatenate([np.zeros(layout.pad, np.bool_), frame[::-1]])).tobytes())
        part.checksum()
        return self.plain[:start] + bytes(part.data[1:]) + self.plain[start + size - 1:]

    def name(self, place: tuple[str, int, int]) -> str:
        kind, number, bit = place
        if kind == "memory":
            return f"memory {number}, bit {bit}"
        return " or ".join(f"{tile.name} F{number - tile.frame}B{bit - tile.bit}" for tile in self.all.device.tiles
                           if 0 <= number - tile.frame < tile.frames and 0 <= bit - tile.bit < tile.bits)


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
