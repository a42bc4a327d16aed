"""Where the multipliers, adders and block RAMs of an ECP5 are on the die, by the names that nextpnr gives the places.

The figures are what nextpnr-ecp5 0.11 answers when it places as many cells as there are.
"""

from __future__ import annotations

import bisect
import re
from typing import NamedTuple

#: Rows of the DSP blocks, rows of the block RAMs, and columns where a block of either begins, by the size of the die.
#: A gap between columns is where the clock's spine runs.
BLOCKS = {
    "12": ((13,), (25, 37), (4, 13, 22, 33, 42, 51, 60)),
    "25": ((13,), (25, 37), (4, 13, 22, 33, 42, 51, 60)),
    "45": ((22, 46), (10, 34, 58), (4, 13, 22, 31, 42, 51, 60, 69, 78)),
    "85": ((10, 34, 58), (22, 46, 70, 82), (4, 13, 22, 31, 40, 49, 58, 69, 78, 87, 96, 105, 114)),
}
#: Columns and rows of tiles by the size of the die; Project Trellis, devices.json: `max_col` and `max_row`, plus one.
GRIDS = {"12": (73, 51), "25": (73, 51), "45": (91, 72), "85": (127, 96)}
#: The first tile of each half of a DSP block: there and in the next tile is a MULT18X18D, in the fourth their ALU54B.
HALVES = (0, 4)
#: Tiles from one block RAM of a block to the next, and how many there are.
RAM_STEP, RAMS = 2, 4


class Site(NamedTuple):
    """A place, nextpnr's "BEL", and its tile."""

    name: str
    x: int
    y: int


class Slice(NamedTuple):
    """Half of a DSP block: an adder, and the multipliers whose products are its first and its second input."""

    multipliers: tuple[Site, Site]
    adder: Site


def dsp_slices(device: str) -> list[list[Slice]]:
    """The slices of each row of DSP blocks, from left to right."""
    rows, _, columns = die_of(device)

    def piece(kind: str, column: int, tile: int, row: int) -> Site:
        return Site(f"X{column + tile}/Y{row}/{kind}_{tile}", column + tile, row)

    return [[Slice((piece("MULT18", column, half, row), piece("MULT18", column, half + 1, row)),
                   piece("ALU54", column, half + 3, row)) for column in columns for half in HALVES] for row in rows]


def multiplier_sites(device: str) -> list[Site]:
    """The places of MULT18X18D, from left to right, row by row."""
    return [site for row in dsp_slices(device) for part in row for site in part.multipliers]


def ram_sites(device: str) -> list[Site]:
    """The places of DP16KD, from left to right, row by row."""
    _, rows, columns = die_of(device)
    return [Site(f"X{column + RAM_STEP * n}/Y{row}/EBR{n}", column + RAM_STEP * n, row)
            for row in rows for column in columns for n in range(RAMS)]


def block_at(site: Site, device: str) -> str:
    """A name for the block that a place is in."""
    columns = die_of(device)[2]
    return f"X{columns[bisect.bisect(columns, site.x) - 1]}Y{site.y}"


def grid_of(device: str) -> tuple[int, int]:
    """Columns and rows of tiles."""
    return GRIDS[size_of(device)]


def die_of(device: str) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    return BLOCKS[size_of(device)]


def size_of(device: str) -> str:
    """"85" of LFE5UM-85F."""
    match = re.search(r"-(\d+)", device)
    return match[1] if match else ""


# What the names of a netlist's cells say: which part of the core a cell belongs to, and their order.


#: Modules that are told apart in the core: a stage, its array, a bank of it.
DEPTH = 3


def module_of(cell: str) -> str:
    """The part of the core that a cell belongs to: the path of its modules, or what a cell of the core itself is called
    after; empty for what is around the core."""
    match = re.match(r"(?:.*\.)?core\.(.+)", cell)
    if not match:
        return ""
    *modules, name = match[1].split(".")
    return ".".join(modules[:DEPTH]) or re.split(r"_TRELLIS|_LUT4|_CCU2C|\[", name)[0]


def natural(name: str) -> list[tuple[int, str]]:
    """A key that sorts by the numbers in a name."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
