"""The C driver for microcontrollers: every warning is an error, sanitizers, a fuzz, and the RTL of whole boards."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hwflow_rtl.io.transports import Spi, Uart
from hwflow_sim.board import CompiledBoard, SimulatedBoard, SpiLine, UartLine

from tests.drivers.boards import SpiMaster, UartOfAMicrocontroller
from tests.drivers.c_driver import C_FOLDER, FLAGS, Outcome, compiled_c, drive
from tests.host.digest_core import IDENTITY, digest_board, digests, frames

#: Frames of several packets in, of one packet out.
BYTES_IN, BYTES_OUT, CAPACITY = 1200, 40, 49
OK, GONE, SILENT, DESIGN, BUFFER, LOST = 0, -1, -2, -4, -6, -7
DIVIDER, SPI_CYCLES = 8, 4


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled_c("harness", tmp_path_factory.mktemp("harness"))


@pytest.fixture(scope="module", params=["uart", "spi"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def compiled(kind: str, tmp_path_factory: pytest.TempPathFactory, cache: Path) -> CompiledBoard:
    transport, line = (Uart(divider=DIVIDER), UartLine) if kind == "uart" else (Spi(), SpiLine)
    return digest_board(transport, tmp_path_factory.mktemp(kind), cache, BYTES_IN, BYTES_OUT, line=line)


@pytest.fixture
def master(kind: str, compiled: CompiledBoard) -> Iterator[SpiMaster]:
    """A line to a board that has started."""
    line = UartLine(DIVIDER) if kind == "uart" else SpiLine(SPI_CYCLES, asks=False)
    with SimulatedBoard(compiled, line=line) as board:
        board.wait(b"", 10_000)
        yield UartOfAMicrocontroller(board) if kind == "uart" else SpiMaster(board)


def run(harness: Path, master: SpiMaster, count: int, **given) -> Outcome:
    options = {"design": IDENTITY, "capacity": CAPACITY} | given
    return drive(harness, master.exchange, master.milliseconds, frames=frames(count, BYTES_IN), bytes_in=BYTES_IN,
                 bytes_out=BYTES_OUT, **options)


def test_warnings_are_errors_and_nothing_is_asked_of_an_operating_system(tmp_path: Path) -> None:
    made = tmp_path / "hwflow_link.o"
    subprocess.run(["gcc", *FLAGS, "-O2", "-ffreestanding", "-c", str(C_FOLDER / "hwflow_link.c"), "-o", str(made)],
                   check=True)
    asked = subprocess.run(["nm", "-u", str(made)], check=True, capture_output=True, text=True).stdout.split()
    assert set(asked) - {"U", "__stack_chk_fail", "_GLOBAL_OFFSET_TABLE_"} <= {"memcpy", "memset", "memcmp"}


@pytest.mark.parametrize("packets", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_random_and_mutated_packets(packets: int, tmp_path: Path) -> None:
    made = compiled_c("fuzz", tmp_path)
    done = subprocess.run([made, str(packets), "1"], capture_output=True, text=True, timeout=500,
                          env=os.environ | {"ASAN_OPTIONS": "detect_leaks=1"})
    assert (done.returncode, done.stderr) == (0, "")
    print(done.stdout)


@pytest.mark.slow
def test_the_results_of_the_board(harness: Path, master: SpiMaster) -> None:
    found = run(harness, master, 40, runs=4)
    assert found.status == OK
    assert found.results == digests(frames(40, BYTES_IN), BYTES_IN, BYTES_OUT)
    assert (found.resent, found.repeated, found.dropped, found.polls) == (0, 0, 0, 0)


@pytest.mark.slow
def test_line_errors_are_repaired(harness: Path, master: SpiMaster) -> None:
    """One bit of 20 000 is wrong, in both directions: every fifth packet is lost."""
    master.board.inject(5e-5, 3)
    found = run(harness, master, 150, runs=5)
    facts = master.board.facts
    assert min(facts.flipped_to_board, facts.flipped_from_board) > 10
    assert found.status == OK
    assert found.results == digests(frames(150, BYTES_IN), BYTES_IN, BYTES_OUT)
    assert found.resent > 0
    assert found.dropped > 0


@pytest.mark.slow
def test_what_goes_wrong_is_said(harness: Path, master: SpiMaster) -> None:
    assert run(harness, master, 1, design=b"another.").status == DESIGN
    assert run(harness, master, 1, capacity=CAPACITY - 1).status == BUFFER
    exchanges = 0

    def unplugged(out: bytes, wanted: int) -> bytes | None:
        nonlocal exchanges
        exchanges += 1
        return None if exchanges > 400 else master.exchange(out, wanted)

    found = drive(harness, unplugged, master.milliseconds, frames=frames(20, BYTES_IN), bytes_in=BYTES_IN,
                  bytes_out=BYTES_OUT, design=IDENTITY, capacity=CAPACITY)
    assert found.status == GONE

    def reset(out: bytes, wanted: int) -> bytes:
        nonlocal exchanges
        exchanges += 1
        if exchanges == 900:
            master.board.reset()
        return master.exchange(out, wanted)

    exchanges = 0
    found = drive(harness, reset, master.milliseconds, frames=frames(60, BYTES_IN), bytes_in=BYTES_IN,
                  bytes_out=BYTES_OUT, design=IDENTITY, capacity=CAPACITY)
    assert found.status == LOST


@pytest.mark.slow
def test_a_board_that_is_not_there(harness: Path) -> None:
    """Only idle bytes come, then only noise: an error after three seconds of the driver's clock."""
    for byte in (b"\x7e", b"\xff", b"\x00", b"\x55"):
        clock = iter(range(10**7))
        found = drive(harness, lambda out, wanted, byte=byte: byte * wanted, lambda clock=clock: next(clock),
                      frames=bytes(BYTES_IN), bytes_in=BYTES_IN, bytes_out=BYTES_OUT, design=IDENTITY,
                      capacity=CAPACITY)
        assert found.status == SILENT
