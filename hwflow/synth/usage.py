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

from .families import FAMILIES, NetlistCells
from .families.base import Cells
from .parts import part_of

__all__ = ["count_parts", "read_parts"]

def read_parts(netlist: Path, family: str) -> dict[str, Resources]:
    """As `count_parts`, of yosys' JSON file."""
    return count_parts(json.loads(netlist.read_text(encoding="utf-8"))["modules"]["top"]["cells"], family)


def count_parts(cells: Cells, family: str, part_of: Callable[[str], str] = part_of) -> dict[str, Resources]:
    """What each part takes, by `part_of` of a cell's name; a part that takes nothing is not there."""
    grouped: dict[str, list[tuple[str, Mapping[str, Any]]]] = defaultdict(list)
    for name, cell in cells.items():
        grouped[part_of(name)].append((name, cell))
    kinds, logic = FAMILIES[family].netlist_cells, FAMILIES[family].logic_cells(cells)
    found = {part: count(group, kinds, logic) for part, group in sorted(grouped.items())}
    return {part: resources for part, resources in found.items() if resources != Resources()}


def count(group: Iterable[tuple[str, Mapping[str, Any]]], kinds: NetlistCells, logic: Mapping[str, int]) -> Resources:
    lut = ff = dsp = ram = spram = 0
    for name, cell in group:
        kind = cell["type"]
        lut += logic.get(name, 0)
        ff += kind.startswith(kinds.ff)
        dsp += kinds.dsp.get(kind, 0)
        ram += kind in kinds.ram
        spram += kind in kinds.spram
    return Resources(lut, ff, dsp, ram, spram)
