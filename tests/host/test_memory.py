"""Boards whose memory the host fills: what is sent, when it is not, and every refusal."""

from __future__ import annotations

import hashlib
import json
import random
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import HwflowError
from hwflow_base.files.cache import cached_step

import hwflow.host
from hwflow import golden, onnx
from hwflow.host.design import load_design
from hwflow.host.host_link import HostLink
from hwflow.host.identity import DesignFacts, hardware_identity_of, identity_of, sums_outside
from hwflow.host.session import Patience
from hwflow.host.weight_image import WeightImage
from hwflow.host.wire import LinkFailed
from hwflow.quantize import Quantized
from hwflow.synth import load_board
from hwflow.views.console.runs import say_weights
from hwflow.views.console.terminal import Console
from tests.e2e.command import Cli
from tests.e2e.networks import small_network, write_data
from tests.host.board import Line, MemoryPort, ReferenceBoard, framed
from tests.host.models import Terminal, board_with, leave_design
from tests.host.test_link import BAD, board_of, frames_of

WEIGHTS = random.Random(8).randbytes(3000)
NAME = hashlib.sha256(WEIGHTS).digest()[:16]
PATIENCE = Patience(silence=1.0, stall=5.0)


def link_to(board: ReferenceBoard, there: Line | None = None, back: Line | None = None) -> HostLink:
    port = MemoryPort(board, there, back)
    return HostLink(port, clock=port.clock, seed=1, patience=PATIENCE)


def test_weights_then_frames():
    board, seen = board_of(image_bytes=3000, busy=3), []
    link = link_to(board)
    assert not link.use(NAME).holds(NAME)
    link.fill(WEIGHTS, NAME, lambda done, total: seen.append((done, total)))
    assert (bytes(board.memory), board.digest) == (WEIGHTS, NAME)
    assert seen == sorted(seen)
    assert seen[-1] == (3000, 3000)
    assert len(seen) > 10
    data, expected = frames_of(board, 20)
    assert link.exchange(data) == expected
    clears = board.clears
    again = link_to(board)  # another process
    assert again.use(NAME).holds(NAME)
    assert again.exchange(data) == expected
    assert board.clears == clears
    assert link.statistics.losses == again.statistics.losses == 0


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("seed", range(2))
def test_weights_on_a_bad_line(kind, seed):
    board = board_of(image_bytes=3000)
    link = link_to(board, Line(2 * seed, **BAD[kind]), Line(2 * seed + 1, **BAD[kind]))
    link.patience = Patience(10.0, 30.0)
    link.use(NAME)
    link.fill(WEIGHTS, NAME)
    assert (bytes(board.memory), board.digest) == (WEIGHTS, NAME)
    data, expected = frames_of(board, 10)
    assert link.exchange(data) == expected


