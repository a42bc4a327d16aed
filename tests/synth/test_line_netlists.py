"""Transports as the cells of each family: the netlist of a board whose line is SPI, or a serial line that is set."""

from __future__ import annotations

from pathlib import Path

import pytest
from hwflow_rtl.io import End, Ends
from hwflow_sim.board import (
    LinePort,
    RatedPort,
    SimulatedBoard,
    SpiLine,
    UartLine,
    compile_board,
    netlist_design,
    read_netlist,
)

from hwflow.host.host_link import HostLink
from hwflow.host.line_rate import raise_rate, start_safe
from hwflow.synth import board_top, load_board
from hwflow.synth.netlist import make_netlist
from hwflow.synth.toolchain import Job, tools_of_family
from hwflow.synth.top import design_text
from tests.host.digest_core import IDENTITY, DigestCore, digests, frames

BYTES_IN, BYTES_OUT = 300, 10

pytestmark = pytest.mark.slow  # yosys, Verilator and a compiler


@pytest.mark.parametrize("kind", ["uart", "spi"])
@pytest.mark.parametrize("name", ["icebreaker", "ulx3s_12f", "tangnano9k"])
def test_frames_through_the_cells(name: str, kind: str, tmp_path: Path, cache: Path) -> None:
    board = load_board(name).with_transport(kind)
    ends = Ends((End(1, 8, BYTES_IN),), (End(1, 8, BYTES_OUT),))
    top = board_top(DigestCore(BYTES_IN, BYTES_OUT), board, ends, identity=IDENTITY)
    make_netlist(Job(board, tmp_path, tools_of_family(board.family), lambda text: None), design_text(top))
    cells = read_netlist(tmp_path / "netlist" / "netlist.json", board.family)
    clock, options = board.clock_mhz * 1e6, board.transport.facts().options
    line = UartLine(clock / options["baud"]) if kind == "uart" else SpiLine(4)
    design = netlist_design(cells, reset_active_low=board.reset_active_low, line=type(line))
    compiled = compile_board(design, folder=tmp_path / "board", cache=cache)
    with SimulatedBoard(compiled, line=line) as simulated:
        while simulated.facts.cycles < 10_000:
            simulated.wait(b"", 1000)
        port = RatedPort(simulated, clock) if kind == "uart" else LinePort(simulated)
        link = HostLink(port, clock=port.clock, seed=1)
        start_safe(port)
        assert link.reset().design == IDENTITY
        if kind == "uart":
            assert raise_rate(link, options) == 3_000_000
        data = frames(10, BYTES_IN)
        assert link.exchange(data) == digests(data, BYTES_IN, BYTES_OUT)
        assert link.statistics.losses == 0
