"""Where in the design something is, from the hierarchical name that yosys and nextpnr give it.

The design is flattened, and a cell is called after the signal that it drives: `core.stage3_conv.window.beats.left[2]`
and what the tools append.  Stages, forks and changes of lanes are the parts of a core (`hwflow_rtl.core`); whatever is
outside of the core brings data to it.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hwflow_rtl.vendor import Resources

from hwflow.hls.plan.plan import Plan

from .families import FAMILIES, NetlistCells
from .yosys_json import Cell, Cells

#: Parts that are no stage: the streams between stages, what is around the core, and the little beside both.
LINKS, HOST_LINK, CLOCKS, TOP = "links", "host link", "clocks and reset", "board top"
#: The controller of a memory beside the FPGA, and what makes streams of weights of it.
MEMORY = "memory"

#: What yosys (`autoname`) and nextpnr append to the name of a signal: the kind of a cell and one of its pins.
APPENDED = re.compile(f"_({'|'.join(family.kinds_in_names for family in FAMILIES.values())}).*")
#: Units within a stage in words, the innermost that is known first; `\1` is the number of a bank or lane.
UNITS = (
    (r"\bbank(\d+)\.weights\b.*", r"weights ROM of bank \1"),
    (r"\bbank(\d+)\.products\b.*", r"multipliers of bank \1"),
    (r"\bbank(\d+)\b.*", r"adders of bank \1"),
    (r"\barray\b.*", "multiplier array"),
    (r"\bwindow\.beats\b.*", "window address"),
    (r"\bwindow\.blocks\b.*", "window blocks"),
    (r"\bwindow\.ring\b.*", "line buffer"),
    (r"\brequantizer(\d+)\.constants\b.*", r"constants ROM of requantizer \1"),
    (r"\brequantizer(\d+)\.multiplier\b.*", r"multiplier of requantizer \1"),
    (r"\bcredits?\b.*", "credits"),
)


@dataclass(frozen=True)
class NamedCell:
    """A cell: `part` as `part_of` gives it, `unit` within it in words, `signal` as the design calls it."""

    part: str
    unit: str
    signal: str

    def __str__(self) -> str:
        return f"{self.unit} ({self.signal})" if self.unit and self.signal else self.unit or self.signal


def readable(cell: str) -> str:
    """A cell by the name of the design's own signal, without what yosys and nextpnr append to it."""
    return APPENDED.sub("", cell)


def part_of(cell: str) -> str:
    """`stage3` and so on for a stage, else one of the other parts; "" for what nextpnr added without a name."""
    first, _, rest = cell.partition(".")
    if first == "core" and rest:
        inner = rest.partition(".")[0]
        if match := re.match(r"stage\d+", inner):
            return match[0]
        return LINKS
    if first.startswith("$"):
        return ""
    if not rest:
        return TOP
    if first == "memory":
        return MEMORY
    return CLOCKS if first.startswith("clocking") else HOST_LINK


def place_of(cell: str) -> NamedCell:
    """Where a cell is, in words."""
    name, part = readable(cell), part_of(cell)
    path, _, signal = name.rpartition(".")
    signal = re.sub(r"^\$?signal(\$\d+)?(?=\[|$)|\$\d+$", "", re.sub(r"\$\d+(?=\[|$)", "", signal))
    inner = path.split(".")[2 if part.startswith("stage") else 1 if part == LINKS else 0:]
    joined = re.sub(r"\$\d+", "", ".".join(inner))
    for pattern, words in UNITS:
        if match := re.search(pattern, joined):
            return NamedCell(part, match.expand(words), signal)
    return NamedCell(part, joined.replace(".", " ").replace("_", " "), signal)


def title_of(part: str, plan: Plan | None = None) -> str:
    """A part for people: a stage with its name in the plan."""
    if not part.startswith("stage"):
        return part or "a cell without a name"
    number = int(part.removeprefix("stage"))
    if plan is None or number >= len(plan.stages):
        return f"stage {number}"
    return f"stage {number} '{plan.stages[number].name}'"


# What each part of a design takes, counted in the netlist that yosys writes.
#
# In: the netlist as JSON, flattened, with hierarchical names. Out: `Resources` of each part, as nextpnr will pack
# them.


def read_parts(netlist: Path, family: str) -> dict[str, Resources]:
    """The same as `count_parts`, of yosys' JSON file."""
    return count_parts(json.loads(netlist.read_text(encoding="utf-8"))["modules"]["top"]["cells"], family)


def count_parts(cells: Cells, family: str, part_of: Callable[[str], str] = part_of) -> dict[str, Resources]:
    """The resources of each part, by `part_of` of a cell's name; a part that takes nothing is not there."""
    grouped: dict[str, list[tuple[str, Cell]]] = defaultdict(list)
    for name, cell in cells.items():
        grouped[part_of(name)].append((name, cell))
    kinds, logic = FAMILIES[family].netlist_cells, FAMILIES[family].logic_cells(cells)
    parts = {part: count(group, kinds, logic) for part, group in sorted(grouped.items())}
    return {part: resources for part, resources in parts.items() if resources != Resources()}


def count(group: Iterable[tuple[str, Cell]], kinds: NetlistCells, logic: Mapping[str, int]) -> Resources:
    lut = ff = dsp = ram = spram = 0
    for name, cell in group:
        kind = cell["type"]
        lut += logic.get(name, 0)
        ff += kind.startswith(kinds.ff)
        dsp += kinds.dsp.get(kind, 0)
        ram += kind in kinds.ram
        spram += kind in kinds.spram
    return Resources(lut, ff, dsp, ram, spram)
