"""The driver, unchanged, on the RTL of a whole board: host, UART, packets, core, packets, UART, host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hwflow_rtl.io.board_top import BoardTop
from hwflow_rtl.io.clocking import Clocking
from hwflow_rtl.io.transports import Uart
from hwflow_sim.board import CompiledBoard, LinePort, SimulatedBoard, UartLine, compile_board, rtl_design

import hwflow.host
from hwflow import golden, hls, onnx
from hwflow.host import LinkFailed, Patience
from hwflow.host.identity import identity
from hwflow.onnx.model import Model
from hwflow.pipeline.verilog import simulation_technology
from hwflow.quantize import Quantized, quantize
from hwflow.stages.kinds import stage_of
from hwflow.synth import ends_of, load_board
from tests.e2e.networks import rows_for, small_network, two_by_two
from tests.host.models import leave_design

pytestmark = pytest.mark.slow  # Verilator and a compiler

#: Clock cycles of a bit: a line much faster than a board's, or the tests would wait for bits.
DIVIDER = 8
#: For the simulation, whose seconds are not those of the clock on the wall.
PATIENCE = Patience(silence=20.0, stall=60.0)


@pytest.fixture(scope="module")
def simulated(quantized: Quantized, tmp_path_factory: pytest.TempPathFactory,
              cache: Path) -> tuple[CompiledBoard, Path]:
    """The program that simulates the small network's board, and the folder of its design."""
    return simulated_board(quantized, tmp_path_factory.mktemp("board"), cache)


@pytest.fixture(scope="module")
def branching(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> tuple[Quantized, CompiledBoard, Path]:
    """A network of two inputs and two outputs, and the same of it."""
    model = two_by_two()
    quantized = quantize(onnx.simplify(model), rows_for(model, 20))
    return quantized, *simulated_board(quantized, tmp_path_factory.mktemp("branching"), cache)


def simulated_board(quantized: Quantized, place: Path, cache: Path) -> tuple[CompiledBoard, Path]:
    folder = leave_design(quantized, place / "build")
    graph = quantized.graph
    foldings = [next(iter(stage_of(graph, layer).foldings())) for layer in graph.layers]
    plan = hls.make_plan(graph, foldings, load_board("ulx3s_85f").technology())
    technology = simulation_technology(plan)
    top = BoardTop(core=hls.lower(graph, plan, technology), ends=ends_of(plan), technology=technology,
                   clocking=Clocking(technology=technology, board_mhz=25.0, has_reset=True),
                   transport=Uart(divider=DIVIDER), identity=identity(graph, plan))
    compiled = compile_board(rtl_design(top, technology.roms), folder=place / "board", cache=cache)
    return compiled, folder


@pytest.fixture
def board(simulated: tuple[CompiledBoard, Path]) -> Iterator[SimulatedBoard]:
    with SimulatedBoard(simulated[0], line=UartLine(DIVIDER)) as board:
        yield board


def require_golden(quantized: Quantized, driver: hwflow.host.OpenBoard, rows: int,
                   network: Callable[[], Model] = small_network) -> None:
    inputs = rows_for(network(), rows)
    made = driver.run(inputs)
    for name, values in golden.as_batch(golden.predict(quantized, inputs)).items():
        np.testing.assert_array_equal(made[name], values)


def test_what_golden_gives(quantized, simulated, board):
    port = LinePort(board)
    with hwflow.host.open(port, design=simulated[1], clock=port.clock) as driver:
        for rows in (1, 30, 7):
            require_golden(quantized, driver, rows)
        assert driver.statistics.losses == 0
        assert driver.statistics.polls == 0
    assert board.facts.broken == 0


def test_a_hundred_frames_with_bit_errors(quantized, simulated, board):
    """One bit of 10 000 wrong in each direction: no wrong answer, and the losses are reported."""
    board.inject(1e-4, 5)
    port = LinePort(board)
    with hwflow.host.open(port, design=simulated[1], clock=port.clock) as driver:
        require_golden(quantized, driver, 100)
        seen = driver.statistics
    assert board.facts.flipped_to_board > 0
    assert board.facts.flipped_from_board > 0
    assert seen.losses > 0


def test_a_reset_in_the_middle(quantized, simulated, board):
    port = LinePort(board)
    with hwflow.host.open(port, design=simulated[1], clock=port.clock) as driver:
        with pytest.raises(LinkFailed, match="started anew"):
            driver.run(rows_for(small_network(), 60), lambda done, total: board.reset() if done == 20 else None)
        require_golden(quantized, driver, 5)


def test_behind_a_pseudo_terminal(quantized, simulated, board):
    with hwflow.host.open(board.pty(), design=simulated[1], patience=PATIENCE) as driver:
        require_golden(quantized, driver, 30)
        assert driver.statistics.losses == 0


def test_behind_a_pseudo_terminal_with_bit_errors(quantized, simulated, board):
    board.inject(1e-4, 9)
    with hwflow.host.open(board.pty(), design=simulated[1], patience=PATIENCE) as driver:
        require_golden(quantized, driver, 100)
        assert driver.statistics.losses > 0


@pytest.mark.parametrize("rate", [0.0, 3e-4])
def test_two_inputs_and_two_outputs(branching, rate):
    """Inputs follow each other on the line, and so do outputs, whatever the core takes and gives first."""
    quantized, compiled, folder = branching
    assert (len(quantized.graph.inputs), len(quantized.graph.outputs)) == (2, 2)
    with SimulatedBoard(compiled, line=UartLine(DIVIDER), error_rate=rate, error_seed=3) as board:
        port = LinePort(board)
        with hwflow.host.open(port, design=folder, clock=port.clock) as driver:
            for rows in (1, 25, 4):
                require_golden(quantized, driver, rows, two_by_two)
            assert (driver.statistics.losses > 0) == (rate > 0)
            with pytest.raises(LinkFailed, match="started anew"):
                driver.run(rows_for(two_by_two(), 60), lambda done, total: board.reset() if done == 20 else None)
            require_golden(quantized, driver, 5, two_by_two)
