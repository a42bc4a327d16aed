"""New contents for the ROMs of a routed design, family by family: the file that the packer makes a bitstream of.

nextpnr's own netlist of the routed design (`--write`) says where each cell stands and, where the router swapped the
inputs of a table, how; a `Spot` is what is needed of that.  Before anything is replaced, what stands there must be the
contents that were synthesized.

Sources: prjtrellis (text configuration of the ECP5: `.bram_init`, words of tiles), Project IceStorm (bits of the
iCE40's logic tiles, `.ram_data`), apicula (parameters in Gowin's routed netlist).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..build import MANIFEST, cached_step, digest
from ..errors import HwflowError
from .contents import Contents, Place, cells_of, replaced, require_all, require_known, unlike

__all__ = ["PATCHES", "Patch", "Spot", "kept_spots", "spots_of"]

#: The step in the folder of a routed design, and the file in it.
FOLDER, NOTE = "spots", "spots.json"


@dataclass(frozen=True)
class Spot:
    """Where a cell that holds a part of a ROM stands: `bel` as nextpnr calls it, `number` of an ECP5's RAM block.

    `inputs` says of each logical input of a table that is connected which physical one it is.
    """

    rom: str
    block: str
    kind: str
    bel: str
    number: int | None = None
    inputs: Mapping[int, int] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        return self.rom, self.block


#: layout file, spots of its ROMs, contents before and after, what to call the file: the new layout file.
Patch = Callable[[str, Sequence[Spot], Contents, Contents, str], str]


def spots_of(netlist: str, family: str, source: str) -> list[Spot]:
    """The spots of all parts of ROMs in nextpnr's netlist of a routed design.

    HwflowError where `source` is no such netlist.  Gowin's layout is the netlist itself, and needs none.
    """
    if family not in INPUTS:
        return []
    pattern, inputs_of = INPUTS[family]
    try:
        document = json.loads(netlist)
        wires = swaps(document, pattern)
        spots = []
        for place, cell in cells_of(document):
            bel, number = str(cell["attributes"].get("NEXTPNR_BEL", "")), cell["attributes"].get("WID")
            spots.append(Spot(*place, str(cell["type"]), bel, None if number is None else int(number, 2),
                              inputs_of(bel, wires)))
        return spots
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise HwflowError(f"{source}: must be the netlist that nextpnr wrote of a routed design; run `hwflow synth` "
                          "again") from None


def kept_spots(folder: Path, netlist: Path, family: str) -> list[Spot]:
    """As `spots_of`, of the routed design in `folder`, where they are kept: its netlist has many megabytes.

    The step that the netlist belongs to is whole, which its manifest says.
    """

    def make(place: Path) -> None:
        found = spots_of(netlist.read_text(encoding="utf-8"), family, str(netlist))
        (place / NOTE).write_text(json.dumps([asdict(spot) for spot in found]), encoding="utf-8")

    cached_step(folder / FOLDER, digest(netlist.with_name(MANIFEST)), make)
    spots = json.loads((folder / FOLDER / NOTE).read_text(encoding="utf-8"))
    return [Spot(**spot | {"inputs": {int(k): v for k, v in spot["inputs"].items()}}) for spot in spots]


def permuted(bits: str, inputs: Mapping[int, int]) -> str:
    """A table's contents (16 bits, the most significant first) for its physical inputs.

    `inputs` says of each logical input that is connected which physical one it is; the contents depend on no other.
    """
    values = bits[::-1]
    return "".join(
        values[sum(1 << logical for logical, physical in inputs.items() if word >> physical & 1)]
        for word in reversed(range(16)))


#: Which physical input of which table feeds its logical one; see `swaps`.
Wires = Mapping[tuple[str, ...], str]


def swaps(document: Mapping[str, Any], wire: re.Pattern[str]) -> Wires:
    """Which physical input feeds each logical input of tables, by what `wire` finds in the routing of all nets.

    The last group of `wire` is the physical input; the others are the table and its logical input.
    """
    found = {}
    for net in document["modules"]["top"]["netnames"].values():
        for groups in wire.findall(net.get("attributes", {}).get("ROUTING", "")):
            found[groups[:-1]] = groups[-1]
    return found


# ECP5

_ECP5_WIRE = re.compile(r"(X\d+/Y\d+)/([A-D])(\d)_SLICE;[^;]*/0_0_([A-D])\d->0_0_[A-D]\d_SLICE;")
_SLICE = re.compile(r"X(\d+)/Y(\d+)/SLICE([A-D])\.K([01])")
LETTERS = "ABCD"


def ecp5_inputs(bel: str, wires: Wires) -> dict[int, int]:
    """Of the table at `bel`; none of what is no table."""
    found = _SLICE.fullmatch(bel)
    if found is None:
        return {}
    x, y, letter, half = found.groups()
    number = str(2 * LETTERS.index(letter) + int(half))
    return {k: LETTERS.index(wires[f"X{x}/Y{y}", name, number]) for k, name in enumerate(LETTERS)
            if (f"X{x}/Y{y}", name, number) in wires}


def ecp5(layout: str, spots: Sequence[Spot], old: Contents, new: Contents, source: str) -> str:
    """Words of tiles and `.bram_init` of nextpnr-ecp5's text configuration."""
    missing = dict(new)
    words: dict[tuple[str, str], tuple[Place, str, str]] = {}
    blocks: dict[int, tuple[Place, list[str], list[str]]] = {}
    for spot in spots:
        place = spot.place
        require_known(missing, place, source)
        del missing[place]
        if spot.kind == "DP16KD" and spot.number is not None:
            blocks[spot.number] = (place, bram_words(old[place]), bram_words(new[place]))
            continue
        found = _SLICE.fullmatch(spot.bel)
        if spot.kind != "TRELLIS_COMB" or found is None:
            raise unlike(place, source)
        x, y, letter, half = found.groups()
        words[f"R{y}C{x}:PLC2", f"SLICE{letter}.K{half}.INIT"] = (
            place, permuted(old[place]["INIT"], spot.inputs), permuted(new[place]["INIT"], spot.inputs))
    require_all(missing, source)
    return ecp5_text(layout, words, blocks, source)


