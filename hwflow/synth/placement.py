"""Where the cells of a routed design are on the die, by part of the design and by resource.

nextpnr's own netlist of the routed design says it of every cell: hundreds of megabytes for a full device.  A picture
needs how many cells of which part are in which tile, which is a few hundred kilobytes; `save_placement` writes that
beside the bitstream.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hwflow_base.errors import HwflowError
from hwflow_base.files.cache import MANIFEST, cached_step, digest
from hwflow_base.files.facts import plain, read_facts
from hwflow_base.files.sources import open_plain

from .boards import Board
from .design_parts import part_of
from .families import FAMILIES
from .families.base import Family
from .rom_contents import RomCell, Wires, cells_of
from .yosys_json import Netlist

#: The step in the folder of a routed design, and the file in it.
FOLDER, NOTE = "placement", "placement.json"
#: nextpnr's name of a place begins with its tile.
TILE = re.compile(r"X(\d+)/?Y(\d+)/")
#: No die has more columns or rows, no design more parts: a file that says otherwise is damaged.
MOST = 4096


@dataclass(frozen=True)
class Die:
    """`columns` x `rows` tiles.  Row 0 is at the top, or at the bottom of a die that counts `upwards`."""

    columns: int
    rows: int
    upwards: bool = False


@dataclass(frozen=True)
class Group:
    """The cells of one resource ("lut") that belong to one part of the design, as `part_of` names it.

    Each of `tiles` is (column, row, cells); a `part` of "" is what nextpnr added without a name.
    """

    part: str
    resource: str
    tiles: tuple[tuple[int, int, int], ...]

    @property
    def cells(self) -> int:
        return sum(count for _, _, count in self.tiles)


@dataclass(frozen=True)
class Placement:
    """`spots` are the tiles (column, row) of the cells on the longest paths, by nextpnr's names."""

    device: str
    die: Die
    groups: tuple[Group, ...]
    spots: Mapping[str, tuple[int, int]]

    def cells(self, resource: str) -> int:
        """How many cells of `resource` have a place."""
        return sum(group.cells for group in self.groups if group.resource == resource)


def placement_of(netlist: Netlist, board: Board, named: Iterable[str] = ()) -> Placement:
    """The placement in nextpnr's netlist of a routed design; `named` are the cells whose tiles are to be known.

    HwflowError where a cell of a counted resource is not on the die.
    """
    family = FAMILIES[board.family]
    columns, rows = family.grid(board)
    resources = {kind: (name, units) for name, cells in family.routed_cells.resources().items()
                 for kind, units in cells.items()}
    named, spots = set(named), {}
    counts: dict[tuple[str, str], Counter[tuple[int, int]]] = defaultdict(Counter)
    for name, cell in netlist["modules"]["top"]["cells"].items():
        bel = str(cell.get("attributes", {}).get("NEXTPNR_BEL", ""))
        kind = family.routed_kind(str(cell["type"]), bel)
        if kind not in resources and name not in named:
            continue
        place = TILE.match(bel)
        tile = (int(place[1]), int(place[2])) if place else (columns, rows)
        if tile[0] >= columns or tile[1] >= rows:
            raise HwflowError(f"the cell '{name}' must be on the die of {columns} x {rows} tiles, not at '{bel}'",
                              "run `hwflow synth` again")
        if name in named:
            spots[name] = tile
        if kind in resources:
            resource, units = resources[kind]
            counts[part_of(name), resource][tile] += units
    groups = tuple(Group(part, resource, tuple((x, y, count) for (x, y), count in sorted(tiles.items())))
                   for (part, resource), tiles in sorted(counts.items()))
    return Placement(board.device, Die(columns, rows, family.upwards), groups, spots)


def save_placement(folder: Path, board: Board, say: Callable[[str], None]) -> None:
    """placement/ in the folder of a routed design, of its layout/; it is made again where that changed.

    `say` is told where nextpnr's netlist has no such places: then there is no placement, and the bitstream is as good.
    """
    family = FAMILIES[board.family]
    layout = folder / "layout"
    netlist = layout / family.netlist

    def make(place: Path) -> None:
        report = json.loads((layout / "report.json").read_text(encoding="utf-8"))
        named = {end["cell"] for path in report.get("critical_paths", ()) for step in path["path"]
                 for end in (step["from"], step["to"])}
        placement = placement_of(json.loads(netlist.read_text(encoding="utf-8")), board, named)
        (place / NOTE).write_text(json.dumps(plain(placement), separators=(",", ":")), encoding="utf-8")

    try:
        cached_step(folder / FOLDER, digest(layout / MANIFEST), make)
    except HwflowError as error:
        shutil.rmtree(folder / FOLDER, ignore_errors=True)  # of an earlier layout
        say(f"reports will have no floorplan: {error}")


def saved_placement(folder: Path) -> Placement | None:
    """The placement that `save_placement` left in `folder`; None where there is nothing, or where it is damaged."""
    try:
        with open_plain(folder / FOLDER / NOTE) as file:
            return read(file.read())
    except (OSError, ValueError):
        return None


def read(text: bytes | str) -> Placement:
    """The placement in the text of a file; ValueError for anything else."""
    placement = read_facts(text, Placement)
    die, spots = placement.die, placement.spots.values()
    if not (0 < die.columns <= MOST and 0 < die.rows <= MOST and len(placement.groups) <= MOST):
        raise ValueError("no die has this size")
    tiles = [*spots, *((x, y) for group in placement.groups for x, y, _ in group.tiles)]
    if not all(0 <= x < die.columns and 0 <= y < die.rows for x, y in tiles):
        raise ValueError("a tile is outside of the die")
    return placement


# Where the parts of ROMs are in a routed design.  nextpnr's own netlist of it (`--write`) says where each cell is and,
# where the router swapped the inputs of a table, how; a `RomCell` is what is needed of that.


#: The step in the folder of a routed design, and the file in it.
SPOTS, SPOTS_FILE = "spots", "spots.json"


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
        (place / SPOTS_FILE).write_text(json.dumps(plain(rom_cells)), encoding="utf-8")

    cached_step(folder / SPOTS, digest(netlist.with_name(MANIFEST)), make)
    return read_facts((folder / SPOTS / SPOTS_FILE).read_bytes(), list[RomCell])
