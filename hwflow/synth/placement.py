"""Between synthesis and place and route: what nextpnr would not find by itself in a large design for an ECP5.

In: the cells of a netlist, as in yosys' JSON.  Out: the same function, with copies of the register that resets the
design, one for each part of it, and with places for the multiplier blocks.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from .boards import Board

__all__ = ["RULES", "multiplier_sites", "prepared"]

#: Of what is done here; part of the key of a step whose result it changes.
RULES = "2"
#: A register that resets so many others gets copies.
MOST_RESETS = 256
#: Share of a device's multipliers from which on they get their places here: below it nextpnr finds better ones.
CROWDED = 0.4
#: Rows, and columns of the first tile, of the DSP blocks by the size of the die: what nextpnr-ecp5 0.11 gives as the
#: places of as many MULT18X18D as there are.  A gap between columns is where the clock's spine runs.
BLOCKS = {
    "12": ((13,), (4, 13, 22, 33, 42, 51, 60)),
    "25": ((13,), (4, 13, 22, 33, 42, 51, 60)),
    "45": ((22, 46), (4, 13, 22, 31, 42, 51, 60, 69, 78)),
    "85": ((10, 34, 58), (4, 13, 22, 31, 40, 49, 58, 69, 78, 87, 96, 105, 114)),
}
#: Tiles of a DSP block that hold a MULT18X18D, which nextpnr names by them.
TILES = (0, 1, 4, 5)

Cells = dict[str, dict[str, Any]]


def prepared(netlist: str, board: Board) -> str:
    """`netlist`, JSON text, ready for place and route on `board`."""
    if board.family != "ecp5":
        return netlist
    document = json.loads(netlist)
    for module in document["modules"].values():
        if "top" in module["attributes"]:
            copy_resets(module)
            place_multipliers(module["cells"], board.device)
    return json.dumps(document)


def multiplier_sites(device: str) -> list[str]:
    """Where the MULT18X18D of a device are, in the order of a walk to and fro along its rows of DSP blocks."""
    found = re.search(r"-(\d+)", device)
    rows, columns = BLOCKS[found[1] if found else ""]
    result = []
    for k, row in enumerate(rows):
        line = [f"X{column + tile}/Y{row}/MULT18_{tile}" for column in columns for tile in TILES]
        result += line[::-1] if k % 2 else line
    return result


def place_multipliers(cells: Cells, device: str) -> None:
    """Multipliers stand in the order of the stages, banks and rows that they belong to.

    Words and sums hop from bank to bank and results from stage to stage, so that all that belongs together comes to
    stand together.  nextpnr's placer begins without any cell that has a place but a few pins, and leaves the blocks of
    a stage on different ends of the device: a residual network of 142 multipliers had twice as much wire, was placed
    in three times and routed in more than twice the time.  A single stage of 64 has little more than half the wire.
    """
    names = sorted((name for name, cell in cells.items() if cell["type"] == "MULT18X18D"), key=natural)
    sites = multiplier_sites(device)
    if CROWDED * len(sites) < len(names) <= len(sites):
        for name, site in zip(names, sites, strict=False):
            cells[name]["attributes"]["BEL"] = site


def natural(name: str) -> list[tuple[int, str]]:
    """A key that sorts by the numbers in a name."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def copy_resets(module: dict[str, Any]) -> None:
    """A register that resets many others is copied for each part of the core: none has to reach over the device.

    The copies have the register's own inputs, so they always hold the same.
    """
    cells: Cells = module["cells"]
    readers, drivers = wiring_of(cells)
    fresh = 1 + max((bit for bits in bits_of(module) for bit in bits if isinstance(bit, int)), default=0)
    for bit, pins in readers.items():
        driver = drivers.get(bit)
        if driver is None or cells[driver]["type"] != "TRELLIS_FF":
            continue
        if sum(pin == "LSR" for _, pin, _ in pins) < MOST_RESETS:
            continue
        groups = defaultdict(list)
        for cell, pin, place in pins:
            groups[module_of(cell)].append((cell, pin, place))
        for part in sorted(groups, key=natural):
            if not part:
                continue  # keeps the register itself
            name = f"{driver}.{part}"
            original = cells[driver]
            cells[name] = original | {"attributes": dict(original["attributes"]), "connections": {
                **{pin: list(bits) for pin, bits in original["connections"].items()}, "Q": [fresh]}}
            module["netnames"][f"{name}.Q"] = {"hide_name": 1, "bits": [fresh], "attributes": {}}
            for cell, pin, place in groups[part]:
                cells[cell]["connections"][pin][place] = fresh
            fresh += 1


def module_of(cell: str) -> str:
    """The stage, or what stands between two stages, that a cell belongs to; empty for what is around the core."""
    found = re.match(r"(?:.*\.)?core\.([^.]+)\.", cell)
    return found[1] if found else ""


def wiring_of(cells: Cells) -> tuple[dict[int, list[tuple[str, str, int]]], dict[int, str]]:
    """For each wire the inputs it goes to, as cell, pin and place in the pin; and the cell that drives it."""
    readers: dict[int, list[tuple[str, str, int]]] = defaultdict(list)
    drivers: dict[int, str] = {}
    for name, cell in cells.items():
        for pin, bits in cell["connections"].items():
            for place, bit in enumerate(bits):
                if not isinstance(bit, int):
                    continue
                if cell["port_directions"][pin] == "input":
                    readers[bit].append((name, pin, place))
                else:
                    drivers[bit] = name
    return readers, drivers


def bits_of(module: dict[str, Any]) -> Iterator[list[int | str]]:
    """The wires that the module knows by any name."""
    for cell in module["cells"].values():
        yield from cell["connections"].values()
    for named in (*module["netnames"].values(), *module["ports"].values()):
        yield named["bits"]
