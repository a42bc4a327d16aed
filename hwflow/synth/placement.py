"""Between synthesis and place and route: what nextpnr would not find by itself in a large design for an ECP5.

In: the cells of a netlist, as in yosys' JSON.  Out: the same function, with copies of the register that resets the
design, one for each part of it, and with places for the multiplier blocks.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from .boards import Board
from .constants import local_constants
from .names import module_of, natural
from .places import Cells, block_places

__all__ = ["RULES", "prepared", "without_places"]

#: Of what is done here; part of the key of a step whose result it changes.
RULES = "3"
#: A register that resets so many others gets copies.
MOST_RESETS = 256


def prepared(netlist: str, board: Board) -> str:
    """`netlist`, JSON text, ready for place and route on `board`."""
    if board.family != "ecp5":
        return netlist
    document = json.loads(netlist)
    for module in document["modules"].values():
        if "top" in module["attributes"]:
            copy_resets(module)
            place_blocks(module, board.device)
    return json.dumps(document)


def place_blocks(module: dict[str, Any], device: str) -> None:
    """Places for blocks and, where there are any, constants near them."""
    places = block_places(module["cells"], device)
    for name, site in places.items():
        module["cells"][name]["attributes"]["BEL"] = site.name
    if places:
        local_constants(module, places, device, first_free(module))


def without_places(netlist: str) -> str:
    """`netlist`, JSON text, with all places left to nextpnr."""
    document = json.loads(netlist)
    for module in document["modules"].values():
        for cell in module["cells"].values():
            cell["attributes"].pop("BEL", None)
    return json.dumps(document)


def copy_resets(module: dict[str, Any]) -> None:
    """A register that resets many others is copied for each part of the core: none has to reach over the device.

    The copies have the register's own inputs, so they always hold the same.
    """
    cells: Cells = module["cells"]
    readers, drivers = wiring_of(cells)
    fresh = first_free(module)
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


def first_free(module: dict[str, Any]) -> int:
    """A number above those of all wires."""
    return 1 + max((bit for bits in bits_of(module) for bit in bits if isinstance(bit, int)), default=0)


def bits_of(module: dict[str, Any]) -> Iterator[list[int | str]]:
    """The wires that the module knows by any name."""
    for cell in module["cells"].values():
        yield from cell["connections"].values()
    for named in (*module["netnames"].values(), *module["ports"].values()):
        yield named["bits"]
