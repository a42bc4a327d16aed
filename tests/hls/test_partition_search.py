"""The search of partitions against all partitions there are, on graphs that are small enough for that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from hwflow_base.errors import AnswerIsNo
from hwflow_rtl.vendor import Resources, Technology

from hwflow import hls, onnx
from hwflow.hls.foldings.solver import Solver
from hwflow.hls.partition.bounds import KINDS
from hwflow.hls.partition.candidates import Candidate, Candidates, columns_of
from hwflow.hls.partition.executions import Executions
from hwflow.hls.partition.search import GAIN, PartitionSearch
from hwflow.hls.plan.choices import Choice
from hwflow.hls.shared.compile import shared_problems
from hwflow.layers.base import LayerGraph
from hwflow.options import HardwareOptions
from hwflow.pipeline.planning import plan_for
from hwflow.quantize import quantize
from hwflow.stages.partition import Execution, Group, Partition
from hwflow.synth import load_board
from tests.e2e.networks import residual, rows_for
from tests.quantize.net import Net

#: What is short, so that no execution is the fastest everywhere.
BUDGETS = (Resources(lut=4500, ff=4500, dsp=7, ram=9), Resources(lut=9000, ff=9000, dsp=9, ram=30),
           Resources(lut=4000, ff=4000, dsp=20, ram=6), Resources(lut=20000, ff=20000, dsp=24, ram=20))


@pytest.fixture(scope="module")
def graph() -> LayerGraph:
    return quantize(model := residual(), rows_for(model, 4)).graph


def budget_of(resources: Resources) -> hls.Budget:
    return hls.Budget("test", resources, Resources(), usable_logic=1.0)


def every_partition(graph: LayerGraph) -> Iterator[tuple[Group, ...]]:
    """One or two runs of consecutive layers, not all layers in one."""
    count = len(graph.layers)
    runs = [range(first, end) for first in range(count) for end in range(first + 2, count + 1) if end - first < count]
    for chosen in (each for some in (1, 2) for each in combinations(runs, some)):
        groups = tuple(Group(f"shared{k}", tuple(run)) for k, run in enumerate(chosen))
        if len(chosen) == 1 or chosen[0].stop <= chosen[1].start:
            yield groups


def every_choice(graph: LayerGraph, groups: Sequence[Group], technology: Technology,
                 budget: hls.Budget) -> Iterator[tuple[Candidate, ...]]:
    """Every shared stage for each group, all columns, buffers and rescalers."""
    found: list[tuple[Candidate, ...]] = [()]
    for group in groups:
        candidates = Candidates(graph, group, technology)
        stages = [replace(each, folding=replace(each.folding, rescale=rescale))
                  for columns in columns_of(technology, budget) for each in candidates.of_size(columns, None)
                  for rescale in (None, *each.stage.rescale_styles)]
        found = [(*some, each) for some in found for each in stages]
    yield from found


def fastest_of_all(graph: LayerGraph, technology: Technology, budget: hls.Budget) -> int | None:
    """The shortest interval of the plans of every partition with every choice of its shared stages; frames wait in
    them."""
    best, dataflow = None, Solver(graph, hls.Target(technology, budget))
    for groups in every_partition(graph):
        for stages in every_choice(graph, groups, technology, budget):
            fixed = [Choice(each.folding, dataflow.known.schedule(each.stage, each.folding)) for each in stages]
            if best is not None and max(choice.schedule.interval for choice in fixed) >= best:
                continue
            partition = Partition(tuple(each.stage.sizes for each in stages))
            solver = Solver(graph, dataflow.target, known=dataflow.known, partition=partition, fixed=fixed)
            picked = solver.fastest()
            if picked is not None:
                plan = hls.make_plan(graph, [choice.folding for choice in picked], technology, solver.places(picked),
                                     partition=solver.partition)
                best = plan.interval if best is None else min(best, plan.interval)
    return best


@pytest.mark.quick(2)
@pytest.mark.parametrize("resources", BUDGETS)
def test_the_search_finds_the_fastest_of_all_partitions(graph: LayerGraph, resources: Resources) -> None:
    technology, budget = load_board("ulx3s_25f").technology(), budget_of(resources)
    found = PartitionSearch(Solver(graph, hls.Target(technology, budget))).fastest()
    assert found is not None
    assert found.execution == "mixed"
    assert budget.fits(found.resources)
    assert found.interval == fastest_of_all(graph, technology, budget)


@pytest.mark.parametrize("resources", BUDGETS)
def test_a_plan_for_an_interval(graph: LayerGraph, resources: Resources) -> None:
    """There is one for the shortest interval that any partition has, none for a shorter one; the longer, the
    cheaper."""
    technology, budget = load_board("ulx3s_25f").technology(), budget_of(resources)
    search = PartitionSearch(Solver(graph, hls.Target(technology, budget)))
    fastest = search.fastest()
    assert fastest is not None
    assert search.at(fastest.interval - 1) is None
    found = [search.at(round(times * fastest.interval)) for times in (1, 1.2, 1.5, 3)]
    plans = [plan for plan in found if plan is not None]
    assert len(plans) == len(found)
    assert all(budget.fits(plan.resources) for plan in plans)
    assert all(plan.interval <= times * fastest.interval for plan, times in zip(plans, (1, 1.2, 1.5, 3), strict=True))
    prices = [budget.price(plan.resources) for plan in plans]
    assert prices == sorted(prices, reverse=True)
    assert prices[-1] < prices[0]


def test_which_execution_an_interval_gets(graph: LayerGraph) -> None:
    """A stage for each layer does not fit: one shared stage where it is as fast, else a mixed design, else none."""
    technology, budget = load_board("ulx3s_25f").technology(), budget_of(Resources(lut=1600, ff=1800, dsp=9, ram=9))
    executions = Executions(graph, hls.Target(technology, budget))
    fastest = executions.plan(Execution.AUTO, None)
    assert (fastest.execution, [each.execution for each in fastest.alternatives]) == ("mixed", ["dataflow", "shared"])
    one = fastest.alternatives[1].interval
    assert one is not None
    assert one > GAIN * fastest.interval
    found = {interval: executions.plan(Execution.AUTO, interval) for interval in (one, one - 1, fastest.interval)}
    assert [plan.execution for plan in found.values()] == ["shared", "mixed", "mixed"]
    assert all(plan.interval <= interval and budget.fits(plan.resources) for interval, plan in found.items())
    assert found[one - 1].why.endswith(", and no single shared stage is so fast")
    with pytest.raises(AnswerIsNo, match=f"more than the interval of {fastest.interval - 1}"):
        executions.plan(Execution.AUTO, fastest.interval - 1)


def test_bounds_are_below_what_stages_take(graph: LayerGraph) -> None:
    """Of every run of layers with every array, against all stages that it can be."""
    technology, budget = load_board("ulx3s_25f").technology(), budget_of(BUDGETS[-1])
    search = PartitionSearch(Solver(graph, hls.Target(technology, budget)))
    for run in search.bounds.runs:
        group = Group("shared0", tuple(range(run.first, run.end)))
        for each in Candidates(graph, group, technology).of_size(run.sharing.columns, None):
            cost = technology.placed(each.stage.cost(each.folding, technology))
            assert all(bound <= getattr(cost, kind) for kind, bound in zip(KINDS, run.counts, strict=True))


def test_no_board_gets_shared_stages_where_all_multipliers_are_busy(graph: LayerGraph) -> None:
    """Then nothing is compiled for a search: it takes no time."""
    technology = load_board("ulx3s_25f").technology()
    budget = budget_of(Resources(lut=10**5, ff=10**5, dsp=8, ram=100))
    search = PartitionSearch(Solver(graph, hls.Target(technology, budget)))
    dataflow = hls.solve(graph, hls.Target(technology, budget))
    assert search.least_interval <= dataflow.interval
    plan = Executions(graph, hls.Target(technology, budget)).plan(Execution.AUTO, None)
    assert (plan, [each.execution for each in plan.alternatives]) == (dataflow, ["mixed"])


def test_layers_that_a_shared_stage_cannot_compute_have_stages_of_their_own() -> None:
    n = Net((1, 8, 8))
    x = n.relu(n.conv(n.relu(n.conv(n.x, 4, (3, 3))), 4, (3, 3)))
    weights = n.constant(n.normal(4, 4, 4, 4, deviation=0.2))
    x = n.node("ConvTranspose", x, weights, channels=4, kernel_shape=(4, 4), strides=(2, 2), pads=(1, 1, 1, 1))
    model = onnx.infer(n.model(n.conv(n.relu(x), 1, (3, 3))))
    graph = quantize(model, rows_for(model, 4)).graph
    refused = {problem.layer for problem in shared_problems(graph, graph.layers)}
    plan = plan_for(graph, graph, load_board("ulx3s_25f"), HardwareOptions(execution=Execution.SHARED))
    assert plan.execution == "mixed"
    assert plan.why.startswith("that was asked for, and one shared stage cannot compute ")
    assert all(f"'{name}'" in plan.why for name in refused)
    alone = {stage.layers[0] for stage in plan.stages if not stage.steps}
    assert set() != refused <= alone < {layer.name for layer in graph.layers}
    (other,) = plan.alternatives
    assert (other.execution, other.interval) == ("shared", None)
    assert "add up to other pixels" in other.why
