"""Bits of Gowin bitstreams changed in the file, with its checksums made right again."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path

from hwflow.synth.families.gowin.readback.chip import read_chip
from hwflow.synth.families.gowin.readback.frames import Frames, read_frames, written
from hwflow.synth.families.gowin.readback.memory import places as contents_of
from hwflow.synth.families.gowin.readback.tiles import read_tiles


class GowinBits:
    """The bits of a bitstream that `bench.bit_flips` turns: those of tiles with any bit, and the contents of block RAMs
    that are used."""

    def __init__(self, path: Path, chip: str):
        self.chip = read_chip(chip)
        self.frames = read_frames(path, self.chip.layout)
        self.used = [tile for tile in read_tiles(self.chip, self.frames.main).values() if tile.bits]

    def places(self) -> list[tuple[str, int, int]]:
        rows, columns = self.chip.offsets
        found = [("tile", y, x) for tile in self.used for y in range(rows[tile.row], rows[tile.row + 1])
                 for x in range(columns[tile.column], columns[tile.column + 1])]
        return found + [("contents", int(y), int(x)) for tile in self.used if "BSRAM" in tile.data.bels
                        for y, x in zip(*(at.flat for at in contents_of(self.chip, tile)), strict=True)]

    def turned(self, place: tuple[str, int, int]) -> bytes:
        kind, y, x = place
        main, contents = self.frames.main.copy(), self.frames.contents.copy()
        (main if kind == "tile" else contents)[y, x] ^= 1
        return written(Frames(main, contents), self.chip.layout).encode()

    def name(self, place: tuple[str, int, int]) -> str:
        kind, y, x = place
        if kind == "contents":
            return f"contents, row {y}, column {x}"
        rows, columns = self.chip.offsets
        row, column = bisect_right(rows, y) - 1, bisect_right(columns, x) - 1
        return f"X{column}Y{row}, bit ({y - rows[row]}, {x - columns[column]})"
