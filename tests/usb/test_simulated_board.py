"""A simulated board on the USB, which a host keeps configured: the one of `hwflow sim --netlist`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hwflow_sim.board import LinePort, SimulatedBoard, UlpiLine, UsbLine, compile_board, rtl_design

from hwflow.host import Patience
from hwflow.host.host_link import HostLink
from tests.usb.designs import DESIGN, Stretch, board

#: Cycles in which a host has surely configured the device: the chirp of high speed takes the longest.
CONFIGURED = 500_000
LINES = {"full_speed": UsbLine(), "ulpi": UlpiLine()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["full_speed", "ulpi"])
def test_frames_through_a_simulated_board(kind: str, tmp_path: Path, cache: Path) -> None:
    line = LINES[kind]
    compiled = compile_board(rtl_design(board(kind, 64, 8), {}, line=type(line)), folder=tmp_path, cache=cache)
    data = random.Random(1).randbytes(64 * 40)
    wanted = Stretch.model(data, 64, 8)
    with SimulatedBoard(compiled, line=line) as simulated:
        simulated.wait(b"", CONFIGURED)
        port = LinePort(simulated)
        link = HostLink(port, patience=Patience(5.0, 20.0), clock=port.clock, seed=1)
        assert link.reset().design == DESIGN
        assert link.exchange(data) == wanted
        assert link.statistics.losses == 0
        simulated.inject(1e-5, 3)
        assert link.exchange(data) == Stretch.model(data * 2, 64, 8)[len(wanted):]
        assert simulated.facts.flipped_to_board > 0
