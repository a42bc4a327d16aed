"""The wake-word models of the package `pymicro-wakeword`, from their .tflite files, where it is installed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hwflow_sim import StallPattern

from hwflow import api
from hwflow.pipeline.planning import plan_for
from hwflow.pipeline.simulation import compile_plan, run_plan
from hwflow.pipeline.stimuli import noise
from hwflow.synth import load_board

MODELS = ("alexa", "hey_jarvis", "hey_mycroft", "okay_nabu")
#: What a model needs, in a second, and the frames of a sequence.
PACE, FRAMES = 33, 200
#: A cautious clock of a core on both boards: that of the oscillator of the slower one.
MHZ = 12.0


def file_of(model: str) -> Path:
    package = pytest.importorskip("pymicro_wakeword", reason="needs pymicro-wakeword: pip install pymicro-wakeword")
    return Path(package.__file__).parent / "models" / f"{model}.tflite"


@pytest.mark.parametrize("board", ["icebreaker", "tangnano9k"])
@pytest.mark.parametrize("model", MODELS)
def test_plans(model: str, board: str) -> None:
    graph = api.quantize_model(api.load(file_of(model))).graph
    plan = plan_for(graph, graph, load_board(board))
    assert len(graph.states) == 6
    assert [stage.kind for stage in plan.stages] == ["shared"]
    assert plan.interval * PACE < MHZ * 1e6


@pytest.mark.slow
@pytest.mark.parametrize("board", ["icebreaker", "tangnano9k"])
@pytest.mark.parametrize("model", MODELS)
def test_sequences(model: str, board: str, cache: Path, tmp_path: Path) -> None:
    graph = api.quantize_model(api.load(file_of(model))).graph
    plan = plan_for(graph, graph, load_board(board))
    simulation = compile_plan(graph, plan, tmp_path, cache)
    frames = {name: noise(graph.tensors[name], FRAMES, np.random.default_rng(1)) for name in graph.inputs}
    for stalls in (None, StallPattern(0.5, 0.5, 1)):
        result = run_plan(simulation, graph, frames, stalls=stalls)
        assert result.equal, result.failures()
