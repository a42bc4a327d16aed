"""No line of any command is wider than the terminal, COLUMNS, or 80 columns in a pipe; only a path may be longer."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from onnx.parser import parse_model
from rich.cells import cell_len

from hwflow import onnx
from hwflow.cli.commands import cli as words_of_hwflow
from hwflow.cli.parser.command import Group
from hwflow.views.console.terminal import Console, wrapped
from tests.e2e.command import environment, share
from tests.e2e.networks import small_network, write_data
from tests.project.tree import ROOT

WIDTH = 80
MODEL = ("models/digits_cnn.onnx", "--data", "models/digits_cnn.npz")
SMALL = ("small.onnx", "--data", "small.npz")
#: What each child calls, one after another.
CHILD = """
import json, sys
from hwflow.cli import main
for words in json.load(open(sys.argv[1])):
    for stream in (sys.stdout, sys.stderr):
        print("#####", " ".join(words), file=stream, flush=True)
    try:
        main(words)
    except SystemExit as ended:
        print("##### exit", ended.code or 0, flush=True)
"""
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

#: Each command as it works, and as it fails, with the exit code.
CALLS: dict[tuple[str, ...], int] = {
    ("boards",): 0, ("doctor",): 0, ("onnx", "rules"): 0, ("onnx", "rules", "XX-99"): 2,
    ("data", *MODEL[::2], "--rows", "9"): 0, ("data", MODEL[0], "models"): 2,
    ("check", *MODEL[:1]): 0, ("check", *MODEL[:1], "--hardware", "--board", "icebreaker"): 0,
    ("check", "hard.onnx"): 0, ("check", "hard.onnx", "--hardware"): 1, ("info", "hard.onnx"): 0,
    ("info", "models/digits_cnn.onnx", "--svg", "graph.svg"): 0,
    ("quantize", *MODEL, "--export", "integers.onnx"): 0,
    ("quantize", *SMALL, "--accuracy-drop", "1", "--search-evaluations", "2"): 0,
    ("golden", *MODEL): 0, ("golden", "models/digits_cnn.onnx"): 2,
    ("build", *SMALL, "--axi-stream"): 0, ("report", *MODEL): 0, ("init", *MODEL, "--force"): 0,
    ("sim", *SMALL, "--frames", "3"): 0, ("sim", *MODEL, "--board", "ulx3s"): 2, ("sim", "hard.onnx"): 2,
    ("synth", *MODEL, "--clock", "2000"): 2, ("synth", "missing/folder/model.onnx"): 2,
    ("program", *MODEL[:1]): 2, ("run", *MODEL): 2, ("run", *MODEL, "--port", "/dev/nothing"): 2,
    ("reweight", *MODEL, "--base", "models/digits_mlp.onnx"): 2,
    ("onnx", "diff", "models/digits_cnn.onnx", "models/digits_mlp.onnx"): 0,
    ("onnx", "convert", "models/digits_cnn.onnx", "copy.textproto"): 0, ("onnx", "convert", "models", "x.onnx"): 2,
    ("sim", "--stall", "1"): 2, ("nonsense",): 2, (): 2,
}  # fmt: skip


def commands(group: Group = words_of_hwflow, before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command as its words, groups included."""
    found = [before]
    for name, command in group.by_name.items():
        words = (*before, name)
        found += commands(command, words) if isinstance(command, Group) else [words]
    return found


