"""The solver: within the budget, as fast as it allows, the cheapest of those, and a reason where nothing fits."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import pytest
from hwflow_base.errors import AnswerIsNo
from hwflow_rtl.vendor import Resources, Technology

from bench.synthetic import write
from hwflow import hls, onnx
from hwflow.hls import Budget
from hwflow.layers.base import LayerGraph
from hwflow.options import HardwareOptions, Project
from hwflow.pipeline.pipeline import Pipeline
from hwflow.pipeline.planning import executions_of
from hwflow.quantize import quantize
from hwflow.stages.kinds import stage_of
from hwflow.stages.partition import Execution
from hwflow.synth import load_board
from hwflow.views.console.terminal import Console
from tests.boards import BOARDS
from tests.e2e.networks import random_network, rows_for, small_network
from tests.quantize.net import Net, data

PLENTY = Resources(lut=10**6, ff=10**6, dsp=10**4, ram=10**4)
NOTHING = Resources()
SEEDS = (2, 4, 8, 14, 21)


def graph_of(seed: int | None) -> LayerGraph:
    model = small_network() if seed is None else random_network(seed)
    return quantize(model, rows_for(model, 4)).graph


@pytest.fixture(scope="module")
def graph() -> LayerGraph:
    return graph_of(None)


def budget(**limits: int) -> Budget:
    return Budget("test", dataclasses.replace(PLENTY, **limits), NOTHING, usable_logic=1.0)


@pytest.mark.parametrize("seed", SEEDS[1:])  # the first one is too large for an iCE40
@pytest.mark.parametrize("board", BOARDS)
def test_the_budget_of_a_board_is_respected(board: str, seed: int) -> None:
    b = load_board(board)
    limits = Budget(b.name, b.resources, Resources(lut=250, ff=200), usable_logic=0.8)
    plan = hls.solve(graph_of(seed), hls.Target(b.technology(), limits))
    assert limits.fits(plan.resources)
    assert plan.resources.lut <= 0.8 * b.resources.lut - 250
    assert plan.resources.dsp <= b.resources.dsp


@pytest.mark.parametrize("seed", [None, *SEEDS])
def test_more_multipliers_are_never_slower(technology: Technology, seed: int | None) -> None:
    graph = graph_of(seed)
    before = None
    for dsp in (1000, 60, 30, 20, 15, 12, 10, 8, 7, 6, 5):
        try:
            plan = hls.solve(graph, hls.Target(technology, budget(dsp=dsp)))
        except AnswerIsNo:
            break
        assert plan.resources.dsp <= dsp
        assert before is None or plan.interval >= before
        before = plan.interval
    assert before is not None


def test_fewer_logic_cells_are_never_faster(graph: LayerGraph, technology: Technology) -> None:
    intervals = [hls.solve(graph, hls.Target(technology, budget(lut=lut))).interval
                 for lut in (10**6, 4000, 3000, 2500)]
    assert intervals == sorted(intervals)


@pytest.mark.parametrize("seed", [None, *SEEDS])
def test_an_interval_is_kept(technology: Technology, seed: int | None) -> None:
    graph = graph_of(seed)
    fastest = hls.solve(graph, hls.Target(technology, budget())).interval
    costs = []
    for factor in (1, 2, 3, 7, 20):
        plan = hls.solve(graph, hls.Target(technology, budget()), interval=factor * fastest)
        assert plan.interval <= factor * fastest
        costs.append(plan.multipliers)
    assert costs == sorted(costs, reverse=True), "a slower design has no more multipliers"


def test_an_interval_that_is_too_short(graph: LayerGraph, technology: Technology) -> None:
    least = hls.solve(graph, hls.Target(technology, budget())).interval
    with pytest.raises(AnswerIsNo, match=r"^an interval of 1 cycles must be at least (\d+), the shortest that the "
                                         r"layers of 'small' allow$"):
        hls.solve(graph, hls.Target(technology, budget()), interval=1)
    assert least > 1


def test_with_plenty_nothing_faster_exists(graph: LayerGraph, technology: Technology) -> None:
    """Against all combinations of the foldings' intervals: the slowest stage at its fastest is the bound."""
    stages = [stage_of(graph, layer) for layer in graph.layers]
    bound = max(min(stage.schedule(folding, technology).interval for folding in stage.foldings()) for stage in stages)
    assert hls.solve(graph, hls.Target(technology, budget())).interval == bound


