"""What each part of a design takes, counted in the netlist that yosys writes.

In: the netlist as JSON, flattened, with hierarchical names.  Out: `Resources` of each part, as nextpnr will pack them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from hwflow_rtl.vendor import Resources

from .parts import part_of

__all__ = ["count_parts", "read_parts"]

#: Logic cells of each kind of cell.  A CCU2C is two cells of a carry chain; a 16 x 4 RAM takes four tables, and the two
#: of a third slice for its write port.
CELLS: dict[str, dict[str, int]] = {
    "ecp5": {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 6},
    "gowin": {"LUT1": 1, "LUT2": 1, "LUT3": 1, "LUT4": 1, "ALU": 1, "RAM16SDP1": 4, "RAM16SDP2": 4, "RAM16SDP4": 4},
}
MULTIPLIERS = {"MULT18X18D": 1, "SB_MAC16": 1, "MULT9X9": 1, "MULT18X18": 2}
MEMORIES = ("DP16KD", "SB_RAM40_4K", "SB_RAM40_4KNR", "SB_RAM40_4KNW", "SB_RAM40_4KNRNW", "pROM", "pROMX9", "SDPB",
            "SDPX9B", "SPX9", "SP", "DPB", "DPX9B")
SINGLE_PORT = ("SB_SPRAM256KA",)
FLIP_FLOPS = ("SB_DFF", "TRELLIS_FF", "DFF")

Cells = Mapping[str, Mapping[str, Any]]


def read_parts(netlist: Path, family: str) -> dict[str, Resources]:
    """As `count_parts`, of yosys' JSON file."""
    return count_parts(json.loads(netlist.read_text(encoding="utf-8"))["modules"]["top"]["cells"], family)


def count_parts(cells: Cells, family: str, part_of: Callable[[str], str] = part_of) -> dict[str, Resources]:
    """What each part takes, by `part_of` of a cell's name; a part that takes nothing is not there."""
    grouped: dict[str, list[tuple[str, Mapping[str, Any]]]] = defaultdict(list)
    for name, cell in cells.items():
        grouped[part_of(name)].append((name, cell))
    logic = ice40_cells(cells) if family == "ice40" else None
    ends = chain_ends(cells) if family == "ecp5" else {}
    found = {part: count(group, CELLS.get(family, {}), logic, ends) for part, group in sorted(grouped.items())}
    return {part: resources for part, resources in found.items() if resources != Resources()}


def count(group: Iterable[tuple[str, Mapping[str, Any]]], weights: Mapping[str, int],
          logic: Mapping[str, int] | None, ends: Mapping[str, int]) -> Resources:
    lut = ff = dsp = ram = spram = 0
    for name, cell in group:
        kind = cell["type"]
        lut += weights.get(kind, 0) + 2 * ends.get(name, 0) if logic is None else logic.get(name, 0)
        ff += kind.startswith(FLIP_FLOPS)
        dsp += MULTIPLIERS.get(kind, 0)
        ram += kind in MEMORIES
        spram += kind in SINGLE_PORT
    return Resources(lut, ff, dsp, ram, spram)


def chain_ends(cells: Cells) -> dict[str, int]:
    """The cells at the ends of ECP5's carry chains, and how many ends each is.

    nextpnr puts a CCU2C of its own in front of a chain whose carry has a value, and behind one whose carry has a net,
    also where nothing reads it: four logic cells a chain, seen to the cell in three designs with 196 to 345 chains.
    """
    chains = {name: cell["connections"] for name, cell in cells.items() if cell["type"] == "CCU2C"}
    given = {bit for pins in chains.values() for bit in pins.get("COUT", ())}
    taken = {bit for pins in chains.values() for bit in pins.get("CIN", ())}
    return {name: sum(bit not in given for bit in pins.get("CIN", ()))
            + sum(bit not in taken for bit in pins.get("COUT", ())) for name, pins in chains.items()}


def ice40_cells(cells: Cells) -> dict[str, int]:
    """The cells of a netlist that begin a logic cell of their own, each 1.

    A logic cell holds a table, a carry and a flip-flop (Lattice FPGA-DS-02008): the flip-flop shares the cell of the
    table that drives it and nothing else; the carry that of the table with the same operands and carry.
    """
    readers: dict[Any, int] = defaultdict(int)
    for cell in cells.values():
        for pin, bits in cell["connections"].items():
            if cell.get("port_directions", {}).get(pin) == "input":
                for bit in bits:
                    readers[bit] += 1
    tables = {cell["connections"]["O"][0]: cell for cell in cells.values() if cell["type"] == "SB_LUT4"}
    sums = {tuple(cell["connections"][pin][0] for pin in ("I1", "I2", "I3")) for cell in tables.values()}
    alone = {}
    for name, cell in cells.items():
        pins = cell["connections"]
        if cell["type"] == "SB_LUT4":
            alone[name] = 1
        elif cell["type"] == "SB_CARRY":
            alone[name] = int(tuple(pins[pin][0] for pin in ("I0", "I1", "CI")) not in sums)
        elif cell["type"].startswith("SB_DFF"):
            source = pins["D"][0]
            alone[name] = int(source not in tables or readers[source] > 1)
    return alone
