"""Where results go: a board's own in a folder of its own, and two models of one name do not pass for each other."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hwflow.quantize import load_quantized
from hwflow.synth.boards import load_board
from tests.e2e.command import Cli
from tests.host.models import leave_design

BUILD = ("build", "small.onnx", "--data", "small.npz", "--build", "boards")


def test_each_board_keeps_its_plan_and_its_verilog(cli: Cli) -> None:
    texts = {}
    for board in ("ulx3s_85f", "icebreaker"):
        done = cli(*BUILD, "--board", board)
        assert done.code == 0, done
        place = Path("boards/small", board)
        assert str(place / "plan.yaml") in done.out
        texts[place / "plan.yaml"] = (place / "plan.yaml").read_bytes()
        texts[place / "rtl/hwflow_core.v"] = (place / "rtl/hwflow_core.v").read_bytes()
    assert len(set(texts.values())) == len(texts)
    assert {path: path.read_bytes() for path in texts} == texts
    assert sorted(path.name for path in Path("boards/small").iterdir() if not path.name.startswith(".")) == [
        "icebreaker", "model.txt", "quantized", "ulx3s_85f"]


def test_a_board_with_the_name_of_another_result_is_refused(cli: Cli) -> None:
    shutil.copy(load_board("ulx3s_85f").path, "quantized.yaml")
    assert cli.refuses(*BUILD, "--board", "quantized.yaml") == (
        "a board must have a name that no other result has, not 'quantized': its results are in a folder of that name; "
        "rename the file 'quantized.yaml'")


@pytest.fixture
def two(cli: Cli, tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """a/small.onnx, built, and b/small.onnx."""
    monkeypatch.chdir(tmp_path)
    for folder in ("a", "b"):
        Path(folder).mkdir()
        shutil.copy(place / "small.onnx", folder)
    shutil.copy(place / "small.npz", ".")
    assert cli("quantize", "a/small.onnx", "--data", "small.npz").code == 0
    return tmp_path


def test_a_model_of_the_same_name_replaces_results_and_says_so(cli: Cli, two: Path) -> None:
    said = ("'build/small' had the results of another model of the same name, 'a/small.onnx'; this run replaces them; "
            "to keep both, give each its own --build")
    first, again = (cli("quantize", "b/small.onnx", "--data", "small.npz") for _ in range(2))
    assert first.code == again.code == 0
    assert said in " ".join(first.err.split())
    assert "same name" not in again.err
    Path("a/small.onnx").rename("elsewhere.onnx")
    assert "same name" not in cli("quantize", "b/small.onnx", "--data", "small.npz").err


def test_the_folder_may_be_moved_with_its_model(cli: Cli, two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("moved").mkdir()
    for name in ("a", "build", "small.npz"):
        shutil.move(name, "moved")
    monkeypatch.chdir("moved")
    assert "same name" not in cli("quantize", "a/small.onnx", "--data", "small.npz").err


@pytest.mark.parametrize("words", [("program",), ("run", "--data", "small.npz", "--port", "/dev/x")])
def test_the_design_of_another_model_is_refused(cli: Cli, two: Path, words: tuple[str, ...]) -> None:
    leave_design(load_quantized(Path("build/small/quantized")), Path("."))
    shutil.move("small/ulx3s_85f", "build/small/ulx3s_85f")
    message = cli.refuses(words[0], "b/small.onnx", *words[1:])
    assert message.startswith("'build/small/ulx3s_85f/synth' must hold the design of 'b/small.onnx', but is "
                              "the design of another model of the same name, 'a/small.onnx'; run `hwflow synth")
