"""Random networks with random foldings as hardware, in Amaranth's simulator: every boundary equals the golden model.

The interval between frames and the first output's cycle are those of the plan, to the cycle; stalls on all inputs
and outputs stop nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from hwflow import hls
from hwflow.hls.plan.frame_schedule import schedule_frames
from hwflow.layers import LayerGraph
from hwflow.stages.kinds import hardware_problems
from hwflow.synth import list_boards, load_board
from tests.networks.playing import Stalls, play_plan, portable
from tests.random_cases import seeds
from tests.strategies.described import describe
from tests.strategies.layer_graphs import ROWS_AND_TREES, TINY, any_foldings, frames_for, network
from tests.strategies.layers import Taste

FRAMES = 4
BLOCK = 4
#: Cycles of a frame at most, so that a simulator in Python gets through many.
SLOWEST = 80
CHAINS = dataclasses.replace(TINY, joins=False, blocks=3)


def plan_of(graph: LayerGraph, seed: int) -> hls.Plan:
    """Any folding of each layer, with the latencies of any board's parts."""
    names = list_boards()
    technology = load_board(names[seed % len(names)]).technology()
    foldings = any_foldings(graph, technology, np.random.default_rng(seed), slowest=SLOWEST)
    return hls.make_plan(graph, foldings, technology)


def frames_of(plan: hls.Plan) -> int:
    """As many more as are on their way at once: what a quick stage is ahead at the start is used up behind them."""
    return FRAMES + 2 * max(plan.latency) // plan.interval


def stalls_of(seed: int) -> tuple[Stalls, ...]:
    """None, then on both ends, at the source or at the sink; Verilator has time for longer ones."""
    return Stalls(), (Stalls(0.5, 0.5, seed), Stalls(0.8, 0.0, seed), Stalls(0.0, 0.8, seed))[seed % 3]


def check_cycles(plan: hls.Plan, ends: Sequence[Sequence[int]], firsts: Sequence[int | None], told: str) -> None:
    """The latency of each output, and the interval between frames, to the cycle.

    The slowest output gives frames at the plan's pace.  Others run ahead at the start, until their queues are full; and
    the last frame may end a few cycles earlier, because no rows of a next one are written between its windows.
    """
    assert tuple(firsts) == plan.latency, f"latency {firsts}, not {plan.latency}; {told}"
    spans = [cycles[-1] - cycles[0] for cycles in ends]
    slowest = ends[spans.index(max(spans))]
    before, last = slowest[-2] - slowest[-3], slowest[-1] - slowest[-2]
    assert before == plan.interval, f"frames end at {ends}, not every {plan.interval}; {told}"
    assert last <= plan.interval, f"frames end at {ends}, the last one late; {told}"


def check_schedule(plan: hls.Plan, cycles: Sequence[Sequence[int]], frames: int, told: str) -> None:
    """The first and the last beat of each frame at each output are those of the schedule: to the cycle in a chain, and
    where full queues hold a branch back one cycle later at most."""
    branches = len({link.source for link in plan.links}) < len(plan.links)
    for each, (_, ends) in zip(cycles, schedule_frames(plan, frames).outputs, strict=True):
        late = np.array(each).reshape(frames, -1)[:, [0, -1]] - np.array(ends)
        assert late.min() >= 0, told
        assert late.max() <= (1 if branches else 0), told


def prove(seed: int, taste: Taste) -> int:
    """One network; the number of its stages."""
    graph = network(seed, taste)
    assert not hardware_problems(graph), (seed, hardware_problems(graph))
    plan = plan_of(graph, seed)
    count = frames_of(plan)
    frames = frames_for(graph, count, seed)
    told = f"seed {seed} of {taste}\n{describe(graph, [stage.folding for stage in plan.stages])}"
    for stalls in stalls_of(seed):
        played = play_plan(graph, plan, frames, stalls)
        assert not played.wrong, f"{stalls}: {played.wrong}; {told}"
        if stalls == Stalls():
            check_cycles(plan, [cycles[len(cycles) // count - 1 :: len(cycles) // count] for cycles in played.cycles],
                         played.offered, told)
            check_schedule(plan, played.cycles, count, told)
    return len(plan.stages)


@seeds(quick=[0], slow=range(1, 20), name="block")
def test_chains(block: int) -> None:
    assert sum(prove(seed, CHAINS) for seed in range(block * BLOCK, (block + 1) * BLOCK)) > BLOCK


@seeds(quick=[0], slow=range(1, 40), name="block")
def test_branches(block: int) -> None:
    taste = dataclasses.replace(TINY, without=ROWS_AND_TREES)
    assert sum(prove(seed, taste) for seed in range(block * BLOCK, (block + 1) * BLOCK)) > BLOCK


@seeds(quick=[], slow=range(40), name="block")
def test_branches_with_rows_and_trees(block: int) -> None:
    """A block may have nothing but networks of one layer each."""
    assert sum(prove(seed, TINY) for seed in range(block * BLOCK, (block + 1) * BLOCK)) >= BLOCK


def test_every_kind_of_layer_on_a_device_without_multiplier_blocks() -> None:
    """Each kind, with inputs of up to 8 bits and wider, has costs, times and a unit there, without blocks."""
    technology = load_board("ice40hx8k").technology()
    found: set[tuple[str, bool]] = set()
    for seed in range(200):
        graph = network(seed, dataclasses.replace(TINY, bits=12, without=()))
        kinds = {(layer.kind, max(graph.tensors[name].format.bits for name in layer.inputs) > 8)
                 for layer in graph.layers}
        if kinds <= found or hardware_problems(graph):
            continue
        plan = hls.make_plan(graph, any_foldings(graph, technology, np.random.default_rng(seed)), technology)
        hls.lower(graph, plan, portable(plan))
        assert plan.resources.dsp == 0
        found |= kinds
    multiply = {"conv", "dense", "multiply", "matmul", "normalize", "softmax", "add", "average_pool"}
    assert found >= {(kind, wide) for kind in multiply for wide in (False, True)} | {("recurrent", True)}


@pytest.mark.parametrize("seed", [pytest.param(40, marks=pytest.mark.slow), 412])
def test_wide_beats_in_bursts_from_narrow_sources(seed: int) -> None:
    """A stage without a cycle to spare takes wide beats faster, for a while, than a gearbox collects them: they wait
    after the gearbox, as deep as the plan says."""
    taste = dataclasses.replace(TINY, without=ROWS_AND_TREES)
    plan = plan_of(network(seed, taste), seed)
    assert any(link.depth_after for link in plan.links)
    prove(seed, taste)
