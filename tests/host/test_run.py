"""`hwflow run` as a user calls it, with a board behind a pseudo-terminal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import serial.tools.list_ports

import hwflow.host
from hwflow import golden, onnx
from hwflow.host.design import load_design
from hwflow.options import HardwareOptions, Project
from hwflow.pipeline.pipeline import Pipeline
from hwflow.quantize import Quantized, quantize
from hwflow.synth import design, load_board
from hwflow.synth.options import SynthesisOptions
from hwflow.synth.top import CoreOnBoard
from hwflow.views.console.terminal import Console
from tests.e2e.command import environment
from tests.e2e.networks import rows_for, small_network, write_data
from tests.host.board import Line
from tests.host.models import Terminal, board_with, leave_design, require_equal

RUN = ("run", "small.onnx", "--data", "small.npz")


@pytest.fixture
def place(quantized: Quantized, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the model, its data, and the design that synthesis left."""
    monkeypatch.chdir(tmp_path)
    model = small_network()
    onnx.save(model, "small.onnx")
    write_data(Path("small.npz"), model, rows=30, labels=np.arange(30) % 3)
    leave_design(quantized, Path("build"))
    return Path("build/small/ulx3s_85f/synth")


@pytest.fixture
def terminal(quantized: Quantized, place: Path) -> Iterator[Terminal]:
    with Terminal(board_with(quantized, place)) as terminal:
        yield terminal


@pytest.mark.parametrize("more", [(), ("--board", "ulx3s_85f"), ("--baud", "9600")])
def test_equal(cli, terminal, more):
    done = cli(*RUN, "--port", terminal.port, *more)
    assert done.code == 0, done.err
    assert re.search(r"small on ulx3s_85f, /dev/pts/\d+ at (115200|9600) baud, design [0-9a-f]{16}\n", done.out)
    assert "  accuracy on 30 labelled rows: float " in done.out
    assert re.search(r"  [\d.,]+ frames/s measured, from the host and back; the line carries at most "
                     r"[\d.,]+ frames/s, the FPGA alone computes [\d,]+ at 25 MHz\n", done.out)
    # How many results come twice is a matter of this machine's load: a slow answer is asked for again.
    assert re.search(r"  link: \d+ packets sent, 0 of them again; \d+ received, \d+ of them again; 0 dropped\n",
                     done.out)
    assert done.out.endswith("equal: 30 frames, every output of the board is that of the golden model, bit for bit\n")


def test_json(cli, terminal):
    facts = cli(*RUN, "--port", terminal.port, "--rows", "7", "--json").json
    assert facts["exit_code"] == 0
    assert facts["equal"]
    assert facts["rows"] == facts["accuracy"]["rows"] == 7
    assert facts["differences"] == []
    assert facts["frames_per_second"] == pytest.approx(7 / facts["seconds"])
    assert facts["line_frames_per_second"] == 11520 / 32
    assert facts["link"]["packets_sent"] >= 4
    assert facts["link"]["dropped"] == facts["link"]["resent"] == 0


def test_a_bad_line_is_reported_and_the_answers_are_right(cli, quantized, place):
    with Terminal(board_with(quantized, place), Line(1, bits=1e-3), Line(2, bits=1e-3)) as terminal:
        facts = cli(*RUN, "--port", terminal.port, "--json").json
    assert facts["equal"]
    assert facts["link"]["checksum_errors"] > 0


def test_a_wrong_answer_is_found(cli, quantized, place):
    board = board_with(quantized, place)
    right, count = board.network, 0

    def wrong(frame: bytes) -> bytes:
        nonlocal count
        count += 1
        made = bytearray(right(frame))
        if count in (5, 9):
            made[1] ^= 1
        return bytes(made)

    board.network = wrong
    with Terminal(board) as terminal:
        done = cli(*RUN, "--port", terminal.port)
        count = 0
        facts = cli(*RUN, "--port", terminal.port, "--json").json
    assert done.code == facts["exit_code"] == 1
    assert re.search(r"error: output '.*' differs in 2 elements of 2 frames, first in frame 4 at row 0, column 0, "
                     r"channel 1: golden -?\d+, board -?\d+\n", done.err)
    assert "equal" not in done.out.replace("equal float", "")
    (difference,) = facts["differences"]
    assert (difference["frame"], difference["channel"], difference["elements"]) == (4, 1, 2)
    assert abs(difference["golden"] - difference["board"]) == 1


def test_without_a_port_the_ports_are_listed(cli, place, monkeypatch):
    known = serial.tools.list_ports_common.ListPortInfo("/dev/ttyUSB3")
    known.description, known.hwid = "ULX3S FPGA 85K", "USB VID:PID=0403:6015"
    builtin = serial.tools.list_ports_common.ListPortInfo("/dev/ttyS0")
    monkeypatch.setattr(serial.tools.list_ports, "comports", lambda: [builtin, known])
    assert cli.refuses(*RUN) == ("the board's port must be named with --port, or simulated with --simulate; "
                                 "this machine has /dev/ttyUSB3 (ULX3S FPGA 85K)")
    monkeypatch.setattr(serial.tools.list_ports, "comports", lambda: [builtin])
    assert cli.refuses(*RUN).endswith("; this machine has none: is the board plugged in?")


