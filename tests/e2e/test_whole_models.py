"""Whole models through the command line: those that hwflow ships, and those of the folder of third-party models."""

from __future__ import annotations

from pathlib import Path

import hwflow_models
import numpy as np
import pytest

from hwflow.synth import list_boards
from tests.e2e.command import Outcome, process

pytestmark = pytest.mark.slow

SHIPPED = Path(hwflow_models.__file__).parent
#: Models of the folder; each has a data file of the same name.
THIRD_PARTY = ("digits_mlp", "digits_cnn", "digits_cnn_legacy", "digits_cnn_int8_qdq", "mnist_cntk", "motions_conv1d",
               "tiny_ad_autoencoder_float", "tiny_ad_autoencoder_int8", "digits_transformer",
               "digits_transformer_dynamo")
#: Points of accuracy that integers may lose.
POINTS = 0.005


def equal_and_as_predicted(done: Outcome) -> None:
    assert done.code == 0, done
    result = done.json
    assert result["equal"]
    full = result["full speed"]
    assert full["interval"] == result["interval"]
    assert [s["busy_cycles_per_frame"] for s in full["stages"]] == [s["work"] for s in result["stages"]]
    accuracy = result["accuracy"]
    if accuracy is not None and accuracy["float_top1"] is not None:
        assert accuracy["integer_top1"] >= accuracy["float_top1"] - POINTS


@pytest.mark.parametrize("board", list_boards())
@pytest.mark.parametrize("name", ["digits_mlp", "digits_cnn"])
def test_shipped(name: str, board: str, tmp_path: Path) -> None:
    done = process(["sim", SHIPPED / f"{name}.onnx", "--data", SHIPPED / f"{name}.npz", "--board", board, "--json",
                    "--build", tmp_path])
    equal_and_as_predicted(done)
    assert done.json["accuracy"]["integer_top1"] >= 0.97


@pytest.mark.parametrize("name", THIRD_PARTY)
def test_third_party(name: str, models_dir: Path, tmp_path: Path) -> None:
    model, = models_dir.rglob(f"{name}.onnx")
    data = next((path for path in models_dir.rglob("*.npz") if path.stem == name), None)
    assert data is not None, f"{models_dir} must hold {name}.npz"
    done = process(["sim", model, "--data", data, "--json", "--build", tmp_path])
    equal_and_as_predicted(done)
    with np.load(data) as arrays:
        assert done.json["accuracy"]["rows"] == len(next(v for k, v in arrays.items() if k.startswith("in_")))


def test_a_model_that_does_not_fit(models_dir: Path, tmp_path: Path) -> None:
    model, = models_dir.rglob("tiny_ad_autoencoder_int8.onnx")
    build = ["build", model, "--board", "icebreaker", "--json", "--build", tmp_path]
    done = process([*build, "--execution", "dataflow"])
    assert done.code == 1
    assert done.json["error"] == done.message
    assert " does not fit icebreaker, not even with its smallest folding: " in done.message
    assert " block RAMs needed, 28 usable (most in " in done.message
    fits = process(build)
    assert fits.code == 0, fits
    assert fits.json["execution"] == "shared"
    assert fits.json["why"].startswith("a stage for each layer takes ")
    assert fits.json["weights_outside"]["streams"][0]["stage"] == "shared0"
