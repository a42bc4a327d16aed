"""Third-party models: integer accuracy against the file's, and every layer against onnxruntime."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from bench import quantization as bench
from hwflow import golden
from hwflow.data.dataset import Dataset
from hwflow.layers import AveragePool
from hwflow.layers.formats import IntArray
from hwflow.onnx.model import Model
from hwflow.quantize import Quantized


@cache
def read(models: Path, name: str) -> tuple[Model, Dataset, Quantized]:
    """Each model is quantized once for all tests of this file."""
    return bench.read(models, name)


@pytest.mark.quick(3)
@pytest.mark.parametrize("name", [n for n in bench.FLOAT if "kws" not in n and "resnet" not in n])
def test_integers_are_as_accurate_as_floats(models_dir: Path, name: str) -> None:
    _, dataset, quantized = read(models_dir, name)
    found = bench.accuracies(name, dataset, quantized)
    assert found.relative_error < 0.03
    if found.reference is not None:
        assert found.integer is not None
        assert found.integer >= found.reference - 0.005


@pytest.mark.slow
def test_file_types_of_bytes(models_dir: Path) -> None:
    """Embedding, layer normalizations that jax wrote, a convolution: the labels of all rows are onnxruntime's."""
    _, dataset, quantized = read(models_dir, "pypi_magika_v3_3")
    kinds = [layer.kind for layer in quantized.graph.layers]
    assert (kinds[0], kinds.count("normalize"), kinds.count("conv")) == ("embedding", 2, 1)
    (made,) = golden.predict(quantized, dataset.inputs).values()
    (stated,) = dataset.outputs.values()
    np.testing.assert_array_equal(made.reshape(20, -1).argmax(axis=1), stated.reshape(20, -1).argmax(axis=1))


def ties(layer: AveragePool, quantized: Quantized, x: IntArray) -> npt.NDArray[np.bool_]:
    """Where the exact mean lies in the middle of two steps of the output; its scale is that of the input."""
    before, after = quantized.graph.tensors[layer.inputs[0]], quantized.graph.tensors[layer.output]
    if before.scale != after.scale:
        return np.zeros((1, 1, 1, 1), np.bool_)
    count = layer.kernel[0] * layer.kernel[1]
    sums = layer.window.view(x, before.zero_point).sum(axis=(3, 4)) - count * before.zero_point
    return np.asarray(2 * (sums % count) == count)


@pytest.mark.quick(9)
@pytest.mark.parametrize("name", [*bench.QDQ, *bench.FLOAT])
def test_every_layer_is_onnxruntimes(models_dir: Path, name: str) -> None:
    """But where a mean is an exact tie: ONNX rounds it to even, while in onnxruntime the digits that its sum of floats
    has lost decide (half of the ties go elsewhere with every rule of rounding)."""
    _, dataset, quantized = read(models_dir, name)
    found = list(bench.compared(dataset.first(40), quantized))
    assert len(found) == sum(layer.output in quantized.views for layer in quantized.graph.layers)
    for layer, (x, *_), made, expected in found:
        apart = np.abs(made - expected)
        assert apart.max() <= 1, layer.name
        if isinstance(layer, AveragePool):
            apart = np.where(ties(layer, quantized, x), 0, apart)
        assert np.mean(apart == 0) >= bench.EQUAL, layer.name


@pytest.mark.quick(4)
@pytest.mark.parametrize("name", bench.QDQ)
def test_quantized_files_give_the_stored_labels(models_dir: Path, name: str) -> None:
    """Off-by-one results of the first layers spread; what the model is for must not change.  Outputs of a Softmax can
    be 1/256 or 255/256 for the same scores, so their values are not compared."""
    _, dataset, quantized = read(models_dir, name)
    made = golden.predict(quantized, dataset.inputs)
    for key, stated in dataset.outputs.items():
        rows = (len(stated), -1)
        same = made[key].reshape(rows).argmax(axis=1) == stated.reshape(rows).argmax(axis=1)
        assert np.mean(same) >= 0.99 if len(stated) > 100 else np.sum(~same) <= 1


@pytest.mark.parametrize("name", ["digits_cnn_int8_qdq", "tiny_ad_autoencoder_int8"])
def test_quantized_files_give_the_stored_outputs(models_dir: Path, name: str) -> None:
    model, dataset, quantized = read(models_dir, name)
    found = list(bench.layers(name, dataset, quantized))
    assert found[-1].layer == "end to end"
    assert found[-1].equal >= 0.999
    assert found[-1].worst <= 1
    assert bench.accuracies(name, dataset, quantized).relative_error < 0.001
    assert [value.name for value in quantized.epilogue.graph.outputs] == [value.name for value in model.graph.outputs]
