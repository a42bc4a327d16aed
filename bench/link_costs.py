"""What a host link takes on its own, and the clock at which it can be routed.

    python -m bench.link_costs [--seeds N] [--folder build/link_costs]

Links for lines with 12 cycles and with one cycle a byte, of the sizes that FPGAs of both kinds of RAM block have, are
synthesized; that for datagrams is routed alone on an LFE5U-25F, speed 6, all its ports at pins.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from hwflow_rtl.io.link.host_link import HostLink
from hwflow_rtl.io.link.shape import LinkShape

from bench.sections import table
from hwflow.synth import Board, load_board
from hwflow.synth.toolchain import ToolRun, run_tool, tools_of_family
from tests.synth.side_by_side import used_by

#: What is asked of the router, MHz, and what it says in the end.
AIM, FOUND = 125, re.compile(r"Max frequency for clock.*: ([0-9.]+) MHz")
SMALL, LARGE = LinkShape(), LinkShape(payload=512, room=2048)
DATAGRAMS = LinkShape(payload=1463, room=8192, fast=True)
ROWS = (("icebreaker", SMALL), ("icebreaker", LinkShape(settings=True)), ("colorlight_i5", LARGE),
        ("colorlight_i5", LinkShape(512, 2048, settings=True)), ("colorlight_i5", LinkShape(512, 2048, fast=True)),
        ("colorlight_i5", DATAGRAMS))


def link_of(shape: LinkShape, board: Board) -> HostLink:
    return HostLink(shape=shape, technology=board.technology(), identity=bytes(range(8)), bytes_in=3072, bytes_out=10)


def clocks(board: Board, folder: Path, seeds: int) -> list[float]:
    """Of the netlist in `folder`, routed from so many seeds."""
    tool, found = tools_of_family("ecp5")["nextpnr-ecp5"], []
    for seed in range(1, seeds + 1):
        lines: list[str] = []
        run_tool(tool, ["--25k", "--speed", "6", "--package", "CABGA381", "--json", "netlist/netlist.json", "--freq",
                        str(AIM), "--seed", str(seed), "--lpf-allow-unconstrained", "--timing-allow-fail"],
                 ToolRun(folder, folder / f"seed{seed}.log", "routing"), progress=print, listen=lines.append)
        found.append(float([match[1] for match in map(FOUND.search, lines) if match][-1]))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="of the routed link")
    parser.add_argument("--folder", type=Path, default=Path("build/link_costs"), help="keeps the netlists")
    options = parser.parse_args()
    rows = []
    for number, (name, shape) in enumerate(ROWS):
        board, folder = load_board(name), options.folder.resolve() / str(number)
        used, = used_by([link_of(shape, board)], board, folder)
        routed = clocks(board, folder, options.seeds) if shape is DATAGRAMS else []
        rows.append([board.family, str(shape.payload), str(shape.room), "1" if shape.fast else "12",
                     "yes" if shape.settings else "", str(used.lut), str(used.ff), str(used.ram),
                     ", ".join(f"{mhz:.1f}" for mhz in routed)])
    print(table(("family", "payload", "room", "cycles a byte", "settings", "LUT", "FF", "RAM blocks", "MHz"), rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
