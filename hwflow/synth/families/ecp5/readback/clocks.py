"""Clocks: the PLLs, and the buffers of the clock network.

Which pins and settings they have: Project Trellis, libtrellis/src/Bels.cpp, tiledata/PLL*/bits.db and *MID*/bits.db.
What they do: Lattice FPGA-TN-02200.  Frequencies are not modelled.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .die import CellKind, Die, Pin
from .memories import number
from .tiles import On, Place
from .wires import at, place_of

#: The tiles of a PLL from where its wires are: kinds, rows down and columns to the right.
PLLS = ((("PLL0_UL", 0, -1), ("PLL1_UL", 1, -1)), (("PLL0_LL", 1, 0), ("BANKREF8", 1, 1)),
        (("PLL0_LR", 1, 0), ("PLL1_LR|BANKREF4", 1, -1)), (("PLL0_UR", 0, 1), ("PLL1_UR", 1, 1)))
OUTPUTS = ("CLKOP", "CLKOS", "CLKOS2", "CLKOS3", "LOCK", "INTLOCK")
CONTROL = ("RST", "STDBY", "PHASEDIR", "PHASELOADREG", "PHASESEL0", "PHASESEL1", "PHASESTEP", "PLLWAKESYNC", "ENCLKOP",
           "ENCLKOS", "ENCLKOS2", "ENCLKOS3")
#: Where the control inputs matter only if a setting has not this value.
UNUSED = {"RST": ("PLLRST_ENA", "DISABLED"), "STDBY": ("STDBY_ENABLE", "DISABLED"),
          "PLLWAKESYNC": ("INTFB_WAKE", "DISABLED"),
          **dict.fromkeys(("PHASEDIR", "PHASELOADREG", "PHASESEL0", "PHASESEL1", "PHASESTEP"),
                          ("DPHASE_SOURCE", "DISABLED"))}
DIVIDERS = ("CLKI_DIV", "CLKFB_DIV", "CLKOP_DIV", "CLKOS_DIV", "CLKOS2_DIV", "CLKOS3_DIV")
PHASES = tuple(f"{clock}_CPHASE" for clock in OUTPUTS[:4])
CHOICES = ("CLKOP_ENABLE", "CLKOS_ENABLE", "CLKOS2_ENABLE", "CLKOS3_ENABLE", "FEEDBK_PATH", "STDBY_ENABLE",
           "DPHASE_SOURCE", "PLLRST_ENA", "INTFB_WAKE")
#: What the settings have that have no model: nothing is shifted, trimmed, stopped or reset, and each output has its own
#: divider.
STATIC = {
    "CLKOP_TRIM_POL": "RISING", "CLKOS_TRIM_POL": "RISING", "STDBY_ENABLE": "DISABLED", "REFIN_RESET": "DISABLED",
    "SYNC_ENABLE": "DISABLED", "INT_LOCK_STICKY": "ENABLED", "DPHASE_SOURCE": "DISABLED", "PLLRST_ENA": "DISABLED",
    "INTFB_WAKE": "DISABLED", **{f"OUTDIVIDER_MUX{letter}": f"DIV{letter}" for letter in "ABCD"},
    "CLKOP_TRIM_DELAY": "0", "CLKOS_TRIM_DELAY": "0"}
#: Of the loop's filter and of the maker's tests: the numbers of nextpnr (ecp5/bitstream.cc, write_pll), and those that
#: hwflow gives each PLL (`hwflow_rtl.vendor.ecp5`).
ANALOG = {"FREQ_LOCK_ACCURACY": 0, "ICP_CURRENT": 12, "KVCO": 0, "LPF_CAPACITOR": 0, "LPF_RESISTOR": 8,
          "MFG_ENABLE_FILTEROPAMP": 1, "MFG_EN_UP": 0, "MFG_FLOAT_ICP": 0, "MFG_FORCE_VFILTER": 0, "MFG_GMCREF_SEL": 2,
          "MFG_GMC_GAIN": 0, "MFG_GMC_PRESET": 0, "MFG_GMC_RESET": 0, "MFG_GMC_TEST": 14, "MFG_ICP_TEST": 0,
          "MFG_LF_PRESET": 0, "MFG_LF_RESET": 0, "MFG_LF_RESGRND": 0, "MFG1_TEST": 0, "MFG2_TEST": 0,
          "PLL_LOCK_MODE": 0, **{f"{clock}_FPHASE": 0 for clock in OUTPUTS[:4]}}


def tiles_of(die: Die, wire: str) -> Place | None:
    row, column = place_of(wire)
    for kinds in PLLS:
        parts = [die.bits.place(row + down, column + right, kind) for kind, down, right in kinds]
        if all(part.tiles for part in parts):
            return parts[0] + parts[1]
    return None


def owner(die: Die, wire: str) -> str | None:
    tiles = tiles_of(die, wire)
    return at(*place_of(wire), "PLL") if tiles is not None and tiles.setting("MODE") == "EHXPLLL" else None


def make(die: Die, cell: str) -> None:
    tiles = tiles_of(die, cell)
    if tiles is None:
        return
    where = f"{tiles.name} PLL"
    parameters = {name: number(tiles.word(name) + 1) for name in DIVIDERS}
    parameters |= {name: number(tiles.word(name)) for name in PHASES}
    for name in CHOICES:
        value = tiles.setting(name)
        if value is None:
            die.problem(where, f"its bits of {name} are a mixture")
        parameters[name] = value or ""
    require_static(die, tiles, where)
    pins: dict[str, Sequence[Pin]] = {name: [control(die, cell, name, parameters, where)] for name in CONTROL}
    pins |= feedback(die, cell, parameters, where)
    outputs: dict[str, Sequence[Pin]] = {name: [at(*place_of(cell), f"J{name}_PLL")] for name in OUTPUTS}
    die.fabric.cell(cell, "EHXPLLL", parameters, pins | outputs, outputs, where)

    def check() -> None:
        for name, (wire,) in outputs.items():
            if wire in die.taken and parameters.get(f"{name}_ENABLE") == "DISABLED":
                die.problem(where, f"{name}_ENABLE must be ENABLED: something takes {name}")

    die.checks.append(check)


def inside_pll(on: On) -> bool:
    """Whether a switch of the feedback is none: its bits say that the feedback stays inside of the PLL."""
    if not on.sink.endswith("_CLKFB"):
        return False
    path = Place([(on.decided, on.number)]).setting("FEEDBK_PATH")
    return path is not None and path.startswith("INT_")


def require_static(die: Die, tiles: Place, where: str) -> None:
    """A problem for each setting that the model does not know."""
    found: dict[str, str | int | None] = {name: tiles.setting(name) for name in STATIC}
    found |= {name: tiles.word(name) for name in ANALOG}
    for name, wanted in {**STATIC, **ANALOG}.items():
        if found[name] != wanted:
            die.problem(where, f"{name} must be {wanted}, not {found[name]}")


def control(die: Die, cell: str, name: str, parameters: dict[str, str], where: str) -> Pin:
    """A control input; one that a setting turns off is 0 where nothing drives it."""
    pin = die.pin(at(*place_of(cell), f"J{name}_PLL"))
    setting, off = UNUSED.get(name, (f"{name.removeprefix('EN')}_ENABLE", "DISABLED"))
    if pin is None and parameters.get(setting) != off and not name.startswith("EN"):
        die.problem(where, f"input {name} must have a driver")
    return pin or "0"


def feedback(die: Die, cell: str, parameters: dict[str, str], where: str) -> dict[str, Sequence[Pin]]:
    """The reference clock, and the wire of the feedback where that is outside of the PLL."""
    pins: dict[str, Sequence[Pin]] = {}
    inside = parameters["FEEDBK_PATH"].startswith("INT_")
    for name in ("CLKI",) if inside else ("CLKI", "CLKFB"):
        pin = die.pin(at(*place_of(cell), f"{name}_PLL"))
        if pin is None:
            die.problem(where, f"input {name} must have a driver")
        pins[name] = [pin or "0"]
    return pins


PLL = CellKind(re.compile(rf"J(?:{'|'.join(OUTPUTS)})_PLL|CLKINTFB_PLL"), owner, make)

#: Buffers between the edges of the device and its middle: the side and the number.
BUFFER = re.compile(r"G_CLKO_([LRTB])DCC(\d+)")


def through_buffer(die: Die, wire: str) -> str | None:
    """The input of the clock buffer with the output `wire`, if there is one that is never stopped."""
    match = BUFFER.fullmatch(wire) if wire.startswith("G_") else None
    if match is None:
        return None
    name = f"DCC_{match[1]}{match[2]}.MODE"
    for kind, decided in die.bits.kinds.items():
        if name in decided.kind.settings:
            mode = die.bits.place(decided.tiles[0].row, decided.tiles[0].column, kind).setting(name)
            if mode != "NONE":
                die.problem(f"{decided.tiles[0].name} {name}", f"a clock buffer must not be stopped, which is {mode}: "
                                                               "hwflow has no model of that")
    return f"G_CLKI_{match[1]}DCC{match[2]}"
