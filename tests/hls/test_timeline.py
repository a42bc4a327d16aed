"""Queues of branches: as deep as they must be, hardly deeper, and never a deadlock."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hwflow_rtl.stream.endpoint import Endpoint

from hwflow import hls
from hwflow.hls.plan.graph_stages import stages_of
from hwflow.hls.schedule.timeline import with_least_queues
from hwflow.layers import Add, Conv, Frame, IntFormat, LayerGraph, Multiply
from hwflow.stages.kinds import stage_of
from hwflow.synth import load_board
from tests.networks.playing import Stalls, play_plan
from tests.strategies.layer_graphs import any_foldings, frames_for, network
from tests.strategies.layers import Elements, Growing, Taste

BYTE = Elements(IntFormat(8, True), 3)
FRAMES = 4


class Branches(Growing):
    """Paths of very different lengths between a fork and a join."""

    def conv_of(self, x: str, kernel: int) -> str:
        """Same frame, same channels."""
        t, pad = self.tensors[x], kernel // 2
        weights = self.rng.integers(-128, 128, (t.frame.channels, kernel, kernel, t.frame.channels))
        return self.fitted(Conv, x, BYTE, weights=weights, weight_format=BYTE.format, input_format=t.format,
                           pads=(pad, pad, pad, pad))

    def joined(self, kind: type[Add] | type[Multiply], a: str, b: str) -> str:
        factors = {"multipliers": (1, 1)} if kind is Add else {"multiplier": 1}
        return self.put(kind, (a, b), BYTE, shift=1 if kind is Add else 8, zero_point=3, low=-128, high=127, **factors)

    def gate(self, x: str) -> str:
        """1 x 1 pixels that depend on the whole frame."""
        return self.dense(self.average_pool(x, like=BYTE, whole=True), self.frame(x).channels, BYTE)


def unequal() -> LayerGraph:
    """A fork of three: a 1 x 1 convolution, three of 3 x 3 with a fork inside, a gate that waits for the frame."""
    grown = Branches(np.random.default_rng(7), Taste(), "unequal")
    x = grown.input(Frame(6, 6, 2), BYTE)
    a = grown.conv_of(x, 1)
    inner = grown.conv_of(a, 3)
    long = grown.joined(Add, grown.conv_of(grown.conv_of(inner, 3), 3), inner)
    gated = grown.joined(Multiply, a, grown.gate(a))
    grown.joined(Add, grown.joined(Add, long, grown.conv_of(a, 1)), gated)
    return grown.finished()


@pytest.fixture(scope="module")
def graph() -> LayerGraph:
    made = unequal()
    return replace(made, outputs=made.outputs[-1:])


@pytest.fixture(scope="module")
def plan(graph: LayerGraph) -> hls.Plan:
    technology = load_board("ulx3s_85f").technology()
    foldings = [next(f for f in stage_of(graph, layer).foldings() if f.rows * f.cols <= 2) for layer in graph.layers]
    return hls.make_plan(graph, foldings, technology)


def queue(plan: hls.Plan, graph: LayerGraph, kind: str, port: int) -> int:
    """The link into input `port` of the first stage of this kind."""
    stage = next(k for k, layer in enumerate(graph.layers) if layer.kind == kind)
    return next(e for e, link in enumerate(plan.links) if (link.sink, link.port) == (Endpoint.stage(stage), port))


def with_depth(plan: hls.Plan, e: int, depth: int) -> hls.Plan:
    links = list(plan.links)
    links[e] = replace(links[e], depth=depth)
    return replace(plan, links=tuple(links))


def test_queues_follow_from_the_schedule(graph: LayerGraph, plan: hls.Plan) -> None:
    """What meets a gate waits for a whole frame, what meets two convolutions of 3 x 3 for two rows and a little more
    each."""
    gate = plan.links[queue(plan, graph, "multiply", 0)]
    assert 72 <= gate.depth * gate.lanes_out <= 72 + 40
    skip = plan.links[queue(plan, graph, "add", 1)]
    assert 2 * 6 * 2 <= skip.depth * skip.lanes_out <= 2 * (6 + 2) * 2 + 30
    assert sum(link.buffer_bytes for link in plan.links) >= 72 + 24


@pytest.mark.parametrize("stalls", [
    *(pytest.param(stalls, marks=pytest.mark.slow) for stalls in (
        Stalls(), Stalls(0.5, 0.5, 1), Stalls(0.98, 0.0, 2), Stalls(0.0, 0.98, 3), Stalls(0.9, 0.9, 4)))], ids=str)
def test_nested_branches_never_stop(graph: LayerGraph, plan: hls.Plan, stalls: Stalls) -> None:
    count = FRAMES if stalls.source + stalls.sink < 0.9 else 2
    played = play_plan(graph, plan, frames_for(graph, count, 1), stalls)
    assert not played.wrong
    if stalls == Stalls():
        ends = played.cycles[0][len(played.cycles[0]) // FRAMES - 1 :: len(played.cycles[0]) // FRAMES]
        assert ends[-1] - ends[-2] == plan.interval
        assert tuple(played.offered) == plan.latency


@pytest.mark.parametrize("kind, port", [("multiply", 0), ("add", 1)])
def test_a_shallow_queue_stops_the_frame_and_is_named(graph: LayerGraph, plan: hls.Plan, kind: str, port: int) -> None:
    e = queue(plan, graph, kind, port)
    shallow = with_depth(plan, e, 2)
    played = play_plan(graph, shallow, frames_for(graph, 2, 1), patience=1500)
    assert played.wrong
    assert any("full" in line for line in played.wrong), played.wrong


@pytest.mark.slow
@pytest.mark.parametrize("kind, port", [("multiply", 0), ("add", 1)])
def test_queues_are_hardly_deeper_than_they_must_be(graph: LayerGraph, plan: hls.Plan, kind: str, port: int) -> None:
    """With three quarters of the depth frames come later, or not at all."""
    e = queue(plan, graph, kind, port)
    smaller = with_depth(plan, e, plan.links[e].depth * 3 // 4)
    played = play_plan(graph, smaller, frames_for(graph, FRAMES, 1), patience=1500)
    if not played.wrong:
        per_frame = len(played.cycles[0]) // FRAMES
        assert played.cycles[0][-1] - played.cycles[0][-1 - per_frame] > plan.interval


def test_a_source_waits_for_a_change_to_fewer_lanes() -> None:
    """Which takes a beat of two elements every other cycle: the mean of the frame, for another reader, is later."""
    grown = Branches(np.random.default_rng(5), Taste(), "narrower")
    x = grown.lookup(grown.input(Frame(2, 2, 2), BYTE), BYTE)
    grown.lookup(x, BYTE)
    grown.dense(grown.average_pool(x, like=BYTE, whole=True), 32, BYTE)
    graph = grown.finished()
    first, narrow, mean, slow = (list(stage_of(graph, layer).foldings()) for layer in graph.layers)
    foldings = [max(first, key=lambda f: f.lanes), min(narrow, key=lambda f: f.lanes), max(mean, key=lambda f: f.cols),
                slow[0]]
    plan = hls.make_plan(graph, foldings, load_board("ulx3s_85f").technology())
    assert [(link.depth, link.lanes_out, link.lanes_in) for link in plan.links[1:3]] == [(2, 2, 1), (3, 2, 2)]
    played = play_plan(graph, plan, frames_for(graph, 1))
    assert not played.wrong
    assert tuple(played.offered) == plan.latency


@pytest.mark.parametrize("seed", range(8))
def test_queues_of_a_first_frame_are_a_bound(seed: int) -> None:
    """No queue that a plan has is less deep; where branches meet, the bound is of use."""
    technology, graph = load_board("ulx3s_85f").technology(), network(seed)
    foldings = any_foldings(graph, technology, np.random.default_rng(seed))
    plan = hls.make_plan(graph, foldings, technology)
    stages = stages_of(graph)
    bare = [replace(link, depth=0, depth_after=0, spram=False) for link in plan.links]
    least = with_least_queues(stages, foldings, bare, technology, plan.interval)
    for bound, link in zip(least, plan.links, strict=True):
        assert bound.depth <= link.depth or link.depth_after
        assert bound.depth_after == 0


def test_queues_of_a_first_frame_are_those_of_a_plan_without_gearboxes(graph: LayerGraph, plan: hls.Plan) -> None:
    bare = [replace(link, depth=0) for link in plan.links]
    foldings = [stage.folding for stage in plan.stages]
    least = with_least_queues(stages_of(graph), foldings, bare, plan.device, plan.interval)
    same = [(bound.depth, link.depth) for bound, link in zip(least, plan.links, strict=True)
            if link.lanes_in == link.lanes_out]
    assert sum(depth for _, depth in same) > 0
    assert sum(bound for bound, _ in same) >= 0.8 * sum(depth for _, depth in same)
