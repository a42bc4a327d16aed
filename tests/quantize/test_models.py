"""Third-party models: integer accuracy against the file's, and every layer against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hwflow import golden, onnx
from hwflow.layers import AveragePool
from hwflow.quantize import quantize
from tests.bench import quantization as bench


@pytest.mark.parametrize("name", [n for n in bench.FLOAT if "kws" not in n and "resnet" not in n])
def test_integers_are_as_accurate_as_floats(models_dir: Path, name: str) -> None:
    _, dataset, quantized = bench.read(models_dir, name)
    found = bench.accuracies(name, dataset, quantized)
    assert found.relative_error < 0.03
    if found.reference is not None:
        assert found.integer is not None
        assert found.integer >= found.reference - 0.005


@pytest.mark.parametrize("name", [*bench.QDQ, *bench.FLOAT])
def test_every_layer_is_onnxruntimes(models_dir: Path, name: str) -> None:
    _, dataset, quantized = bench.read(models_dir, name, rows=40)
    found = list(bench.layers(name, dataset, quantized))
    assert len(found) == 1 + sum(layer.output in quantized.views for layer in quantized.graph.layers)
    averages = {layer.name for layer in quantized.graph.layers if isinstance(layer, AveragePool)}
    for row in found[:-1]:
        # A mean whose scale does not change has exact ties; in onnxruntime the rounding of its float sums breaks them.
        assert row.equal >= (0.99 if row.layer in averages else 0.999), row
        assert row.worst <= 1, row


@pytest.mark.parametrize("name", [*bench.QDQ, *bench.FLOAT])
def test_the_export_is_imported_without_change(models_dir: Path, name: str) -> None:
    _, _, quantized = bench.read(models_dir, name, rows=1)
    again = quantize(onnx.loads(onnx.dumps(quantized.qdq)))
    assert again.graph == quantized.graph
    assert all(node.domain == "" for node in quantized.qdq.graph.nodes)


@pytest.mark.parametrize("name", bench.QDQ)
def test_quantized_files_give_the_stored_labels(models_dir: Path, name: str) -> None:
    """Off-by-one results of the first layers spread; what the model is for must not change.  Outputs of a Softmax can
    be 1/256 or 255/256 for the same scores, so their values are not compared."""
    _, dataset, quantized = bench.read(models_dir, name)
    made = golden.predict(quantized, dataset.inputs)
    for key, stated in dataset.outputs.items():
        rows = (len(stated), -1)
        same = made[key].reshape(rows).argmax(axis=1) == stated.reshape(rows).argmax(axis=1)
        assert np.mean(same) >= 0.99 if len(stated) > 100 else np.sum(~same) <= 1


@pytest.mark.parametrize("name", ["digits_cnn_int8_qdq", "tiny_ad_autoencoder_int8"])
def test_quantized_files_give_the_stored_outputs(models_dir: Path, name: str) -> None:
    model, dataset, quantized = bench.read(models_dir, name)
    found = list(bench.layers(name, dataset, quantized))
    assert found[-1].layer == "end to end"
    assert found[-1].equal >= 0.999
    assert found[-1].worst <= 1
    assert bench.accuracies(name, dataset, quantized).relative_error < 0.001
    assert [value.name for value in quantized.epilogue.graph.outputs] == [value.name for value in model.graph.outputs]
