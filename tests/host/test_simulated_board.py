"""The driver, unchanged, on the RTL of a whole board: host, transport, packets, core, packets, transport, host.

Over a serial line and over Ethernet, as a port in memory and as other programs reach it; with errors and with resets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hwflow_rtl.io.board_top import BoardTop
from hwflow_rtl.io.clocking import Clocking
from hwflow_rtl.io.transports import Transport, Uart, Udp
from hwflow_rtl.vendor import Technology
from hwflow_sim.board import (
    CompiledBoard,
    LinePort,
    NetworkPort,
    RgmiiLine,
    SimulatedBoard,
    UartLine,
    compile_board,
    rtl_design,
)

import hwflow.host
from hwflow import hls, onnx
from hwflow.host import LinkFailed, Patience
from hwflow.host.identity import TransportFacts, identity
from hwflow.onnx.model import Model
from hwflow.pipeline.verilog import simulation_technology
from hwflow.quantize import Quantized, quantize
from hwflow.stages.kinds import stage_of
from hwflow.synth import ends_of, load_board
from tests.e2e.networks import rows_for, small_network, two_by_two
from tests.ethernet.echo import ADDRESS, START_CYCLES
from tests.ethernet.faults import FaultyNetwork
from tests.ethernet.loopback import served
from tests.host.models import BAUD, leave_design, require_golden

pytestmark = pytest.mark.slow  # Verilator and a compiler

#: Clock cycles of a bit: a line much faster than a board's, or the tests would wait for bits.
DIVIDER = 8
#: For the simulation, whose seconds are not those of the clock on the wall.
PATIENCE = Patience(silence=20.0, stall=60.0)
#: In a network that is bad: probabilities of faults, and of wrong bits.
BAD_NETWORKS = ((1e-3, 1e-6), (2e-2, 2e-6))


@dataclass(frozen=True)
class Way:
    """A way to the board: its gateware, its line, cycles until it has started, and its end at the host."""

    gateware: Callable[[Technology], Transport]
    facts: TransportFacts
    line: UartLine | RgmiiLine
    port: Callable[[SimulatedBoard], Any]
    #: What another program opens.
    name: Callable[[SimulatedBoard], AbstractContextManager[str]]
    clocks: dict[str, float] = field(default_factory=lambda: {"board_mhz": 25.0})
    start: int = 0


#: Cycles of the PHY's clock in one of the core's: 125 MHz beside 50 MHz.
WAYS = {
    "uart": Way(lambda technology: Uart(divider=DIVIDER), TransportFacts.of_serial_line(BAUD), UartLine(DIVIDER),
                LinePort, lambda board: nullcontext(board.pty())),
    "udp": Way(lambda technology: Udp(address=ADDRESS, technology=technology),
               TransportFacts("udp", 1e8, {"address": ADDRESS.ip}), RgmiiLine(2.5),
               lambda board: NetworkPort(board, ADDRESS.ip, ADDRESS.port),
               lambda board: served(NetworkPort(board, ADDRESS.ip, ADDRESS.port)),
               {"board_mhz": 50.0, "line_mhz": 125.0}, START_CYCLES)}


@dataclass(frozen=True)
class Simulated:
    """The program that simulates a network's board, and the folder of its design."""

    way: Way
    network: Callable[[], Model]
    quantized: Quantized
    compiled: CompiledBoard
    folder: Path

    @contextmanager
    def started(self, **more) -> Iterator[SimulatedBoard]:
        with SimulatedBoard(self.compiled, line=self.way.line, **more) as board:
            if self.way.start:
                board.wait(b"", self.way.start)
            yield board

    def opened(self, port: Any) -> hwflow.host.OpenBoard:
        return hwflow.host.open(port, design=self.folder, clock=port.clock)

    def require_golden(self, driver: hwflow.host.OpenBoard, rows: int) -> None:
        require_golden(self.quantized, driver, rows_for(self.network(), rows))

    def require_a_reset_is_seen(self, driver: hwflow.host.OpenBoard, board: SimulatedBoard) -> None:
        """In the middle of a run; the board is there for the next one."""
        with pytest.raises(LinkFailed, match="started anew"):
            driver.run(rows_for(self.network(), 60), lambda done, total: board.reset() if done == 20 else None)
        self.require_golden(driver, 5)


