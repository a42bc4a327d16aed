"""Plans that put queues into SPRAM: which, how many, what the plan says, and that it is the same when read back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hwflow_rtl.io import End, Ends
from hwflow_rtl.stream.endpoint import Endpoint
from hwflow_rtl.stream.queue_choice import PairedQueue
from hwflow_rtl.vendor import ICE40, Resources, Technology
from hwflow_rtl.vendor.memory import Place

from hwflow import hls
from hwflow.hls.schedule.links import in_spram
from hwflow.layers import Add, Frame, LayerGraph, Multiply
from hwflow.pipeline.verilog import simulation_technology
from hwflow.stages.kinds import stage_of
from hwflow.synth import load_board
from tests.hls.test_timeline import BYTE, Branches
from tests.strategies.layers import Taste


def gated(gates: int, side: int) -> LayerGraph:
    """Gates, one behind the other, each of which waits for the whole frame that it scales."""
    grown = Branches(np.random.default_rng(3), Taste(), "gated")
    x = grown.input(Frame(side, side, 2), BYTE)
    for _ in range(gates):
        x = grown.joined(Multiply, x, grown.gate(x))
    grown.joined(Add, x, x)
    made = grown.finished()
    return replace(made, outputs=made.outputs[-1:])


def plan_of(graph: LayerGraph, technology: Technology) -> hls.Plan:
    return hls.make_plan(graph, [next(iter(stage_of(graph, layer).foldings())) for layer in graph.layers], technology)


@pytest.fixture(scope="module")
def graph() -> LayerGraph:
    return gated(1, 28)


@pytest.fixture(scope="module")
def up5k() -> Technology:
    return load_board("icebreaker").technology()


def test_a_long_queue_is_in_spram(graph: LayerGraph, up5k: Technology) -> None:
    """It saves the RAM blocks that the queue has on a device without, and the plan says so, and reads back the same."""
    plan, without = plan_of(graph, up5k), plan_of(graph, ICE40())
    (link,) = [link for link in plan.links if link.spram]
    assert plan.stages[link.sink.number].kind == "multiply"
    assert link.depth >= 28 * 28 * 2
    assert link.memory(up5k) is Place.SPRAM
    assert (plan.resources.spram, without.resources.spram) == (1, 0)
    assert without.resources.ram - plan.resources.ram == 4
    text = hls.plan_to_yaml(plan)
    assert text.count("  memory: spram") == 1
    assert "spram: 1" in text
    assert "spram" not in hls.plan_to_yaml(without)
    assert hls.plan_from_yaml(text, graph, up5k, source="p") == plan
    assert hls.plan_from_yaml(hls.plan_to_yaml(without), graph, up5k, source="p") == plan


def test_other_boards_know_nothing_of_it(graph: LayerGraph) -> None:
    for board in ("tangnano9k", "ulx3s_85f"):
        plan = plan_of(graph, load_board(board).technology())
        assert not plan.resources.spram
        assert not any(link.spram for link in plan.links)


def test_the_twin_has_the_same_queues(graph: LayerGraph, up5k: Technology) -> None:
    plan = plan_of(graph, up5k)
    for technology in (up5k, simulation_technology(plan)):
        core = hls.lower(graph, plan, technology)
        assert [(each.depth, each.spram) for each in core.links] == [(link.depth, link.spram) for link in plan.links]
        assert sum(each.spram for each in core.links) == 1


def test_no_more_are_taken_than_there_are(up5k: Technology) -> None:
    plan = plan_of(gated(6, 24), up5k)
    assert plan.resources.spram == 4 == sum(link.spram for link in plan.links)
    few = plan_of(gated(6, 24), ICE40(single_port_rams=1))
    assert few.resources.spram == 1


def test_frames_around_the_core_come_first(up5k: Technology) -> None:
    """What waits for other inputs and outputs is outside the core, and is never behind it in the choice."""
    plan = plan_of(gated(6, 24), up5k)
    outputs = Ends((), (End(1, 8, 4000),) * 3)
    queues = outputs.queues(up5k)
    assert [queue.memory for queue in queues] == [Place.SPRAM] * 2
    extra = [replace(plan.links[-1], sink=Endpoint.core(k), elements=4000) for k in (1, 2)]
    chosen = in_spram((*plan.links, *extra), up5k)
    assert sum(link.spram for link in chosen) == 2


def test_what_is_left_is_not_reserved_twice() -> None:
    """With other lanes the frames around the core may take fewer than was thought before the plan: it still fits."""
    resources = load_board("icebreaker").resources
    budget = hls.Budget("tiny", resources, Resources(spram=2), usable_logic=1.0)
    assert budget.fits(Resources(spram=4))
    assert budget.exceeded(Resources(spram=5)) == ["spram"]


def test_latency_counts(graph: LayerGraph, up5k: Technology) -> None:
    plan = plan_of(graph, up5k)
    (link,) = [link for link in plan.links if link.spram]
    assert link.queue(up5k).latency == PairedQueue.LATENCY
