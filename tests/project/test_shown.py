"""What an interactive session shows: the interface, its help, its version, and objects that fit a screen."""

from __future__ import annotations

import pydoc
import subprocess
import sys
import tomllib
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hwflow_base.short_repr import COLUMNS, LINES, brief, screen

import hwflow
from hwflow.accuracy import Accuracy
from hwflow.data.dataset import Dataset
from hwflow.hls import Plan
from hwflow.layers.base import LayerGraph
from hwflow.onnx.model import Node
from hwflow.quantize import Quantized
from hwflow.quantize.settings import LayerSettings, QuantizationSettings
from tests.e2e.networks import rows_for, small_network
from tests.project.tree import ROOT


def test_the_version_is_the_packages() -> None:
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert hwflow.__version__ == stated


def test_names_are_there_before_they_are_used() -> None:
    """Also what completes names asks `dir`; nothing of the machinery is among them, and nothing large is imported."""
    code = ("import sys, hwflow, hwflow.onnx; names = [n for n in dir(hwflow) if n[0] != '_'];"
            "print(sorted(names) == sorted(hwflow.__all__), sorted({'amaranth', 'hwflow.api'} & set(sys.modules)));"
            "print(hwflow.host.open.__name__, hwflow.backend.__name__, hwflow.load.__module__)")
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True []\nopen_board hwflow.backend hwflow.api\n", "")


def test_help_shows_every_function_with_its_docstring() -> None:
    text = pydoc.render_doc(hwflow, renderer=pydoc.plaintext)
    for name in hwflow.__all__:
        found = getattr(hwflow, name)
        assert found.__doc__, name
        if callable(found) and not isinstance(found, type | ModuleType):
            assert f"    {name}(" in text
            assert found.__doc__.splitlines()[0] in text
    assert hwflow.__version__ in text


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'hwflow' has no attribute 'quantise'"):
        _ = hwflow.quantise  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def quantized() -> Quantized:
    return hwflow.quantize_model(small_network(), rows_for(small_network(), 4))


def fits(value: object) -> list[str]:
    lines = repr(value).splitlines()
    assert len(lines) <= LINES, repr(value)
    assert max(map(len, lines)) <= COLUMNS, repr(value)
    return lines


def test_every_object_fits_a_screen(quantized: Quantized) -> None:
    model, rows = small_network(), rows_for(small_network(), 4)
    plan = hwflow.make_plan(quantized)
    data = Dataset(Path("x.npz"), rows, rows, True, np.arange(4), {})
    accuracy = hwflow.measure_accuracy(model, quantized, rows)
    seen = [model, model.graph, *model.graph.nodes, *model.graph.inputs, quantized, quantized.qdq, quantized.graph,
            *quantized.graph.layers, *quantized.views.values(), plan, *plan.stages, *plan.links, data, accuracy,
            *hwflow.measure_layers(quantized, rows)]
    for value in seen:
        fits(value)
    assert fits(plan)[0] == (f"<Plan 'small' on ulx3s_85f (ecp5): {plan.interval} cycles a frame, {plan.multipliers} "
                             f"multipliers, latency {plan.latency[0]}")
    again = plan.with_folding(plan.stages[0].name, rows=1)
    assert (again.board, hwflow.make_plan(quantized, "icebreaker").board) == ("ulx3s_85f", "icebreaker")
    assert fits(quantized.graph)[1:3] == ["  input 'x_quantized.frame': 4x4x2 int8",
                                          "  conv 'conv': 4x4x2 int8 -> 4x4x2 int8"]
    assert fits(data) == ["<Dataset 'x.npz': 4 rows", "  input 'x': float32[4, 1, 2, 4, 4]", "  labels: int64[4]",
                          "  calibration: the first of the inputs' rows>"]


def test_large_objects_fit_a_screen_too(quantized: Quantized) -> None:
    """A thousand layers, stages, cells of a confusion, settings, and a node with a large tensor in it."""
    graph, plan = quantized.graph, hwflow.make_plan(quantized)
    many: LayerGraph = replace(graph, layers=graph.layers * 400)
    assert fits(many)[-2:] == ["  ... 1179 more", "  outputs: fc_out_quantized.frame>"]
    large: Plan = replace(plan, stages=plan.stages * 400, latency=tuple(range(1000)))
    node = Node("Conv" * 100, ("x",) * 1000, (), {"value": np.zeros((1000, 1000)), "names": ("n",) * 5000})
    settings = QuantizationSettings(layers={f"layer{k}": LayerSettings() for k in range(500)})
    blank = {each.name: None for each in fields(Accuracy)}
    accuracy = Accuracy(**{**blank, "confusion": tuple(range(10_000))})  # type: ignore[arg-type]
    for value in (large, node, settings, accuracy, replace(graph, name="n" * 5000)):
        fits(value)


@pytest.mark.parametrize("room", [20, 60, 120])
def test_brief_keeps_to_its_room(room: int) -> None:
    values = [("a" * 500,), {"k" * 99: {"m": np.zeros(3)}}, list(range(10**5)), "line\nbreak" * 50, (), (1,), {}]
    assert [brief(value, room) for value in values if len(brief(value, room)) > room] == []
    assert (brief((1,), room), brief((), room), brief(np.zeros((2, 3), np.int8), room)) == ("(1,)", "()", "int8[2, 3]")


def test_a_screen_counts_what_it_leaves_out() -> None:
    lines = screen("head", [f"line {k}" for k in range(100)]).splitlines()
    assert (len(lines), lines[0], lines[-2:]) == (LINES, "<head", ["  ... 77 more", "  line 99>"])


def test_equality_is_that_of_all_fields(quantized: Quantized) -> None:
    """Whatever is shown: two layers that look the same differ in one weight."""
    again = hwflow.quantize_model(small_network(), rows_for(small_network(), 4))
    assert again.graph == quantized.graph
    layer = quantized.graph.layers[0]
    weights = layer.weights.copy()  # type: ignore[attr-defined]
    weights[0, 0, 0, 0] ^= 1
    other = replace(layer, weights=weights)  # type: ignore[type-var]
    assert repr(other) == repr(layer)
    assert other != layer
    assert replace(quantized.graph, layers=(other, *quantized.graph.layers[1:])) != quantized.graph
    plan = hwflow.make_plan(quantized)
    assert plan == hwflow.make_plan(again) != replace(plan, latency=(0,))
