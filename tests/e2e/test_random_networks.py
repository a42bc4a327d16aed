"""Random chains of layers: integers near floats; RTL equal to the integers, at every stage, in the predicted time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hwflow_rtl.vendor import Technology
from hwflow_sim import StallPattern

from hwflow import golden, hls, onnx
from hwflow.accuracy import signal_to_noise
from hwflow.api import make_plan
from hwflow.layers.base import LayerGraph
from hwflow.pipeline.simulation import compile_plan, run_plan
from hwflow.quantize import Quantized, quantize
from hwflow.stages.folding import Folding
from hwflow.stages.kinds import stage_of
from hwflow.synth import Board, list_boards, load_board
from tests.e2e.networks import random_network, rows_for
from tests.random_cases import seeds

#: Decibels between the float outputs and their difference to the integers'; 700 seeds gave at least 27.
LEAST_SNR = 20
#: For the default run: convolutions, average pools, tables, a dense layer, groups, strides, pads and dilations, in one
#: and two dimensions, on boards of both kinds.  Maximum pools are in the small network of the other tests.
QUICK = (102,)
#: With these each board is met.
SLOW = (21, *(seed for seed in range(len(list_boards())) if seed not in QUICK))


def integers_of(seed: int, count: int) -> tuple[Quantized, dict[str, np.ndarray]]:
    model = onnx.simplify(random_network(seed))
    rows = rows_for(model, count)
    return quantize(model, rows), rows


@pytest.mark.quick(20)
@seeds(quick=range(60))
def test_integers_are_near_the_floats(seed: int) -> None:
    quantized, rows = integers_of(seed, 20)
    apart = signal_to_noise(
        golden.evaluate_rows(onnx.simplify(random_network(seed)), rows), golden.predict(quantized, rows))
    assert apart is None or apart > LEAST_SNR


def any_foldings(graph: LayerGraph, technology: Technology, seed: int) -> Sequence[Folding]:
    """For each layer any of its foldings that `technology` has multipliers for."""
    random = np.random.default_rng(seed)
    options = [list(stage_of(graph, layer).foldings_on(technology))
               for layer in graph.layers]
    return [found[random.integers(len(found))] for found in options]


def board_of(seed: int) -> Board:
    names = list_boards()
    return load_board(names[seed % len(names)])


def prove(quantized: Quantized, plan: hls.Plan, rows: dict[str, np.ndarray], seed: int, folder: Path,
          cache: Path) -> None:
    """Four frames at full speed, stalled on both ends, and with a slow source: equal, and as fast as predicted."""
    simulation = compile_plan(quantized.graph, plan, folder, cache)
    frames = golden.enter(quantized, rows)
    for stalls in (None, StallPattern(0.5, 0.5, seed), StallPattern(0.95, 0.0, seed)):
        result = run_plan(simulation, quantized.graph, frames, stalls=stalls)
        assert result.equal, (stalls, result.failures())
        if stalls is None:
            assert result.interval == plan.interval, [(s.name, s.schedule) for s in plan.stages]
            busy = [stage.busy_cycles for stage in result.boundaries.values()]
            assert busy == [len(frames) * stage.schedule.work for stage in plan.stages]


@seeds(QUICK, SLOW)
def test_any_folding_computes_the_same(seed: int, tmp_path: Path, cache: Path) -> None:
    quantized, rows = integers_of(seed, 4)
    technology = board_of(seed).technology()
    plan = hls.make_plan(quantized.graph, any_foldings(quantized.graph, technology, seed), technology)
    prove(quantized, plan, rows, seed, tmp_path, cache)


@seeds(slow=range(8))
def test_the_fastest_plan_computes_the_same(seed: int, tmp_path: Path, cache: Path) -> None:
    quantized, rows = integers_of(seed, 4)
    prove(quantized, make_plan(quantized, "ulx3s_85f"), rows, seed, tmp_path, cache)
