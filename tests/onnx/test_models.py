"""Whole models of other people, with the outputs that onnxruntime gave for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hwflow.onnx import check, dumps, evaluate, infer, load, loads, simplify

#: Those whose operators hwflow evaluates, with the shapes that the file leaves open.
SUPPORTED = {
    "digits_brevitas_w4a4_qcdq": {},
    "digits_cnn": {},
    "digits_cnn_int8_qdq": {},
    "digits_cnn_legacy": {},
    "digits_mlp": {},
    "digits_transformer": {},
    "digits_transformer_dynamo": {},
    "mnist_cntk": {},
    "mnist_resdw": {},
    "mnist_resdw_int8_qdq": {},
    "motions_conv1d": {},
    "onnx_light_shufflenet": {},
    "pypi_basic_pitch": {},
    "pypi_magika_v3_3": {},
    "pypi_mtcnn_pnet": {"input_1": (1, 32, 32, 3)},
    "tiny_ad_autoencoder_float": {},
    "tiny_ad_autoencoder_int8": {},
    "tiny_kws_dscnn_float": {},
    "tiny_kws_dscnn_int8": {},
    "tiny_resnet8_float": {},
    "tiny_resnet8_int8": {},
}

#: Of the others, an operator that keeps them from being evaluated.
UNSUPPORTED = {
    "cancer_gb": "TreeEnsembleClassifier",
    "digits_brevitas_w4a4_qonnx": "Quant",
    "digits_mlp_sklearn": "Scaler",
    "digits_rf": "TreeEnsembleClassifier",
    "pypi_silero_vad_16k": "LSTM",
    "qonnx_tfc_1w2a": "Quant",
    "qonnx_tfc_2w2a": "Quant",
    "vowels_gru": "GRU",
    "vowels_gru_dynamo": "GRU",
    "wine_logreg_scaler": "Scaler",
}

ROWS = 8


def stored(data: dict[str, np.ndarray], kind: str, name: str) -> np.ndarray:
    """The array of an input or output; the data files write / as _."""
    return data.get(f"{kind}_{name}", data.get(f"{kind}_{name.replace('/', '_')}"))


@pytest.mark.parametrize("name", SUPPORTED)
def test_equals_the_stored_outputs(models_dir: Path, name) -> None:
    """Floats within 1e-4 of the largest output (1e-5 for probabilities), quantized models exactly.

    The stored outputs of quantized models are those without graph optimisation where there are such.
    """
    model = load(models_dir / "models" / f"{name}.onnx")
    assert check(model) == ()
    model = simplify(infer(model, SUPPORTED[name]))
    assert check(model) == ()
    with np.load(models_dir / "data" / f"{name}.npz") as file:
        data = dict(file)
    exact = "int8" in name
    for row in range(ROWS):
        found = evaluate(model, {v.name: stored(data, "in", v.name)[row] for v in model.graph.inputs})
        for value in model.graph.outputs:
            optimised = stored(data, "out", value.name)
            wanted = stored(data, "noopt_out", value.name)
            wanted = (optimised if wanted is None else wanted)[row]
            assert found[value.name].dtype == wanted.dtype == value.type.dtype
            assert found[value.name].shape == wanted.shape == value.type.shape
            if exact:
                np.testing.assert_array_equal(found[value.name], wanted)
            else:
                np.testing.assert_allclose(found[value.name], wanted, rtol=0, atol=1e-4 * max(1, np.abs(wanted).max()))


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_says_what_it_cannot_evaluate(models_dir: Path, name) -> None:
    findings = check(load(models_dir / "models" / f"{name}.onnx"))
    assert f"({UNSUPPORTED[name]})" in findings[0].path
    assert {finding.rule for finding in findings} <= {"op-known", "opset-import"}


def test_every_model_is_in_one_of_the_lists(models_dir: Path) -> None:
    assert {path.stem for path in (models_dir / "models").glob("*.onnx")} == set(SUPPORTED) | set(UNSUPPORTED)


@pytest.mark.parametrize("name", [*SUPPORTED, *UNSUPPORTED])
def test_round_trip(models_dir: Path, name) -> None:
    model = load(models_dir / "models" / f"{name}.onnx")
    data = dumps(model)
    again = loads(data)
    assert dumps(again) == data
    assert again.graph.inputs == model.graph.inputs
    assert [node.label for node in again.graph.nodes] == [node.label for node in model.graph.nodes]
    for key, array in model.graph.initializers.items():
        np.testing.assert_array_equal(again.graph.initializers[key], array)