def bram_words(parameters: Mapping[str, str]) -> list[str]:
    """The lines of `.bram_init`: 2048 words of 9 bits in hexadecimal, 8 a line.

    A parameter holds 16 times 18 bits, each with two bits of padding.
    """
    words = []
    for k in range(64):
        value = int(parameters[f"INITVAL_{k:02X}"], 2)
        for half in range(16):
            pair = value >> 20 * half
            words += [f"{pair & 511:03x}", f"{pair >> 9 & 511:03x}"]
    return [" ".join(words[k:k + 8]) for k in range(0, len(words), 8)]


def ecp5_text(layout: str, words: dict[tuple[str, str], tuple[Place, str, str]],
              blocks: dict[int, tuple[Place, list[str], list[str]]], source: str) -> str:
    """`layout` with other words and blocks; each is found once and holds what was there before."""
    lines, tile = layout.split("\n"), ""
    for number, line in enumerate(lines):
        if line.startswith(".tile "):
            tile = line[6:].strip()
        elif line.startswith(".bram_init "):
            block = blocks.pop(int(line[11:]), None)
            if block is not None:
                place, before, after = block
                rows = slice(number + 1, number + 1 + len(before))
                if [row.strip() for row in lines[rows]] != before:
                    raise unlike(place, source)
                lines[rows] = after
        elif line.startswith("word: ") and (tile, line.split()[1]) in words:
            _, name, value = line.split()
            place, at_first, at_last = words.pop((tile, name))
            if value != at_first:
                raise unlike(place, source)
            lines[number] = f"word: {name} {at_last}"
    for place, _, _ in [*words.values(), *blocks.values()]:
        raise unlike(place, source)
    return "\n".join(lines)


