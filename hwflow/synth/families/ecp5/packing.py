"""How nextpnr packs the cells of a netlist into the logic cells of an ECP5."""

from __future__ import annotations

from ..base import Cells, weighted

__all__ = ["logic_cells"]

#: A CCU2C is two cells of a carry chain; a 16 x 4 RAM takes four tables, and the two of a third slice for its write
#: port.
WEIGHTS = {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 6}


def logic_cells(cells: Cells) -> dict[str, int]:
    """See `Family.logic_cells`.  An end of a carry chain takes two."""
    ends = chain_ends(cells)
    return {name: count + 2 * ends.get(name, 0) for name, count in weighted(cells, WEIGHTS).items()}


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
