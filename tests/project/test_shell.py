"""Every shell command of README and docs: the command line accepts it, and it does its work or says where a test does.

Names of files that belong to the reader are replaced by those of the shipped model.  A command that cannot run here, or
that another test runs, is in ELSEWHERE with the reason.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from hwflow.cli.commands import cli
from hwflow.cli.parser.command import Group
from tests.e2e.command import Cli
from tests.project.shell import Said, commands, spans
from tests.project.test_make import make
from tests.project.tree import ROOT

#: What a command says, and why no test of this file runs it.  A name of a file of tests must be there.
ELSEWHERE = {
    r"hwflow (synth|reweight) ": "place and route takes minutes: tests/synth/test_flow.py, tests/e2e/test_reweight.py",
    r"hwflow sim .*--netlist": "needs the result of synthesis: tests/e2e/test_netlist.py",
    r"hwflow sim .*--plan ": "the plan is one of a third-party network",
    r"hwflow build .*--hardware-argmax": "the shipped models end in scores: tests/quantize/test_argmax.py",
    r"hwflow sim wake/": "the model is of a third-party package: tests/e2e/test_wake_words.py",
    r"hwflow program ": "needs a board: tests/synth/test_program.py has the programmers",
    r"hwflow run .*--generate": "a simulated board of a language model takes minutes: tests/host/test_text.py",
    r"hwflow golden models/shakespeare": "takes a minute: tests/quantize/test_caches.py has small models",
    r"hwflow run (?!.*--simulate)": "needs a board: tests/host/test_run.py has one in Python, at a pseudo-terminal",
    r"hwflow run .*--transport": "all transports: tests/host/test_simulated_board.py",
    r"hwflow serve ": "serves until it is ended: tests/serve/test_serve.py",
    r"hwflow build .*--export (verilog|fusesoc|litex) --output exports": "tests/export/test_pages.py",
    r"(cd|export|fusesoc|iverilog|vvp|python3 soc\.py|make (VERILATOR|SEED)=)": "tests/export/test_pages.py",
    r"(pip|git|python -m tf2onnx|\.) ": "an installation, or a third-party model: tests/project/test_packaging.py",
    r"mpremote ": "needs a microcontroller: tests/drivers/test_micropython.py",
    r"hwflow explore .*--(scheduler|settings)": "needs a cluster, or the result of a search for widths: "
                                               "tests/search/exploration/test_engine.py",
    r"dask ": "starts a cluster: tests/search/exploration/test_engine.py",
    r"curl ": "needs a server: tests/serve/test_serve.py",
    r"hwflow explore ": "starts processes, with the extra explore: tests/search/exploration/test_boards.py",
    r"hwflow data ": "the pictures, recordings and tables are the reader's: tests/data/test_sources.py",
    r"eval ": "changes the shell: tests/cli/test_project_file.py",
}
#: Pages whose commands need each other, in order.
SESSIONS = {"docs/project-file.md": "tests/cli/test_project_file.py"}
#: Commands that are run, but take longer than a second or two.
LONG = (r"hwflow (sim|run|explore|build|report .*--board ulx3s|"
        r"(golden|quantize) .*(--bits|--settings|--rescale-bits|--accuracy-drop))")
#: Exit codes of the answer "no": the shipped model is as its exporter wrote it.
ANSWERS = {("check", "models/digits_cnn.onnx", "--strict"): 1}
#: Placeholders of the text.
PLACEHOLDERS = {"ROWS": "2", "TRANSPORT": "uart", "BOARD": "icebreaker", "MODEL": "models/digits_cnn.onnx",
                "DATA": "models/digits_cnn.npz", "conv3_out": "pool1", "TENSOR": "pool1"}
#: Words after which the name of a file is a result.
MADE = ("--export", "--output", "--svg")


def given(words: Iterable[str]) -> tuple[str, ...]:
    """The words with the shipped model and its data in place of the reader's files."""
    found = list(words)
    result = found[4:5] if found[1:3] in (["onnx", "convert"], ["onnx", "extract"]) else []
    return tuple(PLACEHOLDERS.get(word, word) if before in MADE or word in result else file_of(word)
                 for before, word in zip(["", *found], found, strict=False))


def file_of(word: str) -> str:
    if re.fullmatch(r"[\w/.-]+\.(onnx|npz|tflite)", word):
        return "models/digits_cnn" + Path(word).suffix.replace(".tflite", ".onnx")
    return PLACEHOLDERS.get(word, word)


def elsewhere(said: Said) -> str | None:
    line = " ".join(said.words)
    reasons = (reason for pattern, reason in ELSEWHERE.items() if re.match(pattern, line + " "))
    return SESSIONS.get(said.place) or next(reasons, None)


