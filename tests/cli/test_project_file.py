"""`hwflow.toml`: what it gives to commands, what overrules it, and what it must be."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from hwflow.cli.build import BuildRequest
from hwflow.cli.check import CheckRequest
from hwflow.cli.commands import cli as words
from hwflow.cli.parser.command import Command
from hwflow.cli.sim import SimRequest
from hwflow.options import HardwareOptions, Project, QuantizationOptions
from hwflow.stages.partition import Execution
from tests.e2e.command import Cli
from tests.project.tree import ROOT

FILE = """
[model]
path = "a.onnx"
data = "a.npz"
state = ["h0=hn"]
[options]
board = "icebreaker"
bits = 4
execution = "shared"
reweightable = true
clock = 20
[sim]
frames = 7
stalls = 0.25
"""
OF_FILE = Project(Path("a.onnx"), states=(("h0", "hn"),), data=Path("a.npz"))
HARDWARE = HardwareOptions("icebreaker", execution=Execution.SHARED, reweightable=True)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.onnx").write_bytes((ROOT / "models/digits_mlp.onnx").read_bytes())
    (tmp_path / "other.onnx").write_bytes((ROOT / "models/digits_mlp.onnx").read_bytes())
    (tmp_path / "hwflow.toml").write_text(FILE)
    return tmp_path


@pytest.fixture
def call(folder: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


def asked(call: Cli, line: str) -> Any:
    """The request that a command line becomes."""
    with mock.patch.object(Command, "run", return_value={}) as run:
        done = call(*shlex.split(line))
    assert done.code == 0, done.err
    return run.call_args.args[1]


@pytest.mark.parametrize("line, request_", [
    ("sim", SimRequest(OF_FILE, QuantizationOptions((4, 8)), HARDWARE, frames=7, stalls=0.25)),
    ("sim --netlist", SimRequest(OF_FILE, QuantizationOptions((4, 8)), HARDWARE, frames=7, netlist=True, clock=20.0)),
    ("build --board ulx3s_85f --data b.npz --bits 8,8 --no-reweightable --execution auto",
     BuildRequest(Project(Path("a.onnx"), states=(("h0", "hn"),), data=Path("b.npz")), QuantizationOptions((8, 8)))),
    ("build --settings s.yaml --plan p.yaml", BuildRequest(
        OF_FILE, QuantizationOptions(settings=Path("s.yaml")),
        HardwareOptions("icebreaker", plan=Path("p.yaml"), reweightable=True))),
    ("build other.onnx", BuildRequest(Project(Path("other.onnx")), QuantizationOptions((4, 8)), HARDWARE)),
    ("build ./a.onnx", BuildRequest(Project(Path("a.onnx"), states=(("h0", "hn"),), data=Path("a.npz")),
                                    QuantizationOptions((4, 8)), HARDWARE)),
    ("check", CheckRequest(OF_FILE)),
    ("check --hardware", CheckRequest(OF_FILE, hardware=True, board="icebreaker")),
])
def test_the_file_gives_what_the_command_line_does_not_say(call: Cli, line: str, request_: object) -> None:
    assert asked(call, line) == request_


def test_what_comes_from_the_file_is_said(call: Cli) -> None:
    with mock.patch.object(Command, "run", return_value={}):
        said, quiet = call("sim", "--frames", "2"), call("sim", "--quiet")
    assert said.err == ("from hwflow.toml: a.onnx --state h0=hn --data a.npz --bits 4 --board icebreaker --execution "
                        "shared --reweightable --stalls 0.25\n")
    assert quiet.err == ""


@pytest.mark.parametrize("text, message", [
    ("[", "hwflow.toml: must be TOML: Invalid initial character for a key part (at end of document)"),
    ("model = 3", "hwflow.toml: 'model' must be a table, not 3; write [model]"),
    ("[modle]", "hwflow.toml: a table must be one that hwflow knows, not 'modle'; did you mean 'model'?"),
    ("[options]\nbaord = 3", "hwflow.toml: a key of [options] must be one that hwflow knows, not 'baord'; did you mean "
     "'board'?"),
    ("[options]\nxxxxxx = 3", "hwflow.toml: a key of [options] must be one that hwflow knows, not 'xxxxxx'; a key is "
     "the name of an option without its dashes"),
    ("[options]\nseed = 3", "hwflow.toml: a key of [options] must be one that hwflow knows, not 'seed'; a key is the "
     "name of an option without its dashes"),
    ("[options]\nreweightable = 1", "hwflow.toml: 'reweightable' must be true or false, not 1"),
    ("[options]\nboard = []", "hwflow.toml: 'board' must be a text or a number, not []"),
    ("[options]\nbits = 9", "hwflow.toml: Invalid value for '--bits': '9' must be the bits of weights, 1 to 8, or of "
     "weights and activations, 1 to 16, like 4 or 4,8; see `hwflow build --help`"),
    ('[model]\npath = "a\\u0000.onnx"', "hwflow.toml: 'path' must be a text without the character U+0000, not "
     "'a\\x00.onnx'"),
    ('[options]\nbuild = "\\u0000"', "hwflow.toml: 'build' must be a text without the character U+0000, not '\\x00'"),
    ("[model]\npath = 'missing.onnx'", "missing.onnx: there is no such file; check the path"),
    ("a = " + "[" * 10_000, "hwflow.toml: must be TOML"),
])
def test_a_file_that_is_wrong(call: Cli, folder: Path, text: str, message: str) -> None:
    (folder / "hwflow.toml").write_text(text)
    said = call.refuses("build", *(["a.onnx"] if "path" not in text else []))
    assert said.startswith(message) if message.endswith("TOML") else said == message


def test_commands_without_a_model_do_not_read_it(call: Cli, folder: Path) -> None:
    (folder / "hwflow.toml").write_text("[")
    assert call("completion", "zsh").code == call("boards").code == 0


def test_init_writes_a_file_in_which_every_option_is_valid(call: Cli, folder: Path) -> None:
    assert call.refuses("init", "a.onnx") == (
        "hwflow.toml: there is such a file already; edit it, or replace it with --force")
    assert call.refuses("init", "--force") == (
        "this folder must have one ONNX file, and has a.onnx, other.onnx; name the model: hwflow init MODEL")
    (folder / "a.npz").write_bytes((ROOT / "models/digits_mlp.npz").read_bytes())
    done = call("init", "a.onnx", "--force", "--board", "icebreaker")
    assert done.out == "hwflow.toml: a.onnx with a.npz, for icebreaker\n"
    text = (folder / "hwflow.toml").read_text()
    assert tomllib.loads(text)["model"] == {"path": "a.onnx", "data": "a.npz"}
    assert asked(call, "build") == BuildRequest(Project(Path("a.onnx"), data=Path("a.npz")),
                                                hardware=HardwareOptions("icebreaker"))
    assert call.refuses("init", "a.onnx", "--force", "--board", "nowhere/my.yaml").startswith(
        "the board file 'nowhere/my.yaml' must exist; the boards that come with hwflow are ")
    (folder / "my.yaml").write_bytes((ROOT / "boards/icebreaker.yaml").read_bytes())
    assert call("init", "a.onnx", "--force", "--board", "my.yaml").code == 0
    assert asked(call, "build").hardware == HardwareOptions("my.yaml")
    lines = [line.removeprefix("# ") if " = " in line else line for line in text.splitlines()]
    assert sum(line != before for line, before in zip(lines, text.splitlines(), strict=True)) > 40
    (folder / "hwflow.toml").write_text("\n".join(lines))
    with mock.patch.object(Command, "run", return_value={}):  # its keys are right; some values are only examples
        assert "must be one that hwflow knows" not in call("check", "a.onnx").err


def test_a_shell_is_offered_boards_and_options(folder: Path) -> None:
    from click.shell_completion import BashComplete
    complete = BashComplete(words, {}, "hwflow", "_HWFLOW_COMPLETE")
    boards = [item.value for item in complete.get_completions(["sim", "a.onnx", "--board"], "ice")]
    assert boards == sorted(path.stem for path in (ROOT / "boards").glob("ice*.yaml"))
    assert "--frames" in [item.value for item in complete.get_completions(["sim"], "--fr")]
