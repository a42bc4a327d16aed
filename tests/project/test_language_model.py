"""The shipped language model: small, and its data is what the file computes."""

from __future__ import annotations

import json

import numpy as np
import onnx
import onnxruntime

from tests.project.tree import PACKAGES

FOLDER = PACKAGES["hwflow_models"] / "shakespeare"
F = np.float32


def test_files() -> None:
    model = onnx.load(FOLDER / "shakespeare.onnx")
    onnx.checker.check_model(model, full_check=True)
    properties = {item.key: item.value for item in model.metadata_props}
    assert (properties["license"], properties["script"]) == ("Apache-2.0", "models/train_shakespeare.py")
    assert "CC BY 2.5" in properties["training_data"]
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 330_000
    assert len(json.loads((FOLDER / "shakespeare.json").read_text("utf-8"))) == 64


def test_the_data_is_what_the_file_computes() -> None:
    """One step after the other, fed with its own caches, is the whole text at once, as torch had it."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(FOLDER / "shakespeare.onnx", options)
    caches = {value.name: np.zeros(value.shape, F) for value in session.get_inputs() if "int64" not in value.type}
    with np.load(FOLDER / "shakespeare.npz") as data:
        made = []
        for token, position in zip(data["in_token"], data["in_position"], strict=True):
            scores, *new = session.run(None, {"token": token, "position": position, **caches})
            caches = dict(zip(caches, new, strict=True))
            made.append(scores)
        np.testing.assert_allclose(np.stack(made), data["out_scores"], atol=0.05)  # of weights of 16 bits
        assert np.mean(np.stack(made)[:, 0].argmax(axis=1) == data["labels"]) > 0.5
        assert data["calib_token"].shape == (512, 1, 1)
        assert data["calib_position"].shape == (512, 1)
