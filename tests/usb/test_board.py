"""The driver of the host with boards on the bus: whole frames, at the rate of the bus, and with its errors."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hwflow_sim.board import LinePort, SimulatedBoard, UlpiLine, UsbLine, compile_board, rtl_design
from hwflow_sim.usb import Faults, UsbBench, UsbPort, enumerate_device

from hwflow.host import Patience
from hwflow.host.host_link import HostLink
from tests.usb.designs import DESIGN, Stretch, board, compiled_board

#: Bytes a second of payload in a direction, by the bytes of a frame in and out.  The bus carries 1 216 000 in packets
#: of 64 bytes.  The host asks for answers after each of its packets, and a refusal takes a tenth of a packet's time; so
#: data to the board come a little slower than results from it.
WANTED = {(3072, 10): 1.04e6, (10, 3072): 0.9 * 1.2e6}
#: Of 60 MHz: until a board has left its reset.
START_BITS = 8 * 20_000


def run(kind: str, taken: int, given: int, frames: int, folder: Path, cache: Path, faults: Faults | None = None
        ) -> tuple[float, HostLink, UsbBench]:
    """Seconds of the bus for so many frames; their results are right."""
    compiled = compiled_board(kind, taken, given, folder, cache)
    data = random.Random(frames).randbytes(frames * taken)
    with UsbBench(compiled, line_mhz=48) as bench:
        bench.idle(START_BITS)
        assert enumerate_device(bench).serial == "board-7"
        port = UsbPort(bench)
        link = HostLink(port, patience=Patience(1.0, 5.0), clock=port.clock, seed=1)
        assert link.reset().design == DESIGN
        bench.inject(faults or Faults())
        before = bench.facts.seconds
        assert link.exchange(data) == Stretch.model(data, taken, given)
        return bench.facts.seconds - before, link, bench


@pytest.mark.slow
@pytest.mark.parametrize(("taken", "given"), [(3072, 10), (10, 3072)])
def test_frames_at_the_rate_of_the_bus(taken: int, given: int, tmp_path: Path, cache: Path) -> None:
    frames = 30
    seconds, link, bench = run("full_speed", taken, given, frames, tmp_path, cache)
    assert frames * max(taken, given) / seconds >= WANTED[taken, given]
    assert link.statistics.losses == 0
    assert bench.facts.contention == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["full_speed", "ulpi"])
def test_10000_frames_with_errors(kind: str, tmp_path: Path, cache: Path) -> None:
    """Packets of the bus that are lost, damaged or come twice, one of a hundred each."""
    frames = 10_000
    _, link, bench = run(kind, 24, 8, frames, tmp_path, cache, Faults(0.01, 0.01, 0.01))
    assert bench.facts.faults > 100
    assert link.statistics.packets_received > 10


class Restless(UsbPort):
    """A port whose bus the host resets now and then, and configures the device again."""

    reads = 0

    def read(self, timeout: float) -> bytes:
        self.reads += 1
        if self.reads % 7 == 0:
            enumerate_device(self.bench, 3 + self.reads % 100)
        return super().read(timeout)


@pytest.mark.slow
def test_the_bus_is_reset_under_way(tmp_path: Path, cache: Path) -> None:
    taken, given, frames = 24, 8, 500
    compiled = compiled_board("full_speed", taken, given, tmp_path, cache)
    data = random.Random(2).randbytes(frames * taken)
    with UsbBench(compiled, line_mhz=48, seed=2) as bench:
        bench.idle(START_BITS)
        enumerate_device(bench)
        port = Restless(bench)
        link = HostLink(port, patience=Patience(1.0, 5.0), clock=port.clock, seed=1)
        assert link.reset().design == DESIGN
        assert link.exchange(data) == Stretch.model(data, taken, given)
        assert port.reads > 20


#: Cycles in which a host has surely configured the device: the chirp of high speed takes the longest.
CONFIGURED = 500_000
LINES = {"full_speed": UsbLine(), "ulpi": UlpiLine()}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LINES)
def test_frames_through_a_simulated_board(kind: str, tmp_path: Path, cache: Path) -> None:
    """Which a host keeps configured: the one of `hwflow sim --netlist`."""
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
