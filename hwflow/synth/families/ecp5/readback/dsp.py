"""Multipliers and adders: MULT18X18D and ALU54B with their registers.

Which pins and settings they have: Project Trellis, libtrellis/src/Bels.cpp and tiledata/MIB*_DSP*/bits.db; which
tiles configure one: nextpnr, ecp5/bitstream.cc, get_dsp_tiles.  What they do: Lattice FPGA-TN-02205.  The database has
no bits for the clock enable of a multiplier's last register: it is taken to be CE0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .die import CellKind, Die, Pin, inverted
from .slices import constant
from .tiles import Place
from .wires import at, place_of

#: Each cell: the number in the names of its settings, its first tile, and the tile where a half of its block begins.
PLACES = {"MULT18": {"MIB_DSP0": (0, 0), "MIB_DSP1": (1, -1), "MIB_DSP4": (4, 0), "MIB_DSP5": (5, -1)},
          "ALU54": {"MIB_DSP3": (3, -3), "MIB_DSP7": (7, -3)}}
KINDS = {"MULT18": "MULT18X18D", "ALU54": "ALU54B"}
#: Tiles of half a block.
HALF, TILES = 5, r"MIB2?_DSP\d|DSP_(?:CMUX|SPINE)_.*"
#: Registers with settings CLK, CE and RST, as far as the database has them.
REGISTERS = {"MULT18": ("INPUTA", "INPUTB", "INPUTC", "PIPELINE", "OUTPUT"),
             "ALU54": ("INPUTC0", "INPUTC1", "OPCODEOP0_0", "OPCODEOP0_1", "OPCODEOP1_0", "OPCODEOP1_1", "OPCODEIN_0",
                       "OPCODEIN_1", "OUTPUT0", "OUTPUT1", "FLAG")}
#: Settings that the model has as parameters, or that must have the value in which it has none.
PARAMETERS = {"MULT18": ("GSR", "RESETMODE", "SOURCEB_MODE"),
              "ALU54": ("GSR", "RESETMODE", "FORCE_ZERO_BARREL_SHIFT", "MCPAT_SOURCE", "MASKPAT_SOURCE", "LEGACY")}
WORDS = {"MULT18": (), "ALU54": ("MASK01", "MCPAT", "MASKPAT", "RNDPAT")}
CONTROL = re.compile(r"(?:CLK|CE|RST)[0-3]")
#: Flags have no model.
FLAGS = re.compile(r"EQ\w+|OVER|UNDER|OVERUNDER")


def names(*groups: tuple[str, int]) -> list[str]:
    return [f"{name}{k}" for name, count in groups for k in range(count)]


INPUTS = {"MULT18": [*names(("A", 18), ("B", 18), ("C", 18)), "SIGNEDA", "SIGNEDB", "SOURCEA", "SOURCEB"],
          "ALU54": [*names(("MA", 36), ("MB", 36), ("C", 54), ("OP", 11)), "SIGNEDIA", "SIGNEDIB"]}
OUTPUTS = {"MULT18": [*names(("P", 36), ("SROA", 18), ("SROB", 18), ("ROA", 18), ("ROB", 18)), "SIGNEDP"],
           "ALU54": [*names(("R", 54), ("CO", 54)), "SIGNEDR", "EQZ", "EQZM", "EQOM", "EQPAT", "EQPATB", "OVER",
                     "UNDER", "OVERUNDER"]}
#: Inputs that a table of wires ties to 0 or that only other modes read: nothing at them is 0.
MAY_BE_OPEN = re.compile(r"C\d+")


@dataclass(frozen=True)
class Found:
    """A cell of the DSP blocks: "MULT18" or "ALU54", its number there and the tiles of its half."""

    what: str
    number: int
    tiles: Place


def find(die: Die, wire: str) -> Found | None:
    what = wire.rpartition("_")[2]
    row, column = place_of(wire)
    for kind, (number, first) in PLACES[what].items():
        if die.bits.place(row, column, kind).tiles:
            parts = [die.bits.place(row, column + first + k, TILES) for k in range(HALF)]
            return Found(what, number, Place([tile for part in parts for tile in part.tiles]))
    return None


def owner(die: Die, wire: str) -> str | None:
    found = find(die, wire)
    if found is None or found.tiles.setting(f"{found.what}_{found.number}.MODE") != KINDS[found.what]:
        return None
    return at(*place_of(wire), found.what)


def make(die: Die, cell: str) -> None:
    found = find(die, cell)
    if found is not None:
        Block(die, cell, found).make()


class Block:
    """The multiplier or adder `cell`."""

    def __init__(self, die: Die, cell: str, found: Found):
        self.die, self.cell, self.found, self.tiles = die, cell, found, found.tiles
        self.name = f"{found.what}_{found.number}"
        self.where = f"{found.tiles.name} {self.name}"

    def setting(self, name: str) -> str:
        value = self.tiles.setting(f"{self.name}.{name}")
        if value is None:
            self.die.problem(self.where, f"its bits of {name} are a mixture")
        return value or ""

    def wire(self, pin: str) -> str:
        return at(*place_of(self.cell), f"J{pin}_{self.found.what}")

    def make(self) -> None:
        what = self.found.what
        registers = self.registers()
        pins: dict[str, Sequence[Pin]] = {name: [pin] for name, pin in self.control(registers.values()).items()}
        pins |= {name: [self.input(name)] for name in INPUTS[what]}
        if what == "MULT18":
            pins |= self.shifted(pins)
        for name in WORDS[what]:
            self.tiles.word(f"{self.name}.{name}")
        parameters = registers | {name: self.setting(name) for name in PARAMETERS[what]}
        for name in (f"CLK{k}_DIV" for k in range(4)):
            if self.setting(name) != "ENABLED":
                self.die.problem(self.where, f"{name} must be ENABLED, not {self.setting(name)}")
        outputs: dict[str, Sequence[Pin]] = {name: [self.wire(name)] for name in OUTPUTS[what]}
        self.outward(registers)
        self.die.fabric.cell(self.cell, KINDS[what], parameters, pins | outputs, outputs, self.where)
        self.die.checks.append(self.check_flags)

    def check_flags(self) -> None:
        for name in OUTPUTS[self.found.what]:
            if FLAGS.fullmatch(name) and self.wire(name) in self.die.taken:
                self.die.problem(self.where, f"output {name} is taken, and has no model")

    def registers(self) -> dict[str, str]:
        found = {}
        for register in REGISTERS[self.found.what]:
            for what in ("CLK", "CE", "RST"):
                if self.tiles.has(f"{self.name}.REG_{register}_{what}"):
                    found[f"REG_{register}_{what}"] = self.setting(f"REG_{register}_{what}")
        return found

    def control(self, chosen: Iterable[str]) -> dict[str, Pin]:
        """Clocks, enables and resets; those that a register has chosen must have a driver."""
        used, pins = set(chosen), dict[str, Pin]()
        for name in (f"{what}{k}" for what in ("CLK", "CE", "RST") for k in range(4)):
            pin = self.die.pin(self.wire(name))
            if pin is None and name in used and self.clocked(name):
                self.die.problem(self.where, f"input {name} must have a driver")
            setting = f"{self.name}.{name}MUX"
            turned = self.tiles.has(setting) and self.setting(f"{name}MUX") == "INV"
            pins[name] = inverted(self.die, pin, self.where) if turned and pin else pin or "0"
        return pins

    def clocked(self, name: str) -> bool:
        """Whether a register that is there has chosen the clock, enable or reset."""
        return any(self.setting(f"REG_{register}_CLK") != "NONE"
                   and self.tiles.has(f"{self.name}.REG_{register}_{what}")
                   and self.setting(f"REG_{register}_{what}") == name
                   for register in REGISTERS[self.found.what] for what in ("CLK", "CE", "RST"))

    def input(self, name: str) -> Pin:
        pin = self.die.pin(self.wire(name))
        if pin is None and not MAY_BE_OPEN.fullmatch(name):
            self.die.problem(self.where, f"input {name} must have a driver")
        return pin or "0"

    def shifted(self, pins: dict[str, Sequence[Pin]]) -> dict[str, Sequence[Pin]]:
        """The operands of the multiplier beside, where they are chosen."""
        return {name: [self.input(name)] for letter in "AB" if constant(self.die, pins[f"SOURCE{letter}"][0]) != "0"
                for name in names((f"SRI{letter}", 18))}

    def outward(self, registers: dict[str, str]) -> None:
        """Bits without which nothing leaves the block, or leaves it beside its register."""
        side = "LEFT" if self.found.number < 4 else "RIGHT"
        if self.tiles.setting(f"DSP_{side}.CIBOUT") != "ON":
            self.die.problem(self.where, f"DSP_{side}.CIBOUT must be ON, so that its outputs reach other tiles")
        past = self.tiles.setting(f"{self.name}.CIBOUT_BYP") if self.found.what == "MULT18" else "OFF"
        if past == "ON" and registers.get("REG_OUTPUT_CLK") != "NONE":
            self.die.problem(self.where, "its output must not pass by its register")


def outranked(die: Die, wire: str) -> bool:
    """Whether `wire` is an output of a multiplier whose sums leave the block instead of it."""
    if not wire.endswith("_MULT18"):
        return False
    found = find(die, wire)
    adder = {0: 3, 1: 3, 4: 7, 5: 7}
    return found is not None and found.tiles.setting(f"ALU54_{adder[found.number]}.MODE") == KINDS["ALU54"]


OUTPUT = re.compile(r"J(?:P|SRO[AB]|RO[AB])\d+_MULT18|JSIGNEDP_MULT18|J(?:R|CO)\d+_ALU54|"
                    r"J(?:SIGNEDR|EQ\w+|OVER|UNDER|OVERUNDER)_ALU54")
DSP = CellKind(OUTPUT, owner, make)