def test_no_frame_without_weights():
    board = board_of(image_bytes=3000)
    link = link_to(board)
    data, _ = frames_of(board, 3)
    missing = "the memory of the board on the line of the test must have the weights of the design, but has none; fill"
    with pytest.raises(LinkFailed, match=missing):  # who knows of no weights
        link.exchange(data)
    link.use(NAME)
    with pytest.raises(LinkFailed, match=missing):
        link.exchange(data)
    other = bytes(16)
    link.fill(WEIGHTS, other)
    link.use(NAME)
    with pytest.raises(LinkFailed, match=rf"but has others \(digest {'00' * 16}\); fill it with `hwflow program --wei"):
        link.exchange(data)
    assert board.taken == -(-3000 // 128)  # nothing but the weights


def test_power_off_takes_the_weights():
    board = board_of(image_bytes=3000)
    link = link_to(board)
    link.fill(WEIGHTS, NAME)
    board.start()
    data, _ = frames_of(board, 3)
    with pytest.raises(LinkFailed, match="started anew"):
        link.exchange(data)
    with pytest.raises(LinkFailed, match="must have the weights of the design, but has none"):
        link.exchange(data)


def test_cut_on_the_line():
    """The line goes dead in the middle: nobody gets a result of half an image."""
    board = board_of(image_bytes=3000)
    link = link_to(board)
    link.port.before_write = lambda data: vars(link.port).update(board=None) if len(board.memory) > 1000 else None
    with pytest.raises(AttributeError):
        link.fill(WEIGHTS, NAME)
    again = link_to(board)
    assert not again.use(NAME).holds(NAME)
    with pytest.raises(LinkFailed, match="but has none"):
        again.exchange(frames_of(board, 1)[0])


def test_a_memory_that_does_not_answer():
    """All bytes leave the host, and never arrive in the memory; or it takes no more of them; or there is none."""
    with pytest.raises(LinkFailed, match=r"memory of the board on the line of the test must take its weights, but did "
                                         r"not in 1 s after all had been sent; load the bitstream"):
        link_to(board_of(image_bytes=3000, busy=10**9)).fill(WEIGHTS, NAME)
    full = board_of(image_bytes=1000)
    with pytest.raises(LinkFailed, match="took no data and gave no results for 5 s"):
        link_to(full).fill(WEIGHTS, NAME)
    with pytest.raises(LinkFailed, match="must say what is in its memory, but did not in 1 s; load the bitstream of"):
        link_to(board_of()).use(NAME)


def test_answers_that_are_none():
    board = board_of(image_bytes=3000)
    board.state = lambda sequence: framed(0x84, sequence, 0, bytes([8]) + bytes(20)) + framed(0x84, sequence, 0, b"\2")
    with pytest.raises(LinkFailed, match="must say what is in its memory"):
        link_to(board).use(NAME)


# -- with a design, as a user calls it


@pytest.fixture
def filled(quantized: Quantized, tmp_path: Path) -> Path:
    """The folder of a design with weights in a memory."""
    folder = leave_design(quantized, tmp_path / "build")
    return leave_design(quantized, tmp_path / "build", weights=image_of(quantized, folder))


def image_of(quantized: Quantized, folder: Path) -> WeightImage:
    """The file of the weights in `folder`, of this model."""
    return WeightImage.write(folder, WEIGHTS, identity_of(quantized.graph, DesignFacts.read(folder).foldings))


def opened(board: ReferenceBoard, build: Path, **more) -> hwflow.host.OpenBoard:
    port = MemoryPort(board)
    return hwflow.host.open(port, build=build, clock=port.clock, patience=PATIENCE, **more)


def test_opening_fills_once_per_power_up(quantized, filled, tmp_path):
    board, seen = board_with(quantized, filled, image_bytes=3000), []
    graph = quantized.graph
    rows = {name: np.zeros((2, *golden_shape(graph, name)), np.int64) for name in graph.inputs}
    expected = golden.run(graph, rows, keep=False)
    for count, fills, more in ((1, True, {}), (1, False, {}), (2, True, {"refill": True})):
        with opened(board, tmp_path / "build", progress=lambda done, total: seen.append(total), **more) as open_one:
            assert open_one.filled is fills
            made = open_one.run_integers(rows)
        assert all((made[name] == expected[name]).all() for name in graph.outputs)
        assert board.clears == 2 * count
    assert bytes(board.memory) == WEIGHTS
    assert set(seen) == {3000}
    board.start()
    with opened(board, tmp_path / "build") as open_one:
        assert open_one.filled


def golden_shape(graph, name):
    frame = graph.tensors[name].frame
    return frame.height, frame.width, frame.channels


def test_facts_are_read_back(quantized, filled):
    facts = DesignFacts.read(filled)
    model = identity_of(quantized.graph, facts.foldings)
    assert facts.weights == WeightImage("weights.bin", 3000, NAME, model)
    assert facts.weights.read(filled) == WEIGHTS
    assert json.loads((filled / "identity.json").read_text())["weights"] == {
        "file": "weights.bin", "bytes": 3000, "digest": NAME.hex(), "model": model.hex()}


@pytest.mark.parametrize("change, message", [
    (lambda path: path.unlink(), "must hold the weights for the memory of the board: No such file"),
    (lambda path: path.write_bytes(WEIGHTS[:2000]), "must hold 3000 bytes of weights, but is cut after 2000; make it"),
    (lambda path: path.write_bytes(WEIGHTS + b"x"), "must hold 3000 bytes of weights, but has more"),
    (lambda path: path.write_bytes(WEIGHTS[::-1]), rf"must hold the weights of its design \(digest {NAME.hex()}\)"),
])
def test_files_of_weights_that_are_wrong(quantized, filled, tmp_path, change, message):
    change(filled / "weights.bin")
    board = board_with(quantized, filled, image_bytes=3000)
    with pytest.raises(HwflowError, match=message):
        opened(board, tmp_path / "build")
    assert not board.memory


@pytest.mark.parametrize("size", [1 << 50, 1 << 90])
def test_a_size_that_no_memory_has_is_not_read(filled, size):
    path = filled / "identity.json"
    text = json.loads(path.read_text())
    text["weights"]["bytes"] = size
    path.write_text(json.dumps(text))
    weights = DesignFacts.read(filled).weights
    with pytest.raises(HwflowError, match=f"must hold {size} bytes of weights, but is cut after 3000; make it again"):
        weights.read(filled)


def test_a_design_that_lost_what_its_memory_holds(quantized, tmp_path):
    """Nothing would fill the memory, and every result would be wrong."""
    folder = leave_design(quantized, tmp_path / "build")
    facts = DesignFacts.read(folder)
    foldings = tuple(replace(each, weight_rows=1) for each in facts.foldings)
    sums = sums_outside(quantized.graph, foldings)
    named = hardware_identity_of(quantized.graph, foldings, sums=sums)
    replace(facts, foldings=foldings, sums=sums, identity=named).write(folder)
    with pytest.raises(HwflowError, match=r"identity\.json' must say what the memory beside the FPGA holds"):
        load_design(folder)


def test_a_model_that_was_quantized_anew(quantized, filled, tmp_path):
    """Its weights are in the memory alone, so the bitstream says nothing of it."""
    text = json.loads((filled / "identity.json").read_text())
    text["weights"]["model"] = bytes(8).hex()
    (filled / "identity.json").write_text(json.dumps(text))
    with pytest.raises(HwflowError, match=r"must be the integer model of the bitstream .* but it has changed since"):
        opened(board_with(quantized, filled, image_bytes=3000), tmp_path / "build")


def test_a_memory_of_another_size(quantized, filled, tmp_path):
    with pytest.raises(HwflowError, match=r"must take the 3000 bytes of weights of '.*', not 2000; load the bit"):
        opened(board_with(quantized, filled, image_bytes=2000), tmp_path / "build")


def test_identities_with_weights_that_are_none(filled):
    path = filled / "identity.json"
    text = json.loads(path.read_text())
    for wrong in ({"file": "../weights.bin"}, {"file": "a\0b"}, {"bytes": 0}, {"digest": "00"}, {"more": 1}):
        path.write_text(json.dumps({**text, "weights": {**text["weights"], **wrong}}))
        with pytest.raises(HwflowError, match=r"identity\.json', weights"):
            DesignFacts.read(filled)


# -- weights in a flash


@pytest.fixture
def sealed(quantized: Quantized, tmp_path: Path) -> Path:
    """The folder of a design with weights in the flash of an iCEBreaker."""
    build = tmp_path / "build"
    model = identity_of(quantized.graph, DesignFacts.read(leave_design(quantized, build, "icebreaker")).foldings)
    weights = WeightImage.write(build / "small" / "icebreaker" / "synth", WEIGHTS, model, mark=b"designed")
    return leave_design(quantized, build, "icebreaker", weights=weights)


def test_the_file_of_a_sealed_image(sealed):
    front = b"designed" + WEIGHTS + NAME
    assert (sealed / "weights.bin").read_bytes() == front + zlib.crc32(front).to_bytes(4, "little")
    weights = DesignFacts.read(sealed).weights
    assert (weights.mark, weights.in_flash, weights.size, weights.digest) == (b"designed", True, 3000, NAME)
    assert weights.read(sealed) == WEIGHTS
    path = sealed / "weights.bin"
    whole = path.read_bytes()
    for content, message in (
            (whole[:-5], "must hold 3028 bytes of weights, but is cut after 3023"),
            (whole + b"x", "must hold 3028 bytes of weights, but has more"),
            (whole[:99] + b"x" + whole[100:], rf"must hold the weights of its design \(digest {NAME.hex()}\)"),
            (b"D" + whole[1:], "must have the seal of its design around its weights, but has another one"),
            (whole[:-1] + b"x", "must have the seal of its design around its weights, but has another one")):
        path.write_bytes(content)
        with pytest.raises(HwflowError, match=message):
            weights.read(sealed)


def test_where_the_weights_are_is_said(sealed, filled, capsys):
    console = Console()
    say_weights(console, sealed)
    say_weights(console, filled)
    flash, memory = " ".join(capsys.readouterr().out.split()).split("weights outside of the FPGA: ")[1:]
    assert flash.replace(" ", "").startswith(f"3,000bytes,{sealed / 'weights.bin'};`hwflowprogram--weights`writesthem")
    assert memory.endswith("`hwflow run` sends them")


def test_opening_waits_until_the_flash_is_read(quantized, sealed, tmp_path):
    board = board_with(quantized, sealed, image_bytes=3000, busy=5, in_flash=NAME)
    port = MemoryPort(board)
    with hwflow.host.open(port, build=tmp_path / "build", clock=port.clock, patience=PATIENCE) as open_one:
        assert not open_one.filled
        rows = {name: np.zeros((2, *golden_shape(quantized.graph, name)), np.int64) for name in quantized.graph.inputs}
        made = open_one.run_integers(rows)
    expected = golden.run(quantized.graph, rows, keep=False)
    assert all((made[name] == expected[name]).all() for name in quantized.graph.outputs)
    with pytest.raises(HwflowError, match="refill must be left out: the weights of this design are in a flash; write "
                                          "them with `hwflow program --weights`"):
        opened(board, tmp_path / "build", refill=True)
    assert board.clears == 0


def test_program_writes_the_flash(quantized, sealed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    asked = tmp_path / "asked"
    tool = tmp_path / "bin" / "openFPGALoader"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\n[ "$1" = --Version ] && echo openFPGALoader v0.13.1 && exit\necho "$@" > {asked}\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=":")
    cli, words = Cli(capsys), ("program", "small.onnx", "--board", "icebreaker")
    missing = cli(*words, "--weights")
    assert (missing.code, "the bitstream must be there before it is put onto the board" in missing.err) == (2, True)
    bitstream = sealed / "bitstream" / "top.bin"
    cached_step(bitstream.parent, "key", lambda folder: (folder / "top.bin").write_bytes(bytes(1000)))
    done = cli(*words, "--weights")
    assert done.code == 0, done.err
    assert done.out == "the flash of icebreaker has the 3000 bytes of weights of 'small.onnx', for good\n"
    offset = load_board("icebreaker").memories[0].part.offset
    assert asked.read_text().split() == ["--board", "ice40_generic", "--write-flash", "-o", str(offset),
                                         str((sealed / "weights.bin").absolute())]
    asked.unlink()
    port = cli(*words, "--weights", "--port", "/dev/null")
    assert (port.code, "--port must be left out: the programmer of icebreaker writes" in port.err) == (2, True)
    (sealed / "weights.bin").write_bytes(WEIGHTS)
    cut = cli(*words, "--weights")
    assert (cut.code, "must hold 3028 bytes of weights, but is cut after 3000" in cut.err) == (2, True)
    assert not asked.exists()
    hint = cli(*words)
    assert (hint.code, hint.out.endswith("its weights are in the flash as well: write them with --weights, once\n")
            ) == (0, True), hint.err


@pytest.fixture
def place(quantized: Quantized, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    model = small_network()
    onnx.save(model, "small.onnx")
    write_data(Path("small.npz"), model, rows=10)
    folder = leave_design(quantized, Path("build"))
    return leave_design(quantized, Path("build"), weights=image_of(quantized, folder))


def test_run_sends_the_weights_and_says_so(quantized, place, capsys):
    cli, board = Cli(capsys), board_with(quantized, place, image_bytes=3000)
    run = ("run", "small.onnx", "--data", "small.npz", "--port")
    with Terminal(board) as terminal:
        first, second = cli(*run, terminal.port), cli(*run, terminal.port)
        facts = cli(*run, terminal.port, "--json").json
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert "  weights: 3,000 bytes, sent into the memory beside the FPGA\n" in first.out
    assert "  weights: 3,000 bytes, already in the memory beside the FPGA\n" in second.out
    assert facts["weights"].items() >= {"bytes": 3000, "digest": NAME.hex(), "sent": False}.items()
    assert bytes(board.memory) == WEIGHTS


def test_run_with_a_cut_file(quantized, place, capsys):
    (place / "weights.bin").write_bytes(WEIGHTS[:100])
    with Terminal(board_with(quantized, place, image_bytes=3000)) as terminal:
        done = Cli(capsys)("run", "small.onnx", "--data", "small.npz", "--port", terminal.port)
    assert done.code == 2
    assert "must hold 3000 bytes of weights, but is cut after 100" in done.err


def test_program_sends_the_weights(quantized, place, capsys):
    cli, program = Cli(capsys), ("program", "small.onnx", "--board", "ulx3s_85f", "--weights")
    board = board_with(quantized, place, image_bytes=3000)
    with Terminal(board) as terminal:
        done = cli(*program, "--port", terminal.port)
        assert done.code == 0, done.err
        assert done.out == ("the memory of ulx3s_85f has the 3000 bytes of weights of small, until the power is "
                            "switched off\n")
        assert cli(*program, "--port", terminal.port, "--json").json["weights"]["bytes"] == 3000
    assert (bytes(board.memory), board.clears) == (WEIGHTS, 4)
    nowhere = cli(*program)
    assert (nowhere.code, "--weights needs the board's serial port" in nowhere.err) == (2, True)
    leave_design(quantized, Path("build"))
    without = cli(*program, "--port", "/dev/null")
    assert (without.code, "must have weights in a memory of the board" in without.err) == (2, True)
