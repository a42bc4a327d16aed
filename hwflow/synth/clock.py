"""The clock of a routed design: the highest that its PLL can make, set by new dividers without routing again.

Place and route aims at a clock above what any design reaches; only after it is known what the design stands.  The PLL's
dividers are a few words of the routed design, and nothing in it depends on them: the serial line has the oscillator's
clock.  Before they are replaced, what stands there must be the dividers that were synthesized.

Sources: prjtrellis (words of the ECP5's PLL in the text configuration), Project IceStorm (`pllinfo_db`: bits of the
iCE40's IO tiles), apicula (parameters in Gowin's routed netlist).  A design that was routed with the new dividers from
the start gives the same file: the tests compare both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from hwflow_rtl.vendor.pll import PllSettings, exact

from ..errors import HwflowError
from .boards import Board
from .report import read_nextpnr_report

__all__ = ["LAYOUTS", "ON_BOARD", "clock_facts", "goal_pll", "has_pll", "require_reachable", "retuned", "set_clock"]

#: What stands for the board's oscillator in place of MHz.
ON_BOARD = "board"
#: The note that `set_clock` leaves beside the layout.
NOTE = "clock.json"
LAYOUTS = {"ecp5": "layout.config", "ice40": "layout.asc", "gowin": "layout.json"}
PRIMITIVES = ("EHXPLLL", "SB_PLL40_CORE", "SB_PLL40_2_PAD", "rPLL")


def goal_pll(board: Board, goal_mhz: float) -> PllSettings:
    """The PLL that a design is routed with: as near below the goal of place and route as it can.

    Raises HwflowError where no PLL can make such a clock.
    """
    pll = board.technology().pll_settings(board.clock_mhz, goal_mhz)
    if pll is None:
        raise unreachable(board, goal_mhz)
    return pll


def unreachable(board: Board, mhz: float | Fraction) -> HwflowError:
    return HwflowError(f"the clock must be one that the PLL of {board.device} can make of {board.clock_mhz:g} MHz, not "
                       f"{float(mhz):g} MHz or less; choose another with --clock, or run on the oscillator with "
                       f"--clock {ON_BOARD}")


def has_pll(text: str) -> bool:
    """Whether a PLL makes the core's clock in a design in RTLIL."""
    return any(f"cell \\{kind} " in text for kind in PRIMITIVES)


def require_reachable(board: Board, text: str, mhz: float) -> None:
    """HwflowError where the design `text` cannot have a core of `mhz`: before place and route, which take minutes."""
    if not has_pll(text):
        raise HwflowError(f"the clock of a design without a PLL must be the oscillator's {board.clock_mhz:g} MHz, not "
                          f"{mhz:g} MHz; give it a PLL, or leave the clock out")
    if board.technology().pll_settings(board.clock_mhz, mhz) is None:
        raise unreachable(board, mhz)


def set_clock(folder: Path, board: Board, netlist: Path, wanted_mhz: float | None) -> None:
    """Give the routed design in `folder` its clock: new dividers in the layout, and a note for `clock_facts`.

    The clock is the highest of the PLL that is not above `wanted_mhz`, or, where that is None, not above the routed
    clock and the device's limits.  `netlist` is what was routed; without a PLL in it nothing but the note is written.
    """
    old = pll_parameters(netlist)
    if old is None:
        (folder / NOTE).write_text(json.dumps({"mhz": board.clock_mhz, "pll": None}))
        return
    if wanted_mhz is None:
        usable = read_nextpnr_report(folder / "report.json", board, flip_flops=0)["usable_mhz"]
        wanted_mhz = float(output_of(board, old)) if usable is None else usable
    new = board.technology().pll_settings(board.clock_mhz, wanted_mhz)
    if new is None:
        raise unreachable(board, wanted_mhz)
    path = folder / LAYOUTS[board.family]
    path.write_text(retuned(board.family, path.read_text(encoding="utf-8"), old, new, str(path)), encoding="utf-8")
    facts = {"mhz": float(new.output_mhz), "pll": {
        "text": str(new), "primitive": new.primitive, "input_mhz": float(new.input_mhz),
        "vco_mhz": float(new.vco_mhz), "parameters": dict(new.parameters)}}
    (folder / NOTE).write_text(json.dumps(facts, indent=1))


def clock_facts(folder: Path) -> dict[str, Any]:
    """`mhz`, the clock of the core, and `pll`, what makes it, or None."""
    facts: dict[str, Any] = json.loads((folder / NOTE).read_text(encoding="utf-8"))
    return facts


def pll_parameters(netlist: Path) -> dict[str, int] | None:
    """The dividers of the PLL in a netlist of yosys; None where there is none."""
    cells = json.loads(netlist.read_text(encoding="utf-8"))["modules"]["top"]["cells"].values()
    found = [cell for cell in cells if cell["type"] in PRIMITIVES]
    if not found:
        return None
    if len(found) > 1:
        raise HwflowError(f"the design must have one PLL at most, not {len(found)}; see {netlist}")
    return {name: int(value, 2) for name, value in found[0]["parameters"].items()
            if value and set(value) <= {"0", "1"}}


