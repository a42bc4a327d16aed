"""`hwflow.host.open`: what the board gives is what the golden model gives; over memory and over pseudo-terminals."""

from __future__ import annotations

import os
import re
import signal
import stat
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

import hwflow.host
from hwflow import golden
from hwflow.host import LinkFailed, OpenBoard, Patience
from hwflow.host.design import load_design
from hwflow.host.identity import DesignFacts
from hwflow.host.ports.serial import SerialPort, why_not_opened
from hwflow.quantize import Quantized, quantize
from tests.e2e.networks import residual, rows_for, small_network
from tests.host.board import Line, MemoryPort
from tests.host.models import BAUD, Terminal, board_with, leave_design, require_equal, require_golden

#: For boards that do not answer.
SOON = Patience(silence=0.3, stall=0.6)


def open_memory(quantized: Quantized, design: Path, there=None, back=None, **more):
    port = MemoryPort(board_with(quantized, design, **more), there, back)
    return hwflow.host.open(port, design=design, clock=port.clock), port


def test_run_gives_what_golden_gives(quantized, design):
    board, _ = open_memory(quantized, design)
    rows = rows_for(small_network(), 30)
    expected = golden.as_batch(golden.predict(quantized, rows))
    for x in (rows, rows["x"], {"x": rows["x"].astype(np.float64)}):
        made = board.run(x)
        assert made.keys() == expected.keys()
        for name, values in expected.items():
            assert made[name].dtype == values.dtype
            np.testing.assert_array_equal(made[name], values)
    assert board.statistics.losses == 0


def test_integers_in_and_out(quantized, design):
    board, _ = open_memory(quantized, design)
    frames = golden.run_prologue(quantized, rows_for(small_network(), 5))
    seen = []
    made = board.run_integers(frames, lambda done, total: seen.append((done, total)))
    expected = golden.run(quantized, frames, keep=False)
    assert made.keys() == expected.keys()
    require_equal(made, expected)
    assert seen == [(k, 5) for k in range(1, 6)]


@pytest.mark.parametrize("count", [0, 1])
def test_few_rows(quantized, design, count):
    board, _ = open_memory(quantized, design)
    rows = rows_for(small_network(), count)
    require_golden(quantized, board, rows)


def test_a_residual_network(tmp_path):
    model = residual()
    quantized = quantize(model, rows_for(model, 20))
    board, _ = open_memory(quantized, leave_design(quantized, tmp_path))
    rows = rows_for(model, 9)
    require_golden(quantized, board, rows)


def test_numbers_that_the_inputs_type_does_not_hold_are_refused(quantized, design):
    board, _ = open_memory(quantized, design)
    with pytest.raises(HwflowError, match=r"x for the input 'x' must fit float32, not hold values from 0\.0 to 1e\+39"):
        board.run(np.array([0.0, 1e39] * 16).reshape(1, 1, 2, 4, 4))
    prologue = quantized.prologue
    (value,) = prologue.graph.inputs
    narrow = replace(value, type=replace(value.tensor, dtype=np.dtype(np.int8)))
    whole = replace(quantized, prologue=replace(prologue, graph=replace(prologue.graph, inputs=(narrow,))))
    board = OpenBoard(board.link, replace(board.design, quantized=whole), board.transport)
    with pytest.raises(HwflowError, match=r"x for the input 'x' must fit int8, not hold values from 0 to 300"):
        board.run(np.array([0, 300] * 16).reshape(1, 1, 2, 4, 4))


@pytest.mark.parametrize("x, message", [
    (np.zeros((3, 2, 4, 4), np.float32), r"x for the input 'x' must be float32 \[n, 1, 2, 4, 4\], not float32 \[3, "),
    (np.zeros((3, 1, 2, 4, 4), complex), r"must be float32 \[n, 1, 2, 4, 4\], not complex128"),
    ({"y": np.zeros(3)}, r"x must have an array for the input 'x', not only for \['y'\]"),
])
def test_inputs_of_another_form_are_refused(quantized, design, x, message):
    board, _ = open_memory(quantized, design)
    with pytest.raises(HwflowError, match=message):
        board.run(x)


