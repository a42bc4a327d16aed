"""The networks of `architectures`, all the way: floats to integers, the export, and what onnxruntime quantizes."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import HwflowError
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from bench import quantization as bench
from hwflow import golden, onnx
from hwflow.data.dataset import Dataset
from hwflow.layers import AveragePool, Interpolate
from hwflow.onnx.model import Dim, Model
from hwflow.quantize import Quantized, quantize
from hwflow.quantize.settings import QuantizationSettings
from tests.quantize.architectures import ARCHITECTURES
from tests.quantize.models import kinds, session
from tests.quantize.net import data

#: The others take seconds each.
FAST = ("keras", "mlp", "sklearn", "two_inputs")
ALL = [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in ARCHITECTURES]

#: Decibels that the outputs of integers keep at least, with weights of 8 and 4 bits.
LEAST = {8: 20, 4: 12}

CALIBRATION, ROWS = 256, 16


def settings_of(bits: int) -> QuantizationSettings:
    settings = QuantizationSettings()
    return replace(settings, default=replace(settings.default, weights=replace(settings.default.weights, bits=bits)))


@functools.cache
def case(name: str, bits: int = 8, batch: Dim = 1, opset: int = 17) -> tuple[Model, Dataset, Quantized]:
    """A network, rows that its calibration has not seen, and its integers."""
    model = onnx.infer(ARCHITECTURES[name](batch, opset))
    rows = data(model, CALIBRATION + ROWS)
    seen = {key: value[:CALIBRATION] for key, value in rows.items()}
    inputs = {key: value[CALIBRATION:] for key, value in rows.items()}
    run = session(model)
    results = [run.run(None, {key: value[i] for key, value in inputs.items()}) for i in range(ROWS)]
    columns = zip(model.graph.outputs, zip(*results, strict=True), strict=True)
    outputs = {value.name: np.stack(column) for value, column in columns}
    dataset = Dataset(Path("none"), inputs, seen, False, None, outputs)
    return model, dataset, quantize(model, seen, settings=settings_of(bits))


def assert_near(dataset: Dataset, quantized: Quantized, least: float) -> None:
    """Outputs near those of the floats; labels nearly all the same."""
    made = golden.predict(quantized, dataset.inputs)
    for name, expected in dataset.outputs.items():
        assert made[name].shape == expected.shape
        if expected.dtype.kind == "f":
            noise = np.mean((made[name].astype(np.float64) - expected) ** 2)
            assert 10 * np.log10(np.var(expected.astype(np.float64)) / noise) >= least, name
        else:
            assert np.mean(made[name] == expected) >= 0.85, name


def assert_layers_agree(name: str, dataset: Dataset, quantized: Quantized, *, of_integers: bool = False) -> None:
    """Every layer on what onnxruntime gives it: equal, but where its float sums fall on the other side of a half.

    Means whose scale does not change have exact halves, which the rounding of float sums breaks; so have those between
    two pixels.  A Resize `of_integers` is rounded down by onnxruntime.
    """
    means = {layer.name for layer in quantized.graph.layers if isinstance(layer, (AveragePool, Interpolate))}
    lines = {layer.name for layer in quantized.graph.layers if isinstance(layer, Interpolate) and of_integers}
    near = near_halves(dataset, quantized)
    for layer, _, made, expected in bench.compared(dataset, quantized):
        differ = made != expected
        assert np.abs(made - expected).max() <= 1, layer.name
        if layer.name in lines:
            assert (made >= expected).all(), layer.name
        elif layer.output in near:  # every single one, not only few of them
            assert (near[layer.output] | ~differ).all(), layer.name
        else:
            share = 0.1 if layer.name in means else 0.005
            assert differ.sum() <= max(2, share * differ.size), layer.name


def near_halves(dataset: Dataset, quantized: Quantized) -> dict[str, np.ndarray]:
    """For each tensor of more than 8 bits the elements near a half, which a multiplier of 18 bits may round otherwise.

    Those are within 2^-18 of their value, and 1/32 step for floats of 24 bits, as onnxruntime has the sums.
    """
    model, graph = quantized.qdq, quantized.graph
    quantizers = {node.outputs[0]: node for node in model.graph.nodes if node.op_type == "QuantizeLinear"}
    wide = {layer.output: quantizers[source] for layer in graph.layers if graph.tensors[layer.output].format.bits > 8
            and (source := layer.output.removesuffix(".frame")) in quantizers}
    if not wide:
        return {}
    run = bench.runtime(model, [node.inputs[0] for node in wide.values()])
    rows = [run.run(None, {key: array[i] for key, array in dataset.inputs.items()}) for i in range(dataset.rows)]
    found = {}
    for (tensor, node), reals in zip(wide.items(), zip(*rows, strict=True), strict=True):
        steps = np.stack(reals).astype(np.float64) / model.graph.initializers[node.inputs[1]]
        close = np.abs(steps - np.floor(steps) - 0.5) < 1 / 32 + np.abs(steps) / 2**18
        found[tensor] = bench.frames(close.astype(np.int64), graph.tensors[tensor], quantized.views[tensor].index) == 1
    return found


def assert_same_again(quantized: Quantized) -> None:
    assert quantize(onnx.loads(onnx.dumps(quantized.qdq))).graph == quantized.graph


@pytest.mark.parametrize("bits", [8, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ALL)
def test_floats(name: str, bits: int) -> None:
    _, dataset, quantized = case(name, bits)
    assert_near(dataset, quantized, LEAST[bits])
    assert_same_again(quantized)
    assert_layers_agree(name, dataset, quantized)


def test_fused_batch_normalization_gives_the_same_layers() -> None:
    fused, unfused = (quantize(onnx.infer(ARCHITECTURES["mobilenet_v2"](fused=fused))) for fused in (True, False))
    assert kinds(fused) == kinds(unfused)


@pytest.mark.slow
@pytest.mark.parametrize("opset", [9, 11, 13, 21])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_operator_sets_and_open_batches(name: str, opset: int) -> None:
    _, dataset, quantized = case(name, 8, "N", opset)
    if (name, opset) != ("resnet_a", 9):  # where Slice has no steps yet, and a pool of single elements stands for it
        assert kinds(quantized) == kinds(case(name)[2])
    assert_near(dataset, quantized, LEAST[8])
    assert_same_again(quantized)


class Rows(CalibrationDataReader):
    def __init__(self, dataset: Dataset, count: int = 32) -> None:
        rows = [{name: array[i] for name, array in dataset.calibration.items()} for i in range(count)]
        self.rows = iter(rows)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.rows, None)


SCHEMES = {
    "int8 per channel": (QuantFormat.QDQ, True, QuantType.QInt8),
    "uint8 per tensor": (QuantFormat.QDQ, False, QuantType.QUInt8),
    "QOperator": (QuantFormat.QOperator, True, QuantType.QUInt8),
}

#: What onnxruntime leaves in floats in the middle: a mean behind a function that it does not quantize.
FLOAT_ISLANDS = {
    ("pytorch", "int8 per channel"), ("pytorch", "uint8 per tensor"), ("pytorch", "QOperator"),
    ("resnet_v2", "QOperator"), ("densenet", "QOperator"),
}  # fmt: skip

#: Where it leaves the weights of ConvTranspose in floats.
FLOAT_WEIGHTS = {("image_autoencoder", "QOperator"), ("unet", "QOperator")}


def by_onnxruntime(name: str, scheme: str, folder: Path) -> tuple[Model, Dataset]:
    """The network, quantized by onnxruntime's tool."""
    model, dataset, _ = case(name)
    source, ready, result = (folder / f"{stage}.onnx" for stage in ("source", "ready", "result"))
    source.write_bytes(onnx.dumps(model))
    quant_pre_process(str(source), str(ready), skip_symbolic_shape=True)
    form, per_channel, activations = SCHEMES[scheme]
    quantize_static(
        str(ready), str(result), Rows(dataset), quant_format=form, per_channel=per_channel,
        activation_type=activations, weight_type=QuantType.QInt8,
    )  # fmt: skip
    return onnx.load(result), dataset


@pytest.mark.quick(6)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ALL)
def test_quantized_by_onnxruntime(name: str, scheme: str, tmp_path: Path) -> None:
    model, dataset = by_onnxruntime(name, scheme, tmp_path)
    if (name, scheme) in FLOAT_WEIGHTS:
        with pytest.raises(HwflowError, match=r"'convtranspose.*' must be integers with a DequantizeLinear"):
            quantize(model)
        return
    if (name, scheme) in FLOAT_ISLANDS:
        with pytest.raises(HwflowError, match=r"(Mean|GlobalAveragePool).*which no QuantizeLinear made integer"):
            quantize(model)
        return
    quantized = quantize(model)
    assert_layers_agree(name, dataset, quantized, of_integers=scheme == "QOperator")
    assert_same_again(quantized)
