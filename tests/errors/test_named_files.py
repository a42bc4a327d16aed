"""Every message about a model begins with the path that the user gave, on the command line and in Python."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import AnswerIsNo, HwflowError

import hwflow
from hwflow import onnx
from hwflow.onnx.build import Builder
from hwflow.onnx.errors import LimitError
from hwflow.quantize.checks.meaning import MeaningChanged
from hwflow.quantize.problems import NoHardware
from tests.e2e.command import Cli

F = np.float32
PLACE = "some models/net.onnx"


def waves(size: int | str = 6) -> None:
    """A file named apart from its graph, with a node that has no hardware."""
    b = Builder("main_graph")
    x = b.node("Conv", b.input("x", F, (1, 1, 6, size)), b.constant("w", np.ones((2, 1, 3, 3), F)), name="first")
    x = b.node("Sin", x, name="wave")
    b.output(b.node("Conv", x, b.constant("v", np.ones((2, 2, 1, 1), F)), name="last"), F)
    Path(PLACE).parent.mkdir(exist_ok=True)
    onnx.save(b.model(), PLACE)


WHY = ("1 part of the model cannot become hardware:\n  'wave' (Sin): operator Sin has no hardware, and the host cannot "
       "run it because 'last' (Conv) follows\n")
OPEN = "the shape of input 'x' must be known, not float32[1, 1, 6, n]; give it with --input-shape x=1,1,6,32"


@pytest.mark.parametrize("command", ["quantize", "build", "sim", "synth", "golden"])
@pytest.mark.parametrize("form", [str, os.path.abspath])
def test_on_the_command_line(cli: Cli, command: str, form: Callable[[str], str]) -> None:
    waves()
    np.savez("d.npz", in_x=np.ones((3, 1, 1, 6, 6), F))
    path = form(PLACE)
    assert cli.refuses(command, path, "--data", "d.npz").startswith(f"{path}: {WHY}")


def test_of_shapes_and_limits(cli: Cli) -> None:
    waves("n")
    assert cli.refuses("quantize", PLACE).startswith(f"{PLACE}: {OPEN}")
    assert cli.refuses("quantize", PLACE, "--input-shape", "x=1,1,6,6").startswith(f"{PLACE}: {WHY}")


def test_in_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    waves("n")
    with pytest.raises(HwflowError) as refused:
        hwflow.load(PLACE)
    assert str(refused.value).startswith(f"{PLACE}: {OPEN}")
    model = hwflow.load(Path(PLACE), {"x": (1, 1, 6, 6)})
    with pytest.raises(NoHardware) as error:
        hwflow.quantize_model(model)
    assert str(error.value).startswith(f"{PLACE}: {WHY}")
    assert [problem.where for problem in error.value.problems] == ["'wave' (Sin)"]


@pytest.mark.parametrize("words", [(), ("--execution", "shared")])
def test_of_plans(cli: Cli, words: tuple[str, ...]) -> None:
    """The graph's name is the exporter's; the user knows the file's."""
    b = Builder("main_graph")
    w = np.random.default_rng(0).standard_normal((512, 512)).astype(F)
    x = b.node("Gemm", b.input("x", F, (1, 512)), b.constant("w", w), name="first")
    b.output(b.node("Gemm", x, b.constant("v", w), name="second"))
    Path(PLACE).parent.mkdir()
    onnx.save(b.model(), PLACE)
    kind = " as one shared stage" if words else ""
    message = cli.refuses("build", PLACE, "--board", "tangnano9k", *words, code=1)
    assert message.startswith(f"{PLACE}: 'main_graph'{kind} does not fit tangnano9k")


def test_of_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    waves()
    with pytest.raises(HwflowError) as refused:
        onnx.evaluate(onnx.load(PLACE), {"x": np.ones((1, 1, 6, 7), F)})
    assert str(refused.value).startswith(f"{PLACE}: input 'x' ")


@pytest.mark.parametrize("kind", [HwflowError, LimitError, AnswerIsNo, MeaningChanged])
def test_an_error_keeps_what_it_is(kind: type[HwflowError]) -> None:
    error = kind("sums must be small, not 9", "take less", where="'fc'")
    named = error.about("m.onnx")
    assert type(named) is kind
    assert str(named) == "m.onnx: 'fc': sums must be small, not 9; take less"
    assert (named.why, named.remedy, named.where, named.exit_code) == (
        error.why, error.remedy, error.where, error.exit_code)
    assert named.without_file == str(error)
    assert named.about("m.onnx") is named
    assert named.about("other.onnx") is named, "the innermost says which file it is"
    assert error.about("") is error
