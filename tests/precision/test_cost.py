"""The cost of designs against the plans of the solver."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hwflow_rtl.vendor import Resources

from hwflow import onnx
from hwflow.hls import solve
from hwflow.layers import Add, Dense, Frame, IntFormat, LayerGraph, Tensor
from hwflow.layers.rescale import Requantize
from hwflow.precision.cost import pace_of
from hwflow.precision.points import LINKS
from hwflow.quantize import quantize
from hwflow.steps.planning import budget_of
from hwflow.synth import load_board
from tests.project.tree import ROOT

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
    plan = solve(digits, technology, budget)
    pace = pace_of(digits, technology, budget)
    design = pace.design(digits)
    assert design.resources == plan.resources
    assert design.price == budget.price(plan.resources)
    assert (pace.interval, pace.fits, pace.without) == (plan.interval, True, ())
    assert set(design.parts) == {name for stage in plan.stages for name in stage.layers} | {LINKS}


def test_narrower_weights_cost_less_and_the_pace_stays():
    technology, budget = board()
    pace = pace_of(branch(), technology, budget)
    wide, narrow = pace.design(branch()), pace.design(branch(4))
    assert narrow.price < wide.price
    assert narrow.parts["a"] < wide.parts["a"]


def test_layers_without_hardware_are_named_and_the_others_share_an_interval():
    technology, budget = board()
    graph = branch()
    pace = pace_of(graph, technology, budget)
    assert set(pace.without) == {layer.name for layer in graph.layers} - set(pace.foldings)
    assert {"a", "b"} <= set(pace.foldings)
    assert all(
        graph.layers[k].schedule(graph, pace.foldings[name]).interval <= pace.interval for k, name in enumerate("ab")
    )
    assert pace.fits


def test_a_board_that_is_too_small_gets_the_smallest_design(digits):
    technology, budget = board("icebreaker")
    tiny = replace(budget, available=Resources(lut=300, ff=300, dsp=2, ram=4))
    pace = pace_of(digits, technology, tiny)
    assert not pace.fits
    least = {layer.name: min(f.rows * f.cols for f in layer.foldings(digits)) for layer in digits.layers}
    assert {name: f.rows * f.cols for name, f in pace.foldings.items()} == least
    assert pace.design(digits).price > 1


def test_widths_without_hardware_count_as_the_widest(digits, monkeypatch):
    technology, budget = board()
    pace = pace_of(digits, technology, budget)
    before = pace.design(digits)
    first = digits.layers[0]
    monkeypatch.setattr(type(first), "hardware_problem", lambda self, graph: "no" if self.name == first.name else None)
    after = pace.design(digits)
    assert after.parts[first.name] == before.parts[first.name]
    assert any(first.name in note for note in pace.notes)
