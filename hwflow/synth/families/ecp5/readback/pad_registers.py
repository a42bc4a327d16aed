"""Registers at pads: two bits of a pin in a cycle, and delays of pins.

Which pins and settings they have: Project Trellis, libtrellis/src/Bels.cpp and tiledata/PIC*/bits.db; which of them a
cell uses: nextpnr, ecp5/pack.cc, pack_iologic.  What they do: Lattice FPGA-TN-02035.  Delays are not modelled.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .die import CellKind, Die, Pin, base_of, inverted
from .pad_tiles import tiles_of_pad
from .slices import constant
from .tiles import Place
from .wires import at, place_of

WIRE = re.compile(r"J?([A-Z]+\d?)([A-D])_(S?IOLOGIC)")
OUTPUT = re.compile(r"JRXDATA[01][A-D]_S?IOLOGIC|IOLDO[A-D]_S?IOLOGIC")
DOUBLE_RATE = "IDDRX1_ODDRX1"
#: The wire to the pad, which one of two wires of the registers drives.
TO_PAD = re.compile(r"IOLDO([A-D])")
#: What comes in, behind the delay, and what goes out behind it.
LATE_IN, LATE_OUT = re.compile(r"INDD([A-D])_S?IOLOGIC"), re.compile(r"IOLDOD([A-D])_S?IOLOGIC")
#: Inputs that would change a delay.
STEPS = ("LOADN", "MOVE", "DIRECTION")


@dataclass(frozen=True)
class Registers:
    """Those of a pad: the wires of `kind`, IOLOGIC or SIOLOGIC, with its letter."""

    die: Die
    place: tuple[int, int]
    letter: str
    kind: str
    tiles: Place

    @property
    def where(self) -> str:
        return f"{self.tiles.name} IOLOGIC{self.letter}"

    def setting(self, name: str) -> str:
        value = self.tiles.setting(f"IOLOGIC{self.letter}.{name}")
        if value is None:
            self.die.problem(self.where, f"its bits of {name} are a mixture")
        return value or ""

    def mode(self) -> str:
        name = f"IOLOGIC{self.letter}.MODE"
        values = [value for value in self.tiles.values(name) if value in self.tiles.base(name)]
        return values[0] if len(values) == 1 else ""

    def wire(self, name: str, *, from_tiles: bool = True) -> str:
        return at(*self.place, f"{'J' if from_tiles else ''}{name}{self.letter}_{self.kind}")

    def input(self, name: str) -> Pin:
        pin = self.die.pin(self.wire(name))
        if pin is None:
            self.die.problem(self.where, f"input {name} must have a driver")
        return pin or "0"

    def control(self, way: str) -> dict[str, list[Pin]]:
        """The clock and the reset of the registers inward ("I") or outward ("O")."""
        clock = self.setting(f"CLK{way}MUX")
        taken = self.input("CLK")
        if clock == "0":
            self.die.problem(self.where, f"CLK{way}MUX must choose a clock")
        for name in ("GSR", "SRMODE", "CEMUX", "CEIMUX", "CEOMUX", "CLKIMUX", "CLKOMUX"):
            self.setting(name)
        reset: Pin = "0"
        if self.setting(f"LSR{way}MUX") == "LSRMUX":
            reset = self.input("LSR")
            reset = inverted(self.die, reset, self.where) if self.setting("LSRMUX") == "INV" else reset
        return {"SCLK": [inverted(self.die, taken, self.where) if clock == "INV" else taken], "RST": [reset]}

    def delay(self) -> None:
        """A delay has no model; that nothing changes it is checked."""
        self.tiles.word(f"IOLOGIC{self.letter}.DELAY.DEL_VALUE")
        for name in ("DELAY.OUTDEL", "DELAY.WAIT_FOR_EDGE", "LOADNMUX"):
            self.setting(name)
        for name in STEPS:
            pin = self.die.pin(self.wire(name))
            if pin is not None and constant(self.die, pin) != "0":
                self.die.problem(self.where, f"input {name} of the delay must be 0 for ever")
            elif pin not in (None, "0"):
                self.die.fabric.hold(pin, None, self.where)


def registers_of(die: Die, wire: str) -> Registers | None:
    """The registers that `wire` is a pin of."""
    match = WIRE.fullmatch(base_of(wire))
    if match is None:
        return None
    row, column = place_of(wire)
    _, tiles = tiles_of_pad(die, row, column, match[2])
    return Registers(die, (row, column), match[2], match[3], tiles) if tiles.tiles else None


def owner(die: Die, wire: str) -> str | None:
    found = registers_of(die, wire)
    if found is None or found.mode() != DOUBLE_RATE:
        return None
    return found.wire("IOLDO", from_tiles=False) if base_of(wire).startswith("IOLDO") else found.wire("RXDATA0")


def make(die: Die, cell: str) -> None:
    found = registers_of(die, cell)
    if found is None:
        return
    found.delay()
    if base_of(cell).startswith("IOLDO"):
        pins = {"D0": [found.input("TXDATA0")], "D1": [found.input("TXDATA1")], **found.control("O"), "Q": [cell]}
        die.fabric.cell(cell, "ODDRX1F", {"GSR": found.setting("GSR")}, pins, ["Q"], found.where)
        return
    pad = die.pin(found.wire("DI", from_tiles=False))
    if pad is None:
        die.problem(found.where, "its pad must be an input")
    outputs = {"Q0": [cell], "Q1": [found.wire("RXDATA1")]}
    die.fabric.cell(cell, "IDDRX1F", {"GSR": found.setting("GSR")},
                    {"D": [pad or "0"], **found.control("I"), **outputs}, outputs, found.where)


def through_delay(die: Die, wire: str) -> str | None:
    """What comes out of a delay, or to the pad through one, is what goes in."""
    base = base_of(wire)
    if match := LATE_IN.fullmatch(base):
        found = registers_of(die, wire)
        if found is not None:
            found.delay()
        return at(*place_of(wire), f"JPADDI{match[1]}_PIO")
    if match := TO_PAD.fullmatch(base):
        for kind in ("IOLOGIC", "SIOLOGIC"):
            end = at(*place_of(wire), f"IOLDO{match[1]}_{kind}")
            if die.owner(end) is not None:
                return end
    return None


PAD_REGISTERS = CellKind(OUTPUT, owner, make)
