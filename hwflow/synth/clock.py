"""The clock of a routed design: the highest that its PLL can make, set by new dividers without routing again.

Place and route aims at a clock above what any design reaches; only after it is known what the design stands.  The PLL's
dividers are a few words of the routed design, and nothing in it depends on them: the serial line has the oscillator's
clock.  Before they are replaced, what stands there must be the dividers that were synthesized.
A design that was routed with the new dividers from the start gives the same file: the tests compare both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from hwflow_base.errors import HwflowError
from hwflow_base.files.facts import plain, read_facts
from hwflow_rtl.vendor.pll import PllSettings, exact

from .boards import Board
from .families import FAMILIES
from .options import ON_BOARD
from .report import PllFacts, read_nextpnr_report
from .yosys_json import numbers_of

#: The note that `set_clock` leaves beside the layout.
NOTE = "clock.json"
#: How the name of the core's PLL begins in a netlist; that of a memory has dividers for good.
CORE_PLL = "clocking.source."
#: The PLLs of all families.
PRIMITIVES = tuple(cell for family in FAMILIES.values() for cell in family.pll_cells)


@dataclass(frozen=True)
class LayoutClock:
    """The clock of the core, and the PLL that makes it, None where the oscillator does."""

    mhz: float
    pll: PllFacts | None = None


def goal_pll(board: Board, goal_mhz: float) -> PllSettings:
    """The PLL that a design is routed with: as near below the goal of place and route as it can.

    Raises HwflowError where no PLL can make such a clock.
    """
    pll = board.technology().pll_settings(board.clock_mhz, goal_mhz)
    if pll is None:
        raise unreachable(board, goal_mhz)
    return pll


def unreachable(board: Board, mhz: float | Fraction) -> HwflowError:
    return HwflowError(
        f"the clock must be one that the PLL of {board.device} can make of {board.clock_mhz:g} MHz, not "
        f"{float(mhz):g} MHz or less",
        f"choose another with --clock, or run on the oscillator with --clock {ON_BOARD}",
    )


def has_pll(text: str) -> bool:
    """Whether a PLL makes the core's clock in a design in RTLIL."""
    kinds = "|".join(PRIMITIVES)
    # A module of its own has the PLL; that of a memory is the other one.
    source = re.search(r"^module \\top\.clocking\.source$.*?^end$", text, re.MULTILINE | re.DOTALL)
    return source is not None and bool(re.search(rf"cell \\(?:{kinds}) ", source[0]))


def require_reachable(board: Board, text: str, mhz: float) -> None:
    """HwflowError where the design `text` cannot have a core of `mhz`: before place and route, which take minutes."""
    if not has_pll(text):
        raise HwflowError(
            f"the clock of a design without a PLL must be the oscillator's {board.clock_mhz:g} MHz, not {mhz:g} MHz",
            "give it a PLL, or leave the clock out",
        )
    if board.technology().pll_settings(board.clock_mhz, mhz) is None:
        raise unreachable(board, mhz)


def set_clock(folder: Path, board: Board, netlist: Path, wanted_mhz: float | None, limit_mhz: float | None = None
              ) -> None:
    """Give the routed design in `folder` its clock: new dividers in the layout, and a note for `layout_clock`.

    The clock is the highest of the PLL that is not above `wanted_mhz`, or, where that is None, not above the routed
    clock, the device's limits and `limit_mhz`.  `netlist` is what was routed; without a PLL in it nothing but the note
    is written.
    """
    old = pll_parameters(netlist)
    if old is None:
        (folder / NOTE).write_text(json.dumps(plain(LayoutClock(board.clock_mhz))))
        return
    if wanted_mhz is None:
        usable = read_nextpnr_report(folder / "report.json", board, flip_flops=0).usable_mhz
        wanted_mhz = float(output_of(board, old)) if usable is None else usable
        wanted_mhz = wanted_mhz if limit_mhz is None else min(wanted_mhz, limit_mhz)
    new = board.technology().pll_settings(board.clock_mhz, wanted_mhz)
    if new is None:
        raise unreachable(board, wanted_mhz)
    family = FAMILIES[board.family]
    path = folder / family.layout
    path.write_text(family.retuned(path.read_text(encoding="utf-8"), old, new, str(path)), encoding="utf-8")
    pll = PllFacts(str(new), new.primitive, float(new.input_mhz), float(new.vco_mhz), dict(new.parameters))
    (folder / NOTE).write_text(json.dumps(plain(LayoutClock(float(new.output_mhz), pll)), indent=1))


def layout_clock(folder: Path) -> LayoutClock:
    """The clock in the note that `set_clock` left in `folder`."""
    return read_facts((folder / NOTE).read_bytes(), LayoutClock)


def pll_parameters(netlist: Path) -> dict[str, int] | None:
    """The dividers of the core's PLL in a netlist of yosys; None where there is none."""
    cells = json.loads(netlist.read_text(encoding="utf-8"))["modules"]["top"]["cells"]
    plls = [cell for name, cell in cells.items() if cell["type"] in PRIMITIVES and name.startswith(CORE_PLL)]
    if not plls:
        return None
    if len(plls) > 1:
        raise HwflowError(f"the core must have one PLL at most, not {len(plls)}", f"see {netlist}")
    return numbers_of(plls[0])


def output_of(board: Board, parameters: Mapping[str, int]) -> Fraction:
    """The clock that these dividers make of the oscillator, MHz."""
    return exact(board.clock_mhz) * FAMILIES[board.family].pll_ratio(parameters)
