"""Places where nothing can be written, and the other sides of the commands that write and compare ONNX files."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hwflow import onnx
from tests.e2e.command import Cli, environment, process
from tests.e2e.networks import small_network
from tests.errors.refusals import Refusal, table

CONVERT = ("onnx", "convert")
WRITERS = {
    "convert": "onnx convert small.onnx {}", "external": "onnx convert small.onnx {} --external-data",
    "svg": "info small.onnx --svg {}", "extract": "onnx extract small.onnx {}"}


def big_network() -> onnx.Model:
    """The small network with weights that are large enough for a file of their own."""
    network = small_network()
    constants = network.graph.initializers.items()
    weights = {name: np.tile(array, (100, *[1] * (array.ndim - 1))) for name, array in constants}
    return replace(network, graph=replace(network.graph, initializers=weights))


@pytest.mark.parametrize("words", WRITERS.values(), ids=WRITERS)
def test_a_pipe_or_a_device_is_not_replaced(cli: Cli, model: Path, words: str) -> None:
    """A pipe stands for /dev/null, which is not to be put at risk."""
    os.mkfifo("pipe")
    message = cli.refuses(*words.format("pipe").split())
    assert message == "pipe: must be the name of a file to write, not a pipe or a device; choose another name"
    assert Path("pipe").is_fifo()
    Path("link").symlink_to("pipe")  # as /dev/stdout is one
    cli.refuses(*words.format("link").split())
    assert Path("link").is_symlink()
    assert sorted(os.listdir()) == ["link", "pipe", "small.onnx"]


NO_FOLDER = "must be the name of a file to write, not a folder; add the file's name"
NO_PLACE = "must exist and be writable; make it, or choose another place with --svg"


@table({
    **{f"{name} {target}": Refusal(words.format(target), f"{target}: {NO_FOLDER}", {"folder": Path.mkdir})
       for name, words in WRITERS.items() for target in (".", "..", "/", "folder")},
    "a device in place of the data": Refusal(
        "onnx convert small.onnx b.onnx --external-data", "b.onnx.data: must be the name of a file to write, not a "
        "pipe or a device...", {"b.onnx.data": os.mkfifo}),
    "the picture in place of the model": Refusal(
        "info small.onnx --svg small.onnx", "small.onnx: must not be the model itself; choose another name with --svg"),
    "a file in place of the picture's folder": Refusal(
        "info small.onnx --svg small.onnx/a.svg", f"small.onnx/a.svg: the folder 'small.onnx' {NO_PLACE}"),
    "no folder for the picture": Refusal(
        "info small.onnx --svg nope/deep/a.svg", f"nope/deep/a.svg: the folder 'nope/deep' {NO_PLACE}"),
    **{f"{words} of a folder": Refusal(
        f"{words} models{' out.onnx' if words.endswith(('convert', 'extract')) else ''}",
        "models: must be an ONNX file, not a folder; name the .onnx file in it", {"models": Path.mkdir}) for words in (
        "check", "info", "quantize --accuracy-drop 1", "golden", "build", "sim", "synth", "program", "run",
        "reweight --base small.onnx", "onnx diff small.onnx", "onnx convert", "onnx extract")},
    **{f"versions of a pipe, {words}": Refusal(f"onnx diff {words}", "pipe: must be an ONNX file, not a pipe or a "
                                               "device...", {"pipe": os.mkfifo})
       for words in ("pipe small.onnx", "small.onnx pipe")},
})
def test_places_that_are_none(cli: Cli, model: Path, refusal: Refusal) -> None:
    """Nothing is written, whatever else is missing; opening a pipe would wait for somebody who writes."""
    before = model.read_bytes()
    refusal.check(cli)
    assert model.read_bytes() == before
    assert sorted(os.listdir()) == sorted(["small.onnx", *refusal.files])


@pytest.mark.parametrize("words", WRITERS.values(), ids=WRITERS)
def test_no_name(cli: Cli, model: Path, words: str) -> None:
    assert cli.refuses(*(word.format("") for word in words.split())) == f".: {NO_FOLDER}"


def test_the_weights_of_the_source_are_not_written_over(cli: Cli, model: Path) -> None:
    """The source would go on with the weights of others, or with a model for weights, and nobody would notice."""
    onnx.save(big_network(), "a.onnx", external="b.onnx.data")
    before = Path("b.onnx.data").read_bytes()
    message = "must not be the file that has the weights of a.onnx; choose another name"
    assert cli.refuses(*CONVERT, "a.onnx", "b.onnx", "--external-data") == f"b.onnx.data: {message}"
    assert cli.refuses(*CONVERT, "a.onnx", "b.onnx.data") == f"b.onnx.data: {message}"
    assert Path("b.onnx.data").read_bytes() == before
    assert not Path("b.onnx").exists()


def test_a_model_with_its_weights_beside_it_is_replaced(cli: Cli) -> None:
    onnx.save(big_network(), "a.onnx", external=True)
    before = onnx.dumps(onnx.load("a.onnx"))
    assert cli(*CONVERT, "a.onnx", "a.onnx", "--external-data").code == 0
    assert onnx.dumps(onnx.load("a.onnx")) == before


def test_a_name_that_is_not_utf8(cli: Cli, model: Path) -> None:
    target = os.fsdecode(b"n\xff.onnx")
    done = process([*CONVERT, model, target, "--external-data"])
    assert done.code == 2
    assert "the data file must have a UTF-8 name" in done.message
    assert cli(*CONVERT, model, target, "--json").code == 0, "the model itself may have any name"


@pytest.mark.quick(1)
@pytest.mark.parametrize(("encoding", "shown"), [("ascii:strict", "\\u2603\\udcff"), ("utf-8:strict", "\u2603\\udcff")])
def test_a_name_that_the_terminal_cannot_show(cli: Cli, model: Path, encoding: str, shown: str) -> None:
    name = os.fsdecode("\u2603".encode() + b"\xff.onnx")
    model.rename(name)
    done = process(["check", name], env=environment(PYTHONIOENCODING=encoding))
    assert done.code == 0, done
    assert f"\n{shown}.onnx: no error" in done.out


@pytest.mark.quick(1)
@pytest.mark.parametrize("name, shown", [
    ("\u00ef\x85", rb"\udcc3\udcaf\udcc2\udc85"), ("na\u00efve \u03bc", "na\u00efve \u03bc".encode())])
def test_a_command_to_be_typed_again_outside_of_utf8_locales(cli: Cli, model: Path, name: str, shown: bytes) -> None:
    """The bytes of the name of a file come out as they went in; control characters in them do not."""
    model.rename(f"{name}.onnx")
    ascii_alone = environment(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    done = subprocess.run([sys.executable, "-m", "hwflow.cli", "check", f"{name}.onnx".encode()], env=ascii_alone,
                          capture_output=True, timeout=300)
    assert done.returncode == 0, done
    assert any(line.startswith(shown + b".onnx: no error") for line in done.stdout.splitlines())
    assert done.stderr.splitlines()[-1] == b"next: hwflow sim '" + shown + b".onnx'"


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs Linux")
def test_a_file_that_fails_while_it_is_read(cli: Cli) -> None:
    message = cli.refuses("check", "/proc/self/mem")
    assert message == "/proc/self/mem: cannot be read (Input/output error); check the path and the disk"


@pytest.mark.parametrize("words", [
    ("check", "long.onnx"),
    ("info", "long.onnx"),
    ("onnx", "diff", "long.onnx", "long.onnx"),
    ("onnx", "convert", "long.onnx", "copy.onnx"),
], ids=lambda words: " ".join(words[:-1]))  # fmt: skip
def test_a_limit_can_be_raised_as_the_message_says(cli: Cli, words: tuple[str, ...]) -> None:
    """A metadata property is a message of its own; the file is above the size from which they are counted."""
    network = small_network()
    onnx.save(replace(network, metadata={f"key{i}": "x" * 1000 for i in range(1200)}), "long.onnx")
    assert "--limit messages=NUMBER" in cli.refuses(*words, "--limit", "messages=1000")
    assert cli(*words, "--limit", "messages=10000").code == 0


def test_names_of_a_model_do_not_steer_the_terminal(cli: Cli, model: Path) -> None:
    network = small_network()
    onnx.save(replace(network, graph=replace(network.graph, name="\x1b[31m\x07\u202e")), "red.onnx")
    value = replace(network.graph.inputs[0], name="\x1b[31m\x07\u202e")
    onnx.save(replace(network, graph=replace(network.graph, inputs=(value,))), "input.onnx")
    for other in ("red.onnx", "input.onnx"):
        done = cli("onnx", "diff", model, other)
        assert not {"\x1b", "\x07", "\u202e"} & set(done.out + done.err)
    assert "\\x1b[31m" in cli("onnx", "diff", model, "input.onnx").out


def test_a_cut_at_names_that_mean_harm(cli: Cli, model: Path) -> None:
    """Neither the terminal's state nor the whole screen is theirs, and nothing is written."""
    for name in ("\x1b[2J", "a" * 100_000, "", "\u202e", "x\ny"):
        done = cli("onnx", "extract", model, "out.onnx", "--to", name)
        assert done.code == 2
        assert done.message.startswith("the graph must have the tensor '")
        assert len(done.message) < 500
        assert done.message.isprintable()
    assert not Path("out.onnx").exists()
