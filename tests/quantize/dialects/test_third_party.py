"""Third-party models in every dialect through the golden model, against stored outputs and against onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime.quantization as ort_quantization
import pytest
from onnxruntime.quantization import QuantFormat, QuantType
from onnxruntime.quantization.shape_inference import quant_pre_process

from hwflow import golden, onnx
from hwflow.dataset import Dataset, load_dataset
from hwflow.layers.formats import IntArray, Tensor
from hwflow.onnx.model import Model, Value
from hwflow.quantize import Quantized, quantize
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


class Rows(ort_quantization.CalibrationDataReader):
    """Feeds for onnxruntime's calibration."""

    def __init__(self, feeds: list[dict[str, np.ndarray]]) -> None:
        self._feeds = iter(feeds)

    def get_next(self) -> Any:
        return next(self._feeds, None)


def qoperator(models: Path, name: str, folder: Path, **options: Any) -> tuple[Model, Dataset]:
    """The float model in QOperator format, by onnxruntime."""
    path, ready, made = models / "models" / f"{name}.onnx", folder / "ready.onnx", folder / "made.onnx"
    data = load_dataset(models / "data" / f"{name}.npz", onnx.load(path)).first(100)
    feeds = [{key: rows[k] for key, rows in data.inputs.items()} for k in range(min(40, data.rows))]
    quant_pre_process(str(path), str(ready), skip_symbolic_shape=True)
    ort_quantization.quantize_static(str(ready), str(made), Rows(feeds), quant_format=QuantFormat.QOperator, **options)
    return onnx.load(made), data


def frames(values: np.ndarray, tensor: Tensor) -> IntArray:
    """Integers [n, 1, C, H, W], [n, 1, C, W] or [n, 1, C] as frames [n, H, W, C]; reals in steps of the tensor."""
    if values.dtype.kind == "f":  # a MaxPool of dequantized integers
        values = np.rint(values / np.float32(tensor.scale)) + tensor.zero_point
    integers = values.astype(np.int64)[:, 0]
    integers = np.moveaxis(integers, 1, -1) if integers.ndim > 2 else integers
    return integers.reshape(len(integers), tensor.frame.height, tensor.frame.width, tensor.frame.channels)


def layers(model: Model, data: Dataset, quantized: Quantized) -> Iterator[tuple[str, IntArray, IntArray]]:
    """Each layer's integers, made from what onnxruntime gives it in `model`, and onnxruntime's own."""
    graph = quantized.graph
    names = {layer.output: layer.output.removesuffix(".frame") for layer in graph.layers}
    shown = replace(model.graph, outputs=tuple(Value(name, None) for name in names.values()))
    runtime = session(onnx.infer(replace(model, graph=shown)))
    rows = [runtime.run(None, {k: v[i] for k, v in data.inputs.items()}) for i in range(data.rows)]
    found = dict(golden.before(quantized, data.inputs))
    for tensor, values in zip(names, zip(*rows, strict=True), strict=True):
        found[tensor] = frames(np.stack(values), graph.tensors[tensor])
    for layer in graph.layers:
        made = layer.evaluate(graph, *(found[source] for source in layer.inputs))
        yield layer.name, made, found[layer.output]


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
