"""Plans: stage names, the YAML file and back, and what follows from foldings."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
import yaml
from hwflow_base.errors import HwflowError
from hwflow_rtl.vendor import Resources, Technology

from hwflow import hls
from hwflow.hls.plan.graph_stages import stage_names, stages_of
from hwflow.hls.plan.plan_file import SHARED_KEYS
from hwflow.layers.base import LayerGraph
from hwflow.pipeline.planning import budget_of
from hwflow.quantize import quantize
from hwflow.stages.folding import Folding
from hwflow.stages.kinds import stage_of
from hwflow.synth import load_board
from tests.e2e.networks import random_network, rows_for, small_network


@pytest.fixture(scope="module")
def graph() -> LayerGraph:
    model = small_network()
    return quantize(model, rows_for(model, 8)).graph


def foldings(graph: LayerGraph, choice: int) -> list[Folding]:
    """One folding of each layer, another one for each `choice`."""
    found = [list(stage_of(graph, layer).foldings()) for layer in graph.layers]
    return [options[choice % len(options)] for options in found]


@pytest.mark.parametrize("seed", range(6))
def test_a_plan_comes_back_from_its_file(technology: Technology, seed: int) -> None:
    model = random_network(seed + 20)
    graph = quantize(model, rows_for(model, 4)).graph
    plan = hls.make_plan(graph, foldings(graph, seed * 7), technology)
    text = hls.plan_to_yaml(plan)
    assert hls.plan_from_yaml(text, graph, technology, source="plan.yaml") == plan
    assert hls.plan_to_yaml(plan) == text, "the same plan gives the same bytes"


def test_only_foldings_are_read_back(graph: LayerGraph, technology: Technology) -> None:
    plan = hls.make_plan(graph, foldings(graph, 3), technology)
    document = yaml.safe_load(hls.plan_to_yaml(plan))
    document["interval"] = 1
    for row in document["stages"]:
        row["cycles"], row["resources"] = 1, {"lut": 0}
    assert hls.plan_from_yaml(yaml.safe_dump(document), graph, technology, source="plan.yaml") == plan


@pytest.mark.parametrize("shared", [False, True])
def test_no_computed_key_is_passed_over_in_silence(graph: LayerGraph, technology: Technology, shared: bool) -> None:
    """Each key of the file is read back, or named where it says something else."""
    plan = (hls.solve_shared(graph, hls.Target(technology, budget_of(load_board("ulx3s_85f")))) if shared
            else hls.make_plan(graph, foldings(graph, 3), technology))
    text = hls.plan_to_yaml(plan)
    assert hls.computed_anew(text, plan, "p.yaml") is None
    read = {"why", "stages", "stage", "rows", "cols", "lanes", "style", "rescale"}
    read |= {"layers", *SHARED_KEYS} - {"steps", "frames"} if shared else set()
    for where in (0, None):
        document = yaml.safe_load(text)
        place = document if where is None else document["stages"][where]
        assert len(place.keys() - read) > 4
        for key in place.keys() - read:
            changed = yaml.safe_load(text)
            (changed if where is None else changed["stages"][where])[key] = "other"
            note = hls.computed_anew(yaml.safe_dump(changed), plan, "p.yaml")
            name = key if where is None else f"{plan.stages[where].name} {key}"
            assert note is not None, name
            assert note.startswith(f"plan p.yaml: computed anew, not read from the file: {name}"), note


def test_the_order_of_stages_in_the_file_does_not_matter(graph: LayerGraph, technology: Technology) -> None:
    plan = hls.make_plan(graph, foldings(graph, 3), technology)
    document = yaml.safe_load(hls.plan_to_yaml(plan))
    document["stages"].reverse()
    assert hls.plan_from_yaml(yaml.safe_dump(document), graph, technology, source="plan.yaml") == plan


def without_spram(resources: Resources) -> dict[str, int]:
    """As a plan says it where nothing stands in SPRAM."""
    assert resources.spram == 0
    return {"lut": resources.lut, "ff": resources.ff, "dsp": resources.dsp, "ram": resources.ram}


def test_the_file_says_what_the_plan_says(graph: LayerGraph, technology: Technology) -> None:
    plan = hls.make_plan(graph, foldings(graph, 3), technology)
    document = yaml.safe_load(hls.plan_to_yaml(plan))
    assert document["model"] == "small"
    assert document["interval"] == plan.interval
    assert document["resources"] == without_spram(plan.resources)
    for row, stage in zip(document["stages"], plan.stages, strict=True):
        assert (row["rows"], row["cols"], row["lanes"]) == dataclasses.astuple(stage.folding)[:3]
        assert row.get("style", "blocks") == stage.folding.style.value
        assert row["cycles"] == stage.schedule.interval
        assert row["resources"] == without_spram(stage.resources)


def test_every_folding_that_a_layer_offers_is_accepted_and_others_are_not(graph: LayerGraph) -> None:
    for layer in graph.layers:
        offered = set(stage_of(graph, layer).foldings())
        assert all(stage_of(graph, layer).folding_problem(folding) is None for folding in offered)
        largest = 12
        for rows, cols, lanes in np.ndindex(largest, largest, largest):
            folding = Folding(rows + 1, cols + 1, lanes + 1)
            assert (stage_of(graph, layer).folding_problem(folding) is None) == (folding in offered), folding


def test_the_interval_is_that_of_the_slowest(graph: LayerGraph, technology: Technology) -> None:
    for choice in range(0, 200, 7):
        plan = hls.make_plan(graph, foldings(graph, choice), technology)
        assert plan.interval == max(
            *(stage.schedule.interval for stage in plan.stages), *(link.cycles for link in plan.links))
        for stage in plan.stages:
            use = stage.multiplier_use(plan.interval)
            assert use is None or 0 < use <= 1
        assert 0 < plan.multiplier_use <= 1


def test_a_matrix_stage_works_as_long_as_its_folding_says(graph: LayerGraph, technology: Technology) -> None:
    """16 pixels x ceil(2 channels / rows) x ceil(18 products / cols) for the convolution; 3 x 8 for the matrix."""
    for choice in range(200):
        conv, _, dense = hls.make_plan(graph, foldings(graph, choice), technology).stages
        assert conv.schedule.work == 16 * -(-2 // conv.folding.rows) * -(-18 // conv.folding.cols)
        assert dense.schedule.work == -(-3 // dense.folding.rows) * -(-8 // dense.folding.cols)


def renamed(graph: LayerGraph, *names: str) -> LayerGraph:
    layers = tuple(dataclasses.replace(layer, name=name) for layer, name in zip(graph.layers, names, strict=True))
    return dataclasses.replace(graph, layers=layers)


@pytest.mark.parametrize("names, expected", [
    (("conv", "pool", "fc"), ("0_conv", "1_pool", "2_fc")),
    (("/net/net.0/Conv", "/net/net.1/MaxPool", "/fc/Gemm"), ("0_net_0_Conv", "1_net_1_MaxPool", "2_fc_Gemm")),
    (("StatefulPartitionedCall/model/dense/MatMul", "a b", "a-b"), ("0_dense_MatMul", "1_a_b", "2_a_b")),
    (("", "///", "日本"), ("0_conv", "1_max_pool", "2_dense")),
    (("x" * 99, "endmodule;", "$finish"), ("0_" + "x" * 28, "1_endmodule", "2_finish")),
])
def test_stage_names(graph: LayerGraph, names: tuple[str, ...], expected: tuple[str, ...]) -> None:
    found = stage_names(renamed(graph, *names))
    assert found == expected
    assert all(re.fullmatch(r"\d+_[A-Za-z0-9_]*[A-Za-z0-9]", name) for name in found)


def test_a_plan_of_another_model_is_refused(graph: LayerGraph, technology: Technology) -> None:
    text = hls.plan_to_yaml(hls.make_plan(graph, foldings(graph, 0), technology))
    other = renamed(graph, "first", "pool", "fc")
    with pytest.raises(HwflowError, match=r"^plan p: stage '0_conv' is not in the model; its stages are 0_first, "):
        hls.plan_from_yaml(text, other, technology, source="p")


@pytest.mark.parametrize("seed", range(6))
def test_stages_have_every_layer_once_and_every_tensor_that_is_made(technology: Technology, seed: int) -> None:
    model = random_network(seed + 20)
    graph = quantize(model, rows_for(model, 4)).graph
    plan = hls.make_plan(graph, foldings(graph, seed), technology)
    made = set(graph.inputs)
    for stage, planned in zip(stages_of(graph), plan.stages, strict=True):
        assert set(stage.inputs) <= made, "a stage reads what comes before it"
        assert planned.boundaries == stage.boundaries
        assert stage.outputs == stage.boundaries
        assert planned.layers == tuple(layer.name for layer in stage.layers)
        made |= set(stage.boundaries)
    assert [layer for stage in stages_of(graph) for layer in stage.layers] == list(graph.layers)
    assert (*graph.inputs, *(name for stage in plan.stages for name in stage.boundaries)) == graph.computed


def test_a_plan_of_an_older_version_is_read(graph: LayerGraph, technology: Technology) -> None:
    """It has the key `layer` in each stage."""
    plan = hls.make_plan(graph, foldings(graph, 3), technology)
    document = yaml.safe_load(hls.plan_to_yaml(plan))
    assert [row["layers"] for row in document["stages"]] == [[layer.name] for layer in graph.layers]
    for row in document["stages"]:
        (row["layer"],) = row.pop("layers")
    assert hls.plan_from_yaml(yaml.safe_dump(document), graph, technology, source="plan.yaml") == plan
