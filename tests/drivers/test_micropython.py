"""The MicroPython driver under CPython, on the RTL of a board over SPI; and its example with a bus of the test's."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hwflow_rtl.io.transports import Spi
from hwflow_sim.board import CompiledBoard, SimulatedBoard, SpiLine

from tests.drivers.boards import SpiMaster
from tests.host.digest_core import IDENTITY, digest_board, digests, frames

FOLDER = Path(__file__).parents[2] / "drivers" / "micropython"
BYTES_IN, BYTES_OUT = 700, 40
#: What MicroPython's rp2 port has of what the files import.
THERE = {"binascii", "time", "machine", "hwflow_link"}


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def link() -> ModuleType:
    return loaded("hwflow_link")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> CompiledBoard:
    return digest_board(Spi(), tmp_path_factory.mktemp("spi"), cache, BYTES_IN, BYTES_OUT, line=SpiLine)


@pytest.fixture
def master(compiled: CompiledBoard) -> Iterator[SpiMaster]:
    with SimulatedBoard(compiled, line=SpiLine(4, asks=False)) as board:
        board.wait(b"", 10_000)
        yield SpiMaster(board)


@pytest.mark.parametrize("name", ["hwflow_link", "pico_spi"])
def test_only_what_micropython_has(name: str) -> None:
    """No imports but its own, no annotations of types, nothing of the standard library."""
    tree = ast.parse((FOLDER / f"{name}.py").read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names <= THERE
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.AnnAssign | ast.Match)]


def test_a_board_that_is_not_there(link: ModuleType) -> None:
    class Nothing:
        now = 0

        def exchange(self, out, wanted):
            return b"\x7e" * wanted

        def milliseconds(self):
            self.now += 1
            return self.now

    with pytest.raises(link.BoardError, match="does not answer: is it powered"):
        link.Link(Nothing())


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.0, 5e-5])
def test_the_results_of_the_board(link: ModuleType, master: SpiMaster, rate: float) -> None:
    board = link.Link(master, IDENTITY)
    assert (board.bytes_in, board.bytes_out) == (BYTES_IN, BYTES_OUT)
    master.board.inject(rate, 5)
    data = frames(80, BYTES_IN)
    for at in range(0, len(data), 20 * BYTES_IN):
        part = data[at:at + 20 * BYTES_IN]
        assert board.run(part) == digests(part, BYTES_IN, BYTES_OUT)
        if at == 20 * BYTES_IN:  # a new sequence
            board.reset_state()
    assert (board.resent > 0) == (board.dropped > 0) == (rate > 0)
    with pytest.raises(link.BoardError, match="must hold the design b'another"):
        link.Link(master, b"another.")


@pytest.mark.slow
def test_the_example_of_the_pico(link: ModuleType, master: SpiMaster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                 capsys: pytest.CaptureFixture[str]) -> None:
    """With stand-ins for `machine` and the clock of MicroPython, whose bus is that of the board."""
    selected = []

    class Bus:
        def __init__(self, number, **pins):
            assert (number, pins["polarity"], pins["phase"]) == (0, 0, 0)

        def write_readinto(self, out, came):
            assert selected[-1] == 0
            came[:] = master.exchange(bytes(out), len(out))

    class Pin:
        OUT = 1

        def __init__(self, number, mode=None, value=None):
            self.number = number

        def __call__(self, level):
            selected.append(level)

    machine, clock = ModuleType("machine"), ModuleType("time")
    machine.SPI, machine.Pin = Bus, Pin
    clock.ticks_ms, clock.ticks_diff = master.milliseconds, lambda end, begin: max(end - begin, 1)
    for name, module in (("machine", machine), ("time", clock), ("hwflow_link", link)):
        monkeypatch.setitem(sys.modules, name, module)
    data = frames(3, BYTES_IN)
    (tmp_path / "frames.bin").write_bytes(data)
    monkeypatch.chdir(tmp_path)
    loaded("pico_spi")
    said = capsys.readouterr().out.splitlines()
    expected = digests(data, BYTES_IN, BYTES_OUT)
    assert said[0] == f"design {IDENTITY.hex()} {BYTES_IN} bytes in, {BYTES_OUT} out"
    assert said[1:4] == [str(list(expected[k:k + BYTES_OUT])) for k in range(0, len(expected), BYTES_OUT)]
    assert said[4].endswith("frames/s")
