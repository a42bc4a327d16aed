"""Pads and their banks: direction, standard, pull and drive as one of the combinations that gowin_pack can make.

Bits of a pad hang together, so they are looked up: the bits of every combination are made by the tables of the database
until one has exactly those that are set.

Sources: Project Apicula (MIT): tables IOBA to IOBJ and BANK of the database; which attributes a pad has, gowin_pack's
second pass over pads (also that a pad that nobody uses has the voltage of its bank, and that used ones have those bits
as well).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

from .chip import Chip, Row, Spot, fuses, rows_of
from .tiles import Tile
from .tracing import Tracing

#: Standards of pads by the voltage of their bank.
STANDARDS = {"1.2": "LVCMOS12", "1.5": "LVCMOS15", "1.8": "LVCMOS18", "2.5": "LVCMOS25", "3.3": "LVCMOS33"}
USUAL_PULL = "UP"
PULLS = (USUAL_PULL, "NONE", "DOWN", "KEEPER")
#: The usual value first.
DRIVES, SLEWS, OPEN, HYSTERESIS = ("8", "4", "12", "16", "24"), ("FAST", "SLOW"), ("OFF", "ON"), (
    "NONE", "HIGH", "H2L", "L2H")
INPUT: Mapping[str, str] = {"PADDI": "PADDI", "SLEWRATE": "SLOW", "DRIVE": "0", "CLAMP": "OFF", "OPENDRAIN": "OFF",
                            "DIFFRESISTOR": "OFF", "VREF": "OFF", "LVDS_OUT": "OFF"}
OUTPUT: Mapping[str, str] = {"HYSTERESIS": "NONE", "CLAMP": "OFF", "SINGLERESISTOR": "OFF", "LVDS_OUT": "OFF",
                             "DDR_DYNTERM": "NA", "TO": "INV"}
BOTH: Mapping[str, str] = {**OUTPUT, "DIFFRESISTOR": "OFF", "ODMUX": "TRIMUX", "PERSISTENT": "OFF", "PADDI": "PADDI"}
#: Attributes of a pad that drives always, and of one that its enable lets drive.
ALWAYS, ENABLED = {"ODMUX_1": "1"}, {"ODMUX_1": "UNKNOWN", "TRIMUX_PADDT": "SIG", "TO": "SIG"}


@dataclass(frozen=True)
class Setting:
    """What the bits of a pad say; no direction: nobody uses it."""

    direction: str | None
    volts: str
    standard: str = ""
    pull: str = ""


class Pads:
    """The pads of a device.  `part`: the device with its package, as board files have it."""

    def __init__(self, tracing: Tracing, part: str):
        self.tracing, self.chip = tracing, tracing.chip
        self.pins = {place: pin for pin, place in self.chip.pads(part).items()}
        self.volts = {bank: self.bank(bank) for bank in self.chip.db.bank_tiles}

    def bank(self, bank: int) -> tuple[str, ...]:
        """The voltages that the bits of a bank may stand for.  Banks that share a tile share no bits."""
        db = self.chip.db
        tile = self.tracing.tiles[db.bank_tiles[bank]]
        table = rows_of({key[1:]: spots for key, spots in db.longval[tile.kind]["BANK"].items() if key[0] == bank})
        found = tile.take(bits_of(tuple(table)))
        volts = tuple(volts for volts in STANDARDS
                      if fuses(table, self.chip.attributes("IOB", {"BANK_VCCIO": volts, "LVDS_OUT": "OFF"})) == found)
        if not volts:
            self.tracing.fabric.problem(tile.where, f"the bits of bank {bank} must be those of a voltage, and are "
                                                    f"{sorted(found)}")
        return volts

    def read(self, tile: Tile) -> None:
        """All pads of a tile."""
        tables = self.chip.db.longval.get(tile.kind, {})
        for name in sorted(tile.data.bels):
            if name.startswith("IOB") and name in tables:
                self.pad(tile, name)

    def pad(self, tile: Tile, name: str) -> None:
        place = f"{rim(self.chip.db, tile)}{name[3:]}"
        bank = self.chip.db.pin_bank.get(place)
        found = tile.take(bits_of(pad_table(self.chip, tile.kind, name)))
        if bank is None:
            setting = None if found else Setting(None, "")
        else:
            setting = search(self.chip, tile.kind, name, found, self.volts[bank])
        if setting is None:
            self.tracing.fabric.problem(f"{tile.where}, pad {self.label(place)}", "its bits must be those of a pad "
                                        f"that gowin_pack makes in a bank of that voltage, and are {sorted(found)}")
        elif setting.direction is not None:
            self.tracing.fabric.standards[self.label(place)] = standards(
                self.chip, tile.kind, name, found, self.volts[bank], setting)
            self.use(tile, name, self.label(place), setting)

    def label(self, place: str) -> str:
        """The pin of the package; the place of pads that have none."""
        return self.pins.get(place, place)

    def use(self, tile: Tile, name: str, pin: str, setting: Setting) -> None:
        """The pad, and the cell of one that goes both ways."""
        ports, fabric, where = tile.data.bels[name].portmap, self.tracing.fabric, f"{tile.where}, pad {pin}"
        if setting.pull != USUAL_PULL:  # which gowin_pack gives a pad where nobody asks for one
            fabric.pulls[pin] = setting.pull.lower()
        if setting.direction == "input":
            wire = self.tracing.name(tile, ports["O"])
            self.tracing.makers[wire] = lambda: None
            fabric.pad(pin, "input", wire, where)
            return
        self.require_bottom(tile, ports)
        data = self.tracing.take(tile, ports["I"])
        if setting.direction == "output":
            if self.tracing.explicit(tile, ports["OE"]):
                self.tracing.hold(tile, ports["OE"], "0")
            fabric.pad(pin, "output", data, where)
            return
        wire, into = f"{tile.where}/{name}", self.tracing.name(tile, ports["O"])
        self.tracing.makers[into] = lambda: None
        fabric.pad(pin, "inout", wire, where)
        fabric.cell(wire, "IOBUF", {}, {"IO": [wire], "I": [data], "OEN": [self.tracing.take(tile, ports["OE"])],
                                        "O": [into]}, ["O"], where)

    def require_bottom(self, tile: Tile, ports: Mapping[str, str]) -> None:
        """Pads at the lower rim of some chips drive only with two wires at a level (`bottom_io` of the database)."""
        for port in ("BOTTOM_IO_PORT_A", "BOTTOM_IO_PORT_B"):
            if (wire := ports.get(port)) and self.tracing.explicit(tile, wire):
                self.tracing.hold(tile, wire, "0")


@lru_cache(maxsize=1024)
def pad_table(chip: Chip, kind: int, name: str) -> tuple[Row, ...]:
    """The table of a pad of a kind of tile."""
    return tuple(rows_of(chip.db.longval[kind][name]))


def standards(chip: Chip, kind: int, name: str, found: frozenset[Spot], volts: tuple[str, ...], like: Setting
              ) -> frozenset[str]:
    """The standards that a pad with the bits `found` and of the direction and pull of `like` can have."""
    return frozenset(setting.standard for voltage in volts for setting in settings(chip, kind, name, found, voltage)
                     if (setting.direction, setting.pull) == (like.direction, like.pull))


@lru_cache(maxsize=1024)
def search(chip: Chip, kind: int, name: str, found: frozenset[Spot], volts: tuple[str, ...]) -> Setting | None:
    """The first combination of a pad with exactly the bits `found`."""
    if not found:
        return Setting(None, "")
    return next((setting for voltage in volts for setting in settings(chip, kind, name, found, voltage)), None)


def settings(chip: Chip, kind: int, name: str, found: frozenset[Spot], volts: str) -> Iterator[Setting]:
    """All combinations with exactly the bits `found` of a pad in a bank of that voltage, the usual first."""
    table = pad_table(chip, kind, name)
    unused = fuses(table, chip.attributes("IOB", {"IO_TYPE": STANDARDS[volts], "BANK_VCCIO": volts}))
    if found == unused:
        yield Setting(None, volts)
    for setting, attributes in combinations(volts):
        if found == fuses(table, chip.attributes("IOB", attributes)) | unused:
            yield setting


@lru_cache(maxsize=1024)
def bits_of(table: tuple[Row, ...]) -> frozenset[Spot]:
    """All bits of a table."""
    return frozenset[Spot]().union(*(row.spots for row in table))


def rim(db: Any, tile: Tile) -> str:
    """IO, the side and the number of the pads of a tile, as Gowin counts them: "IOR17"."""
    side = db.corner_tiles_io.get((tile.row, tile.column)) or (
        "T" if tile.row == 0 else "B" if tile.row == db.rows - 1 else "L" if tile.column == 0 else "R")
    return f"IO{side}{(tile.column if side in 'TB' else tile.row) + 1}"


def combinations(volts: str) -> Iterator[tuple[Setting, dict[str, str]]]:
    """What a pad of a bank may be, the usual first."""
    for pull, standard, hysteresis in product(PULLS, (STANDARDS[volts], *STANDARDS.values()), HYSTERESIS):
        yield Setting("input", volts, standard, pull), {
            **INPUT, "PULLMODE": pull, "IO_TYPE": standard, "HYSTERESIS": hysteresis, "BANK_VCCIO": volts}
    standard = STANDARDS[volts]
    for drive, slew, opened, pull in product(DRIVES, SLEWS, OPEN, PULLS):
        common = {"PULLMODE": pull, "IO_TYPE": standard, "DRIVE": drive, "SLEWRATE": slew, "OPENDRAIN": opened,
                  "BANK_VCCIO": volts}
        yield Setting("output", volts, standard, pull), {**OUTPUT, **common, **ALWAYS}
        yield Setting("output", volts, standard, pull), {**OUTPUT, **common, **ALWAYS, "TRIMUX_PADDT": "SIG"}
        yield Setting("inout", volts, standard, pull), {**BOTH, **common, **ENABLED}
        yield Setting("inout", volts, standard, pull), {
            **{name: value for name, value in BOTH.items() if name not in ("PADDI", "DIFFRESISTOR")}, **common,
            **ENABLED}
