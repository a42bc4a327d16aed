"""Whole models of other people, with the outputs that onnxruntime (QONNX: its own executor) gave for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hwflow.onnx import Model, Severity, check, dumps, evaluate, infer, load, loads, simplify

#: All of them, with the shapes that the file leaves open.
MODELS: dict[str, dict[str, tuple[int, ...]]] = {
    "cancer_gb": {},
    "digits_brevitas_w4a4_qcdq": {},
    "digits_brevitas_w4a4_qonnx": {},
    "digits_cnn": {},
    "digits_cnn_int8_qdq": {},
    "digits_cnn_legacy": {},
    "digits_mlp": {},
    "digits_mlp_sklearn": {},
    "digits_rf": {},
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
    "pypi_silero_vad_16k": {},
    "qonnx_tfc_1w2a": {},
    "qonnx_tfc_2w2a": {},
    "tiny_ad_autoencoder_float": {},
    "tiny_ad_autoencoder_int8": {},
    "tiny_kws_dscnn_float": {},
    "tiny_kws_dscnn_int8": {},
    "tiny_resnet8_float": {},
    "tiny_resnet8_int8": {},
    "vowels_gru": {},
    "vowels_gru_dynamo": {},
    "wine_logreg_scaler": {},
}

#: Of each data file; more rows say the same again.
ROWS = 3


def stored(data: dict[str, np.ndarray], kind: str, name: str) -> np.ndarray | None:
    """The array of an input or output; the data files write / as _."""
    return data.get(f"{kind}_{name}", data.get(f"{kind}_{name.replace('/', '_')}"))


def test_every_model_is_in_the_list(models_dir: Path) -> None:
    assert {path.stem for path in (models_dir / "models").glob("*.onnx")} == set(MODELS)


def errors(model: Model) -> list[str]:
    return [str(finding) for finding in check(model) if finding.severity is Severity.ERROR]


def compare_with_the_stored_outputs(name: str, model: Model, data: dict[str, np.ndarray]) -> None:
    """Floats within 1e-4 of the largest output (1e-5 for probabilities), labels and quantized models exactly.

    The stored outputs of quantized models are those without graph optimisation where there are such.
    """
    for row in range(min(ROWS, len(next(iter(data.values()))))):
        feeds = {v.name: stored(data, "in", v.name) for v in model.graph.inputs}
        found = evaluate(model, {key: array[row] for key, array in feeds.items() if array is not None})
        for value in model.graph.outputs:
            optimised = stored(data, "out", value.name)
            wanted = stored(data, "noopt_out", value.name)
            wanted = (optimised if wanted is None else wanted)[row]
            result = found[value.name]
            assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
            if "int8" in name or wanted.dtype.kind in "iu":
                np.testing.assert_array_equal(result, wanted)
            else:
                np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-4 * max(1, np.abs(wanted).max()))


def data_of(models_dir: Path, name: str) -> dict[str, np.ndarray]:
    with np.load(models_dir / "data" / f"{name}.npz") as file:
        return dict(file)


@pytest.mark.parametrize("name", MODELS)
def test_the_file_evaluates_to_the_stored_outputs(models_dir: Path, name) -> None:
    """As it is in the file: nothing inferred, folded or left out."""
    model = load(models_dir / "models" / f"{name}.onnx")
    assert errors(model) == []
    compare_with_the_stored_outputs(name, model, data_of(models_dir, name))


@pytest.mark.parametrize("name", MODELS)
def test_with_static_shapes_it_evaluates_to_the_same(models_dir: Path, name) -> None:
    model = load(models_dir / "models" / f"{name}.onnx")
    model = simplify(infer(model, MODELS[name]))
    assert errors(model) == []
    for value in (*model.graph.inputs, *model.graph.outputs):
        assert value.tensor is not None
        assert value.tensor.is_static
    compare_with_the_stored_outputs(name, model, data_of(models_dir, name))


@pytest.mark.parametrize("name", MODELS)
def test_round_trip(models_dir: Path, name) -> None:
    model = load(models_dir / "models" / f"{name}.onnx")
    data = dumps(model)
    again = loads(data)
    assert dumps(again) == data
    assert again.graph.inputs == model.graph.inputs
    assert [node.label for node in again.graph.nodes] == [node.label for node in model.graph.nodes]
    for key, array in model.graph.initializers.items():
        np.testing.assert_array_equal(again.graph.initializers[key], array)
