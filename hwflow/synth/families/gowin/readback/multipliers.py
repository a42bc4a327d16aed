"""Multipliers of 9 x 9 and 18 x 18 bits with their registers.

A block is nine tiles with two macros, each of four multipliers of 9 bits; two of them, a pair, make one of 18 bits.
Which of four clocks, enables and resets of the macro a register takes is said for each register; a cell of ours has one
of each.  Adders before and behind the multipliers, and operands that go from one to the next, are not used here: their
bits are nobody's.

Sources: Project Apicula (MIT): tables DSP0 and DSP1 of the database, what gowin_pack's `set_mult9x9_attrs` says of the
names, pins as `dat_portmap` gives them; Gowin UG287.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .settings import Settings
from .tiles import Tile
from .tracing import Pin, Tracing

TILES, MACROS, PAIRS = 9, 2, 2
#: The lower and the upper multiplier of a pair, as the names of attributes have them.
HALVES = "LH"
#: Clocks, enables and resets of a macro; the first one has no bits.
SOURCES = 4


@dataclass(frozen=True)
class Register:
    """The parameter of a cell, the attributes that go around the register (all or none), and what the names of its
    clock, enable and reset end with."""

    parameter: str
    around: tuple[str, ...]
    clocks: tuple[str, ...]


class Macro:
    """One half of the block whose first tile is `tile`."""

    def __init__(self, tracing: Tracing, tile: Tile, number: int):
        self.tracing, self.tile, self.number = tracing, tile, number
        parts = [tracing.tiles[tile.row, tile.column + k] for k in range(TILES)]
        self.settings = Settings(tracing.chip, "DSP", f"DSP{number}", parts, tracing.fabric)
        self.small = self.settings.has("M9MODE_EN", "ENABLE")
        for pair in range(PAIRS):
            used = [self.settings.has(f"OR2CIB_EN{pair}{half}_{2 * pair + k}", "ENABLE")
                    for k, half in enumerate(HALVES)]
            if self.small:
                for k in range(len(HALVES)):
                    if used[k]:
                        self.register(f"MULT9X9{number}{2 * pair + k}", pair, (k,))
            elif any(used):
                if not all(used):
                    self.problem(f"pair {pair} must give all bits of its product")
                self.register(f"MULT18X18{number}{pair}", pair, (0, 1))

    def problem(self, what: str) -> None:
        self.tracing.fabric.problem(self.tile.where, f"macro {self.number} of multipliers: {what}")

    def register(self, bel: str, pair: int, halves: tuple[int, ...]) -> None:
        bits = 9 * len(halves)
        ports = self.tile.data.bels[bel].portmap
        wires = [self.tracing.name(self.tile, ports[f"DOUT{k}"]) for k in range(2 * bits)]

        def make() -> None:
            self.tracing.met.update(wires)
            self.make(bel, pair, halves, wires)

        for wire in wires:
            self.tracing.makers[wire] = make

    def make(self, bel: str, pair: int, halves: tuple[int, ...], wires: list[str]) -> None:
        ports, bits = self.tile.data.bels[bel].portmap, 9 * len(halves)
        self.require_plain(pair, halves)
        parameters, chosen = {"SOA_REG": "0", "MULT_RESET_MODE": "SYNC"}, set[tuple[int, int, int]]()
        for register in registers(pair, halves):
            if self.goes_around(register):
                parameters[register.parameter] = "0"
            else:
                parameters[register.parameter] = "1"
                chosen |= {self.clocks(name) for name in register.clocks}
        if len(chosen) > 1:
            self.problem(f"{bel} must have one clock, enable and reset for all its registers")
        enable, clock, reset = min(chosen, default=(0, 0, 0))

        def take(port: str) -> Pin:
            return self.tracing.take(self.tile, ports[port])

        pins = {name: [take(f"{name}{k}") for k in range(bits)] for name in "AB"}
        pins |= {name: [take(name)] for name in ("ASIGN", "BSIGN", "ASEL", "BSEL")}
        pins |= {name: ["0"] * bits for name in ("SIA", "SIB")}
        pins |= {"CE": [take(f"CE{enable}")], "CLK": [take(f"CLK{clock}")], "RESET": [take(f"RESET{reset}")]}
        for name in ("ASEL", "BSEL"):
            if self.tracing.level(self.tile, ports[name]) != "0":
                self.problem(f"{bel} must take its own operands, and {name} is not 0")
        self.tracing.fabric.cell(f"{self.tile.where}/{bel}", f"MULT{bits}X{bits}", parameters,
                                 {**pins, "DOUT": wires}, ["DOUT"], self.tile.where)

    def require_plain(self, pair: int, halves: tuple[int, ...]) -> None:
        """What is the same for every multiplier of ours."""
        wanted = [(f"IRASHFEN_{pair}", "1"), (f"IRBSHFEN_{pair}", "1")]
        if pair:
            wanted.append(("MATCH_SHFEN", "ENABLE"))
            wanted += [(f"{name}_IRMATCH{HALVES[k]}_{8 + k}", "ENABLE") for k in halves for name in ("IRBY", "IRNS")]
        for name, value in wanted:
            if not self.settings.has(name, value):
                self.problem(f"pair {pair} must have the setting {name}")

    def goes_around(self, register: Register) -> bool:
        """Whether the register is left out."""
        found = [self.settings.has(name, "ENABLE") for name in register.around]
        if any(found) and not all(found):
            self.problem(f"{register.parameter} must be used or not: of {', '.join(register.around)} some are set")
        return all(found)

    def clocks(self, name: str) -> tuple[int, int, int]:
        """Which enable, clock and reset a register takes; its reset must be one at the clock's edge."""
        half, at = name.split("_", 1)
        found = [self.source(f"{kind}{half}MUX_{at}", source) for kind, source in (
            ("CE", "CEIN"), ("CLK", "CLKIN"), ("RST", "RSTIN"))]
        if not self.settings.has(f"RSTGEN{half}MUX_{at}", "SYNC"):
            self.problem(f"the reset of {at} must be one at the edge of its clock")
        return found[0], found[1], found[2]

    def source(self, attribute: str, name: str) -> int:
        value = self.settings.of(attribute, [f"{name}{k}" for k in range(1, SOURCES)])
        return int(str(value)[len(name):] or 0)


