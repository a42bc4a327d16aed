"""The cost of designs against the plans of the solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from hwflow_rtl.vendor import Resources

from hwflow import onnx
from hwflow.hls import Budget, Executions, Target, plan_to_yaml, solve
from hwflow.layers import Add, Dense, Frame, IntFormat, LayerGraph, Tensor
from hwflow.layers.rescale import Requantize
from hwflow.pipeline.planning import budget_of, executions_of, given_plan, plan_for
from hwflow.quantize import quantize
from hwflow.quantize.settings import settings_of_bits
from hwflow.search.widths.cost import Pace, pace_of
from hwflow.search.widths.points import LINKS
from hwflow.stages.kinds import STAGES, stage_of
from hwflow.stages.partition import Execution
from hwflow.stages.rescalers import REFERENCE
from hwflow.synth import load_board
from hwflow.synth.expected_clock import outside_of
from tests.e2e.networks import forked, rows_for
from tests.project.tree import ROOT
from tests.quantize.net import Net, data

INT8, INT4 = IntFormat(8, signed=True), IntFormat(4, signed=True)


@pytest.fixture(scope="module")
def digits() -> LayerGraph:
    return quantize(onnx.load(ROOT / "models" / "digits_cnn.onnx")).graph


def board(name: str = "ulx3s_85f"):
    found = load_board(name)
    return found.technology(), budget_of(found)


def dense(name: str, source: str, target: str, seed: int, bits: int = 8) -> Dense:
    weights = np.random.default_rng(seed).integers(-(2 ** (bits - 1)) + 1, 2 ** (bits - 1), (16, 16))
    one = np.ones(16, np.int64)
    return Dense(
        name,
        (source,),
        target,
        weights,
        IntFormat(bits, signed=True),
        INT8,
        Requantize(0 * one, 99_999 * one, 25 * one, 0, -128, 127),
    )


def branch(bits: int = 8) -> LayerGraph:
    """x -> a -> b -> sum, and a -> sum: no hardware for it yet, but for its two products."""
    layers = (
        dense("a", "x", "ya", 1, bits),
        dense("b", "ya", "yb", 2, bits),
        Add("sum", ("ya", "yb"), "y", (1 << 16, 1 << 16), 17, 0, -128, 127),
    )
    tensors = {name: Tensor(name, Frame(1, 1, 16), INT8, 0.1, 0) for name in ("x", "ya", "yb", "y")}
    graph = LayerGraph("branch", tensors, layers, ("x",), ("y",))
    graph.check()
    return graph


@pytest.mark.parametrize("name", ["ulx3s_85f", "icebreaker"])
def test_the_widest_design_costs_what_its_plan_costs(name, digits):
    technology, budget = board(name)
    plan = solve(digits, Target(technology, budget))
    pace = pace_of(Executions(digits, Target(technology, budget)))
    design = pace.design(digits)
    assert design.resources == plan.resources
    assert design.price == budget.price(plan.resources)
    assert (pace.interval, pace.fits, pace.without) == (plan.interval, True, ())
    assert set(design.parts) == {name for stage in plan.stages for name in stage.layers} | {LINKS}


@cache
def forked_in(weights: int, activations: int) -> LayerGraph:
    model = forked()
    return quantize(model, rows_for(model, 4), settings=settings_of_bits(weights, activations)).graph


def dense_in(weights: int, activations: int) -> LayerGraph:
    net = Net((128,))
    model = onnx.infer(net.model(net.gemm(net.relu(net.gemm(net.x, 96)), 10)))
    return quantize(model, data(model, 2), settings=settings_of_bits(weights, activations)).graph


@cache
def shared_pace() -> Pace:
    """On a board where a stage for each layer does not fit."""
    return pace_of(executions_of(forked_in(8, 8), forked_in(8, 8), load_board("icebreaker")))


def test_where_layers_share_a_stage_designs_cost_what_a_build_of_them_takes():
    """The plan of the narrower widths is asked for by itself, not like that of the widest ones."""
    small, wide, narrow = load_board("icebreaker"), forked_in(8, 8), forked_in(4, 4)
    pace = replace(shared_pace(), notes=set())
    for graph in (wide, narrow):
        built, design, same = plan_for(graph, graph, small), pace.design(graph), pace.plan(graph)
        assert built.execution == "shared"
        assert design.resources == built.resources
        assert design.price == pace.budget.price(built.resources) == pytest.approx(sum(design.parts.values()))
        assert same is not None
        assert (same.partition, same.resources) == (built.partition, built.resources)
        assert set(design.parts) == {layer.name for layer in graph.layers} | {"shared0", LINKS}
        assert design.parts["fc"] > design.parts["stem"] > 0, "it has more weights"
    assert pace.design(narrow).price < pace.design(wide).price
    assert not pace.notes


def test_widths_that_a_shared_stage_cannot_compute_count_as_the_widest():
    pace, narrow = replace(shared_pace(), notes=set()), forked_in(2, 2)
    assert pace.design(narrow) == pace.design(forked_in(8, 8))
    assert pace.plan(narrow) is None
    assert pace.notes == {"some widths have no hardware in the stages of the widest design; they count as the widest"}


@dataclass(frozen=True)
class Case:
    """A model in widths, and resources on which a plan of it takes more than its layers."""

    graph: Callable[[int, int], LayerGraph]
    board: str
    available: Resources
    execution: str
    places: bool = True
    streams: bool = False


@pytest.mark.parametrize(
    "case",
    [
        Case(forked_in, "ulx3s_85f", Resources(lut=3500, ff=3500, dsp=12, ram=12), "mixed"),
        Case(forked_in, "ulx3s_85f", Resources(lut=9000, ff=9000, dsp=9, ram=30), "dataflow"),
        Case(dense_in, "icebreaker", Resources(lut=9999, ff=9999, dsp=8, ram=20), "dataflow", False, True),
    ],
    ids=lambda case: f"{case.execution} on {case.board}",
)
def test_what_no_layer_costs_by_itself_is_counted(case: Case):
    """Shared stages beside others, memories in tables, and all that weights outside of the FPGA take."""
    found, wide, narrow = load_board(case.board), case.graph(8, 8), case.graph(4, 4)
    budget = Budget("test", case.available, Resources(), usable_logic=1.0)
    outside = outside_of(found) if case.streams else None
    executions = Executions(wide, Target(found.technology(), budget, outside))
    plan, pace = executions.plan(Execution.AUTO, None), pace_of(executions)
    assert (plan.execution, bool(plan.streams)) == (case.execution, case.streams)
    assert any(stage.places for stage in plan.stages) == case.places
    assert pace.design(wide).resources == plan.resources
    made, design = pace.plan(narrow), pace.design(narrow)
    assert made is not None
    read, _ = given_plan(plan_to_yaml(made), narrow, found, "plan.yaml", lambda _: None)
    assert design.resources == made.resources == read.resources
    assert design.price == pytest.approx(sum(design.parts.values()))
    assert design.price < pace.design(wide).price


def test_narrower_weights_cost_less_and_the_pace_stays():
    technology, budget = board()
    pace = pace_of(Executions(branch(), Target(technology, budget)))
    wide, narrow = pace.design(branch()), pace.design(branch(4))
    assert narrow.price < wide.price
    assert narrow.parts["a"] < wide.parts["a"]


def test_layers_without_hardware_are_named_and_the_others_share_an_interval():
    technology, budget = board()
    graph = branch()
    pace = pace_of(Executions(graph, Target(technology, budget)))
    assert set(pace.without) == {layer.name for layer in graph.layers} - set(pace.foldings)
    assert {"a", "b"} <= set(pace.foldings)
    assert all(
        stage_of(graph, layer).schedule(pace.foldings[name], REFERENCE).interval <= pace.interval
        for layer, name in zip(graph.layers, "ab", strict=False)
    )
    assert pace.fits


def test_a_board_that_is_too_small_gets_the_smallest_design(digits):
    technology, budget = board("icebreaker")
    tiny = replace(budget, available=Resources(lut=300, ff=300, dsp=2, ram=4))
    pace = pace_of(Executions(digits, Target(technology, tiny)))
    assert not pace.fits
    least = {layer.name: min(f.rows * f.cols for f in stage_of(digits, layer).foldings()) for layer in digits.layers}
    assert {name: f.rows * f.cols for name, f in pace.foldings.items()} == least
    assert pace.design(digits).price > 1


def test_widths_without_hardware_count_as_the_widest(digits, monkeypatch):
    technology, budget = board()
    pace = pace_of(Executions(digits, Target(technology, budget)))
    before = pace.design(digits)
    first = digits.layers[0]
    monkeypatch.setattr(STAGES[type(first)], "hardware_problem",
                        lambda self: "no" if self.layer.name == first.name else None)
    after = pace.design(digits)
    assert after.parts[first.name] == before.parts[first.name]
    assert any(first.name in note for note in pace.notes)
