"""Outputs have the shapes that ONNX Runtime gives for all rows as one batch, wherever arrays come out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import hwflow
from hwflow import onnx
from hwflow.onnx.build import Builder
from tests.e2e.command import Cli

ROWS = 12


def classifier(batch: tuple[object, ...], folder: Path) -> Path:
    """Scores, and the class that they name, of eight numbers; axes `batch` stand before them."""
    rng, b = np.random.default_rng(2), Builder("classifier")
    x = b.input("x", np.float32, (*batch, 8))
    w, axis = b.constant("w", rng.standard_normal((8, 3)).astype(np.float32)), len(batch)
    b.output(b.node("MatMul", x, w, name="fc", output="scores"))
    b.output(b.node("ArgMax", "scores", name="best", output="label", axis=axis, keepdims=0))
    onnx.save(b.model(), folder / "model.onnx")
    return folder / "model.onnx"


@pytest.mark.parametrize("batch", [("N",), (1,), ()], ids=["open", "one", "none"])
def test_shapes_of_the_runtime(batch: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                               capsys: pytest.CaptureFixture[str]) -> None:
    path, x = classifier(batch, tmp_path), np.random.default_rng(0).standard_normal((ROWS, 8)).astype(np.float32)
    session = onnxruntime.InferenceSession(path)
    made = [session.run(None, {"x": part}) for part in ([x] if batch == ("N",) else x[:, None] if batch else x)]
    joined = np.concatenate if batch else np.stack
    scores, classes = (joined([np.asarray(each[k]) for each in made]) for k in range(2))
    assert (scores.shape, classes.shape) == ((ROWS, 3), (ROWS,))

    model = hwflow.load(path)
    quantized = hwflow.quantize_model(model, x)
    found = hwflow.run_golden(quantized, x)
    assert {name: array.shape for name, array in found.items()} == {"scores": (ROWS, 3), "label": (ROWS,)}
    assert np.mean(found["scores"].argmax(1) == classes) > 0.9
    assert found["label"].dtype == classes.dtype

    monkeypatch.chdir(tmp_path)
    np.savez("rows.npz", in_x=x, labels=classes)
    assert Cli(capsys)("golden", "model.onnx", "--data", "rows.npz").code == 0
    with np.load("build/model/golden/outputs.npz") as archive:
        written = dict(archive)
    assert {name: array.tolist() for name, array in written.items()} == {
        f"out_{name}": array.tolist() for name, array in found.items()}
    np.savez("again.npz", in_x=x, **written)  # it is a data file's arrays
    assert hwflow.read_data("again.npz", model).outputs.keys() == found.keys()
