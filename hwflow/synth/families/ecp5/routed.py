"""A routed ECP5 as nextpnr's text configuration: new dividers of its PLL, new contents of its ROMs.

Source: prjtrellis (words of tiles, `.bram_init`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hwflow_rtl.vendor.pll import PllSettings

from ...rom_contents import Contents, RomCell, RomPart, Wires, permuted, require_all, require_known, unlike
from ..base import unlike_pll

#: See `Family.table_wire`.
TABLE_WIRE = re.compile(r"(X\d+/Y\d+)/([A-D])(\d)_SLICE;[^;]*/0_0_([A-D])\d->0_0_[A-D]\d_SLICE;")
_SLICE = re.compile(r"X(\d+)/Y(\d+)/SLICE([A-D])\.K([01])")
LETTERS = "ABCD"


def retuned(layout: str, old: Mapping[str, int], new: PllSettings, source: str) -> str:
    """Words of the PLL's tiles: dividers less one, phases as they are, the most significant bit first.

    A device has several PLLs, each a group of tiles; there must be one with the dividers `old`.
    """
    names = [name for name, _ in new.parameters]
    starts = [match.start() for match in re.finditer(r"^\.tile_group ", layout, re.MULTILINE)]
    pieces = [layout[start:end] for start, end in zip([0, *starts], [*starts, len(layout)], strict=True)]
    same = [k for k, piece in enumerate(pieces) if "enum: MODE EHXPLLL" in piece and has_dividers(piece, names, old)]
    if len(same) != 1:
        raise unlike_pll(source)
    pieces[same[0]] = with_dividers(pieces[same[0]], new)
    return "".join(pieces)


def less(name: str) -> int:
    """The number by which a word is less than its parameter."""
    return 1 if name.endswith("_DIV") else 0


def has_dividers(group: str, names: Sequence[str], old: Mapping[str, int]) -> bool:
    """Whether a PLL's group of tiles has these dividers."""
    words = {line.split()[1]: line.split()[2] for line in group.split("\n") if line.startswith("word: ")}
    return all(name in words and int(words[name], 2) == old[name] - less(name) for name in names)


def with_dividers(group: str, new: PllSettings) -> str:
    values, lines = dict(new.parameters), group.split("\n")
    for k, line in enumerate(lines):
        name = line.split()[1] if line.startswith("word: ") else ""
        if name in values:
            lines[k] = f"word: {name} {values[name] - less(name):0{len(line.split()[2])}b}"
    return "\n".join(lines)


def table_inputs(bel: str, wires: Wires) -> dict[int, int]:
    """The inputs of the table at `bel`; none where no table is."""
    match = _SLICE.fullmatch(bel)
    if match is None:
        return {}
    x, y, letter, half = match.groups()
    number = str(2 * LETTERS.index(letter) + int(half))
    return {k: LETTERS.index(wires[f"X{x}/Y{y}", name, number]) for k, name in enumerate(LETTERS)
            if (f"X{x}/Y{y}", name, number) in wires}


def patched(layout: str, rom_cells: Sequence[RomCell], old: Contents, new: Contents, source: str) -> str:
    """Words of tiles and `.bram_init` of nextpnr-ecp5's text configuration."""
    missing = dict(new)
    words: dict[tuple[str, str], tuple[RomPart, str, str]] = {}
    blocks: dict[int, tuple[RomPart, list[str], list[str]]] = {}
    for rom_cell in rom_cells:
        place = rom_cell.place
        require_known(missing, place, source)
        del missing[place]
        if rom_cell.kind == "DP16KD" and rom_cell.number is not None:
            blocks[rom_cell.number] = (place, bram_words(old[place]), bram_words(new[place]))
            continue
        match = _SLICE.fullmatch(rom_cell.bel)
        if rom_cell.kind != "TRELLIS_COMB" or match is None:
            raise unlike(place, source)
        x, y, letter, half = match.groups()
        words[f"R{y}C{x}:PLC2", f"SLICE{letter}.K{half}.INIT"] = (
            place, permuted(old[place]["INIT"], rom_cell.inputs), permuted(new[place]["INIT"], rom_cell.inputs))
    require_all(missing, source)
    return with_words(layout, words, blocks, source)


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


def with_words(layout: str, words: dict[tuple[str, str], tuple[RomPart, str, str]],
              blocks: dict[int, tuple[RomPart, list[str], list[str]]], source: str) -> str:
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
