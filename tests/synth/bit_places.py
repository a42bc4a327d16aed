"""Bits of iCE40 bitstreams changed in the file, with its checksum made right again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hwflow.synth.families.ice40.readback.database import find_database, read_database
from hwflow.synth.families.ice40.readback.die import Die
from hwflow.synth.families.ice40.readback.file import DEVICES, PREAMBLE, read_image

#: (bank, row, column) of a bit of the configuration, or the same of block RAM.
BankBit = tuple[int, int, int]
START = b"\x01\x05"  # the checksum begins behind it
LAST = b"\x22\0\0\x01\x06\0"  # the checksum's command with its two bytes, the start of the device, a byte of padding


class Changer:
    """Changes bits of the bitstream in `path`, of an iCE40 as board files call it."""

    def __init__(self, path: Path, device: str):
        self.path, self.data = path, path.read_bytes()
        self.image = read_image(path, device)
        self.die = Die(read_database(find_database(DEVICES[device])), self.image, path)

    def setting(self, place: tuple[int, int], name: str, bit: int = 0) -> BankBit:
        """Bit `bit` of the setting `name` of a tile."""
        row, column = self.die.tiles[place].settings[name][bit]
        return self.tile_bit(place, row, column)

    def tile_bit(self, place: tuple[int, int], row: int, column: int) -> BankBit:
        bank, (rows, columns) = self.die.region(place)
        return bank, int(rows[row, 0]), int(columns[0, column])

    def changed(self, bits: Iterable[BankBit], kind: str = "cells") -> bytes:
        """The file with these bits the other way round."""
        data = bytearray(self.data)
        for bank, row, column in bits:
            load = next(load for load in self.image.places if (load.kind, load.bank) == (kind, bank)
                        and load.row <= row < load.row + load.rows)
            at = (row - load.row) * load.columns + column
            data[load.at + at // 8] ^= 0x80 >> at % 8
        return checked(bytes(data))


def checked(data: bytes) -> bytes:
    """The file with the checksum of its bits, computed bit by bit from the definition of CRC-16-CCITT."""
    start = data.index(START, data.index(PREAMBLE)) + len(START)
    end = len(data) - len(LAST)
    assert data[end] == LAST[0]
    bits = np.unpackbits(np.frombuffer(data[start:end + 1], np.uint8)).tolist()
    crc = 0xFFFF
    for bit in bits:
        high = crc >> 15 ^ bit
        crc = (crc << 1 & 0xFFFF) ^ (0x1021 if high else 0)
    return data[:end + 1] + crc.to_bytes(2, "big") + data[end + 3:]


def tiles_of_text(text: str) -> tuple[dict[tuple[int, int], npt.NDArray[np.bool_]], dict[tuple[int, int], list[str]]]:
    """The bits of each tile, and the lines of each RAM's contents, in the text that `iceunpack` writes."""
    tiles, memories = {}, {}
    for kind, x, y, lines in re.findall(r"^\.(\w+) (\d+) (\d+)\n((?:[0-9a-f]+\n)+)", text, re.M):
        if kind == "ram_data":
            memories[int(x), int(y)] = lines.split()
        else:
            tiles[int(x), int(y)] = np.array([[bit == "1" for bit in line] for line in lines.split()])
    return tiles, memories


class ICE40Bits:
    """The bits of a bitstream that `bench.bit_flips` turns: those of tiles in which a switch is on or a logic cell has
    bits, and the contents of block RAMs that are used."""

    def __init__(self, path: Path, device: str):
        self.changer = Changer(path, device)

    def places(self) -> list[tuple[str, BankBit]]:
        die, found = self.changer.die, list[tuple[str, BankBit]]()
        for place, tile in die.tiles.items():
            if tile.place in die.used or (tile.kind == "logic" and any(tile.has(f"LC_{k}") for k in range(8))):
                found += [("cells", self.changer.tile_bit(place, row, column))
                          for row in range(tile.bits.shape[0]) for column in range(tile.bits.shape[1])]
            if tile.kind == "ramb" and tile.has("RamConfig.PowerUp"):
                bank, first = die.memory_of(place)
                found += [("memory", (bank, row, first + column)) for row in range(256) for column in range(16)]
        return found

    def turned(self, place: tuple[str, BankBit]) -> bytes:
        kind, bit = place
        return self.changer.changed([bit], kind)

    def name(self, place: tuple[str, BankBit]) -> str:
        kind, (bank, row, column) = place
        return f"{kind} of bank {bank}, row {row}, column {column}"
