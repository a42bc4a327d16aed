"""Third-party models: integer accuracy against the file's, and every layer against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import quantization as bench


@pytest.mark.parametrize("name", [n for n in bench.FLOAT if "kws" not in n])
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
    assert len(found) == len(quantized.graph.layers) + 1
    for row in found[:-1]:
        assert row.equal >= 0.999, row
        assert row.worst <= 1, row


@pytest.mark.parametrize("name", ["digits_cnn_int8_qdq", "tiny_ad_autoencoder_int8"])
def test_quantized_files_give_the_stored_outputs(models_dir: Path, name: str) -> None:
    model, dataset, quantized = bench.read(models_dir, name)
    found = list(bench.layers(name, dataset, quantized))
    assert found[-1].layer == "end to end"
    assert found[-1].equal >= 0.999
    assert found[-1].worst <= 1
    assert bench.accuracies(name, dataset, quantized).relative_error < 0.001
    assert [value.name for value in quantized.epilogue.graph.outputs] == [value.name for value in model.graph.outputs]
