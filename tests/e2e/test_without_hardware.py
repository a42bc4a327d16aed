"""A model with a branch: integers and accuracy as for any other, and words about the hardware that there is not yet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hwflow import onnx
from hwflow.onnx.build import Builder
from tests.e2e.command import Cli
from tests.e2e.networks import write_data

PROBLEMS = (
    "  layer 'add' (add) has no hardware yet\n"
    "  tensor 'first_out_quantized' is read by 'second' and 'add'; branches have no hardware yet"
)


def residual() -> onnx.Model:
    """Two convolutions, and the result of the first one added to that of the second."""
    rng, b = np.random.default_rng(0), Builder("residual")
    x = b.input("x", np.float32, (1, 2, 4, 4))
    for name in ("first", "second"):
        weights = b.constant(f"{name}.w", rng.standard_normal((2, 2, 3, 3)).astype(np.float32) / 4)
        bias = b.constant(f"{name}.b", rng.standard_normal(2).astype(np.float32) / 4)
        made = b.node("Conv", x, weights, bias, name=name, output=f"{name}_out", pads=(1, 1, 1, 1))
        x, before = made, x
    x = b.node("Add", before, x, name="add", output="sum")
    weights = b.constant("fc.w", rng.standard_normal((3, 32)).astype(np.float32) / 4)
    b.output(b.node("Gemm", b.node("Flatten", x, name="flat"), weights, name="fc", output="y", transB=1))
    return onnx.infer(b.model(opset=20))


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(tmp_path)
    onnx.save(residual(), "r.onnx")
    write_data(Path("r.npz"), residual(), rows=9, labels=np.arange(9) % 3)
    return Cli(capsys)


def test_everything_on_the_golden_model_works(cli: Cli) -> None:
    done = cli("quantize", "r.onnx", "--data", "r.npz", "--export", "q.onnx")
    assert done.code == 0, done
    assert [line.split()[1] for line in done.out.splitlines() if " int8 " in line] == ["conv", "conv", "add", "dense"]
    facts = cli("golden", "r.onnx", "--data", "r.npz", "--json").json
    assert facts["accuracy"]["snr_db"] > 20
    assert cli("golden", "q.onnx", "--data", "r.npz", "--json").json["accuracy"]["integer_top1"] == (
        facts["accuracy"]["integer_top1"])


@pytest.mark.parametrize("command", ["build", "sim", "synth"])
def test_what_needs_hardware_says_what_there_is_not(cli: Cli, command: str) -> None:
    assert cli.refuses(command, "r.onnx", "--data", "r.npz") == (
        f"the integer model runs in the golden model, but not in hardware:\n{PROBLEMS}")
    assert not Path("build/r/plan.yaml").exists()
    assert not Path("build/r/rtl").exists()


def test_check(cli: Cli) -> None:
    done = cli("check", "r.onnx")
    assert done.code == 0
    assert done.out.endswith(
        f"; a valid ONNX file, and it runs in the golden model; no hardware yet for:\n{PROBLEMS}\n")
    facts = cli("check", "r.onnx", "--json").json
    assert (facts["valid"], facts["golden"], facts["layers"]) == (True, True, None)
    assert facts["problem"] == f"it runs in the golden model; no hardware yet for:\n{PROBLEMS}"


def test_info(cli: Cli) -> None:
    done = cli("info", "r.onnx")
    assert done.code == 0
    assert "  it runs in the golden model; no hardware yet for:\n    layer 'add' (add) has no hardware yet" in done.out
    facts = cli("info", "r.onnx", "--json").json
    assert (facts["golden"], facts["layers_in_hardware"]) == (True, None)
    where = {node["name"]: (node["where"], node["reason"]) for node in facts["nodes"]}
    assert where["add"] == ("host", "add has no hardware yet; the golden model runs it")
    assert where["first"] == ("hardware", "")


def test_a_model_without_integers_is_told_apart(cli: Cli) -> None:
    b = Builder("recurrent")
    w, r = (b.constant(name, np.ones((1, 4, 2), np.float32)) for name in "wr")
    b.output(b.node("LSTM", b.input("x", np.float32, (5, 1, 2)), w, r, name="lstm", hidden_size=1))
    onnx.save(b.model(), "lstm.onnx")
    facts = cli("info", "lstm.onnx", "--json").json
    assert facts["golden"] is False
    assert "LSTM" in facts["problem"]
