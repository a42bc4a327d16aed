"""Which layers share a stage: what is possible, what a plan file says of it, and what it is told when it is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest
import yaml
from hwflow_base.errors import HwflowError
from hwflow_rtl.vendor import Technology

from hwflow import hls
from hwflow.hls.plan.graph_stages import stage_names, stages_of
from hwflow.hls.shared.stage import SharedStage
from hwflow.host.identity import hardware_identity_of, identity
from hwflow.layers import TopK
from hwflow.layers.base import LayerGraph
from hwflow.quantize import quantize
from hwflow.stages.folding import Folding
from hwflow.stages.names import layer_names
from hwflow.stages.partition import DATAFLOW, Partition, SharedLayers
from hwflow.stages.stage import LayerStage
from tests.e2e.networks import residual, rows_for, two_by_two
from tests.layers.cases import CASES

FOLDING = Folding(4, 4, 1)


@pytest.fixture(scope="module")
def graph() -> LayerGraph:
    """first, second (reads first), add (reads both), fc."""
    return quantize(model := residual(), rows_for(model, 4)).graph


def shared(name: str, *layers: int) -> SharedLayers:
    return SharedLayers(name, layers, False, 256, 1, 1)


def planned(graph: LayerGraph, technology: Technology, partition: Partition) -> hls.Plan:
    """A plan with the smallest stages."""
    foldings = [FOLDING if isinstance(stage, SharedStage) else next(stage.foldings())
                for stage in stages_of(graph, partition)]
    return replace(hls.make_plan(graph, foldings, technology, partition=partition), why="the plan file has it so")


def test_every_set_of_layers_is_a_stage_or_refused(graph: LayerGraph) -> None:
    """Checked against the graph itself: a set is a stage where nothing outside of it is between two of its layers."""
    layers = range(len(graph.layers))
    follows = {k: {n for n in layers if n == k or graph.layers[k].output in graph.layers[n].inputs} for k in layers}
    for _ in layers:
        follows = {k: set().union(*(follows[n] for n in found)) for k, found in follows.items()}
    for chosen in chain.from_iterable(combinations(layers, count) for count in range(1, len(layers) + 1)):
        partition = Partition((shared("shared0", *chosen),))
        read = {name for k in layers if k not in chosen for name in graph.layers[k].inputs} | {*graph.outputs}
        leaving = [graph.layers[k].output for k in chosen if graph.layers[k].output in read]
        between = [k for k in layers if k not in chosen and follows[k].intersection(chosen)
                   and any(k in follows[n] for n in chosen)]
        if between:
            with pytest.raises(HwflowError, match="stages must not wait for each other in a circle, as ") as refused:
                stages_of(graph, partition)
            named = re.findall(r"\w+", str(refused.value).split(", as ")[1].split(" would")[0])
            assert {*named} <= {"shared0", *(layer_names(graph)[k] for k in between)}
            assert "shared0" in named
            assert len(named) > 1
            continue
        stages = stages_of(graph, partition)
        assert [stage.name for stage in stages] == list(stage_names(graph, partition))
        assert sorted(layer.name for stage in stages for layer in stage.layers) == sorted(
            layer.name for layer in graph.layers)
        made = {*graph.inputs}
        for stage in stages:
            assert made.issuperset(stage.inputs)
            made.update(stage.outputs)
        (together,) = [stage for stage in stages if isinstance(stage, SharedStage)]
        assert sorted(together.outputs) == sorted(leaving)
        assert together.boundaries[-len(leaving):] == together.outputs
        assert sum(isinstance(stage, LayerStage) for stage in stages) == len(layers) - len(chosen)


def test_a_layer_is_in_one_stage(graph: LayerGraph) -> None:
    twice = Partition((shared("shared0", 2, 3), shared("shared1", 3)))
    with pytest.raises(HwflowError, match=re.escape("layer '3_fc' must be in one stage, not in shared0 and shared1")):
        stages_of(graph, twice)


@pytest.mark.parametrize("partition", [
    Partition((shared("shared0", 0, 1, 2, 3),)), Partition((shared("shared0", 2, 3),)),
    Partition((shared("shared0", 0), shared("shared7", 1, 2, 3)))], ids=["whole", "end", "two"])
def test_a_partition_comes_back_from_its_file(graph: LayerGraph, technology: Technology, partition: Partition) -> None:
    plan = planned(graph, technology, partition)
    text = hls.plan_to_yaml(plan)
    again = hls.plan_from_yaml(text, graph, technology, source="plan.yaml")
    assert again == plan
    assert again.partition == partition
    assert hls.plan_to_yaml(again) == text
    hls.require_current(again, graph, technology)
    document = yaml.safe_load(text)
    assert document["execution"] == ("shared" if len(plan.stages) == 1 else "mixed")
    rows = [row for row in document["stages"] if row["kind"] == "shared"]
    assert [row["layers"] for row in rows] == [[layer_names(graph)[k] for k in each.layers]
                                              for each in partition.shared]
    for row in rows:
        assert sum(step["cycles"] for step in row["steps"]) == row["cycles"]
        assert [place["tensor"] for place in row["frames"]]


def test_a_shared_stage_is_changed_in_its_file(graph: LayerGraph, technology: Technology) -> None:
    """The last layer is taken out of it and gets a stage of its own."""
    whole = planned(graph, technology, Partition((shared("shared0", 0, 1, 2, 3),)))
    document = yaml.safe_load(hls.plan_to_yaml(whole))
    document["stages"][0]["layers"].remove("3_fc")
    document["stages"][0].update(rows=2, cols=2)
    document["stages"].append({"stage": "3_fc", "rows": 1, "cols": 1, "lanes": 1})
    plan = hls.plan_from_yaml(yaml.safe_dump(document), graph, technology, source="plan.yaml")
    assert [stage.name for stage in plan.stages] == ["shared0", "3_fc"]
    assert plan.partition == Partition((shared("shared0", 0, 1, 2),))
    assert [link.tensor for link in plan.links] == [*graph.inputs, graph.layers[2].output, *graph.outputs]


Row = dict[str, Any]


def without(key: str) -> Callable[[Row], object]:
    return lambda row: row.pop(key)


@pytest.mark.parametrize(("change", "said"), [
    (without("layers"), "plan p, stage 'shared0': a shared stage must have layers"),
    (without("weight_buffer"), "plan p, stage 'shared0': a shared stage must have weight_buffer"),
    (lambda row: row["layers"].append("3_fv"),
     "plan p, stage 'shared0': layer '3_fv' is not in the model; its layers are 0_first, 1_second, 2_add, 3_fc; did "
     "you mean '3_fc'?"),
    (lambda row: row.update(layers="all"),
     "plan p, stage 'shared0': layers must be a list of names, of 0_first, 1_second, 2_add, 3_fc"),
    (lambda row: row["layers"].remove("1_second"), "plan p: stages must not wait for each other in a circle, as "
     "shared0, 1_second would; put all of their layers into one shared stage, or fewer layers into it"),
    (lambda row: row["layers"].remove("0_first"),
     "plan p: stage '0_first' is missing"),
    (lambda row: row.update(stage="all"), "plan p, stage 'all': the name of a shared stage must be shared0, shared1"),
    (lambda row: row.update(rows=8), "plan p, stage 'shared0': cols of a shared stage must be one of 2, 4, 8, "
     "16, and rows divide them, not 8 x 4"),
    (lambda row: row.update(lanes=3), "plan p, stage 'shared0': lanes must be one of 1, 2, 4, not 3"),
    (lambda row: row.update(weight_rows=3), "plan p, stage 'shared0': weight_rows must be one of 0, 1, 2, 4, not 3"),
    (lambda row: row.update(frame_memory="spram"),
     "plan p, stage 'shared0': frames must be in blocks on ecp5, which has no spram"),
    (lambda row: row.update(frame_banks=2),
     "plan p, stage 'shared0': frame_banks must be 1 for frames in blocks, which have two ports"),
    (lambda row: row.update(weights_ahead=4096),
     "plan p, stage 'shared0': weights_ahead must be 0 for weights in ROMs and on a device without spram, not 4096"),
    (lambda row: row.update(rom_rows=3), "plan p, stage 'shared0': rom_rows must be one of 1, 2, 4, not 3"),
    (lambda row: row.update(weight_buffer=100),
     "plan p, stage 'shared0': weight_buffer must be a power of two up to 65536, not 100"),
    (lambda row: row.update(weight_buffer=2**40),
     "weight_buffer must be a power of two up to 65536, not 1099511627776"),
    (lambda row: row.update(rescale_interval=10**9),
     "plan p, stage 'shared0': rescale_interval must be one of 1, 2, 4, not 1000000000"),
    (lambda row: row["layers"].append("3_fc"), "plan p, stage 'shared0': layer '3_fc' must be named once, not 2 times"),
    (lambda row: row.update(frame_memory="ram"), "plan p, stages/0/frame_memory: 'ram' is not one of"),
    (lambda row: row.update(weight_buffer=2),
     "plan p, stage 'shared0': layer 'first': the weights of a window must fit the 2 words"),
])
def test_a_wrong_file_is_refused(graph: LayerGraph, technology: Technology, change: Callable[[Row], object],
                                 said: str) -> None:
    text = hls.plan_to_yaml(planned(graph, technology, Partition((shared("shared0", 0, 1, 2, 3),))))
    document = yaml.safe_load(text)
    change(document["stages"][0])
    with pytest.raises(HwflowError, match=re.escape(said)):
        hls.plan_from_yaml(yaml.safe_dump(document), graph, technology, source="p")


def test_a_layer_in_a_shared_stage_and_in_its_own(graph: LayerGraph, technology: Technology) -> None:
    rows = [yaml.safe_load(hls.plan_to_yaml(planned(graph, technology, partition)))["stages"]
            for partition in (Partition((shared("shared0", 0, 1, 2, 3),)), Partition())]
    with pytest.raises(HwflowError, match=re.escape(
            "plan p, stage 'shared0': layer '3_fc' must be in one stage, and has a stage of its own in the file; take "
            "it out of layers, or remove that stage")):
        hls.plan_from_yaml(yaml.safe_dump({"stages": [*rows[0], rows[1][3]]}), graph, technology, source="p")


def test_layers_that_a_shared_stage_cannot_compute_are_named(technology: Technology) -> None:
    graph = CASES[TopK](np.random.default_rng(0)).graph
    row = {"stage": "shared0", "kind": "shared", "layers": list(layer_names(graph)), "rows": 4, "cols": 4, "lanes": 1,
           "frame_memory": "blocks", "frame_banks": 1, "weight_buffer": 256, "rescale_interval": 1, "rom_rows": 1}
    with pytest.raises(HwflowError, match="plan p, stage 'shared0': a shared stage must have a way to compute each of "
                                          "its layers") as refused:
        hls.plan_from_yaml(yaml.safe_dump({"stages": [row]}), graph, technology, source="p")
    named = [layer.name for layer in graph.layers if f"layer '{layer.name}'" in str(refused.value)]
    assert named == [layer.name for layer in graph.layers]


def test_the_identity_is_that_of_the_partition(graph: LayerGraph, technology: Technology) -> None:
    partitions = [DATAFLOW, Partition((shared("shared0", 0, 1, 2, 3),)), Partition((shared("shared0", 2, 3),)),
                  Partition((SharedLayers("shared0", (2, 3), False, 512, 1, 1),))]
    plans = [planned(graph, technology, partition) for partition in partitions]
    assert len({identity(graph, plan) for plan in plans}) == len(plans)
    streamed = [Folding(4, 4, 1, weight_rows=1)]
    outside = hardware_identity_of(graph, streamed, partitions[1])
    assert outside != hardware_identity_of(graph, [FOLDING], partitions[1])
    assert outside == hardware_identity_of(with_other_weights(graph), streamed, partitions[1])


def with_other_weights(graph: LayerGraph) -> LayerGraph:
    """Of the first layer."""
    first, *others = graph.layers
    return replace(graph, layers=(replace(first, weights=-first.weights), *others))  # type: ignore[call-arg,attr-defined]


def test_outputs_always_leave(technology: Technology) -> None:
    graph = quantize(model := two_by_two(), rows_for(model, 4)).graph
    plan = planned(graph, technology, Partition((shared("shared0", *range(len(graph.layers))),)))
    (stage,) = stages_of(graph, plan.partition)
    assert stage.outputs == graph.outputs
    outside = [link for link in plan.links if not link.sink.of_stage]
    assert [(link.tensor, link.source.output, link.sink.number) for link in outside] == [
        (name, k, k) for k, name in enumerate(graph.outputs)]
    assert hls.plan_from_yaml(hls.plan_to_yaml(plan), graph, technology, source="p") == plan
