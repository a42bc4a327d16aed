"""Random networks with random foldings through Verilator, many in one executable: equal everywhere, as fast as planned.

Each test compiles one executable of several networks side by side.  Runs are at full speed and with stalls on all
inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from hwflow_sim import RunResult, StallPattern

from hwflow import hls
from hwflow.layers import LayerGraph
from hwflow.pipeline.simulation import compile_plan, run_plan
from hwflow.synth import list_boards, load_board
from tests.networks.test_rtl import check_cycles as compare_cycles
from tests.networks.test_rtl import frames_of
from tests.networks.union import Part, union, union_frames
from tests.random_cases import seeds
from tests.strategies.described import describe
from tests.strategies.layer_graphs import TINY, USUAL, any_foldings, frames_for, network
from tests.strategies.layers import Taste

SLOWEST = 3000


def planned(graph: LayerGraph, seed: int, board: str) -> tuple[LayerGraph, hls.Plan]:
    technology = load_board(board).technology()
    foldings = any_foldings(graph, technology, np.random.default_rng(seed), slowest=SLOWEST)
    return graph, hls.make_plan(graph, foldings, technology)


def told(part: Part) -> str:
    return describe(part.graph, [stage.folding for stage in part.plan.stages])


def check_cycles(part: Part, result: RunResult, frames: int) -> None:
    """The interval and the first outputs of one network at full speed."""
    outputs = [result.outputs[k] for k in part.outputs]
    ends = [output.done_cycles for output in outputs]
    compare_cycles(part.plan, ends, [output.first_cycle for output in outputs], told(part))
    seen = list(result.boundaries.values())
    for k, stage in zip(part.stages, part.plan.stages, strict=True):
        assert seen[k].busy_cycles == frames * stage.schedule.work, f"{stage.name} of {told(part)}"


def prove(seeds: Sequence[int], taste: Taste, folder: Path, cache: Path) -> None:
    names = list_boards()
    board = names[seeds[0] % len(names)]
    graph, plan, parts = union([planned(network(seed, taste), seed, board) for seed in seeds])
    count = max(frames_of(part.plan) for part in parts)
    frames = union_frames([frames_for(part.graph, count, seed) for part, seed in zip(parts, seeds, strict=True)])
    simulation = compile_plan(graph, plan, folder, cache)
    for stalls in (None, StallPattern(0.3, 0.3, seeds[0]), StallPattern(0.9, 0.0, 1), StallPattern(0.0, 0.98, 2)):
        result = run_plan(simulation, graph, frames, stalls=stalls)
        wrong = [f"seed {seed}: {told(part)}" for part, seed in zip(parts, seeds, strict=True)
                 if not all([*result.boundaries.values()][k].equal for k in part.stages)]
        assert result.equal, (stalls, result.failures()[:4], *wrong[:2])
        if stalls is None:
            for part in parts:
                check_cycles(part, result, count)


@seeds(slow=[1, 2], name="block")
def test_networks(block: int, tmp_path: Path, cache: Path) -> None:
    prove(range(1000 + 6 * block, 1006 + 6 * block), USUAL, tmp_path, cache)


@seeds(slow=[0], name="block")
def test_tiny_networks(block: int, tmp_path: Path, cache: Path) -> None:
    prove(range(2000 + 12 * block, 2012 + 12 * block), TINY, tmp_path, cache)