def registers(pair: int, halves: tuple[int, ...]) -> Iterable[Register]:
    """Those of a multiplier.  The signs of a pair have one register for both halves."""
    for letter, first in (("A", 0), ("B", 2)):
        yield Register(f"{letter}REG", tuple(
            f"{name}_IREG{pair}{letter}{HALVES[k]}_{4 * pair + first + k}"
            for k in halves for name in ("IRBY", "IRNS")),
            tuple(f"{HALVES[k]}_REGM{letter}{pair}" for k in halves))
    for place, letter in enumerate("AB"):
        yield Register(f"{letter}SIGN_REG", tuple(f"{name}_{3 * pair + place}" for name in ("CINNS", "CINBY")),
                       (f"_{letter}SIGN{pair}1",))
    yield Register("PIPE_REG", (
        *(f"{name}_{3 * pair + place}" for place in (0, 1) for name in ("CPRNS", "CPRBY")),
        *(f"PPREG{pair}_{name}{HALVES[k]}_{2 * pair + k}" for k in halves for name in ("NS", "BYP"))), (
        *(f"_{letter}SIGN{pair}2" for letter in "AB"), *(f"{HALVES[k]}_REGP{pair}" for k in halves)))
    yield Register("OUT_REG", tuple(
        f"OREG{pair}_{name}{HALVES[k]}_{2 * pair + k}" for k in halves for name in ("BYP", "NS")),
        tuple(f"{HALVES[k]}_OREG{pair}" for k in halves))
