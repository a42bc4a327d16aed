"""The example models: small, accurate, and with data in the documented layout."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.project.tree import PACKAGES

MODELS = PACKAGES["hwflow_models"]
NAMES = ("digits_cnn", "digits_mlp")


def test_every_model_is_listed_here():
    assert {file.stem for file in MODELS.glob("*.onnx")} == set(NAMES) == {file.stem for file in MODELS.glob("*.npz")}


@pytest.mark.parametrize("name", NAMES)
def test_files_are_small(name):
    assert max((MODELS / f"{name}{suffix}").stat().st_size for suffix in (".onnx", ".npz")) < 200_000


@pytest.mark.parametrize("name", NAMES)
def test_model_is_valid_and_states_its_origin(name):
    model = onnx.load(MODELS / f"{name}.onnx")
    onnx.checker.check_model(model, full_check=True)
    properties = {item.key: item.value for item in model.metadata_props}
    assert properties["license"] == "Apache-2.0"
    assert "CC BY 4.0" in properties["training_data"]


@pytest.mark.parametrize("name", NAMES)
def test_accuracy_and_stated_outputs(name):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(MODELS / f"{name}.onnx", options)
    with np.load(MODELS / f"{name}.npz") as data:
        outputs = np.stack([session.run(["logits"], {"image": image})[0] for image in data["in_image"]])
        np.testing.assert_allclose(outputs, data["out_logits"], rtol=1e-4, atol=1e-4)
        assert data["labels"].shape == (len(outputs),)
        assert np.mean(outputs[:, 0].argmax(axis=1) == data["labels"]) >= 0.97


@pytest.mark.parametrize("name", NAMES)
def test_calibration_rows_are_no_test_rows(name):
    with np.load(MODELS / f"{name}.npz") as data:
        test = {row.tobytes() for row in data["in_image"]}
        assert data["calib_image"].shape[1:] == data["in_image"].shape[1:] == (1, 1, 8, 8)
        assert not [row for row in data["calib_image"] if row.tobytes() in test]