def output_of(board: Board, parameters: Mapping[str, int]) -> Fraction:
    """The clock that these dividers make of the oscillator, MHz."""
    p = parameters
    if board.family == "ecp5":
        ratio = Fraction(p["CLKFB_DIV"] * p["CLKOP_DIV"], p["CLKI_DIV"] * p["CLKOS_DIV"])
    elif board.family == "ice40":
        ratio = Fraction(p["DIVF"] + 1, (p["DIVR"] + 1) << p["DIVQ"])
    else:
        ratio = Fraction(p["FBDIV_SEL"] + 1, p["IDIV_SEL"] + 1)
    return exact(board.clock_mhz) * ratio


def retuned(family: str, layout: str, old: Mapping[str, int], new: PllSettings, source: str) -> str:
    """`layout`, the text of a routed design, with the dividers `new` in place of `old`.

    `source` names the file in messages.  Raises HwflowError where the dividers in it are not `old`.
    """
    return TUNERS[family](layout, old, new, source)


def unlike(source: str, what: str) -> HwflowError:
    return HwflowError(f"{source}: {what} of the PLL must be what was synthesized; delete the file's folder and run "
                       f"synth again")


def ecp5(layout: str, old: Mapping[str, int], new: PllSettings, source: str) -> str:
    """Words of the PLL's tiles: dividers less one, phases as they are, the most significant bit first."""
    lines = layout.split("\n")
    for name, value in new.parameters:
        less = 1 if name.endswith("_DIV") else 0
        places = [k for k, line in enumerate(lines) if line.startswith(f"word: {name} ")]
        if len(places) != 1:
            raise unlike(source, name)
        bits = lines[places[0]].split()[2]
        if int(bits, 2) != old[name] - less:
            raise unlike(source, name)
        lines[places[0]] = f"word: {name} {value - less:0{len(bits)}b}"
    return "\n".join(lines)


#: Row and column of the bits PLLCONFIG_1 to PLLCONFIG_9 in an IO tile.
PLLCONFIG = ((0, 2), (0, 3), (3, 3), (2, 2), (2, 3), (5, 3), (4, 2), (4, 3), (7, 3))
#: These nine of the IO tile two to the left of the PLL, then those of the one between, from the lowest bit on.
ICE40_BITS = [(-2, bit) for bit in PLLCONFIG] + [(-1, bit) for bit in PLLCONFIG[:8]]
ICE40_WIDTHS = {"DIVR": 4, "DIVF": 7, "DIVQ": 3, "FILTER_RANGE": 3}
#: Where the PLLs are, by what the layout calls the device.
ICE40_PLLS = {"5k": ((12, 31),), "8k": ((16, 0), (16, 33))}


def ice40(layout: str, old: Mapping[str, int], new: PllSettings, source: str) -> str:
    """Bits of the IO tiles beside the PLL."""
    lines = layout.split("\n")
    device = next((line.split()[1] for line in lines if line.startswith(".device ")), "")
    tiles = {tuple(map(int, line.split()[1:])): k + 1 for k, line in enumerate(lines) if line.startswith(".io_tile ")}
    found = []
    for x, y in ICE40_PLLS.get(device, ()):
        places = [(tiles[x + beside, y] + row, column) for beside, (row, column) in ICE40_BITS]
        if [lines[line][column] for line, column in places] == ice40_bits(old):
            found.append(places)
    if len(found) != 1:
        raise unlike(source, "dividers")
    for (line, column), bit in zip(found[0], ice40_bits(dict(new.parameters)), strict=True):
        lines[line] = lines[line][:column] + bit + lines[line][column + 1:]
    return "\n".join(lines)


def ice40_bits(parameters: Mapping[str, int]) -> list[str]:
    """All dividers, each from its lowest bit on."""
    return [str(parameters[name] >> k & 1) for name, width in ICE40_WIDTHS.items() for k in range(width)]


def gowin(layout: str, old: Mapping[str, int], new: PllSettings, source: str) -> str:
    """Parameters of the cell, as many binary digits as before."""
    document = json.loads(layout)
    cells = [cell for cell in document["modules"]["top"]["cells"].values() if cell["type"] == "rPLL"]
    if len(cells) != 1:
        raise unlike(source, "cell")
    parameters = cells[0]["parameters"]
    for name, value in new.parameters:
        before = parameters.get(name, "")
        if not before or set(before) - {"0", "1"} or int(before, 2) != old[name]:
            raise unlike(source, name)
        parameters[name] = f"{value:0{len(before)}b}"
    return json.dumps(document)


TUNERS: dict[str, Callable[[str, Mapping[str, int], PllSettings, str], str]] = {
    "ecp5": ecp5, "ice40": ice40, "gowin": gowin}
