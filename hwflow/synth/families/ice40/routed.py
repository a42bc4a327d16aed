"""A routed iCE40 as nextpnr's text bitstream: new dividers of its PLL, new contents of its ROMs.

Source: Project IceStorm (`pllinfo_db`: bits of IO tiles; bits of logic tiles, `.ram_data`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hwflow_rtl.vendor.pll import PllSettings

from ...contents import Contents, require_all, require_known, unlike
from ...spots import Spot, Wires, permuted
from ..base import unlike_pll

__all__ = ["TABLE_WIRE", "patched", "retuned", "table_inputs", "with_table"]

#: Row and column of the bits PLLCONFIG_1 to PLLCONFIG_9 in an IO tile.
PLLCONFIG = ((0, 2), (0, 3), (3, 3), (2, 2), (2, 3), (5, 3), (4, 2), (4, 3), (7, 3))
#: These nine of the IO tile two to the left of the PLL, then those of the one between, from the lowest bit on.
PLL_BITS = [(-2, bit) for bit in PLLCONFIG] + [(-1, bit) for bit in PLLCONFIG[:8]]
PLL_WIDTHS = {"DIVR": 4, "DIVF": 7, "DIVQ": 3, "FILTER_RANGE": 3}
#: Where the PLLs are, by what the layout calls the device.
PLLS = {"5k": ((12, 31),), "8k": ((16, 0), (16, 33))}
#: See `Family.table_wire`.
TABLE_WIRE = re.compile(r"(X\d+/Y\d+)/lutff_(\d):in_(\d)_lut;[^;]*lutff_\d:in_(\d)\.->[^;]*;")
_PLACE = re.compile(r"X(\d+)/Y(\d+)/(?:lc(\d)|ram)")
#: Which of a logic cell's 20 bits holds each bit of the table (Project IceStorm; nextpnr has the same).
TABLE_BITS = (4, 14, 15, 5, 6, 16, 17, 7, 3, 13, 12, 2, 1, 11, 10, 0)
#: The bits of logic cell n stand in the rows 2n and 2n + 1 of its tile, from this column on, ten in each.
FIRST_COLUMN = 36


def retuned(layout: str, old: Mapping[str, int], new: PllSettings, source: str) -> str:
    """Bits of the IO tiles beside the PLL."""
    lines = layout.split("\n")
    device = next((line.split()[1] for line in lines if line.startswith(".device ")), "")
    tiles = {tuple(map(int, line.split()[1:])): k + 1 for k, line in enumerate(lines) if line.startswith(".io_tile ")}
    found = []
    for x, y in PLLS.get(device, ()):
        places = [(tiles[x + beside, y] + row, column) for beside, (row, column) in PLL_BITS]
        if [lines[line][column] for line, column in places] == pll_bits(old):
            found.append(places)
    if len(found) != 1:
        raise unlike_pll(source, "dividers")
    for (line, column), bit in zip(found[0], pll_bits(dict(new.parameters)), strict=True):
        lines[line] = lines[line][:column] + bit + lines[line][column + 1:]
    return "\n".join(lines)


def pll_bits(parameters: Mapping[str, int]) -> list[str]:
    """All dividers, each from its lowest bit on."""
    return [str(parameters[name] >> k & 1) for name, width in PLL_WIDTHS.items() for k in range(width)]


def table_inputs(bel: str, wires: Wires) -> dict[int, int]:
    """Of the table at `bel`; none of what is no table."""
    found = _PLACE.fullmatch(bel)
    if found is None or found[3] is None:
        return {}
    x, y, number = found.groups()
    return {k: int(wires[f"X{x}/Y{y}", number, str(k)]) for k in range(4) if (f"X{x}/Y{y}", number, str(k)) in wires}


def patched(layout: str, spots: Sequence[Spot], old: Contents, new: Contents, source: str) -> str:
    """Bits of logic tiles and `.ram_data` of nextpnr-ice40's text bitstream."""
    missing = dict(new)
    lines = layout.split("\n")
    starts = {line: number for number, line in enumerate(lines) if line.startswith((".logic_tile ", ".ram_data "))}
    for spot in spots:
        place = spot.place
        require_known(missing, place, source)
        del missing[place]
        found = _PLACE.fullmatch(spot.bel)
        if found is None:
            raise unlike(place, source)
        x, y, number = found.groups()
        start = starts.get(f".{'logic_tile' if number else 'ram_data'} {x} {y}")
        if start is None:
            raise unlike(place, source)
        if number is None:
            rows = slice(start + 1, start + 17)
            if lines[rows] != ram_rows(old[place]):
                raise unlike(place, source)
            lines[rows] = ram_rows(new[place])
        else:
            rows = slice(start + 1 + 2 * int(number), start + 3 + 2 * int(number))
            before, after = (permuted(contents[place]["LUT_INIT"], spot.inputs) for contents in (old, new))
            if with_table(lines[rows], before) != lines[rows]:
                raise unlike(place, source)
            lines[rows] = with_table(lines[rows], after)
    require_all(missing, source)
    return "\n".join(lines)


def ram_rows(parameters: Mapping[str, str]) -> list[str]:
    """The lines of `.ram_data`: 16 of 256 bits in hexadecimal."""
    return [f"{int(parameters[f'INIT_{k:X}'], 2):064x}" for k in range(16)]


def with_table(rows: Sequence[str], bits: str) -> list[str]:
    """The two rows of a logic tile that belong to a cell, with the table `bits` (most significant first)."""
    cells = [list(row) for row in rows]
    for bit, place in zip(reversed(bits), TABLE_BITS, strict=True):
        cells[place // 10][FIRST_COLUMN + place % 10] = bit
    return ["".join(row) for row in cells]