@pytest.fixture(scope="module")
def folder(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped models, a small one, and one with operators and shapes that hardware has not."""
    folder = tmp_path_factory.mktemp("widths")
    (folder / "models").symlink_to(ROOT / "models")
    share(cache, folder / "build/.cache/sim")
    onnx.save(small_network(), folder / "small.onnx")
    write_data(folder / "small.npz", small_network())
    hard = ('<ir_version: 8, opset_import: ["" : 17]> hard (float[batch, a_name_of_an_axis, 8] '
            "an_input_with_a_long_name) => (float[batch, b, 8] y) { t = Softmax (an_input_with_a_long_name) "
            "u = Einsum <equation = \"bij,bij->bij\"> (t, t) y = Erf (u) }")
    (folder / "hard.onnx").write_bytes(parse_model(hard).SerializeToString())
    (folder / "calls.json").write_text(json.dumps([*CALLS, *((*words, "--help") for words in commands())]))
    return folder


def child(folder: Path, columns: int | None = None) -> list[str]:
    env = environment()
    del env["COLUMNS"]
    if columns:
        env["COLUMNS"] = str(columns)
    done = subprocess.run([sys.executable, "-c", CHILD, "calls.json"], cwd=folder, env=env, capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return (done.stdout + done.stderr).splitlines()


def in_a_terminal(folder: Path) -> list[str]:
    env = environment(TERM="xterm-256color")
    del env["COLUMNS"]
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
    process = subprocess.Popen([sys.executable, "-c", CHILD, "calls.json"], cwd=folder, env=env, stdin=slave,
                               stdout=slave, stderr=slave)
    os.close(slave)
    said = b""
    while True:
        try:
            part = os.read(master, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        said += part
    os.close(master)
    assert process.wait(60) == 0
    return re.split(r"[\r\n]+", ESCAPES.sub("", said.decode()))


@pytest.mark.parametrize("lines_of", [
    pytest.param(in_a_terminal, id="terminal"),
    pytest.param(lambda folder: child(folder, WIDTH), id="COLUMNS", marks=pytest.mark.slow),
    pytest.param(child, id="pipe", marks=pytest.mark.slow)])
def test_no_line_is_too_wide(folder: Path, lines_of: Callable[[Path], list[str]]) -> None:
    lines = lines_of(folder)
    codes = [int(line.split()[-1]) for line in lines if line.startswith("##### exit")]
    assert codes == [*CALLS.values(), *[0] * len(commands())]
    assert not [line for line in lines if "Traceback" in line or "error in hwflow" in line]
    wide = [line for line in lines if cell_len(line.rstrip()) > WIDTH and not line.startswith("#####")]
    assert [line for line in wide if len(line.split()) > 1 or "/" not in line] == []


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_help_cuts_nothing(words: tuple[str, ...]) -> None:
    command: click.Command = words_of_hwflow
    for word in words:
        assert isinstance(command, Group)
        command = command.by_name[word]
    context = command.context_class(command, info_name=(words or ("hwflow",))[-1], terminal_width=WIDTH)
    text = command.get_help(context)
    assert "..." not in text.replace(",...", "").replace("seconds, ...", "").partition("\n")[2]
    flat = " ".join(text.split())
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert " ".join((parameter.help or "").split()) in flat


def test_words_stay_whole() -> None:
    path = "/a/" + "very/long/" * 9 + "path.onnx"
    text = f"  the file {path} must be one that `hwflow onnx rules` lists, or else `{'x' * 90}`"
    assert wrapped(text, 50).split("\n") == [
        "  the file", f"    {path}", "    must be one that `hwflow onnx rules` lists, or", "    else",
        f"    `{'x' * 90}`"]
    assert wrapped("short  text\n\n  kept   as it is", 20) == "short  text\n\n  kept   as it is"


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_tables_lose_nothing(width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Texts are folded, columns follow in further tables with the names of the rows; every cell is there in full."""
    monkeypatch.setenv("COLUMNS", str(width))
    heads = ("name", *(f"number {k}" for k in range(12)), "what it is")
    rows = [(f"row{j}", *(str(1000 * j + k) for k in range(12)), f"the text of row{j} has several words")
            for j in range(4)]
    Console().table("a table", heads, rows)
    out = capsys.readouterr().out
    assert max(map(cell_len, out.splitlines())) <= width
    for row in rows:
        lines = [line.split() for line in out.splitlines() if line.split()[:1] == [row[0]]]
        assert [cell for line in lines for cell in line[1:] if cell.isdigit()] == list(row[1:-1])
    assert out.split().count("several") == len(rows)
    assert "…" not in out
    assert "\x1b" not in out, "colours are for a terminal"
