"""Names of wires: one for one metal, and what always drives it.

A tile calls a wire that begins in another by where that is: `N1E2_JA0` is `JA0` of the tile one row up and two columns
to the right.  Wires of the clock network are called alike in all tiles of a region; `globals.json` has the regions.
Source: Project Trellis, docs/architecture/general_routing.rst and global_routing.rst, and which names its routing graph
makes one (libtrellis/src/RoutingGraph.cpp).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

from .database import Device
from .tiles import TileBits

RELATIVE = re.compile(r"([NS])?(\d+)?([EW])?(\d+)?_(.*)")
#: Names of wires that only dies of that size have.
SIZES = ("25K_", "45K_", "85K_")
#: Wires of the clock network that belong to a region: along a row of tiles, to a column of taps, into a quadrant.
REGIONAL = re.compile(r"G_(HPBX|VPTX|HPRX)(\d\d)00")
#: Pins of blocks in modes that hwflow has no model of: that they drive something matters only where such a mode is on.
OTHER_MODES = re.compile(r".*_(?:MULT9|PRADD18|PRADD9|ALU24|CIBTEST)")


@cache
def split(name: str) -> tuple[int, int, str]:
    """Rows down, columns to the right, and the name of the wire there."""
    match = re.fullmatch(r"(?:([NS])(\d+))?(?:([EW])(\d+))?_(.*)", name)
    if match is None or not (match[1] or match[3]):
        return 0, 0, name
    down = int(match[2] or 0) * (-1 if match[1] == "N" else 1)
    right = int(match[4] or 0) * (-1 if match[3] == "W" else 1)
    return down, right, match[5]


class Wires:
    """The wires of a device."""

    def __init__(self, bits: TileBits):
        self.bits, self.device = bits, bits.device
        self.names: dict[tuple[int, int, str], str | None] = {}
        self.taps = taps_of(self.device)
        self.spines = spines_of(self.device)
        self.fixed: dict[str, list[tuple[str, int, int, str]]] = defaultdict(list)
        self.muxes: dict[str, list[tuple[str, int, int, str]]] = defaultdict(list)
        for kind, decided in bits.kinds.items():
            for sink, source in decided.kind.fixed:
                own = self.own_size(sink)
                if own is not None and self.own_size(source) is not None and not OTHER_MODES.fullmatch(source):
                    down, right, base = split(own)
                    self.fixed[base].append((kind, down, right, source))
            for mux in decided.kind.muxes.values():
                if not all(any(value for _, _, value in group) for _, group in mux.options):
                    down, right, base = split(mux.name)
                    self.muxes[base].append((kind, down, right, mux.name))

    def own_size(self, name: str) -> str | None:
        """The name without the size of its die; None where it is another's."""
        if not name.startswith(SIZES):
            return name
        return name[len(self.device.size):] if name.startswith(self.device.size) else None

    def name(self, row: int, column: int, wire: str) -> str | None:
        """The one name of what the tile at `row` and `column` calls `wire`; None where it is outside of the device."""
        key = row, column, wire
        if key not in self.names:
            self.names[key] = self.find(row, column, wire)
        return self.names[key]

    def find(self, row: int, column: int, wire: str) -> str | None:
        own = self.own_size(wire)
        if own is None:
            return None
        if regional := REGIONAL.fullmatch(own):
            return self.regional(row, column, regional[1], int(regional[2]))
        if own.startswith("G_"):
            return own
        down, right, base = split(own)
        row, column = row + down, column + right
        return at(row, column, base) if 0 <= row < self.device.rows and 0 <= column < self.device.columns else None

    def regional(self, row: int, column: int, what: str, number: int) -> str | None:
        """A row's branch is the left or right wire of its tap; the taps of a column in a quadrant are on the wire of
        their spine, and that is fed by the quadrant's clock of the same number."""
        if what == "HPBX":
            side, tap = self.taps[column]
            return at(row, tap, f"{side}_HPBX{number:02d}00")
        if what == "VPTX":
            spine = self.spines.get((row, column))
            if spine is None:
                spine = f"{quadrant_of(self.device, row, column)}{column}"
            return f"{spine}_VPTX{number:02d}00"
        spine = self.spines.get((row, column))
        return f"G_{spine[:2]}PCLK{number}" if spine else None

    def always(self, wire: str) -> list[str]:
        """What drives `wire` without a bit that is set: fixed connections, and muxes that have nothing chosen."""
        found: dict[str, None] = {}
        base = wire.partition("_")[2] if not wire.startswith("G_") else wire
        for kind, down, right, source in self.fixed.get(base, ()):
            for row, column in self.places(kind, wire, down, right):
                name = self.name(row, column, source)
                if name is not None:
                    found[name] = None
        for kind, down, right, mux in self.muxes.get(base, ()):
            for row, column in self.places(kind, wire, down, right):
                for name in self.unchosen(kind, row, column, mux):
                    found[name] = None
        return list(found)

    def places(self, kind: str, wire: str, down: int, right: int) -> Iterator[tuple[int, int]]:
        """Tiles of the kind that have `wire` so far away."""
        if wire.startswith("G_"):
            for tile in self.bits.kinds[kind].tiles:
                yield tile.row, tile.column
            return
        row, column = place_of(wire)
        if any(name == kind for name, _ in self.bits.at.get((row - down, column - right), ())):
            yield row - down, column - right

    def unchosen(self, kind: str, row: int, column: int, mux: str) -> Iterator[str]:
        decided = self.bits.kinds[kind]
        choice = decided.kind.muxes[mux]
        for name, number in self.bits.at[row, column]:
            if name == kind:
                option = int(decided.decide("mux", choice)[number])
                if option >= 0 and not any(value for _, _, value in choice.options[option][1]):
                    source = self.name(row, column, choice.options[option][0])
                    if source is not None:
                        yield source


def at(row: int, column: int, base: str) -> str:
    return f"R{row}C{column}_{base}"


def place_of(wire: str) -> tuple[int, int]:
    """The row and column of a wire that is no global one."""
    row, _, column = wire.partition("_")[0][1:].partition("C")
    return int(row), int(column)


def taps_of(device: Device) -> dict[int, tuple[str, int]]:
    """For each column the side of its tap that it is on, and the column of that."""
    found = {}
    for name, tap in device.clocks["taps"].items():
        for side, first, last in (("L", "lx0", "lx1"), ("R", "rx0", "rx1")):
            for column in range(tap[first], tap[last] + 1):
                found[column] = side, int(name[1:])
    return found


def spines_of(device: Device) -> dict[tuple[int, int], str]:
    """The names of spines, as UL22: quadrant and column of taps, by their row and column."""
    return {(entry["y"], entry["x"]): name for name, entry in device.clocks["spines"].items()}


def quadrant_of(device: Device, row: int, column: int) -> str:
    for name, region in device.clocks["quadrants"].items():
        if region["x0"] <= column <= region["x1"] and region["y0"] <= row <= region["y1"]:
            return str(name)
    raise ValueError(f"row {row} and column {column} are in no clock region")