def test_what_is_missing_is_said(cli, place, tmp_path):
    assert cli.refuses("run", "small.onnx", "--port", "/dev/x").startswith("run must have inputs to run on; give an ")
    assert cli.refuses(*RUN, "--port", "/dev/x").startswith("the port '/dev/x' must be one of this machine; ")
    assert cli.refuses(*RUN, "--port", "/dev/x", "--board", "icebreaker") == (
        "there must be a design of 'small.onnx' for icebreaker below 'build', but there is none; make its bitstream "
        "with `hwflow synth small.onnx --board icebreaker` first")
    assert cli.refuses(*RUN, "--port", "/dev/x", "--build", "empty") == (
        "there must be a design of 'small.onnx' below 'empty', but there is none; make its bitstream with "
        "`hwflow synth small.onnx --board BOARD` first")
    assert "--board" not in cli.refuses(*RUN, "--port", "/dev/x", "--board", "nonsense").partition(", not")[0]


def test_a_design_with_new_weights_is_found_where_the_board_is_named(cli, quantized, place):
    """It stands below the first model's folder, not below one of its own."""
    first, second = Path("build/first/reweighted"), Path("build/first/reweighted/small/ulx3s_85f/synth")
    Path("build/small").rename("build/away")
    leave_design(quantized, first)
    with Terminal(board_with(quantized, second)) as terminal:
        facts = cli(*RUN, "--port", terminal.port, "--board", "ulx3s_85f", "--json").json
    assert facts["equal"]


def test_another_design(cli, quantized, place):
    with Terminal(board_with(quantized, place, design=b"\x11" * 8)) as terminal:
        message = cli.refuses(*RUN, "--port", terminal.port)
        named = cli.refuses(*RUN, "--port", terminal.port, "--board", "ulx3s_85f")
    assert re.fullmatch(r"the board on /dev/pts/\d+ holds the design 1111111111111111, which must be one of those "
                        r"below 'build/small' \([0-9a-f]{16} \(small for ulx3s_85f\)\); load the bitstream of one of "
                        r"them, or name the folder of its design", message)
    assert "must hold the design" in named
    assert "not 1111111111111111" in named


def test_synthesis_leaves_what_run_needs(cli, tmp_path, monkeypatch):
    """The identity in the bitstream is the one in the file beside it, and a driver reads both folders."""
    monkeypatch.chdir(tmp_path)
    model, identities = small_network(), []
    onnx.save(model, "small.onnx")
    write_data(Path("small.npz"), model, rows=8)

    def synthesize(hardware: CoreOnBoard, folder: Path, *_: object, **__: object) -> SimpleNamespace:
        folder.mkdir(parents=True)
        identities.append(hardware.identity)
        return SimpleNamespace(clock_mhz=62.5)

    monkeypatch.setattr(design, "synthesize", synthesize)
    project = Project(Path("small.onnx"), data=Path("small.npz"))
    Pipeline(Console(quiet=True), project, hardware=HardwareOptions("icebreaker")).synthesize(SynthesisOptions())
    folder = Path("build/small/icebreaker/synth")
    left = load_design(folder)
    assert left.facts.identity == identities[0]
    assert left.facts.transport == load_board("icebreaker").transport.facts()
    assert (left.facts.clock_mhz, left.facts.board) == (62.5, "icebreaker")
    with Terminal(board_with(left.quantized, folder)) as terminal:
        facts = cli(*RUN, "--port", terminal.port, "--board", "icebreaker", "--json").json
    assert facts["equal"]
    assert facts["core_frames_per_second"] == 62.5e6 / left.facts.interval


def test_synthesis_from_python_leaves_what_open_needs(tmp_path, monkeypatch):
    """Also where only the host programs differ from those of the run before."""
    model, folder = small_network(), tmp_path / "synthesis"
    quantized = quantize(model, rows_for(model, 20))
    plan = hwflow.make_plan(quantized, "icebreaker")
    monkeypatch.setattr(design, "synthesize", lambda *_, **more: SimpleNamespace(clock_mhz=40.0))
    renamed = replace(quantized, epilogue=replace(quantized.epilogue, doc_string="another"))
    for made in (quantized, renamed):
        hwflow.synthesize(made, plan, "icebreaker", folder, clock=40.0)
        with Terminal(board_with(made, folder)) as terminal, hwflow.host.open(terminal.port, design=folder) as board:
            found = board.run(rows_for(model, 3))
        require_equal(found, golden.as_batch(golden.predict(made, rows_for(model, 3))))
        assert board.design.quantized.epilogue.doc_string == made.epilogue.doc_string
        assert board.design.facts.clock_mhz == 40.0


def test_ctrl_c(quantized, place, terminal):
    """The command ends at once with exit code 130, and the next one starts the board anew."""
    write_data(Path("long.npz"), small_network(), rows=20_000)
    command = [sys.executable, "-m", "hwflow.cli", "run", "small.onnx", "--data", "long.npz", "--port", terminal.port]
    child = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while terminal.board.taken < 20:
        assert child.poll() is None, child.stderr.read()
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=20)
    assert child.returncode == 130
    assert out == ""
    assert "error: interrupted; " in err
    assert "Traceback" not in err
    taken = subprocess.run([*command[:-4], "--data", "small.npz", "--port", terminal.port], env=environment(),
                           capture_output=True, text=True)
    assert taken.returncode == 0, taken.stderr
    assert "equal: 30 frames" in taken.stdout
