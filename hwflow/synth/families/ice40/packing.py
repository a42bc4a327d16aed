"""How nextpnr packs the cells of a netlist into the logic cells of an iCE40."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from ..base import Cells

__all__ = ["logic_cells"]


def logic_cells(cells: Cells) -> dict[str, int]:
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
