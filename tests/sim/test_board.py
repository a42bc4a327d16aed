"""The simulated board: a line with bits on it, the host's link over it, a pseudo-terminal, flipped bits."""

from __future__ import annotations

from pathlib import Path

import pytest
from hwflow_base.errors import HwflowError, ToolFailed
from hwflow_sim.board import BoardDesign, CompiledBoard, SimulatedBoard, UartLine, compile_board, rtl_design

from hwflow.host import LinkFailed, Patience
from hwflow.host.host_link import HostLink
from hwflow.host.ports.serial import SerialPort
from tests.sim.small_board import DIVIDER, IDENTITY, answers, linked, noise, small_top

#: A wire from pin to pin: what is sent comes back.
ECHO = "module top(input clk, rx, output tx); assign tx = rx; endmodule\n"
PINS = {"clk": 1, "rx": 1, "tx": 1}


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> CompiledBoard:
    return compile_board(BoardDesign(ECHO, PINS), folder=tmp_path_factory.mktemp("echo"), cache=cache, jobs=2)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> CompiledBoard:
    top, technology = small_top()
    return compile_board(rtl_design(top, technology.roms), folder=tmp_path_factory.mktemp("small"), cache=cache, jobs=2)


@pytest.mark.parametrize("bit_cycles", [4, 104.1666, 217.01])
def test_bytes_pass_a_wire(echo: CompiledBoard, bit_cycles: float) -> None:
    with SimulatedBoard(echo, line=UartLine(bit_cycles)) as board:
        data = bytes(range(256))
        board.wait(b"", 1)  # before a start bit there is a line at rest
        assert board.exchange(data, until=256) == data
        assert board.facts.cycles == pytest.approx(2560 * bit_cycles, rel=0.01)
        assert board.facts.broken == 0


def test_what_is_enough_can_be_a_function(echo: CompiledBoard) -> None:
    with SimulatedBoard(echo, line=UartLine(10)) as board:
        board.wait(b"", 1)
        assert board.exchange(b"a packet\n", until=lambda data: data.endswith(b"\n")) == b"a packet\n"
        assert board.exchange(b"no end", until=lambda data: data.endswith(b"\n"), quiet=500) == b"no end"


def test_silence_ends(echo: CompiledBoard) -> None:
    with SimulatedBoard(echo, line=UartLine(10)) as board:
        assert board.exchange(b"", until=1, quiet=5000) == b""
        assert board.facts.cycles == 5000


def test_flipped_bits_hit_all_bits(echo: CompiledBoard) -> None:
    """On both ways, start and stop bits too; the same ones from the same seed."""
    data, runs = noise(2000), []
    for seed in (1, 1, 2):
        with SimulatedBoard(echo, line=UartLine(10), error_rate=1e-2, error_seed=seed) as board:
            runs.append((board.exchange(data, quiet=300), board.facts))
    (first, facts), again, other = runs
    assert again == (first, facts)
    assert other[0] != first
    assert first != data
    assert facts.broken > 0  # stop bits
    for flipped in (facts.flipped_to_board, facts.flipped_from_board):
        assert 100 < flipped < 350  # of 20 000 bits


def test_the_link_gives_the_core_s_answers(small: CompiledBoard) -> None:
    with SimulatedBoard(small, line=UartLine(DIVIDER)) as board:
        link = linked(board)
        found = link.reset()
        assert (found.design, found.bytes_in, found.bytes_out) == (IDENTITY, 1, 1)
        data = noise(250)
        assert link.exchange(data) == answers(data)
        assert link.statistics.losses == 0
        board.reset()
        board.wait(b"", 10_000)
        link.reset()
        assert link.exchange(data[:9]) == answers(data[:9])


def test_no_wrong_answer_over_a_bad_line(small: CompiledBoard) -> None:
    """Every exchange is right, and what was lost on the way is reported."""
    frames, seen = 40, 2
    data = noise(frames)
    with SimulatedBoard(small, line=UartLine(DIVIDER), error_rate=1e-3, error_seed=5) as board:
        link = linked(board, Patience(20.0, 20.0))
        assert b"".join(link.exchange(data[k:k + 1]) for k in range(frames)) == answers(data)
        assert board.facts.flipped_to_board + board.facts.flipped_from_board >= seen
        assert link.statistics.losses >= seen


def test_a_driver_talks_to_the_terminal(small: CompiledBoard) -> None:
    with SimulatedBoard(small, line=UartLine(DIVIDER)) as board:
        board.wait(b"", 10_000)
        port = SerialPort(board.pty(), 115200)
        try:
            link = HostLink(port, patience=Patience(20.0, 20.0))
            assert link.reset().design == IDENTITY
            data = noise(200)
            assert link.exchange(data) == answers(data)
        finally:
            port.close()
        assert board.exchange(b"", quiet=100) is not None  # the board obeys again
        assert board.facts.cycles > 10_000


def test_what_is_no_board_is_given_up(echo: CompiledBoard) -> None:
    with SimulatedBoard(echo, line=UartLine(DIVIDER)) as board, pytest.raises(LinkFailed, match="comes back"):
        linked(board).reset()


def test_flow_control_of_a_line_is_tied(tmp_path: Path, cache: Path) -> None:
    """The board says that it is ready, and nobody reads when the design is."""
    text = "module top(input clk, rx, rts_n, output tx, cts_n); assign tx = rx | rts_n, cts_n = 0; endmodule\n"
    design = BoardDesign(text, {"clk": 1, "rx": 1, "rts_n": 1, "tx": 1, "cts_n": 1})
    with SimulatedBoard(compile_board(design, folder=tmp_path, cache=cache, jobs=2), line=UartLine(8)) as board:
        board.wait(b"", 1)
        assert board.exchange(b"hello", until=5) == b"hello"


def test_pins_must_be_those_of_a_board(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(HwflowError, match="must have the pins clk, rx, tx, perhaps rst and led, not clk, rx"):
        compile_board(BoardDesign("", {"clk": 1, "rx": 1}), folder=tmp_path, cache=cache)


def test_a_board_that_ends_says_where_its_words_are(echo: CompiledBoard) -> None:
    with SimulatedBoard(echo, line=UartLine(10)) as board:
        board._command(b"!")
        with pytest.raises(ToolFailed, match="unknown command 33"):
            board.exchange(b"")