def test_the_design_is_found_by_its_identity(quantized, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    leave_design(quantized, Path("build"), "icebreaker")
    there = leave_design(quantized, Path("build"), "ulx3s_85f")
    other = quantize(residual(), rows_for(residual(), 20))
    folder = leave_design(other, Path("build"))
    (Path("build") / "broken" / "x" / "synth").mkdir(parents=True)
    (Path("build") / "broken" / "x" / "synth" / "identity.json").write_text("{")
    again = leave_design(quantize(residual(), rows_for(residual(), 30, seed=4)), Path("build/small/reweighted"))
    board = hwflow.host.open(MemoryPort(board_with(load_design(again).quantized, again)))
    assert board.design.folder == again
    board = hwflow.host.open(MemoryPort(board_with(other, folder)))
    assert board.design.folder == folder
    board = hwflow.host.open(MemoryPort(board_with(quantized, there)), build="build")
    assert board.design.facts.model == quantized.graph.name


def test_a_board_with_another_design_is_refused_and_both_are_named(quantized, design):
    mine = DesignFacts.read(design).identity.hex()
    port = MemoryPort(board_with(quantized, design, design=b"\x11" * 8))
    with pytest.raises(HwflowError) as caught:
        hwflow.host.open(port, design=design)
    assert re.search(f"must hold the design {mine} .small, .*, not 1111111111111111; load the bitstream of",
                     str(caught.value))
    assert port.closed


def test_a_board_whose_design_is_nowhere_is_refused(quantized, design, tmp_path):
    port = MemoryPort(board_with(quantized, design, design=b"\x11" * 8))
    with pytest.raises(HwflowError, match="holds the design 1111111111111111, which must be one of those below"):
        hwflow.host.open(port, build=tmp_path / "build")
    assert port.closed


def test_without_any_design_there_is_nothing_to_open(tmp_path):
    with pytest.raises(HwflowError, match=r"there must be a design below '.*/nothing', but there is none; make one"):
        hwflow.host.open("/dev/no_such_port", build=tmp_path / "nothing")


def test_a_model_quantized_anew_is_refused(quantized, design):
    other = quantize(small_network(1), rows_for(small_network(1), 20))
    leave_design(other, design.parents[2], "icebreaker")  # overwrites build/small/quantized
    with pytest.raises(HwflowError, match=r"must be the integer model of the bitstream .* but it has changed since"):
        open_memory(quantized, design)


def test_frames_of_other_sizes_are_refused(quantized, design):
    board = board_with(quantized, design)
    board.bytes_out += 1
    with pytest.raises(HwflowError, match="must take 32 bytes and give 3 for a frame of 'small', not 32 and 4"):
        hwflow.host.open(MemoryPort(board), design=design)


@pytest.mark.parametrize("text, message", [
    ("{", "must be JSON"), ("[]", "the top level: .* is not of type 'object'"), ("[" * 9999, "must be JSON"),
    ('{"identity": "xyz"}', "identity|required")])
def test_a_damaged_description_of_the_design(design, text, message):
    (design / "identity.json").write_text(text)
    with pytest.raises(HwflowError, match=message):
        DesignFacts.read(design)


def test_facts_are_read_as_they_were_written(design):
    facts = DesignFacts.read(design)
    facts.write(design / "copy")
    assert DesignFacts.read(design / "copy") == facts


# -- over a pseudo-terminal


def test_over_a_terminal(quantized, design):
    rows = rows_for(small_network(), 40)
    with (Terminal(board_with(quantized, design)) as terminal, hwflow.host.open(terminal.port, design=design) as board):
        made = board.run(rows)
        assert board.transport.options == {"baud": BAUD}
        assert board.statistics.dropped == 0
    require_equal(made, golden.as_batch(golden.predict(quantized, rows)))


def test_over_a_terminal_with_bit_errors(quantized, design):
    rows = rows_for(small_network(), 100)
    there, back = Line(1, bits=1e-4), Line(2, bits=1e-4)
    with (Terminal(board_with(quantized, design), there, back) as terminal,
          hwflow.host.open(terminal.port, design=design) as board):
        made = board.run(rows)
        seen = board.statistics
    assert there.damaged > 0
    assert seen.dropped >= back.hits.total() > 0
    assert seen.losses > 0
    require_equal(made, golden.as_batch(golden.predict(quantized, rows)))


def test_what_another_session_left_is_not_believed(quantized, design):
    rows = rows_for(small_network(), 20)
    frames = golden.run_prologue(quantized, rows)
    with Terminal(board_with(quantized, design)) as terminal:
        first = SerialPort(terminal.port, BAUD)
        link = hwflow.host.open_board.HostLink(first)
        link.reset()
        link._session.outbox.offer(bytes(32 * 9))
        link._session.send()  # nine frames go out, their results stay in the port
        time.sleep(0.05)
        first.close()
        with hwflow.host.open(terminal.port, design=design) as board:
            made = board.run_integers(frames)
    require_equal(made, golden.run(quantized, frames, keep=False))


def test_unplugged_in_the_middle(quantized, design):
    board = board_with(quantized, design)
    with Terminal(board) as terminal:
        driver = hwflow.host.open(terminal.port, design=design)
        with pytest.raises(LinkFailed, match=r"the port .* is gone.*: the board was unplugged or lost its power; plug"):
            driver.run(rows_for(small_network(), 2000), lambda done, total: done > 50 and terminal.unplug())
        driver.close()
        driver.close()


def test_a_board_that_falls_silent(quantized, design):
    board = board_with(quantized, design)
    port = MemoryPort(board)
    driver = hwflow.host.open(port, design=design, patience=SOON)
    port.before_write = lambda data: setattr(board, "feed", lambda data: b"") if board.taken > 5 else None
    with pytest.raises(LinkFailed, match="does not answer any more; run again when it is powered, connected"):
        driver.run(rows_for(small_network(), 200))


def test_a_busy_port(quantized, design):
    with (Terminal(board_with(quantized, design)) as terminal, hwflow.host.open(terminal.port, design=design),
          pytest.raises(LinkFailed, match=r"the port '.*' must be free, but another program uses it; end that")):
        hwflow.host.open(terminal.port, design=design)


def test_a_silent_port(design):
    master, slave = os.openpty()
    with pytest.raises(LinkFailed, match=r"nothing answers on /dev/pts/.* in 0.3 s; is it the board's port, .*115200"):
        hwflow.host.open(os.ttyname(slave), design=design, patience=SOON)
    os.close(master)
    os.close(slave)


@pytest.mark.parametrize("name, message", [
    ("/dev/no_such_port", "the port '/dev/no_such_port' must be one of this machine; this machine has "),
    ("/dev/null", "must be a serial port, not a file, a folder or another device; this machine has "),
    ("/dev", "must be a serial port, not a file, a folder or another device; this machine has "),
    ("nonsense://x", "must be a device or socket://HOST:PORT; name another one with --port"),
    ("spy:///dev/null?file=x", "must be a device or socket://HOST:PORT; name another one with --port"),
    ("socket://", "must be socket://HOST:PORT where a serial line is served, which it is not"),
    ("socket://localhost", "must be socket://HOST:PORT .*: its PORT must be a number from 1 to 65535"),
    ("socket://localhost:99999", "must be socket://HOST:PORT .*: its PORT must be a number from 1 to 65535"),
    ("socket://localhost:1", "must be socket://HOST:PORT where a serial line is served, which it is not .*[Rr]efused"),
])
def test_a_port_that_does_not_open(name, message, design):
    with pytest.raises(LinkFailed, match=message):
        hwflow.host.open(name, design=design)


def test_a_port_that_is_not_allowed(tmp_path):
    (tmp_path / "port").touch(stat.S_IRUSR)
    error = PermissionError(13, "Permission denied")
    message = why_not_opened(str(tmp_path / "port"), 9600, error)
    assert re.search(r"must be open to you, but belongs to the group \w+; join it with `sudo usermod -aG \w+ \$USER`",
                     message)


def test_a_rate_that_the_port_has_not(quantized, design):
    with (Terminal(board_with(quantized, design)) as terminal,
          pytest.raises(LinkFailed, match="must know 99999999999999 baud, which it does not")):
        hwflow.host.open(terminal.port, design=design, baud=99999999999999)


def test_an_interrupt_leaves_a_board_that_can_be_used_again(quantized, design):
    rows = rows_for(small_network(), 3000)
    few = {"x": rows["x"][:7]}
    with (Terminal(board_with(quantized, design)) as terminal,
          hwflow.host.open(terminal.port, design=design) as board):
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            board.run(rows)
        timer.join()
        made = board.run(few)
    require_equal(made, golden.as_batch(golden.predict(quantized, few)))