def simulated_board(kind: str, network: Callable[[], Model], place: Path, cache: Path) -> Simulated:
    way = WAYS[kind]
    quantized = quantize(onnx.simplify(network()), rows_for(network(), 20))
    folder, graph = leave_design(quantized, place / "build", transport=way.facts), quantized.graph
    foldings = [next(iter(stage_of(graph, layer).foldings())) for layer in graph.layers]
    plan = hls.make_plan(graph, foldings, load_board("ulx3s_85f").technology())
    technology = simulation_technology(plan)
    top = BoardTop(core=hls.lower(graph, plan, technology), ends=ends_of(plan), technology=technology,
                   clocking=Clocking(technology=technology, has_reset=True, **way.clocks),
                   transport=way.gateware(technology), identity=identity(graph, plan))
    compiled = compile_board(rtl_design(top, technology.roms, line=type(way.line)), folder=place / "board", cache=cache)
    return Simulated(way, network, quantized, compiled, folder)


@pytest.fixture(scope="module", params=WAYS)
def simulated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Simulated:
    return simulated_board(request.param, small_network, tmp_path_factory.mktemp("board"), cache)


@pytest.fixture
def board(simulated: Simulated) -> Iterator[SimulatedBoard]:
    with simulated.started() as board:
        yield board


def test_what_golden_gives(simulated: Simulated, board: SimulatedBoard) -> None:
    with simulated.opened(simulated.way.port(board)) as driver:
        for rows in (1, 300, 7):
            simulated.require_golden(driver, rows)
        assert driver.statistics.losses == driver.statistics.polls == 0
    assert board.facts.broken == 0


def test_other_programs_reach_it(simulated: Simulated, board: SimulatedBoard) -> None:
    """Behind a pseudo-terminal, and behind a socket."""
    with (simulated.way.name(board) as name,
          hwflow.host.open(name, design=simulated.folder, patience=PATIENCE) as driver):
        simulated.require_golden(driver, 100)
        assert driver.statistics.losses == 0


@pytest.mark.parametrize("rate, bits", [(0.0, 1e-4), *BAD_NETWORKS])
def test_a_bad_line(simulated: Simulated, board: SimulatedBoard, rate: float, bits: float) -> None:
    """Wrong bits; of a network also lost, doubled and reordered datagrams: no wrong answer, all losses are repaired."""
    if (rate > 0) != isinstance(simulated.way.line, RgmiiLine):
        pytest.skip("of the other line")
    port = FaultyNetwork(board, ADDRESS.ip, ADDRESS.port, rate=rate, seed=7) if rate else simulated.way.port(board)
    with simulated.opened(port) as driver:
        board.inject(bits, 5)
        for _ in range(2 if rate else 1):
            simulated.require_golden(driver, 500 if rate else 100)
        seen = driver.statistics
    assert board.facts.flipped_to_board > 0
    assert board.facts.flipped_from_board > 0
    assert seen.losses > 0
    assert rate < 1e-2 or all(port.faults[fault] for fault in ("lost", "doubled", "late"))


@pytest.mark.parametrize("simulated", ["uart"], indirect=True)
def test_a_reset_in_the_middle(simulated: Simulated, board: SimulatedBoard) -> None:
    with simulated.opened(LinePort(board)) as driver:
        simulated.require_a_reset_is_seen(driver, board)


def test_two_inputs_and_two_outputs(tmp_path: Path, cache: Path) -> None:
    """Inputs follow each other on the line, and so do outputs, whatever the core takes and gives first."""
    made = simulated_board("uart", two_by_two, tmp_path, cache)
    assert (len(made.quantized.graph.inputs), len(made.quantized.graph.outputs)) == (2, 2)
    for rate in (0.0, 3e-4):
        with made.started(error_rate=rate, error_seed=3) as board, made.opened(LinePort(board)) as driver:
            for rows in (1, 25, 4):
                made.require_golden(driver, rows)
            assert (driver.statistics.losses > 0) == (rate > 0)
            made.require_a_reset_is_seen(driver, board)
