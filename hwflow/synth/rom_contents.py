"""The contents of a design's ROMs: taken out of its RTLIL text, and put into netlists in yosys' JSON form.

Every cell that holds a part of a ROM (a RAM block, a table) carries two attributes, the ROM's name and the part of it,
which yosys and nextpnr keep.  What is left of a design's text without the contents of those cells is its structure: two
designs of the same structure differ in nothing but contents.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from hwflow_base.errors import HwflowError

from .yosys_json import Cell, Netlist

#: The name of a ROM, and which part of it a cell holds.
RomPart = tuple[str, str]
#: For each place the parameters that hold its contents: their bits as text, the most significant first.
Contents = dict[RomPart, dict[str, str]]

ROM, BLOCK = "hwflow_rom", "hwflow_block"
_ATTRIBUTE = re.compile(rf'\s*attribute \\({ROM}|{BLOCK}) "([^"]*)"')
_PARAMETER = re.compile(r"(\s*parameter \\(\w*INIT\w*) \d+')([01]*)$")
#: Which physical input of which table feeds its logical one; see `rom_cells.swaps`.
Wires = Mapping[tuple[str, ...], str]


@dataclass(frozen=True)
class RomCell:
    """Where a cell that holds a part of a ROM is: `bel` as nextpnr calls it, `number` of an ECP5's RAM block.

    `inputs` says of each logical input of a table that is connected which physical one it is.
    """

    rom: str
    block: str
    kind: str
    bel: str
    number: int | None = None
    inputs: Mapping[int, int] = field(default_factory=dict)

    @property
    def place(self) -> RomPart:
        return self.rom, self.block


def permuted(bits: str, inputs: Mapping[int, int]) -> str:
    """A table's contents (16 bits, the most significant first) for its physical inputs.

    `inputs` says of each logical input that is connected which physical one it is; the contents depend on no other.
    """
    values = bits[::-1]
    return "".join(
        values[sum(1 << logical for logical, physical in inputs.items() if word >> physical & 1)]
        for word in reversed(range(16)))


def separated(text: str) -> tuple[str, Contents]:
    """The structure of a design in RTLIL, and the contents that were taken out of it.

    ValueError where two cells claim the same place.
    """
    contents: Contents = {}

    def take(place: RomPart, name: str | None, bits: str) -> str:
        if name is None:
            if place in contents:
                raise ValueError(f"part '{place[1]}' of ROM '{place[0]}' must be in one cell, not in two")
            contents[place] = {}
        else:
            contents[place][name] = bits
        return ""

    return rewritten(text, take), contents


def filled(text: str, contents: Contents) -> str:
    """A design in RTLIL, or its structure, with other contents of its ROMs."""
    return rewritten(text, lambda place, name, bits: "" if name is None else contents[place][name])


def rewritten(text: str, give: Callable[[RomPart, str | None, str], str]) -> str:
    """A design in RTLIL with the bits that `give` gives for the place, the parameter and the bits of all contents.

    It is called without a parameter where a cell begins.
    """
    lines = text.split("\n")
    parameters: dict[str, str] = {}
    place: RomPart | None = None
    for number, line in enumerate(lines):
        start = line.lstrip()[:5]
        if start == "attri" and (attribute := _ATTRIBUTE.match(line)):
            parameters[attribute[1]] = attribute[2]
        elif start == "cell ":
            place = (parameters[ROM], parameters.get(BLOCK, "")) if ROM in parameters else None
            if place is not None:
                give(place, None, "")
            parameters = {}
        elif place is not None and start == "param" and (parameter := _PARAMETER.match(line)):
            lines[number] = parameter[1] + give(place, parameter[2], parameter[3])
        elif start[:3] == "end":
            place, parameters = None, {}
    return "\n".join(lines)


def place_of(cell: Cell) -> RomPart | None:
    """The part of a ROM in a cell of a netlist in JSON; None where it holds none."""
    attributes = cell.get("attributes", {})
    return (attributes[ROM], attributes.get(BLOCK, "")) if ROM in attributes else None


def cells_of(document: Netlist) -> Iterator[tuple[RomPart, Cell]]:
    """The cells of the module `top` that hold parts of ROMs."""
    for cell in document["modules"]["top"]["cells"].values():
        place = place_of(cell)
        if place is not None:
            yield place, cell


def replaced(document: Netlist, old: Contents, new: Contents, source: str) -> None:
    """Put `new` into the cells of a netlist, in place, where `old` stands.

    HwflowError where the netlist `source` lacks a part of a ROM, has one twice or holds other contents.
    """
    missing = dict(new)
    for place, cell in cells_of(document):
        require_known(missing, place, source)
        parameters, own = cell["parameters"], missing.pop(place)
        for name, bits in own.items():
            before = old[place][name]
            if parameters.get(name, "").zfill(len(before)) != before:
                raise unlike(place, source)
            parameters[name] = bits
    require_all(missing, source)


def require_known(missing: Mapping[RomPart, object], place: RomPart, source: str) -> None:
    """HwflowError where a routed design has a part of a ROM that the design has not, or has it twice."""
    if place not in missing:
        raise HwflowError(
            f"part '{place[1]}' of ROM '{place[0]}' must be a part of this design, once",
            "run `hwflow synth` again",
            where=source,
        )


def require_all(missing: Mapping[RomPart, object], source: str) -> None:
    """HwflowError where parts of ROMs were not found."""
    if missing:
        rom, block = next(iter(missing))
        raise HwflowError(
            f"must hold every part of every ROM, not lack part '{block}' of '{rom}' and {len(missing) - 1} others",
            "run `hwflow synth` again",
            where=source,
        )


def unlike(place: RomPart, source: str) -> HwflowError:
    """The error of a place of a part of a ROM that does not hold what was synthesized."""
    return HwflowError(
        f"part '{place[1]}' of ROM '{place[0]}' must be where place and route put it, but other contents are there",
        "run `hwflow synth` again, with the tools that are installed now",
        where=source,
    )
