"""The bits of each tile, and which of them something explains."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....readback import Fabric
from .chip import Chip, Spot, as_spot
from .frames import Bitmap


@dataclass(eq=False)
class Tile:
    """The tile at (`row`, `column`): the bits that are set, and those of them that are explained."""

    row: int
    column: int
    kind: int
    data: Any
    bits: frozenset[Spot]
    explained: set[Spot] = field(default_factory=set)

    @property
    def where(self) -> str:
        return f"X{self.column}Y{self.row}"

    def take(self, spots: Iterable[Spot]) -> frozenset[Spot]:
        """Those of `spots` that are set: from now on explained by who asks."""
        found = self.bits.intersection(spots)
        self.explained |= found
        return found


def read_tiles(chip: Chip, main: Bitmap) -> dict[tuple[int, int], Tile]:
    """All tiles, by row and column."""
    rows, columns = chip.offsets
    db = chip.db
    return {(row, column): Tile(row, column, db.grid[row][column], db[row, column], frozenset(map(as_spot, np.argwhere(
        main[rows[row]:rows[row + 1], columns[column]:columns[column + 1]]).tolist())))
            for row in range(db.rows) for column in range(db.cols)}


def unexplained(tiles: Iterable[Tile], fabric: Fabric) -> None:
    """A problem for each bit that nothing took."""
    for tile in tiles:
        for row, column in sorted(tile.bits - tile.explained):
            fabric.problem(tile.where, f"bit ({row}, {column}) is set, and no setting of this tile has it")
