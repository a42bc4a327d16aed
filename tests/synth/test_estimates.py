"""What the plan says a design takes, against the netlist: multipliers and RAM blocks exactly, tables within a bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from hwflow.flow import Flow, Settings
from hwflow.hls import make_plan
from hwflow.report.console import Console
from hwflow.synth import load_board
from tests.project.tree import ROOT
from tests.synth.estimates import Comparison, compare, small_stages
from tests.synth.test_flow import need

#: Of the tables of a whole core, either way; of a stage, where a small one may be further off by a few tables.
WHOLE, STAGE, FEW = 0.15, 0.20, 70


def judge(whole: Comparison, parts: tuple[Comparison, ...]) -> None:
    for part in (*parts, whole):
        assert (part.planned.dsp, part.planned.ram) == (part.used.dsp, part.used.ram), part
    assert abs(whole.lut_error) <= WHOLE, whole
    for part in parts:
        assert abs(part.planned.lut - part.used.lut) <= max(FEW, STAGE * part.used.lut), part


def test_stages_that_networks_seldom_have(tmp_path: Path) -> None:
    need("ecp5")
    board = load_board("ulx3s_85f")
    graph, foldings = small_stages()
    judge(*compare(graph, make_plan(graph, foldings, board.technology()), board, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("board", ["ulx3s_85f", "icebreaker", "tangnano9k"])
@pytest.mark.parametrize("name", ["digits_cnn", "digits_mlp"])
def test_example_models_on_all_families(board: str, name: str, tmp_path: Path) -> None:
    compare_model(ROOT / "models" / f"{name}.onnx", ROOT / "models" / f"{name}.npz", board, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [
    "mnist_resdw", "tiny_kws_dscnn_int8", "tiny_resnet8_int8", "tiny_ad_autoencoder_int8"])
def test_whole_networks(models_dir: Path, name: str, tmp_path: Path) -> None:
    compare_model(models_dir / "models" / f"{name}.onnx", models_dir / "data" / f"{name}.npz", "ulx3s_85f", tmp_path)


def compare_model(model: Path, data: Path, board: str, folder: Path) -> None:
    need(load_board(board).family)
    flow = Flow(Console(quiet=True), Settings(model=model, data=data, board=board, build=folder))
    judge(*compare(flow.graph, flow.plan, flow.board, folder / "core"))
