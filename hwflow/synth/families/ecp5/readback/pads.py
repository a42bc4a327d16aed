"""Pads: their direction, what they take and give, and which settings of them are only electrical.

Pins of packages: Project Trellis, iodb.json.  Pins and settings of pads: libtrellis/src/Bels.cpp, tiledata/PI*/bits.db.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from hwflow_base.errors import HwflowError

from .die import CellKind, Die, Owner, Pin, inverted
from .pad_tiles import tiles_of_pad
from .tiles import Place
from .wires import at

#: Settings that are electrical: explained, and not in the model.
ELECTRICAL = ("PULLMODE", "SLEWRATE", "DRIVE", "HYSTERESIS", "OPENDRAIN", "CLAMP", "DIFFRESISTOR", "TERMINATION_1V35",
              "TERMINATION_1V5", "TERMINATION_1V8")
#: What drives the pad: the wire from the tiles, or that from the registers of the pad.
THROUGH_REGISTER = ("DATAMUX_ODDR", "DATAMUX_OREG", "DATAMUX_MDDR")
#: What comes in through a pad; the fabric knows the pad already.
INWARD = CellKind(re.compile(r"JPADDI[A-D]_PIO"), lambda die, wire: None, lambda die, cell: None)


def read_pads(die: Die, package: str) -> None:
    """Tell the fabric of all pads of the package that the bits use."""
    packages = die.bits.device.packages
    if package not in packages:
        raise HwflowError(f"the package must be one of {', '.join(sorted(packages))}, not {package}")
    banks = {(entry["row"], entry["col"], entry["pio"]): entry["bank"] for entry in die.bits.device.pads}
    pads = [Pad(die, pin, entry) for pin, entry in packages[package].items()]
    used = [pad for pad in pads if pad.direction]
    for pad in used:
        if pad.direction != "OUTPUT":  # before anything asks what drives a wire
            die.owners[pad.inward] = Owner(INWARD, pad.inward)
    for pad in used:
        pad.read()
    used_banks = {banks.get((pad.row, pad.column, pad.letter)) for pad in used}
    for kind, decided in die.bits.kinds.items():
        match = re.fullmatch(r"BANKREF(\d)A?", kind)
        if match and int(match[1]) in used_banks:
            for tile in decided.tiles:
                die.bits.place(tile.row, tile.column, kind).setting("BANK.VCCIO")


def types_of(values: Iterable[str]) -> frozenset[tuple[str, str]]:
    """INPUT and LVCMOS33 of INPUT_LVCMOS33."""
    return frozenset((direction, standard) for direction, _, standard in (value.partition("_") for value in values))


def directions_of(types: Iterable[tuple[str, str]]) -> set[str]:
    return {direction for direction, _ in types}


class Pad:
    """The pad at the pin `pin` of the package."""

    def __init__(self, die: Die, pin: str, entry: Mapping[str, Any]):
        self.die, self.pin, self.letter = die, pin, str(entry["pio"])
        self.row, self.column = int(entry["row"]), int(entry["col"])
        self.pio, self.pic = tiles_of_pad(die, self.row, self.column, self.letter)
        both = {id(decided): (decided, number) for decided, number in (*self.pio.tiles, *self.pic.tiles)}
        self.tiles = Place(list(both.values()))
        self.where = f"{self.tiles.name} PIO{self.letter} (pin {pin})"
        self.inward = self.wire(f"JPADDI{self.letter}_PIO")
        types = self.find_types() if self.tiles.tiles else frozenset()
        self.direction = next(iter(directions_of(types)), "")
        self.standards = frozenset(standard for _, standard in types)

    def wire(self, base: str) -> str:
        return at(self.row, self.column, base)

    def find_types(self) -> frozenset[tuple[str, str]]:
        """The types that the bits can stand for, all of one direction, INPUT, OUTPUT or BIDIR, with their standards;
        none where the bits do not use the pad."""
        name = f"PIO{self.letter}.BASE_TYPE"
        types = types_of(self.tiles.base(name))
        if len(directions_of(types)) > 1:
            exact = directions_of(types_of(self.tiles.values(name)))
            types = frozenset(each for each in types if each[0] in exact)
        directions = directions_of(types)
        if directions == {"NONE"}:
            return frozenset()
        if len(directions) != 1:
            found = " and ".join(sorted(directions)) or "a mixture"
            self.die.problem(self.where, f"its bits must say one direction, not {found}")
            return frozenset()
        return types

    def read(self) -> None:
        for name in ELECTRICAL:
            if self.tiles.has(f"PIO{self.letter}.{name}"):
                self.tiles.values(f"PIO{self.letter}.{name}")
        self.die.fabric.standards[self.pin] = self.standards
        if self.direction != "OUTPUT" and (pull := self.tiles.setting(f"PIO{self.letter}.PULLMODE")):
            self.die.fabric.pulls[self.pin] = pull.lower()
        {"INPUT": self.input, "OUTPUT": self.output, "BIDIR": self.both}[self.direction]()

    def input(self) -> None:
        self.die.fabric.pad(self.pin, "input", self.inward, self.where)

    def driven(self) -> Pin:
        """What the pad drives."""
        through = [name for name in THROUGH_REGISTER if self.tiles.has(f"PIO{self.letter}.{name}")
                   and self.tiles.setting(f"PIO{self.letter}.{name}") not in ("PADDO", None)]
        pin = self.die.pin(self.wire(f"{'IOLDO' if through else 'PADDO'}{self.letter}_PIO"))
        if pin is None:
            self.die.problem(self.where, "an output must have a driver")
        return pin or "0"

    def off(self) -> Pin:
        """1 where the pad does not drive."""
        name = f"PIO{self.letter}.TRIMUX_TSREG"
        through = self.tiles.has(name) and self.tiles.setting(name) not in ("PADDT", None)
        pin = self.die.pin(self.wire(f"{'IOLTO' if through else 'PADDT'}{self.letter}_PIO"))
        if pin is None:
            self.die.problem(self.where, "what turns an output off must have a driver")
        return pin or "0"

    def output(self) -> None:
        off = self.off()
        if off == "0":
            self.die.fabric.pad(self.pin, "output", self.driven(), self.where)
        else:
            self.both(off)

    def both(self, off: Pin | None = None) -> None:
        """A pad in both directions: the wire of the pad itself is what comes in."""
        pad = self.inward
        enable = inverted(self.die, self.off() if off is None else off, self.where)
        self.die.fabric.pad(self.pin, "inout", pad, self.where)
        self.die.fabric.cell(f"{pad} driver", "$_TBUF_", {}, {"A": [self.driven()], "E": [enable], "Y": [pad]}, [],
                             self.where)
