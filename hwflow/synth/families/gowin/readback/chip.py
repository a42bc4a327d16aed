"""The database of a chip: tiles, switches, cells, and the tables of what their bits mean.

It is the one that gowin_pack reads, from the Python package apycula (Project Apicula, MIT):
`apycula/<chip>.msgpack.xz`, read by `apycula.chipdb`; numbers of attributes and their values have their names in
`apycula.attrids`.
"""

from __future__ import annotations

import importlib
import importlib.resources
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from hwflow_base.errors import HwflowError, MissingTool

from .frames import Layout

#: A bit of a tile: its row and column in it.
Spot = tuple[int, int]
#: Rows of the bitmap with the contents of a row of block RAMs.
ROWS_OF_CONTENTS = 256
INSTALL = "pip install 'hwflow[synth]'"


@dataclass(frozen=True, eq=False)
class Chip:
    """`db` is apicula's `chipdb.Device` of the die `name`, `ids` its module `attrids`."""

    name: str
    db: Any
    ids: Any

    @cached_property
    def layout(self) -> Layout:
        """What a bitstream of it looks like."""
        db = self.db
        return Layout(self.name, tuple(map(bytes, db.cmd_hdr)), tuple(map(bytes, db.cmd_ftr)), db.height, db.width,
                      ROWS_OF_CONTENTS * len(db.simplio_rows))

    @cached_property
    def offsets(self) -> tuple[list[int], list[int]]:
        """The first row of the bitmap of each row of tiles, the first column of each column of tiles."""
        rows, columns = [0], [0]
        for row in range(self.db.rows):
            rows.append(rows[-1] + self.db[row, 0].height)
        for column in range(self.db.cols):
            columns.append(columns[-1] + self.db[0, column].width)
        return rows, columns

    def attribute(self, table: str, name: str, value: str | int) -> int:
        """The number that rows of the tables of `table` have for an attribute with a value; 0 where they know none."""
        ids, values = {
            "SLICE": (self.ids.cls_attrids, self.ids.cls_attrvals),
            "BSRAM": (self.ids.bsram_attrids, self.ids.bsram_attrvals),
            "DSP": (self.ids.dsp_attrids, self.ids.dsp_attrvals), "PLL": (self.ids.pll_attrids, self.ids.pll_attrvals),
            "IOB": (self.ids.iob_attrids, self.ids.iob_attrvals), "CFG": (self.ids.cfg_attrids, self.ids.cfg_attrvals),
            "GSR": (self.ids.gsr_attrids, self.ids.gsr_attrvals)}[table]
        number = value if isinstance(value, int) else values[value]
        return int(self.db.logicinfo[table].get((ids[name], number), 0) or 0)

    def attributes(self, table: str, values: Mapping[str, str | int]) -> frozenset[int]:
        """The same for many of them."""
        return frozenset(code for name, value in values.items() if (code := self.attribute(table, name, value)))

    def pads(self, part: str) -> Mapping[str, str]:
        """The place in the rim ("IOB8A") of each pin of the package of `part`, which has its speed at its end."""
        if part not in self.db.packages:
            raise HwflowError(f"the database of the {self.name} must know the device '{part}'",
                              "correct the key 'device' of the board file")
        package, variant, _ = self.db.packages[part]
        return {pin: place for pin, (place, _) in self.db.pinout[variant][package].items()}


def as_spot(values: Iterable[int]) -> Spot:
    row, column = values
    return row, column


class Row(NamedTuple):
    """A row of a table: its bits are set where all of `wanted` are among the attributes and none of `defaults` is."""

    wanted: frozenset[int]
    defaults: frozenset[int]
    spots: frozenset[Spot]


def rows_of(table: Mapping[tuple[int, ...], Iterable[Iterable[int]]]) -> list[Row]:
    """A table of the database: numbers of defaults are negative, zeros fill a row."""
    return [Row(frozenset(n for n in key if n > 0), frozenset(-n for n in key if n < 0), frozenset(map(as_spot, spots)))
            for key, spots in table.items()]


def fuses(table: Iterable[Row], attributes: frozenset[int]) -> frozenset[Spot]:
    """The bits that a table sets for attributes."""
    return frozenset[Spot]().union(*(row.spots for row in table if row.wanted <= attributes
                                     and not row.defaults & attributes))


def require_chip(name: str) -> None:
    """MissingTool where `read_chip` would raise it; nothing is read."""
    try:
        importlib.import_module("apycula.attrids")
        if not (importlib.resources.files("apycula") / f"{name}.msgpack.xz").is_file():
            raise OSError(f"no {name}.msgpack.xz in it")
    except (ImportError, OSError) as error:
        raise missing(name, error) from None


def missing(name: str, error: Exception) -> MissingTool:
    return MissingTool(f"the database of the {name} must be installed: a part of the Python package apycula ({error})",
                       INSTALL)


@lru_cache(maxsize=4)
def read_chip(name: str) -> Chip:
    """The database of the die `name`.  MissingTool where apycula is not installed, or does not know it."""
    try:
        chipdb, ids = importlib.import_module("apycula.chipdb"), importlib.import_module("apycula.attrids")
        with importlib.resources.as_file(importlib.resources.files("apycula") / f"{name}.msgpack.xz") as path:
            return Chip(name, chipdb.load_chipdb(str(path)), ids)
    except (ImportError, OSError) as error:
        raise missing(name, error) from None
