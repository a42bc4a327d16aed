"""The bitstream of a board's design, read back as a netlist with the design's ports."""

from __future__ import annotations

import json
from pathlib import Path

from hwflow_base.errors import HwflowError
from hwflow_base.files.cache import cached_step, digest

from ..board_memories import BoardMemory
from ..board_ports import ports_of
from ..boards import Board
from ..clock import PRIMITIVES, LayoutClock, output_of
from ..families import FAMILIES
from ..top import leds_of
from ..yosys_json import Module, numbers_of
from .fabric import Fabric

NETLIST = "netlist.json"


def netlist_of(bitstream: Path, board: Board, folder: Path, *, clock: LayoutClock, memory: BoardMemory | None = None
               ) -> Path:
    """The netlist of the cells that `bitstream` configures in the FPGA of `board`, in `folder`, as yosys writes one.

    Its ports are those of the board file, on whatever pads the bits say.  `clock` is what the report of the design
    promises.  HwflowError where the bits are no design with these ports and this clock.
    """
    def make(place: Path) -> None:
        fabric = FAMILIES[board.family].read_back(board, bitstream)
        require_pads(fabric, board, memory)
        module = fabric.module(pads_of(board, memory))
        require_clock(module, board, clock, bitstream)
        (place / NETLIST).write_text(json.dumps({"modules": {"top": module}}), encoding="utf-8")

    cached_step(folder, digest(bitstream, repr(board), repr(memory), repr(clock)), make)
    return folder / NETLIST


def require_pads(fabric: Fabric, board: Board, memory: BoardMemory | None) -> None:
    """A problem for each pad whose pull or I/O standard is not the board file's, or not the usual pull where that has
    none."""
    for pin in ports_of(board, leds=leds_of(board), memory=memory).values():
        standards = fabric.standards.get(pin.name)
        if standards is not None and pin.io_standard not in standards:
            found = " or ".join(sorted(standards))
            fabric.problem(f"pad {pin.name}",
                           f"its I/O standard must be '{pin.io_standard}', as the board file has it, not {found}")
        wanted, pull = pin.pull or FAMILIES[board.family].usual_pull, fabric.pulls.get(pin.name)
        if pull is not None and pull != wanted:
            fabric.problem(f"pad {pin.name}", f"its pull must be '{wanted}', as the board file has it, not '{pull}'")


def pads_of(board: Board, memory: BoardMemory | None) -> dict[str, list[str]]:
    """The pads of each port, from its lowest bit on."""
    pads: dict[str, list[str]] = {}
    for bit, pin in ports_of(board, leds=leds_of(board), memory=memory).items():
        pads.setdefault(bit.partition("[")[0], []).append(pin.name)
    return pads


def require_clock(module: Module, board: Board, clock: LayoutClock, bitstream: Path) -> None:
    """HwflowError where no PLL of `module` makes the core's clock of the oscillator, and one should."""
    plls = [cell for cell in module["cells"].values() if cell["type"] in PRIMITIVES]
    made = [float(output_of(board, numbers_of(cell))) for cell in plls]
    if clock.pll is not None and clock.mhz not in made:
        found = " and ".join(f"{mhz:g} MHz" for mhz in made) or "none"
        raise HwflowError(f"a PLL of the bitstream must make {clock.mhz:g} MHz, as the report of the design says, not "
                          f"{found}", "run `hwflow synth` again", where=str(bitstream))
