"""Wires: one name for one metal, whatever tiles call it, and the switches that drive it.

A wire that goes on to other tiles has the name of its beginning.  Sources: Project Apicula (MIT): names and lengths of
wires (doc/architecture.md), `nodes` and `segments` of the database; wires turn back at the rim.  The carry of a cell is
the carry input of the next one, through all tiles of a row (doc/alu.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from .chip import Chip, Spot, as_spot
from .tiles import Tile

#: Direction, kind and number, and how many tiles from its beginning.
LONG = re.compile(r"([NSEW])([128]\d)(\d)")
#: Where the beginning of a wire is, for each tile of its length: (row, column).
BACK = {"N": (1, 0), "S": (-1, 0), "W": (0, 1), "E": (0, -1)}
TURNED = {"N": "S", "S": "N", "E": "W", "W": "E"}
#: Wires of one tile that go both ways have one beginning for both.
BOTH = {"N": "SN", "S": "SN", "E": "EW", "W": "EW"}
CARRY = re.compile(r"COUT(\d)")
#: Cells with a carry in a tile of logic.
CARRIES = 6
LEVELS = {"VCC": "1", "VSS": "0"}


class Wires:
    """The names of a chip's wires."""

    def __init__(self, chip: Chip):
        self.chip = chip
        self.nodes: dict[tuple[int, int, str], str] = {}
        self.known: dict[tuple[int, int, str], str] = {}
        for name, (_, places) in chip.db.nodes.items():
            for row, column, wire in places:
                self.nodes[row, column, wire] = f"node/{name}"
        for places in segments(chip.db):
            first = places[0]
            name = self.nodes.get(first, named(*first))
            self.nodes |= dict.fromkeys(places, name)
        #: The tiles that have a wire of several tiles, with its name in them.
        self.places: dict[str, list[tuple[int, int, str]]] = {}
        for place, name in self.nodes.items():
            self.places.setdefault(name, []).append(place)

    def name(self, row: int, column: int, wire: str) -> str:
        """The one name of what a tile calls `wire`."""
        key = row, column, wire
        if key not in self.known:
            self.known[key] = self.nodes.get(key) or self.beginning(*key)
        return self.known[key]

    def beginning(self, row: int, column: int, wire: str) -> str:
        if wire in LEVELS:
            return wire
        if carry := CARRY.fullmatch(wire):
            return self.carry(row, column, int(carry[1]))
        if not (long := LONG.fullmatch(wire)):
            return named(row, column, wire)
        key = self.root(row, column, *long.groups())
        return self.nodes.get(key, named(*key))

    def root(self, row: int, column: int, direction: str, number: str, tiles: str) -> tuple[int, int, str]:
        """The beginning of a long wire; beyond the rim it comes back the other way."""
        down, right = BACK[direction]
        row, column = row + down * int(tiles), column + right * int(tiles)
        rows, columns = self.chip.db.rows, self.chip.db.cols
        if not (0 <= row < rows and 0 <= column < columns):
            row, column = reflected(row, rows), reflected(column, columns)
            direction = TURNED[direction]
        if number in ("11", "12"):
            return row, column, f"{BOTH[direction]}{number[1]}0"
        return row, column, f"{direction}{number}0"

    def carry(self, row: int, column: int, cell: int) -> str:
        """The carry that a cell gives is the input of the next one."""
        if cell + 1 < CARRIES:
            return named(row, column, f"CIN{cell + 1}")
        return named(row, column + 1, "CIN0")


def named(row: int, column: int, wire: str) -> str:
    return f"X{column}Y{row}/{wire}"


def reflected(at: int, count: int) -> int:
    return -1 - at if at < 0 else 2 * count - 1 - at if at >= count else at


def segments(db: Any) -> Iterator[list[tuple[int, int, str]]]:
    """The long wires of columns: from the switches at both ends to the taps of each row, and from those to tiles."""
    for (_, column, index), segment in db.segments.items():
        half = index // 4
        rows = range(segment["min_y"], segment["max_y"] + 1)
        yield [(segment["top_row"], column, segment["top_wire"]), (segment["bottom_row"], column,
                                                                   segment["bottom_wire"]),
               *((row, column, f"LT0{1 + 3 * half}") for row in rows)]
        for row in rows:
            yield [(row, column, f"LBO{half}"), *((row, at, f"LB{index}1")
                                                  for at in range(segment["min_x"], segment["max_x"] + 1))]


class Choice(NamedTuple):
    """What may drive a wire of a tile: by the bits that are set, and the source that no bit stands for."""

    spots: frozenset[Spot]
    sources: Mapping[frozenset[Spot], str]
    default: str | None


class Switch(NamedTuple):
    """A switch that is on, in the names of its tile."""

    source: str
    sink: str


class Switches:
    """The switches of all kinds of tiles."""

    def __init__(self, wires: Wires):
        self.wires = wires
        self.choices = lru_cache(maxsize=None)(self.choices_of_kind)

    def choices_of_kind(self, kind: int) -> Mapping[str, Choice]:
        """What each wire of a kind of tile may be driven by."""
        tile = self.wires.chip.db.tiles[kind]
        made = {sink: choice(sources, tile.alonenode.get(sink, ())) for sink, sources in tile.pips.items()}
        return made | {sink: choice(sources, ()) for sink, sources in tile.clock_pips.items()
                       if not sink.startswith("GT")}

    def read(self, tile: Tile) -> tuple[list[Switch], list[str]]:
        """The switches of a tile that bits turn on, and the wires with bits that choose no source."""
        on, wrong = list[Switch](), list[str]()
        if not tile.bits:
            return on, wrong
        for sink, choices in [*self.choices(tile.kind).items(), *self.taps(tile)]:
            if not (bits := tile.bits & choices.spots):
                continue
            source = choices.sources.get(bits)
            if source is None:
                wrong.append(sink)
            else:
                tile.explained |= bits
                on.append(Switch(source, sink))
        return on, wrong

    def taps(self, tile: Tile) -> Iterator[tuple[str, Choice]]:
        """Taps of global clocks: all the spines of a quadrant stand at the same bits, and one of them is there."""
        for sink, sources in tile.data.clock_pips.items():
            if sink.startswith("GT"):
                there = {source: spots for source, spots in sources.items()
                         if (tile.row, tile.column, source) in self.wires.nodes}
                yield sink, choice(there, ())

    def default(self, tile: Tile, sink: str) -> str | None:
        """What drives a wire of a tile while none of its bits is set."""
        choices = self.choices(tile.kind).get(sink)
        return None if choices is None or tile.bits & choices.spots else choices.default


@lru_cache(maxsize=4)
def switches_of(chip: Chip) -> Switches:
    """The wires and switches of a chip."""
    return Switches(Wires(chip))


def choice(sources: Mapping[str, Iterable[Iterable[int]]],
           alone: Iterable[tuple[Iterable[str], Iterable[Iterable[int]]]]) -> Choice:
    """`alone`: bits that are also set for each source that is not in a list."""
    patterns: dict[frozenset[Spot], str] = {}
    for source, spots in sources.items():
        bits = set(map(as_spot, spots))
        for exempt, more in alone:
            if source not in exempt:
                bits |= set(map(as_spot, more))
        patterns.setdefault(frozenset(bits), source)
    default = patterns.pop(frozenset(), None)
    return Choice(frozenset().union(*patterns), patterns, default)