# iCE40

_ICE40_WIRE = re.compile(r"(X\d+/Y\d+)/lutff_(\d):in_(\d)_lut;[^;]*lutff_\d:in_(\d)\.->[^;]*;")
_ICE40_PLACE = re.compile(r"X(\d+)/Y(\d+)/(?:lc(\d)|ram)")
#: Which of a logic cell's 20 bits holds each bit of the table (Project IceStorm; nextpnr has the same).
TABLE_BITS = (4, 14, 15, 5, 6, 16, 17, 7, 3, 13, 12, 2, 1, 11, 10, 0)
#: The bits of logic cell n stand in the rows 2n and 2n + 1 of its tile, from this column on, ten in each.
FIRST_COLUMN = 36


def ice40_inputs(bel: str, wires: Wires) -> dict[int, int]:
    """Of the table at `bel`; none of what is no table."""
    found = _ICE40_PLACE.fullmatch(bel)
    if found is None or found[3] is None:
        return {}
    x, y, number = found.groups()
    return {k: int(wires[f"X{x}/Y{y}", number, str(k)]) for k in range(4) if (f"X{x}/Y{y}", number, str(k)) in wires}


def ice40(layout: str, spots: Sequence[Spot], old: Contents, new: Contents, source: str) -> str:
    """Bits of logic tiles and `.ram_data` of nextpnr-ice40's text bitstream."""
    missing = dict(new)
    lines = layout.split("\n")
    starts = {line: number for number, line in enumerate(lines) if line.startswith((".logic_tile ", ".ram_data "))}
    for spot in spots:
        place = spot.place
        require_known(missing, place, source)
        del missing[place]
        found = _ICE40_PLACE.fullmatch(spot.bel)
        if found is None:
            raise unlike(place, source)
        x, y, number = found.groups()
        start = starts.get(f".{'logic_tile' if number else 'ram_data'} {x} {y}")
        if start is None:
            raise unlike(place, source)
        if number is None:
            rows = slice(start + 1, start + 17)
            if lines[rows] != ram_rows(old[place]):
                raise unlike(place, source)
            lines[rows] = ram_rows(new[place])
        else:
            rows = slice(start + 1 + 2 * int(number), start + 3 + 2 * int(number))
            before, after = (permuted(contents[place]["LUT_INIT"], spot.inputs) for contents in (old, new))
            if with_table(lines[rows], before) != lines[rows]:
                raise unlike(place, source)
            lines[rows] = with_table(lines[rows], after)
    require_all(missing, source)
    return "\n".join(lines)


def ram_rows(parameters: Mapping[str, str]) -> list[str]:
    """The lines of `.ram_data`: 16 of 256 bits in hexadecimal."""
    return [f"{int(parameters[f'INIT_{k:X}'], 2):064x}" for k in range(16)]


def with_table(rows: Sequence[str], bits: str) -> list[str]:
    """The two rows of a logic tile that belong to a cell, with the table `bits` (most significant first)."""
    cells = [list(row) for row in rows]
    for bit, place in zip(reversed(bits), TABLE_BITS, strict=True):
        cells[place // 10][FIRST_COLUMN + place % 10] = bit
    return ["".join(row) for row in cells]


# Gowin


def gowin(layout: str, spots: Sequence[Spot], old: Contents, new: Contents, source: str) -> str:
    """Parameters of nextpnr-himbaechel's routed netlist, which is the layout file itself; tables keep their inputs."""
    document = json.loads(layout)
    replaced(document, old, new, source)
    return json.dumps(document)


#: How the inputs of tables are found, where a netlist beside the layout says it.
INPUTS: dict[str, tuple[re.Pattern[str], Callable[[str, Wires], dict[int, int]]]] = {
    "ecp5": (_ECP5_WIRE, ecp5_inputs), "ice40": (_ICE40_WIRE, ice40_inputs)}
PATCHES: dict[str, Patch] = {"ecp5": ecp5, "ice40": ice40, "gowin": gowin}
