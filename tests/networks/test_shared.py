"""Networks on shared stages in Verilator: every tensor against the golden model, at full speed and with random stalls.

Whole networks with weights in ROMs, in a flash and in an SDRAM, and networks of which a part shares a stage.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hwflow_sim import RunResult, StallPattern

from hwflow import hls
from hwflow.hls.plan.graph_stages import stages_of
from hwflow.hls.shared.stage import SharedStage
from hwflow.layers.base import LayerGraph
from hwflow.pipeline.simulation import compile_plan, run_plan
from hwflow.pipeline.stimuli import noise
from hwflow.quantize import quantize
from hwflow.stages.folding import Folding
from hwflow.stages.partition import Partition, SharedLayers
from hwflow.synth import load_board
from hwflow.synth.expected_clock import outside_of
from hwflow.views.console.runs import failure_lines
from tests.e2e.networks import forked, gated, residual, rows_for, small_network, two_by_two

FRAMES = 4
STALLS = (StallPattern(0.4, 0.4, 1), StallPattern(0.0, 0.9, 2), StallPattern(0.9, 0.0, 3))


@dataclass(frozen=True)
class Case:
    """`shared` are the stages: positions of layers, columns, weight_rows and whether frames are in SPRAM; `bands` and
    `words_ahead` theirs.  The other stages take at most `fast` cycles, or are the smallest ones.  `waits`: frames have
    to wait for a shared stage, so that the planned interval is a bound.  `queued`: half a frame or more is in a queue,
    because it goes around a shared stage, too, or because a frame has few beats."""

    board: str
    shared: tuple[tuple[tuple[int, ...], int, int, bool], ...]
    model: str = "residual"
    bands: int = 0
    words_ahead: int = 0
    fast: int | None = None
    waits: bool = False
    queued: bool = False

    def __str__(self) -> str:
        return f"{self.model}-{self.board}-" + "-".join(
            f"{''.join(map(str, layers))}x{columns}{'streamed' if rows else ''}{'spram' if spram else ''}"
            for layers, columns, rows, spram in self.shared) + ("-waits" if self.waits else "")


WHOLE = (0, 1, 2, 3)
REST = (2, 4, 5, 6, 7, 8, 9)  # of `forked`: all but the stem, the convolution and the mean that read it
CASES = (
    Case("icebreaker", ((WHOLE, 4, 0, True),)),
    Case("icebreaker", (((0, 1, 2), 4, 1, True),), "small"),
    Case("ulx3s_85f", ((WHOLE, 8, 2, False),)),
    Case("ulx3s_85f", (((1, 2), 2, 0, False),), queued=True),
    Case("ulx3s_85f", (((0, 1), 4, 0, False),), queued=True),
    Case("icebreaker", ((WHOLE, 4, 0, True),), "two by two"),
    Case("icebreaker", (((0, 1, 2, 3, 4), 4, 1, True),), "gated"),
    Case("ulx3s_85f", (((0,), 4, 0, False), ((2, 3), 2, 1, False)), queued=True),
    # both ways from a fork into a shared stage, which lets frames in beside its computation, or hardly so
    Case("ulx3s_85f", ((REST, 2, 0, False),), "forked", words_ahead=999, fast=2400),
    Case("ulx3s_85f", ((REST, 4, 0, False),), "forked", bands=3, fast=2400, waits=True),
    Case("icebreaker", ((REST, 2, 1, True),), "forked", waits=True),
)


def graph_of(name: str) -> LayerGraph:
    model = {"residual": residual, "small": small_network, "two by two": two_by_two, "gated": gated,
             "forked": forked}[name]()
    return quantize(model, rows_for(model, 8)).graph


def planned(case: Case, graph: LayerGraph) -> hls.Plan:
    """The layers that share no stage have the smallest ones."""
    board = load_board(case.board)
    partition = Partition(tuple(
        SharedLayers(f"shared{n}", layers, spram, 256, 1 + n, columns, banks=2 if spram and not rows else 1,
                     bands=case.bands, words_ahead=case.words_ahead)
        for n, (layers, columns, rows, spram) in enumerate(case.shared)))
    foldings, technology = [], board.technology()
    for stage in stages_of(graph, partition):
        folding = next(each for each in stage.foldings() if not case.fast or isinstance(stage, SharedStage)
                       or stage.schedule(each, technology).interval <= case.fast)
        if isinstance(stage, SharedStage):
            _, columns, rows, _ = case.shared[int(stage.name.removeprefix("shared"))]
            folding = Folding(columns, columns, 1 if columns < 8 else 2, weight_rows=rows)
            assert stage.folding_problem(folding, technology) is None
        foldings.append(folding)
    return hls.make_plan(graph, foldings, technology, outside=outside_of(board), partition=partition)


def waits(result: RunResult) -> int:
    """Cycles in which a beat between two stages, or to an output, was there and was not taken."""
    return sum(each.stall_cycles for each in result.boundaries.values())


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_tensor_is_that_of_the_golden_model(case: Case, cache: Path, tmp_path: Path) -> None:
    graph = graph_of(case.model)
    plan = planned(case, graph)
    assert any(each.sizes.single_port for each in stages_of(graph, plan.partition)
               if isinstance(each, SharedStage)) == case.shared[0][3]
    frames = {name: noise(graph.tensors[name], FRAMES, np.random.default_rng(1)) for name in graph.inputs}
    simulation = compile_plan(graph, plan, tmp_path, cache)
    assert [each.tensor for each in simulation.boundaries] == [name for stage in plan.stages
                                                               for name in stage.boundaries]
    moving = {layer.output for layer in graph.layers if layer.kind in ("concat", "rearrange")}  # they may take no step
    assert {layer.output for layer in graph.layers} - moving <= {each.tensor for each in simulation.boundaries}
    result = run_plan(simulation, graph, frames)
    assert result.equal, result.failures()
    assert bool(plan.pace) == case.waits
    frame = max(graph.tensors[link.tensor].frame.elements // link.lanes_in for link in plan.links
                if link.sink.of_stage and plan.stages[link.sink.number].name in {
                    each.name for each in plan.partition.shared})
    assert any(link.beats >= frame // 2 for link in plan.links) == case.queued
    assert plan.is_bound == (case.waits or bool(plan.streams))
    if plan.is_bound:
        assert result.interval is not None
        assert result.interval <= plan.interval
    else:
        assert result.interval == plan.interval
        assert tuple(each.first_cycle for each in result.outputs) == plan.latency
    for stalls in STALLS:
        stalled = run_plan(simulation, graph, frames, stalls=stalls)
        assert stalled.equal, (stalls, stalled.failures())
        assert (stalled.cycles, waits(stalled)) > (result.cycles, waits(result)), "the last beat may come in time"
        for name, values in result.values.items():
            assert np.array_equal(values, stalled.values[name])


@pytest.mark.slow
def test_a_wrong_element_of_the_frame_memory_is_named(cache: Path, tmp_path: Path) -> None:
    """Other weights of the second layer than those in the ROM: its first wrong element is a place in its tensor."""
    case = CASES[0]
    graph = graph_of(case.model)
    plan = planned(case, graph)
    second = graph.layers[1]
    weights = second.weights.copy()  # type: ignore[attr-defined]
    weights[1] = -weights[1]
    other = replace(graph, layers=(graph.layers[0], replace(second, weights=weights), *graph.layers[2:]))  # type: ignore[call-arg]
    frames = {name: noise(graph.tensors[name], 2, np.random.default_rng(1)) for name in graph.inputs}
    simulation = compile_plan(graph, plan, tmp_path, cache)
    result = run_plan(simulation, other, frames)
    assert [each.equal for each in result.boundaries.values()] == [True, False, False, False]
    difference = result.boundaries[second.output].first_difference
    assert difference is not None
    right = run_plan(simulation, graph, frames).values[second.output]
    position = difference.position(right.shape[1:])
    assert position[2] == 1, "the channel whose weights are others"
    assert difference.got == right[(difference.frame, *position)]
    row, column, channel = position
    (first, *_) = failure_lines(other, plan, result)
    assert first == (f"stage 'shared0: {second.output}' (layer 'second') differs first in frame {difference.frame} at "
                     f"row {row}, column {column}, channel {channel}: golden {difference.expected}, RTL "
                     f"{difference.got}")
