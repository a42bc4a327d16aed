"""Models that run in the golden model alone, or not at all: what each command says of them, and says early."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hwflow import onnx
from hwflow.onnx.build import Builder
from hwflow.stages.elementwise import AddStage
from tests.e2e.command import Cli
from tests.e2e.networks import residual, write_data

PROBLEM = "  layer 'add' (add): sums over the equator have no stage"
NO_STAGE = ("  'add' (Add): sums over the equator have no stage; `hwflow golden` runs it; for hardware, cut the model "
            "in front of it and run the rest on the host")


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(tmp_path)
    return Cli(capsys)


@pytest.fixture
def no_stage(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """`r.onnx`, one of whose layers says that it has no stage."""
    monkeypatch.setattr(AddStage, "hardware_problem", lambda self: "sums over the equator have no stage")
    onnx.save(residual(), "r.onnx")
    write_data(Path("r.npz"), residual(), rows=9, labels=np.arange(9) % 3)


@pytest.mark.usefixtures("no_stage")
def test_everything_on_the_golden_model_works(cli: Cli) -> None:
    done = cli("quantize", "r.onnx", "--data", "r.npz", "--export", "q.onnx")
    assert done.code == 0, done
    assert [line.split()[1] for line in done.out.splitlines() if " int8 " in line] == ["conv", "conv", "add", "dense"]
    facts = cli("golden", "r.onnx", "--data", "r.npz", "--json").json
    assert facts["accuracy"]["snr_db"] > 20
    assert cli("golden", "q.onnx", "--data", "r.npz", "--json").json["accuracy"]["integer_top1"] == (
        facts["accuracy"]["integer_top1"])


@pytest.mark.usefixtures("no_stage")
@pytest.mark.parametrize("command", ["build", "sim", "synth"])
def test_what_needs_hardware_says_what_there_is_not(cli: Cli, command: str) -> None:
    assert cli.refuses(command, "r.onnx", "--data", "r.npz") == (
        f"r.onnx: the integer model runs in the golden model, but not in hardware:\n{PROBLEM}")
    assert not Path("build/r/ulx3s_85f/plan.yaml").exists()
    assert not Path("build/r/ulx3s_85f/rtl").exists()


@pytest.mark.usefixtures("no_stage")
def test_check(cli: Cli) -> None:
    done = cli("check", "r.onnx")
    assert done.code == 0
    assert done.out.splitlines()[-3:] == [
        "r.onnx: no error, 2 warnings; a valid ONNX file", "r.onnx: 4 of 5 nodes map to hardware:", NO_STAGE]
    facts = cli("check", "r.onnx", "--json").json
    assert (facts["valid"], facts["possible"], facts["counts"]["none"]) == (True, False, 1)


@pytest.mark.usefixtures("no_stage")
def test_check_of_hardware(cli: Cli) -> None:
    done = cli("check", "r.onnx", "--hardware")
    assert done.code == 1
    assert done.out.splitlines()[-2:] == ["r.onnx: 4 of 5 nodes map to hardware:", NO_STAGE]


@pytest.mark.usefixtures("no_stage")
def test_info(cli: Cli) -> None:
    done = cli("info", "r.onnx")
    assert done.code == 0
    assert f"  it runs in the golden model; no hardware yet for:\n  {PROBLEM}" in done.out
    facts = cli("info", "r.onnx", "--json").json
    assert (facts["golden"], facts["layers_in_hardware"]) == (True, None)
    where = {node["name"]: (node["where"], node["reason"]) for node in facts["nodes"]}
    assert where["add"] == ("host", "sums over the equator have no stage")
    assert where["first"] == ("hardware", "")


def of_regions() -> onnx.Model:
    b = Builder("regions")
    regions = b.constant("regions", np.array([[0, 0, 0, 3, 3]], np.float32))
    b.output(b.node("MaxRoiPool", b.input("x", np.float32, (1, 1, 4, 4)), regions, pooled_shape=[2, 2], name="pool",
                    output="y"), np.float32, (1, 1, 2, 2))
    return b.model()


def test_layers_that_there_are_none_of(cli: Cli) -> None:
    onnx.save(of_regions(), "r.onnx")
    why = "'pool' (MaxRoiPool): operator MaxRoiPool has no hardware"
    facts = cli("info", "r.onnx", "--json").json
    assert facts["golden"] is False
    assert why in facts["problem"]
    for command in ("build", "quantize"):
        assert why in cli.refuses(command, "r.onnx")
    done = cli("check", "r.onnx")
    assert (done.code, why in done.out, "next:" in done.out) == (0, True, False)
    done = cli("check", "r.onnx", "--hardware")
    assert (done.code, f"  {why}; " in done.out) == (1, True)
