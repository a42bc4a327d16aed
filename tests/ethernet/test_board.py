"""The driver, unchanged, on the RTL of a whole board with Ethernet: sockets or a network, PHY, packets, core."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hwflow_rtl.io import BoardTop, Clocking
from hwflow_rtl.io.transports import Udp
from hwflow_sim.board import CompiledBoard, NetworkPort, RgmiiLine, SimulatedBoard, compile_board, rtl_design

import hwflow.host
from hwflow import golden, hls
from hwflow.host import Patience
from hwflow.host.identity import identity
from hwflow.host.transport import TransportFacts
from hwflow.pipeline.verilog import simulation_technology
from hwflow.quantize import Quantized
from hwflow.stages.kinds import stage_of
from hwflow.synth import ends_of, load_board
from tests.e2e.networks import rows_for, small_network
from tests.ethernet.echo import ADDRESS, START_CYCLES
from tests.ethernet.faults import FaultyNetwork
from tests.ethernet.loopback import served
from tests.host.models import leave_design

pytestmark = pytest.mark.slow  # Verilator and a compiler

#: Cycles of the PHY's clock in one of the core's: 125 MHz beside 50 MHz.
RATIO = 2.5
#: In a network that is bad, and how many go at a time.
FRAMES, AT_ONCE = 1_000, 500


@pytest.fixture(scope="module")
def simulated(quantized: Quantized, tmp_path_factory: pytest.TempPathFactory,
              cache: Path) -> tuple[CompiledBoard, Path]:
    """The program that simulates the small network's board, and the folder of its design."""
    place = tmp_path_factory.mktemp("board")
    folder = leave_design(quantized, place / "build", transport=TransportFacts("udp", 1e8, {"address": ADDRESS.ip}))
    graph = quantized.graph
    foldings = [next(iter(stage_of(graph, layer).foldings())) for layer in graph.layers]
    plan = hls.make_plan(graph, foldings, load_board("ulx3s_85f").technology())
    technology = simulation_technology(plan)
    top = BoardTop(core=hls.lower(graph, plan, technology), ends=ends_of(plan), technology=technology,
                   clocking=Clocking(technology=technology, board_mhz=50.0, line_mhz=125.0, has_reset=True),
                   transport=Udp(address=ADDRESS, technology=technology), identity=identity(graph, plan))
    design = rtl_design(top, technology.roms, line=RgmiiLine)
    return compile_board(design, folder=place / "board", cache=cache), folder


def require_golden(quantized: Quantized, driver: hwflow.host.OpenBoard, rows: int) -> None:
    inputs = rows_for(small_network(), rows)
    made = driver.run(inputs)
    for name, values in golden.as_batch(golden.predict(quantized, inputs)).items():
        np.testing.assert_array_equal(made[name], values)


def started(compiled: CompiledBoard, **more) -> SimulatedBoard:
    return SimulatedBoard(compiled, line=RgmiiLine(RATIO), **more)


def test_what_golden_gives(quantized, simulated) -> None:
    compiled, folder = simulated
    with started(compiled) as board:
        board.wait(b"", START_CYCLES)
        port = NetworkPort(board, ADDRESS.ip, ADDRESS.port)
        with hwflow.host.open(port, design=folder, clock=port.clock) as driver:
            for rows in (1, 300, 7):
                require_golden(quantized, driver, rows)
            assert driver.statistics.losses == 0
            assert driver.statistics.polls == 0
        assert board.facts.broken == 0


def test_behind_a_socket(quantized, simulated) -> None:
    compiled, folder = simulated
    with started(compiled) as board:
        board.wait(b"", START_CYCLES)
        with served(NetworkPort(board, ADDRESS.ip, ADDRESS.port)) as name, \
                hwflow.host.open(name, design=folder, patience=Patience(silence=20.0, stall=60.0)) as driver:
            require_golden(quantized, driver, 300)


@pytest.mark.parametrize("rate, bits", [(1e-3, 1e-6), (2e-2, 2e-6)])
def test_a_bad_network(quantized, simulated, rate: float, bits: float) -> None:
    """Lost, doubled, reordered datagrams and wrong bits: no wrong answer, all losses repaired."""
    compiled, folder = simulated
    with started(compiled, error_seed=5) as board:
        board.wait(b"", START_CYCLES)
        port = FaultyNetwork(board, ADDRESS.ip, ADDRESS.port, rate=rate, seed=7)
        with hwflow.host.open(port, design=folder, clock=port.clock) as driver:
            board.inject(bits, 5)
            for _ in range(FRAMES // AT_ONCE):
                require_golden(quantized, driver, AT_ONCE)
            seen = driver.statistics
        assert board.facts.flipped_to_board > 0
        assert board.facts.flipped_from_board > 0
        assert seen.losses > 0
        assert rate < 1e-2 or all(port.faults[fault] for fault in ("lost", "doubled", "late"))
        print(port.faults, seen.facts(), board.facts, sep="\n")
