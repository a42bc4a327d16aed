"""The wake-word models of the package `pymicro-wakeword`, and the page about them.

The package is installed here or in a Python that HWFLOW_EXPORTERS names.
"""

from __future__ import annotations

import json
import re
import subprocess
import wave
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hwflow_sim import StallPattern

from hwflow import api
from hwflow.pipeline.planning import plan_for
from hwflow.pipeline.simulation import compile_plan, run_plan
from hwflow.pipeline.stimuli import noise
from hwflow.synth import load_board
from tests.project.test_export_guide import python_with
from tests.project.tree import ROOT
from tests.tflite.runtimes import package_file

MODELS = ("alexa", "hey_jarvis", "hey_mycroft", "okay_nabu")
#: What a model needs, in a second, and the frames of a sequence.
PACE, FRAMES = 33, 200
#: A cautious clock of a core on both boards: that of the oscillator of the slower one.
MHZ = 12.0


PAGE = ROOT / "docs" / "wake-word.md"

#: What pymicro-wakeword hands to its runtime: features of its own front end, three in a row, by its scale.
ROWS = """
import sys, wave
import numpy as np
from pymicro_wakeword import MicroWakeWord, MicroWakeWordFeatures, Model

with wave.open("alexa.wav") as file:
    steps = list(MicroWakeWordFeatures().process_streaming(file.readframes(file.getnframes())))
model = MicroWakeWord.from_builtin(Model.ALEXA)
threes = [np.concatenate(steps[k : k + 3], axis=1) for k in range(0, len(steps) - 2, 3)]
np.save("rows.npy", np.round(np.array(threes) / model.input_scale + model.input_zero_point).astype(np.int8))
"""


def examples() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def file_of(model: str, folder: Path) -> Path:
    file = folder / f"{model}.tflite"
    file.write_bytes(package_file("pymicro_wakeword", f"models/{model}.tflite"))
    return file


@pytest.mark.parametrize("board", ["icebreaker", "tangnano9k"])
@pytest.mark.parametrize("model", MODELS)
def test_plans(model: str, board: str, tmp_path: Path) -> None:
    graph = api.quantize_model(api.load(file_of(model, tmp_path))).graph
    plan = plan_for(graph, graph, load_board(board))
    assert len(graph.states) == 6
    assert [stage.kind for stage in plan.stages] == ["shared"]
    assert plan.interval * PACE < MHZ * 1e6


@pytest.mark.slow
@pytest.mark.parametrize("board", ["icebreaker", "tangnano9k"])
@pytest.mark.parametrize("model", MODELS)
def test_sequences(model: str, board: str, cache: Path, tmp_path: Path) -> None:
    graph = api.quantize_model(api.load(file_of(model, tmp_path))).graph
    plan = plan_for(graph, graph, load_board(board))
    simulation = compile_plan(graph, plan, tmp_path, cache)
    frames = {name: noise(graph.tensors[name], FRAMES, np.random.default_rng(1)) for name in graph.inputs}
    for stalls in (None, StallPattern(0.5, 0.5, 1)):
        result = run_plan(simulation, graph, frames, stalls=stalls)
        assert result.equal, result.failures()


def test_inputs_of_the_page_are_those_of_the_package(tmp_path: Path) -> None:
    python = python_with(("pymicro_wakeword",))
    if python is None:
        pytest.skip("needs pymicro_wakeword, here or in a Python that HWFLOW_EXPORTERS names")
    loud = np.repeat(np.random.default_rng(0).uniform(0, 9000, 20), 1600)
    sound = loud * np.sin(np.cumsum(np.random.default_rng(1).uniform(0.02, 0.9, len(loud))))
    with wave.open(str(tmp_path / "alexa.wav"), "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes(sound.astype("<i2").tobytes())
    for code in (examples()[0], ROWS):
        subprocess.run([python, "-c", code], cwd=tmp_path, check=True)
    (rows,) = np.load(tmp_path / "alexa.npz").values()
    assert rows.shape == (66, 1, 3, 40)
    assert len(np.unique(rows)) > 100
    assert np.array_equal(rows, np.load(tmp_path / "rows.npy").reshape(rows.shape))


@pytest.mark.parametrize("loudest", [200, 255])
def test_the_page_hears_the_word(loudest: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                 capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "wake" / "pymicro_wakeword" / "models"
    folder.mkdir(parents=True)
    (folder / "alexa.json").write_bytes(package_file("pymicro_wakeword", "models/alexa.json"))
    graph = api.load(file_of("alexa", folder)).graph
    given, taken = graph.inputs[0].name, graph.outputs[0].name
    scores = np.random.default_rng(2).integers(0, 100, 30)
    scores[12:18] = loudest
    rows, left, resets = np.arange(30 * 120).reshape(30, 1, 3, 40).astype(np.int8), iter(scores), []

    def run(row: np.ndarray) -> dict[str, np.ndarray]:
        assert row.shape == (1, 1, 3, 40)
        return {taken: np.array([[[next(left)]]], np.uint8)}

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hwflow.host.open", lambda port: nullcontext(SimpleNamespace(
        run=run, reset_state=lambda: resets.append(port))))
    np.savez("alexa.npz", **{f"in_{given}": rows})
    exec(compile(examples()[1], str(PAGE), "exec"), {"__name__": "page"})
    mean = np.convolve(scores / 256, np.ones(5) / 5, "valid").max()
    cutoff = json.loads((folder / "alexa.json").read_text())["micro"]["probability_cutoff"]
    assert capsys.readouterr().out == f"Alexa: {mean:.3f} of 0.9, {'heard' if mean > cutoff else 'not heard'}\n"
    assert (resets, next(left, None)) == (["/dev/ttyUSB0"], None)
