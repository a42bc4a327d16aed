"""What the plan says a design takes, against the netlist: multipliers and RAM blocks exactly, tables within a bound."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from amaranth.back import rtlil
from amaranth.hdl import unsigned
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.stream.queue_choice import PairedQueue
from hwflow_rtl.vendor import Resources

from hwflow.hls import Target, make_plan, solve
from hwflow.hls.plan.graph_stages import stages_of
from hwflow.layers import LayerGraph
from hwflow.layers.base import Layer
from hwflow.options import HardwareOptions, Project
from hwflow.pipeline.pipeline import Pipeline
from hwflow.pipeline.planning import budget_of
from hwflow.quantize import quantize
from hwflow.stages.folding import Folding
from hwflow.stages.kinds import stage_of
from hwflow.synth import load_board
from hwflow.synth.design_parts import read_parts
from hwflow.synth.netlist import make_netlist
from hwflow.synth.toolchain import Job, tools_of_family
from hwflow.views.console.terminal import Console
from tests.e2e.networks import gated, rows_for
from tests.project.tree import ROOT
from tests.synth.conftest import need
from tests.synth.estimates import Alone, Comparison, compare, small_stages

#: Of the tables of a whole core, either way; of a stage, where a small one may be further off by a few tables.
WHOLE, STAGE, FEW = 0.15, 0.20, 70


def judge(whole: Comparison, parts: tuple[Comparison, ...]) -> None:
    for part in (*parts, whole):
        assert (part.planned.dsp, part.planned.ram) == (part.used.dsp, part.used.ram), part
        assert part.planned.spram == part.used.spram, part
    assert abs(whole.lut_error) <= WHOLE, whole
    for part in parts:
        assert abs(part.planned.lut - part.used.lut) <= max(FEW, STAGE * part.used.lut), part


@pytest.mark.slow
def test_stages_that_networks_seldom_have(tmp_path: Path) -> None:
    need("ecp5")
    board = load_board("ulx3s_85f")
    graph, foldings = small_stages()
    judge(*compare(graph, make_plan(graph, foldings, board.technology()), board, tmp_path))


def test_a_queue_in_spram(tmp_path: Path) -> None:
    """Alone: its memories exactly, its logic cells within the bound of a stage."""
    board = load_board("icebreaker")
    technology = board.technology()
    top = Alone(PairedQueue(shape=unsigned(9), depth=40_000, technology=technology))
    text = rtlil.convert(top, name="top", ports=top.pins, emit_src=False)
    make_netlist(Job(board, tmp_path, tools_of_family("ice40"), lambda text: None), text)
    used = sum(read_parts(tmp_path / "netlist" / "netlist.json", "ice40").values(), Resources())
    planned = technology.placed(PairedQueue.cost(width=9, depth=40_000, technology=technology))
    assert planned.spram == used.spram == 4
    assert abs(planned.lut / used.lut - 1) < STAGE, (planned, used)
    assert abs(planned.ff / used.ff - 1) < STAGE, (planned, used)


@pytest.mark.slow
def test_a_network_with_a_queue_in_spram(tmp_path: Path) -> None:
    graph = quantize(gated(), rows_for(gated(), 4)).graph
    board = load_board("icebreaker")
    plan = solve(graph, Target(board.technology(), budget_of(board, graph)))
    assert plan.resources.spram == 1
    judge(*compare(graph, plan, board, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("board", ["ulx3s_85f", "icebreaker", "tangnano9k"])
@pytest.mark.parametrize("name", ["digits_cnn", "digits_mlp"])
def test_example_models_on_all_families(board: str, name: str, tmp_path: Path) -> None:
    compare_model(ROOT / "models" / f"{name}.onnx", ROOT / "models" / f"{name}.npz", board, tmp_path)


@pytest.mark.slow
def test_sums_of_products_in_blocks(tmp_path: Path) -> None:
    """In every stage that can have them: as many blocks, less logic, as much of it as estimated."""
    need("ecp5")
    board = load_board("ulx3s_85f")
    project = Project(ROOT / "models" / "digits_cnn.onnx", data=ROOT / "models" / "digits_cnn.npz", build=tmp_path)
    pipeline = Pipeline(Console(quiet=True), project, hardware=HardwareOptions(board.name))
    foldings = [with_macs(pipeline.graph, layer, planned.folding)
                for stage, planned in zip(stages_of(pipeline.graph), pipeline.plan.stages, strict=True)
                for layer in stage.layers]
    plan = make_plan(pipeline.graph, foldings, board.technology())
    assert plan.resources.dsp == pipeline.plan.resources.dsp
    assert plan.resources.lut < pipeline.plan.resources.lut
    _, parts = compare(pipeline.graph, plan, board, tmp_path / "core")
    sums = [part for part, folding in zip(parts, foldings, strict=False) if folding.style is MultiplierStyle.MACS]
    assert len(sums) == 2
    for part in sums:
        judge(part, ())


def with_macs(graph: LayerGraph, layer: Layer, folding: Folding) -> Folding:
    macs = replace(folding, style=MultiplierStyle.MACS)
    return macs if stage_of(graph, layer).folding_problem(macs) is None else folding


@pytest.mark.slow
@pytest.mark.parametrize("name", [
    "mnist_resdw", "tiny_kws_dscnn_int8", "tiny_resnet8_int8", "tiny_ad_autoencoder_int8"])
def test_whole_networks(models_dir: Path, name: str, tmp_path: Path) -> None:
    compare_model(models_dir / "models" / f"{name}.onnx", models_dir / "data" / f"{name}.npz", "ulx3s_85f", tmp_path)


def compare_model(model: Path, data: Path, board: str, folder: Path) -> None:
    need(load_board(board).family)
    pipeline = Pipeline(Console(quiet=True), Project(model, data=data, build=folder), hardware=HardwareOptions(board))
    judge(*compare(pipeline.graph, pipeline.plan, pipeline.board, folder / "core"))
