"""Third-party models in every dialect through the golden model, against stored outputs and against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnxruntime.quantization import QuantType

from bench.qoperator import layers, qoperator
from hwflow import golden, onnx
from hwflow.data.dataset import Dataset, load_dataset
from hwflow.onnx.model import Model
from hwflow.quantize import quantize
from tests.quantize.dialects.cases import standard
from tests.quantize.models import session

#: How few equal bits of a product may differ in float32: outputs of up to some ten, and sums in another order.
CLOSE = 1e-5

BITS = ["qonnx_tfc_2w2a", "qonnx_tfc_1w2a", "digits_brevitas_w4a4_qonnx", "digits_brevitas_w4a4_qcdq"]


def read(models: Path, name: str) -> tuple[Model, Dataset]:
    model = onnx.load(models / "models" / f"{name}.onnx")
    return model, load_dataset(models / "data" / f"{name}.npz", model)


@pytest.mark.parametrize("name", BITS)
def test_the_standard_model_gives_the_stored_outputs(models_dir, name) -> None:
    """In hwflow and in onnxruntime, on all samples."""
    model, data = read(models_dir, name)
    made = standard(model)
    ((output, expected),) = data.outputs.items()
    runtime = session(made)
    for k in range(data.rows):
        feed = {key: rows[k] for key, rows in data.inputs.items()}
        for found in (onnx.evaluate(made, feed)[output], runtime.run([output], feed)[0]):
            np.testing.assert_allclose(found, expected[k], atol=CLOSE)
            assert np.argmax(found) == np.argmax(expected[k])


@pytest.mark.parametrize("name", BITS)
def test_integers_give_the_stored_outputs(models_dir, name) -> None:
    """The golden model: the same class for all samples, and values that differ in float32's digits alone."""
    model, data = read(models_dir, name)
    found = golden.predict(quantize(model), data.inputs)
    ((output, expected),) = data.outputs.items()
    assert found[output].shape == expected.shape
    np.testing.assert_allclose(found[output], expected, atol=CLOSE)
    flat, wanted = (values.reshape(data.rows, -1) for values in (found[output], expected))
    np.testing.assert_array_equal(flat.argmax(1), wanted.argmax(1))


@pytest.mark.quick(4)
@pytest.mark.filterwarnings("ignore")  # of onnxruntime's quantizer
@pytest.mark.parametrize(
    "options",
    [
        # 7 bits: without VNNI onnxruntime's product of uint8 and int8 saturates its sums of two at 16 bits.
        {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8, "reduce_range": True},
        {"activation_type": QuantType.QInt8, "weight_type": QuantType.QInt8, "per_channel": True},
        {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QUInt8},
    ],
    ids=["u8s8", "s8s8-per-channel", "u8u8"],
)
@pytest.mark.parametrize("name", ["digits_cnn", "mnist_resdw", "tiny_kws_dscnn_float"])
def test_every_layer_of_a_qoperator_model_is_onnxruntimes(models_dir, tmp_path, name, options) -> None:
    model, data = qoperator(models_dir, name, tmp_path, **options)
    assert any(node.op_type == "QLinearConv" for node in model.graph.nodes)
    quantized = quantize(model)
    compared = list(layers(model, data, quantized))
    assert len(compared) == len(quantized.graph.layers)
    for layer, made, expected in compared:
        apart = np.abs(made - expected)
        assert apart.max() <= 1, layer
        assert np.mean(apart == 0) >= 0.999, (layer, np.mean(apart == 0))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["digits_cnn", "mnist_resdw", "tiny_kws_dscnn_float"])
def test_every_layer_of_the_rewritten_model_is_onnxruntimes(models_dir, tmp_path, name) -> None:
    """uint8 activations and int8 weights of all 8 bits, in onnxruntime as a QDQ model: no sum saturates there."""
    options = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
    model, data = qoperator(models_dir, name, tmp_path, **options)
    quantized = quantize(model)
    for layer, made, expected in layers(quantized.qdq, data, quantized):
        apart = np.abs(made - expected)
        assert apart.max() <= 1, layer
        assert np.mean(apart == 0) >= 0.999, (layer, np.mean(apart == 0))


@pytest.mark.filterwarnings("ignore")
def test_a_qoperator_model_keeps_its_accuracy(models_dir, tmp_path) -> None:
    model, data = qoperator(models_dir, "digits_cnn", tmp_path, activation_type=QuantType.QUInt8)
    found = golden.predict(quantize(model), data.inputs)
    ((output, wanted),) = data.outputs.items()
    flat, expected = (values.reshape(data.rows, -1) for values in (found[output], wanted))
    assert np.mean(flat.argmax(1) == expected.argmax(1)) >= 0.98
