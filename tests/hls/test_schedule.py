"""The schedule of frames: what it says of a stage adds up to what the plan says; `tests/networks` compares its beats
with a simulation."""

from __future__ import annotations

import numpy as np
import pytest

from hwflow import hls
from hwflow.hls.plan.frame_schedule import FrameSchedule, schedule_frames
from hwflow.options import HardwareOptions
from hwflow.pipeline.planning import plan_for
from hwflow.quantize import quantize
from hwflow.stages.kinds import stage_of
from hwflow.stages.partition import Execution
from hwflow.synth import load_board
from tests.e2e.networks import rows_for, small_network
from tests.hls.test_timeline import unequal

FRAMES = 4


def planned(execution: Execution) -> hls.Plan:
    model = small_network()
    graph = quantize(model, rows_for(model, 8)).graph
    return plan_for(graph, graph, load_board("icebreaker"), HardwareOptions(execution=execution))


def branches() -> hls.Plan:
    graph = unequal()
    technology = load_board("ulx3s_85f").technology()
    foldings = [next(f for f in stage_of(graph, layer).foldings() if f.rows * f.cols <= 2) for layer in graph.layers]
    return hls.make_plan(graph, foldings, technology)


@pytest.fixture(scope="module", params=["chain", "branches", "shared"])
def both(request: pytest.FixtureRequest) -> tuple[hls.Plan, FrameSchedule]:
    plan = branches() if request.param == "branches" else planned(
        Execution.SHARED if request.param == "shared" else Execution.DATAFLOW)
    return plan, schedule_frames(plan, FRAMES)


def test_the_latency_of_the_plan_is_that_of_the_first_frame_and_of_the_steps_on_its_way(both) -> None:
    plan, schedule = both
    assert tuple(frames[0][0] for _, frames in schedule.outputs) == plan.latency
    assert tuple(sum(step.after for step in path) for path in schedule.paths) == plan.latency
    names = [stage.name for stage in plan.stages]
    for path in schedule.paths:
        way = [step.stage for step in path[:-1]]
        assert way == sorted(way, key=names.index)
        assert path[-1].stage == ""
        assert path[0].after == path[0].cycle


def test_frames_follow_each_other_at_the_interval_of_the_plan(both) -> None:
    plan, schedule = both
    ends = [[last for _, last in frames] for _, frames in schedule.outputs]
    slowest = max(ends, key=lambda cycles: cycles[-1] - cycles[0])
    assert slowest[-2] - slowest[-3] == plan.interval
    assert schedule.end == max(map(max, ends))


def test_a_stage_works_as_many_cycles_as_the_plan_says_and_on_one_frame_at_a_time(both) -> None:
    plan, schedule = both
    rows = [row for row in schedule.rows if not row.step]
    assert [row.stage for row in rows] == [stage.name for stage in plan.stages]
    for stage, row in zip(plan.stages, rows, strict=True):
        moments = np.concatenate([np.stack([each.starts, each.ends], axis=1).reshape(-1) for each in row.frames])
        assert (np.diff(moments) >= -1e-6).all(), stage.name
        for each in row.frames:
            if not stage.steps:
                assert each.works == pytest.approx(stage.schedule.work)
            assert each.begin <= each.starts[0] + 1e-6
            end = max(each.end, each.ends[-1])
            assert each.fills + each.works + each.waits == pytest.approx(end - each.begin, abs=2)


def test_the_steps_of_a_shared_stage_fill_its_interval() -> None:
    plan = planned(Execution.SHARED)
    (stage,), schedule = plan.stages, schedule_frames(plan, FRAMES)
    steps = {row.step: row.frames[1] for row in schedule.rows if row.step}
    cycles = {step.name: 0 for step in stage.steps}
    for step in stage.steps:
        cycles[step.name] += step.cycles - step.waits
    assert {name: round(each.works) for name, each in steps.items()} == cycles
    assert sum(step.cycles for step in stage.steps) == plan.interval


def test_shares_of_time_are_those_of_the_cycles_of_work(both) -> None:
    _, schedule = both
    for row in schedule.rows:
        for each in row.frames:
            for parts in (1, 7, 100):
                edges = np.linspace(each.starts[0] - 3, each.ends[-1] + 5, parts + 1)
                shares = each.shares(edges)
                assert (shares * np.diff(edges)).sum() == pytest.approx(each.works)
                assert shares.min() >= 0
                assert shares.max() <= 1 + 1e-9