@cache
def to_run(long: bool) -> dict[tuple[str, ...], list[str]]:
    """The commands of hwflow that run here, each once, with the documents that have it."""
    found: dict[tuple[str, ...], list[str]] = {}
    for said in commands():
        if said.words[0] == "hwflow" and elsewhere(said) is None:
            words = given(said.words)
            if bool(re.match(LONG, " ".join(words))) == long:
                found.setdefault(words[1:], []).append(said.place)
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "models").symlink_to(ROOT / "models")
    (tmp_path / "mine.yaml").write_text("default: {weights: {bits: 6}}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_reason_is_of_a_command_and_names_tests_that_are_there() -> None:
    lines = [" ".join(said.words) + " " for said in commands()]
    assert [pattern for pattern in ELSEWHERE if not any(re.match(pattern, line) for line in lines)] == []
    others = [said for said in commands() if said.words[0] not in ("hwflow", "make", "pytest") and not elsewhere(said)]
    assert [said for said in others if said.words[:2] != ("python", "-m")] == []
    named = {name for reason in (ELSEWHERE | SESSIONS).values() for name in re.findall(r"tests/[\w/.]+\.py", reason)}
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_there_are_commands() -> None:
    assert len(commands()) > 150
    assert len(to_run(long=False)) > 15
    assert len(to_run(long=True)) > 5


def context(words: Iterable[str]) -> click.Context:
    """What click makes of a whole command; raises click.UsageError where an option is unknown or its value is wrong."""
    command: click.Command = cli
    found = cli.make_context("hwflow", list(words))
    while isinstance(command, click.Group):
        name, inner, rest = command.resolve_command(found, [*found._protected_args, *found.args])
        assert inner is not None
        command, found = inner, inner.make_context(name, list(rest), parent=found)
    return found


def refusals(said: Iterable[Said]) -> Iterator[str]:
    for each in said:
        try:
            context(given(each.words)[1:])
        except click.UsageError as error:
            yield f"{each}: {error.format_message()}"


def test_the_command_line_takes_every_command(folder: Path) -> None:
    (folder / "bench").symlink_to(ROOT / "bench")
    whole = [said for said in commands() if said.words[0] == "hwflow"]
    assert list(refusals(said for said in whole if said.place not in SESSIONS)) == []
    (folder / "hwflow.toml").write_text('[model]\npath = "models/digits_cnn.onnx"\n')
    assert list(refusals(said for said in whole if said.place in SESSIONS)) == []


def test_make_takes_every_command(folder: Path) -> None:
    """What a target passes on is a command that hwflow takes; variables are those that the Makefile has."""
    variables = set(re.findall(r"^(\w+) +\?=", (ROOT / "Makefile").read_text(), re.MULTILINE))
    seen, passed = set(), []
    for said in commands():
        if said.words[0] != "make" or said.words in seen or "export-" in said.place:
            continue
        seen.add(said.words)
        assert {word.partition("=")[0] for word in said.words[2:]} <= variables, said
        for line in make("-n", *said.words[1:]).stdout.splitlines():
            words = shlex.split(line) if "/bin/hwflow" in line else []
            passed += [Said(said.place, tuple(words))] if words else []
            bench = re.search(r"-m bench.*", line)
            assert bench is None or set(sections_of(said)) <= set(bench_sections()), said
    assert len(passed) > 10
    assert list(refusals(passed)) == []


def sections_of(said: Said) -> list[str]:
    """The sections of `make bench ARGS=...`."""
    arguments = next(word[5:] for word in said.words if word.startswith("ARGS="))
    return re.split(r" --", arguments)[0].split()


@cache
def bench_sections() -> tuple[str, ...]:
    from bench.__main__ import SECTIONS

    return tuple(SECTIONS)


def test_modules_and_tests_that_commands_name_are_there() -> None:
    from bench.synthetic import SYNTHETIC

    for said in commands():
        words = list(said.words)
        if words[:2] == ["python", "-m"] and words[2].startswith("bench"):
            assert importlib.util.find_spec(words[2]) is not None, said
            assert words[2] != "bench.synthetic" or words[3] in SYNTHETIC, said
        assert all((ROOT / word).exists() for word in words if word.startswith("tests/")), said


def test_options_inside_of_sentences_are_those_of_the_command() -> None:
    wrong = []
    for said in spans():
        words = list(said.words)
        if words[0] != "hwflow" or not re.fullmatch(r"[a-z]+", (words[1:2] and words[1]) or ""):
            continue
        command: click.Command | None = cli.by_name.get(words[1])
        if isinstance(command, Group) and len(words) > 2:
            command = command.by_name.get(words[2])
        known = {name for each in command.params for name in each.opts} | {"--help"} if command else set()
        if command is None or not {word.partition("=")[0] for word in words if word.startswith("--")} <= known:
            wrong.append(str(said))
    assert wrong == []


def test_short_commands_do_their_work(folder: Path, cli_here: Cli) -> None:
    run(cli_here, to_run(long=False))


@pytest.mark.slow
@pytest.mark.parametrize("words", to_run(long=True), ids=" ".join)
def test_a_long_command_does_its_work(words: tuple[str, ...], folder: Path, cli_here: Cli) -> None:
    run(cli_here, {words: to_run(long=True)[words]})


@pytest.fixture
def cli_here(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


def run(here: Cli, found: dict[tuple[str, ...], list[str]]) -> None:
    for words, places in found.items():
        done = here(*words)
        said = f"{', '.join(places)}: hwflow {' '.join(words)}\n{done.out}{done.err}"
        assert done.code == ANSWERS.get(words, 0), said
