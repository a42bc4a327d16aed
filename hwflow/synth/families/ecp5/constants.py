"""Zeros and ones that an ECP5 takes from a wire come from a table near by.

nextpnr takes them from one table of zeros and one of ones, whose 1 800 wires lead over all of a device: the inputs of
its multipliers that choose registers and signs, and where carry chains begin.  Its first router takes them last, when
the wires at the multipliers are taken: of a ResNet-8 with 155 multipliers it did not end with 763 of 73 732 arcs left.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from .names import module_of, natural
from .places import Cells
from .sites import Site, block_at

__all__ = ["local_constants"]

#: Pins that no configuration bit ties, by the type of cell.
PINS = {"MULT18X18D": r"(?:CLK|CE|RST)\d|(?:SOURCE|SIGNED)[AB]", "ALU54B": r"(?:CLK|CE|RST|OP)\d+", "CCU2C": "CIN"}
#: Fewer of the same value in the same part of the design stay with nextpnr's table.
FEWEST = 4


def local_constants(module: dict[str, Any], places: dict[str, Site], device: str, fresh: int) -> int:
    """Give each DSP block, and each part of the core, tables of its own; the next wire that is free after `fresh`.

    A block's four multipliers share what they have: its wires hold four clocks, enables and resets for all of them.
    """
    cells: Cells = module["cells"]
    groups: dict[tuple[str, str], list[tuple[str, str, int]]] = defaultdict(list)
    for name in sorted(cells, key=natural):
        kind = cells[name]["type"]
        where = block_at(places[name], device) if name in places else module_of(name) if kind == "CCU2C" else ""
        if where and kind in PINS:
            for pin, bits in cells[name]["connections"].items():
                if re.fullmatch(PINS[kind], pin):
                    for place, bit in enumerate(bits):
                        if bit in ("0", "1"):
                            groups[where, bit].append((name, pin, place))
    for (where, value), pins in groups.items():
        if len(pins) >= FEWEST:
            first = pins[0][0]
            name = f"{first.rpartition('.')[0]}.constant{value}" + (f"_{where}" if first in places else "")
            cells[name] = table(value, fresh)
            module["netnames"][f"{name}.Z"] = {"hide_name": 1, "bits": [fresh], "attributes": {}}
            for cell, pin, place in pins:
                cells[cell]["connections"][pin][place] = fresh
            fresh += 1
    return fresh


def table(value: str, wire: int) -> dict[str, Any]:
    """A LUT4 that is always `value`."""
    return {"hide_name": 1, "type": "LUT4", "parameters": {"INIT": 16 * value}, "attributes": {},
            "port_directions": {**dict.fromkeys("ABCD", "input"), "Z": "output"},
            "connections": {**{pin: ["0"] for pin in "ABCD"}, "Z": [wire]}}
