"""A device with its bits: tiles whose settings are taken one by one, so that what is left over is not explained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ....readback import Fabric
from .database import Database, Place, Switch, Tile, damaged
from .file import Bits, Image

#: Rows of bits in a tile.
ROWS = 16
#: Which of 40 columns each bit of a row of an upper or lower IO tile has, and which row each of its rows: Project
#: IceStorm, icepack.cc.  Only some bits of the column exist there.
IO_COLUMNS = np.array([23, 25, 26, 27, 16, 17, 18, 19, 20, 14, 32, 33, 34, 35, 36, 37, 4, 5])
IO_ROWS = np.array([15, 14, 12, 13, 11, 10, 8, 9, 7, 6, 4, 5, 3, 2, 0, 1])


@dataclass(frozen=True)
class TileBits:
    """The bits of a tile: `left` are those that are set and not explained so far."""

    place: Tile
    kind: str
    bits: Bits
    left: Bits
    settings: Mapping[str, tuple[Place, ...]]

    @property
    def where(self) -> str:
        x, y = self.place
        return f"{self.kind} tile {x},{y}"

    def take(self, name: str) -> int:
        """The setting `name`, its first bit lowest.  Its bits are explained from now on."""
        return self.take_bits(self.settings[name])

    def take_bits(self, places: tuple[Place, ...]) -> int:
        value = 0
        for k, place in enumerate(places):
            value |= int(self.bits[place]) << k
            self.left[place] = False
        return value

    def has(self, name: str) -> int:
        """The setting, which stays to be explained by who takes it."""
        return sum(int(self.bits[place]) << k for k, place in enumerate(self.settings[name]))


class Die:
    """The tiles of `database` with the bits of `image`; what they say goes into `fabric`.

    `taken` are the wires that a switch takes something from, `driven` those that one drives.  `globals` are the tiles
    in which something is taken from each global wire, `used` those with a switch that is on.  `left` are set bits of no
    tile by (bank, row, column).
    """

    def __init__(self, database: Database, image: Image, path: Path):
        self.database = database
        self.defaults: dict[object, str] = {}
        self.fabric = Fabric(path, self.defaults)
        self.names = database.names
        columns, rows = (1 + max(place[k] for place in database.tiles) for k in (0, 1))
        self.half_x, self.low_rows = columns // 2, len(image.cells[0]) // ROWS
        self.columns, self.rows = columns, rows
        self.memory = image.memory
        self.offsets = self.column_offsets()
        left = {bank: bits.copy() for bank, bits in image.cells.items()}
        self.tiles = {place: self.tile(place, image.cells, left) for place in database.tiles}
        self.left = {(bank, int(y), int(x)) for bank, bits in left.items()
                     for y, x in zip(*np.nonzero(bits), strict=True)}
        self.taken: set[str] = set()
        self.driven: set[str] = set()
        self.globals: dict[str, set[Tile]] = {}
        self.used: set[Tile] = set()
        self.read_switches()

    def wire(self, place: Tile, name: str) -> str:
        """The wire that has `name` in the tile at `place`."""
        try:
            return self.names[self.database.wires[place, name]]
        except (KeyError, IndexError):
            raise damaged(self.database.path) from None

    def width(self, x: int) -> int:
        """The columns of bits that a column of tiles has, between its ends."""
        return self.database.sizes[self.database.tiles[x, 1]][0]

    def column_offsets(self) -> dict[int, int]:
        """The first column of bits of each column of tiles, counted from its side of the device."""
        found, at = {}, 0
        for x in range(self.half_x):
            found[x] = found[self.columns - 1 - x] = at
            at += self.width(x)
        return found

    def tile(self, place: Tile, cells: dict[int, Bits], left: dict[int, Bits]) -> TileBits:
        """The bits of a tile, which `left` has no more."""
        bank, at = self.region(place)
        kind, bits = self.database.tiles[place], cells[bank][at]
        left[bank][at] = False
        return TileBits(place, kind, bits, bits.copy(), self.database.settings[kind])

    def region(self, place: Tile) -> tuple[int, tuple[npt.NDArray[np.intp], ...]]:
        """The bank with the bits of a tile, and the rows and columns of its bits there.

        The device is four quarters, mirrored so that the corners are their beginnings; an upper or lower IO tile lies
        in the columns of the logic between.
        """
        x, y = place
        kind = self.database.tiles[place]
        right, upper = x >= self.half_x, y >= self.low_rows
        if kind == "io" and y in (0, self.rows - 1):
            columns, rows = IO_COLUMNS, IO_ROWS
        else:
            columns, rows = np.arange(self.database.sizes[kind][0]), np.arange(ROWS)
            rows = ROWS - 1 - rows if upper else rows
        if right or (kind == "io" and x == 0):
            columns = self.width(x) - 1 - columns
        bank = int(upper) + 2 * int(right)
        start = ROWS * (self.rows - 1 - y if upper else y)
        return bank, np.ix_(start + rows, self.offsets[x] + columns)

    def read_switches(self) -> None:
        """Every switch of which a bit is set drives its wire."""
        widest = max(width for width, _ in self.database.sizes.values())
        bits = np.zeros((self.columns, self.rows, ROWS, widest), bool)
        for place, tile in self.tiles.items():
            bits[place][:, :tile.bits.shape[1]] = tile.bits
        for switch in self.database.switches(bits):
            self.read_switch(switch)

    def read_switch(self, switch: Switch) -> None:
        tile = self.tiles[switch.tile]
        bits = "".join(str(int(tile.bits[place])) for place in switch.bits)
        where = f"{tile.where} {' '.join(bit_name(place) for place in switch.bits)}"
        tile.take_bits(switch.bits)
        if bits not in switch.sources:
            self.fabric.problem(where, f"{bits} connects nothing to {self.names[switch.sink]}")
            return
        source, sink = self.names[switch.sources[bits]], self.names[switch.sink]
        self.fabric.switch(source, sink, where)
        self.taken.add(source)
        self.driven.add(sink)
        self.used.add(switch.tile)
        if "/glb_netwk_" in source:
            self.globals.setdefault(source, set()).add(switch.tile)

    def memory_of(self, place: Tile) -> tuple[int, int]:
        """The bank with the contents of the block RAM whose lower tile is at `place`, and their first column there."""
        x, y = place
        upper = y >= self.low_rows
        return int(upper) + 2 * int(x >= self.half_x), (y - self.low_rows if upper else y - 1) // 2 * ROWS

    def words_of(self, place: Tile) -> Bits:
        """The 256 words of that block RAM, bit 0 first."""
        bank, first = self.memory_of(place)
        return self.memory[bank][:, first:first + ROWS][:, ::-1]


def bit_name(place: Place) -> str:
    return f"B{place[0]}[{place[1]}]"