@pytest.mark.parametrize("interval", [64, *(pytest.param(each, marks=pytest.mark.slow) for each in (144, 300))])
def test_the_cheapest_is_chosen(technology: Technology, interval: int) -> None:
    """Against every combination of foldings: none so fast has fewer multipliers, and the price is near the lowest."""
    model = small_network()
    graph = quantize(model, rows_for(model, 4)).graph
    wide, lowest = budget(), None
    chosen = hls.solve(graph, hls.Target(technology, wide), interval=interval)
    stages = [stage_of(graph, layer) for layer in graph.layers]
    options = [[f for f in stage.foldings() if stage.schedule(f, technology).interval <= interval] for stage in stages]
    for foldings in itertools.product(*options):
        plan = hls.make_plan(graph, foldings, technology)
        if plan.interval <= interval:
            price = wide.price(plan.resources)
            lowest = price if lowest is None else min(lowest, price)
    assert lowest is not None
    assert chosen.interval <= interval
    assert wide.price(chosen.resources) <= 1.1 * lowest


def test_what_does_not_fit_is_explained(graph: LayerGraph, technology: Technology) -> None:
    small = Resources(lut=300, ff=400, dsp=1, ram=99)
    with pytest.raises(AnswerIsNo) as caught:
        hls.solve(graph, hls.Target(technology, Budget("tiny", small, NOTHING, usable_logic=0.5)))
    message = str(caught.value)
    assert caught.value.exit_code == 1
    assert message.startswith("'small' does not fit tiny, not even with its smallest folding: ")
    assert " logic cells needed, 150 usable (most in 2_fc " in message
    assert " flip-flops needed, 200 usable (most in " in message
    assert "multipliers" not in message, "logic multiplies where blocks are short"
    assert "block RAMs" not in message, "only what is short is named"
    assert message.endswith("Fewer channels or layers, fewer bits, or a larger board would help "
                            "(`hwflow boards` lists them)")


def test_what_does_not_fit_a_device_without_multipliers_is_explained() -> None:
    """Also which weights could leave the RAM blocks, of layers that multiply in logic."""
    n = Net((16, 4, 4))
    pooled = n.flatten(n.node("GlobalAveragePool", n.conv(n.x, 64, (3, 3))))
    model = onnx.infer(n.model(n.gemm(pooled, 32)))
    technology = load_board("ice40hx8k").technology()
    with pytest.raises(AnswerIsNo, match=r"[\d,]+ block RAMs needed, 1 usable .*in a memory outside of the FPGA "):
        hls.solve(quantize(model, data(model, 4)).graph, hls.Target(technology, budget(ram=1)))


def test_an_interval_that_does_not_fit_is_explained(graph: LayerGraph, technology: Technology) -> None:
    fastest = hls.solve(graph, hls.Target(technology, budget())).interval
    with pytest.raises(AnswerIsNo, match=r"^'small' does not fit test, [\d,]+ logic cells needed, 900 usable \(most"):
        hls.solve(graph, hls.Target(technology, budget(lut=900)), interval=fastest)


def test_the_same_question_has_the_same_answer(graph: LayerGraph, technology: Technology) -> None:
    assert hls.solve(graph, hls.Target(technology, budget())) == hls.solve(graph, hls.Target(technology, budget()))


def test_a_small_board_has_all_its_multipliers_at_work(tmp_path: Path) -> None:
    model, data = write("colors_cnn", tmp_path)
    pipeline = Pipeline(Console(quiet=True), Project(model, data=data, build=tmp_path / "build"),
                hardware=HardwareOptions("icebreaker"))
    plan = pipeline.plan
    assert plan.resources.dsp == pipeline.board.resources.dsp == 8
    assert sum(stage.folding.rows * stage.folding.cols for stage in plan.stages if stage.resources.dsp) == 16
    assert plan.interval * 16 == sum(stage.multiplications for stage in plan.stages)


def test_a_part_of_the_device_is_left_to_other_logic(graph: LayerGraph) -> None:
    board = load_board("icebreaker")
    whole, part = (executions_of(graph, graph, board, HardwareOptions(reserve=percent)) for percent in (0, 40))
    assert {kind: whole.target.budget.available.counts()[kind] * 6 // 10 for kind in Resources.KINDS} == (
        part.target.budget.available.counts())
    used = part.plan(Execution.AUTO, None).resources
    assert part.target.budget.fits(used)
    around = part.target.budget.reserved
    assert used.lut + around.lut <= board.resources.lut * 6 // 10
    assert used.dsp <= board.resources.dsp * 6 // 10
    nothing = executions_of(graph, graph, board, HardwareOptions(reserve=90))
    with pytest.raises(AnswerIsNo, match=r"does not fit icebreaker less 90 %, .* logic cells needed, 0 usable"):
        nothing.plan(Execution.AUTO, None)
