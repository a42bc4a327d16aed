"""Where the parts of ROMs are in a routed design.

nextpnr's own netlist of the routed design (`--write`) says where each cell is and, where the router swapped the inputs
of a table, how; a `RomCell` is what is needed of that.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from hwflow_base.errors import HwflowError
from hwflow_base.files.cache import MANIFEST, cached_step, digest
from hwflow_base.files.facts import plain, read_facts

from .families.base import Family
from .rom_contents import RomCell, Wires, cells_of
from .yosys_json import Netlist

#: The step in the folder of a routed design, and the file in it.
FOLDER, NOTE = "spots", "spots.json"


def swaps(document: Netlist, wire: re.Pattern[str]) -> Wires:
    """Which physical input feeds each logical input of tables, by what `wire` finds in the routing of all nets.

    The last group of `wire` is the physical input; the others are the table and its logical input.
    """
    inputs = {}
    for net in document["modules"]["top"]["netnames"].values():
        for groups in wire.findall(net.get("attributes", {}).get("ROUTING", "")):
            inputs[groups[:-1]] = groups[-1]
    return inputs


def rom_cells_of(netlist: str, family: Family, source: str) -> list[RomCell]:
    """The cells that hold parts of ROMs in nextpnr's netlist of a routed design.

    HwflowError where `source` is no such netlist.  A layout that is the netlist itself needs none.
    """
    if family.table_wire is None:
        return []
    try:
        document = json.loads(netlist)
        wires = swaps(document, family.table_wire)
        rom_cells = []
        for place, cell in cells_of(document):
            bel, number = str(cell["attributes"].get("NEXTPNR_BEL", "")), cell["attributes"].get("WID")
            rom_cells.append(RomCell(*place, str(cell["type"]), bel, None if number is None else int(number, 2),
                              family.table_inputs(bel, wires)))
        return rom_cells
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise HwflowError(
            "must be the netlist that nextpnr wrote of a routed design", "run `hwflow synth` again", where=source
        ) from None


def saved_rom_cells(folder: Path, netlist: Path, family: Family) -> list[RomCell]:
    """The same as `rom_cells_of`, of the routed design in `folder`, where they are saved: its netlist has many
    megabytes.

    The step that the netlist belongs to is whole, which its manifest says.
    """

    def make(place: Path) -> None:
        rom_cells = rom_cells_of(netlist.read_text(encoding="utf-8"), family, str(netlist))
        (place / NOTE).write_text(json.dumps(plain(rom_cells)), encoding="utf-8")

    cached_step(folder / FOLDER, digest(netlist.with_name(MANIFEST)), make)
    return read_facts((folder / FOLDER / NOTE).read_bytes(), list[RomCell])
