"""Block RAMs: a DP16KD with its modes, the pins that the bits tie or invert, and its contents.

Which pins and settings they have: Project Trellis, libtrellis/src/Bels.cpp and tiledata/MIB_EBR*/bits.db; which tiles
configure one: nextpnr, ecp5/bitstream.cc, get_bram_tiles.  What they do: Lattice FPGA-TN-02204.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .die import CellKind, Die, Pin, inverted
from .tiles import Place
from .wires import at, place_of

#: The first tile of each of the four blocks of a group, and how many tiles it has.
FIRST = {0: "MIB_EBR0|EBR_CMUX_U?L?R(?:_25K)?", 1: "MIB_EBR2", 2: "MIB_EBR4", 3: "MIB_EBR6"}
TILES = {0: 2, 1: 3, 2: 3, 3: 3}
KINDS = r"MIB_EBR\d|EBR_(?:CMUX|SPINE)_.*"
#: The mode in which both ports are one of 36 bits: A writes, B reads.
WIDE = "PDPW16KD"
#: A word of contents holds so many bits of each parameter INITVAL: 16 times 18, each with two that are not there.
PARAMETERS, WORDS, STEP, HALF = 64, 32, 20, 9


def block_at(die: Die, place: tuple[int, int]) -> tuple[int, Place] | None:
    """The number of the block that begins at a row and column, and its tiles."""
    for number, kind in FIRST.items():
        if die.bits.place(*place, kind).tiles:
            tiles = [die.bits.place(place[0], place[1] + k, KINDS) for k in range(TILES[number])]
            return number, Place([tile for part in tiles for tile in part.tiles])
    return None


def owner(die: Die, wire: str) -> str | None:
    found = block_at(die, place_of(wire))
    if found is None or mode(*found) in ("NONE", None):
        return None
    return at(*place_of(wire), "EBR")


def mode(number: int, tiles: Place) -> str | None:
    values = tiles.base(f"EBR{number}.MODE")
    return values[0] if len(values) == 1 else None


def make(die: Die, cell: str) -> None:
    found = block_at(die, place_of(cell))
    if found is not None:
        Block(die, cell, *found).make()


class Block:
    """The block RAM `cell`, whose settings begin with EBR and its number."""

    def __init__(self, die: Die, cell: str, number: int, tiles: Place):
        self.die, self.cell, self.number, self.tiles = die, cell, number, tiles
        self.place, self.where = place_of(cell), f"{tiles.name} EBR{number}"
        self.wide = mode(number, tiles) == WIDE

    def setting(self, name: str) -> str:
        value = self.tiles.setting(f"EBR{self.number}.{name}")
        if value is None:
            self.die.problem(self.where, f"its bits of {name} are a mixture")
        return value or ""

    def wire(self, pin: str) -> str:
        return at(*self.place, f"J{pin}_EBR")

    def make(self) -> None:
        parameters = {"GSR": self.setting("GSR"), "RESETMODE": self.setting("RESETMODE"),
                      "ASYNC_RESET_RELEASE": self.setting("ASYNC_RESET_RELEASE"), **self.widths(), **self.contents()}
        pins: dict[str, Sequence[Pin]] = {}
        for port in "AB":
            parameters |= {f"REGMODE_{port}": self.setting(f"REGMODE_{port}"),
                           f"CLK{port}MUX": self.setting(f"CLK{port}MUX"), f"CSDECODE_{port}": "0b000"}
            pins |= self.port(port)
        outputs = [f"DO{port}{k}" for port in "AB" for k in range(18)]
        pins |= {name: [self.wire(name)] for name in outputs}
        self.die.fabric.cell(self.cell, "DP16KD", parameters, pins, outputs, self.where)

    def widths(self) -> dict[str, str]:
        if self.wide:
            read = self.setting(f"{WIDE}.DATA_WIDTH_R")
            if self.setting("WEAMUX") != "INV":  # the same bit, without which a port of 36 bits does not write
                self.die.problem(self.where, f"its bits must say that it is a {WIDE} in all tiles")
            return {"DATA_WIDTH_A": number(36), "DATA_WIDTH_B": number(int(read or 36)), "WRITEMODE_A": "NORMAL",
                    "WRITEMODE_B": "NORMAL"}
        return {f"DATA_WIDTH_{port}": number(int(self.setting(f"DP16KD.DATA_WIDTH_{port}") or 18)) for port in "AB"} | {
            f"WRITEMODE_{port}": self.setting(f"DP16KD.WRITEMODE_{port}") for port in "AB"}

    def port(self, port: str) -> dict[str, Sequence[Pin]]:
        """What the pins of a port take.  It is selected where its three inputs are the digits of CSDECODE, the first of
        them the highest; the model's where they are 0."""
        pins: dict[str, Sequence[Pin]] = {
            f"{name}{port}": [self.taken(f"{name}{port}")] for name in ("CLK", "CE", "OCE", "RST")}
        pins |= {f"{name}{port}{k}": [self.taken(f"{name}{port}{k}")]
                 for name, count in (("AD", 14), ("DI", 18)) for k in range(count)}
        digits = self.tiles.word(f"EBR{self.number}.CSDECODE_{port}")
        for k in range(3):
            pin = self.taken(f"CS{port}{k}")
            pins[f"CS{port}{k}"] = [inverted(self.die, pin, self.where) if digits >> 2 - k & 1 else pin]
        pins[f"WE{port}"] = [{"A": "1", "B": "0"}[port] if self.wide else self.taken(f"WE{port}")]
        return pins

    def taken(self, name: str) -> Pin:
        """What a pin takes, inverted where a bit says so."""
        if self.wide and name == "ADA4":
            return "0"  # the other half of 36 bits is no address
        pin = self.die.pin(self.wire(name))
        if pin is None:
            self.die.problem(self.where, f"input {name} must have a driver")
        setting = f"EBR{self.number}.{name}MUX"
        if self.tiles.has(setting) and not name.startswith(("CLK", "AD")) and self.setting(f"{name}MUX") == "INV":
            return inverted(self.die, pin, self.where)
        return pin or "0"

    def contents(self) -> dict[str, str]:
        """The parameters INITVAL of the memory whose number the bits say."""
        digits = self.tiles.word(f"EBR{self.number}.WID")
        memory = int(f"{digits:09b}"[::-1], 2)
        if memory in self.die.memories_taken:
            self.die.problem(self.where, f"memory {memory} must belong to one block RAM, not also to "
                                         f"{self.die.memories_taken[memory]}")
        self.die.memories_taken[memory] = self.where
        words = self.die.memories.get(memory)
        if words is None:
            self.die.problem(self.where, f"contents of memory {memory} must be in the bitstream")
            return {}
        found = {}
        for k in range(PARAMETERS):
            value = 0
            for place, word in enumerate(words[k * WORDS:(k + 1) * WORDS]):
                value |= int(word) << place // 2 * STEP + place % 2 * HALF
            found[f"INITVAL_{k:02X}"] = f"{value:0{16 * STEP}b}"
        return found


def number(value: int) -> str:
    """A number as yosys writes a parameter."""
    return f"{value:032b}"


MEMORIES = CellKind(re.compile(r"JDO[AB]\d+_EBR"), owner, make)


