"""Noise layer by layer, against sums written out as loops, on graphs whose twins are known."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from hwflow_base.files.facts import read_facts

from hwflow import golden, onnx
from hwflow.accuracy import LayerNoise, layer_noise, layers, most_harmful
from hwflow.onnx import evaluate
from hwflow.quantize import Quantized, quantize
from hwflow.quantize.quantized import View
from tests.e2e.networks import rows_for, small_network
from tests.quantize.models import Qdq
from tests.quantize.models import rows as feeds


@pytest.fixture(scope="module")
def quantized() -> Quantized:
    """The small network with hand-made views: every tensor of the graph has its counterpart."""
    model = onnx.simplify(small_network())
    made = quantize(model, rows_for(model, 50))
    views = {}
    for name, source in zip(made.graph.computed, ("x", "relu_out", "pool_out", "fc_out"), strict=True):
        frame = made.graph.tensors[name].frame
        places = np.arange(frame.elements).reshape(frame.height, frame.width, frame.channels)
        index = np.moveaxis(places, -1, 0)[None] if frame.height > 1 else places.reshape(1, -1)
        views[name] = View(source, index.astype(np.int64))
    return replace(made, twin=model, views=views)


def naive(quantized: Quantized, name: str, rows: dict[str, np.ndarray]) -> dict[str, float]:
    """The same numbers element by element."""
    tensor, view = quantized.graph.tensors[name], quantized.views[name]
    frames = golden.run(quantized, golden.run_prologue(quantized, rows))[name]
    signal = noise = error = largest = 0.0
    beyond = count = 0
    layer = next((layer for layer in quantized.graph.layers if layer.output == name), None)
    rescale = getattr(layer, "requantize", tensor.format)
    for k, frame in enumerate(frames):
        reals = evaluate(quantized.twin, {n: a[k] for n, a in rows.items()}, [view.source])[view.source]
        for real, place in zip(reals.ravel().tolist(), view.index.ravel().tolist(), strict=True):
            found = tensor.scale * (int(frame.ravel()[place]) - tensor.zero_point)
            signal, noise, error = signal + real**2, noise + (found - real) ** 2, error + found - real
            largest = max(largest, abs(found - real))
            beyond += not rescale.low <= round(real / tensor.scale) + tensor.zero_point <= rescale.high
            count += 1
    return {"signal": signal / count, "noise": noise / count, "bias": error / count, "largest": largest,
            "saturated": beyond / count}


def test_every_tensor_against_the_definition(quantized: Quantized) -> None:
    rows = rows_for(small_network(), 20, seed=9)
    rows["x"][:3] *= 4  # far outside what calibration saw
    found = layer_noise(quantized, rows)
    assert [noise.tensor for noise in found] == list(quantized.graph.computed)
    assert [noise.source for noise in found] == ["x", "relu_out", "pool_out", "fc_out"]
    assert [noise.kind for noise in found] == ["", "conv", "max pool", "dense"]
    for noise in found:
        for field, value in naive(quantized, noise.tensor, rows).items():
            assert getattr(noise, field) == pytest.approx(value, rel=1e-9, abs=1e-12), (noise.tensor, field)
    assert found[0].saturated is not None
    assert found[0].saturated > 0.01
    assert all(noise.snr_db is not None and 0 < noise.snr_db < 80 for noise in found)


def test_histograms_against_numpy(quantized: Quantized) -> None:
    """Every bin counted by numpy over real values and over integers, on rows that reach beyond the formats."""
    rows = rows_for(small_network(), 20, seed=9)
    rows["x"][:3] *= 4
    integers = golden.run(quantized, golden.run_prologue(quantized, rows))
    for noise in layer_noise(quantized, rows):
        found, tensor = noise.histogram, quantized.graph.tensors[noise.tensor]
        assert found is not None
        reals = np.stack([evaluate(quantized.twin, {n: a[k] for n, a in rows.items()}, [noise.source])[noise.source]
                          for k in range(20)]).astype(np.float64)
        edges = np.arange(found.low, found.high + found.width + 1, found.width) - 0.5
        assert len(edges) == len(found.integers) + 1
        assert list(found.integers) == np.histogram(integers[noise.tensor], edges)[0].tolist()
        nearest = np.rint(reals / tensor.scale) + tensor.zero_point
        inside = nearest[(nearest >= found.low) & (nearest <= found.high)]
        assert list(found.reals) == np.histogram(inside, edges)[0].tolist()
        assert (found.below, found.above) == ((nearest < found.low).sum(), (nearest > found.high).sum())
        assert noise.saturated == pytest.approx((found.below + found.above) / reals.size)
        assert (found.smallest, found.largest) == (reals.min(), reals.max())
    again = read_facts(json.dumps(asdict(noise)), LayerNoise)
    assert again == noise


def test_blocks_of_rows_change_nothing(quantized: Quantized, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, calls = rows_for(small_network(), 7), []
    whole = layer_noise(quantized, rows, lambda done, total: calls.append((done, total)))
    assert calls == [(k, 7) for k in range(1, 8)]
    monkeypatch.setattr(layers, "_ELEMENTS", 300)
    assert layer_noise(quantized, rows) == whole


def test_a_bad_layer_is_the_one_that_hurts(quantized: Quantized) -> None:
    """The weights of the convolution come to nothing but their signs; the layer behind it only hands the noise on."""
    graph = quantized.graph
    conv = graph.layers[0]
    bad = replace(conv, weights=np.sign(conv.weights) * 64)
    spoiled = replace(quantized, graph=replace(graph, layers=(bad, *graph.layers[1:])))
    rows = rows_for(small_network(), 20)
    worst = most_harmful(layer_noise(spoiled, rows))
    assert worst is not None
    assert worst.layer == "conv"
    before = layer_noise(quantized, rows)[1]
    assert worst.snr_db is not None
    assert before.snr_db is not None
    assert worst.snr_db < before.snr_db - 10
    assert worst.inputs_db == layer_noise(spoiled, rows)[0].snr_db


def test_tensors_without_a_counterpart(quantized: Quantized) -> None:
    rows = rows_for(small_network(), 3)
    none = layer_noise(replace(quantized, views={}), rows)
    assert [noise.snr_db for noise in none] == [None] * 4
    assert most_harmful(none) is None
    assert all(noise.histogram is not None and sum(noise.histogram.integers) for noise in none)
    assert all(noise.histogram is not None and not noise.histogram.reals for noise in none)
    whole = layer_noise(quantized, rows)
    names = list(quantized.graph.computed)
    some = layer_noise(replace(quantized, views={n: quantized.views[n] for n in (names[0], names[3])}), rows)
    assert (some[0], some[1].noise, some[3].noise) == (whole[0], None, whole[3].noise)
    assert some[3].inputs_db == whole[0].snr_db, "the noise of the input is what comes to the last layer"


def test_the_model_as_its_file_has_it_is_compared_too(quantized: Quantized) -> None:
    """Of a float model as the twin; and what a wrong rewrite did to the twin does not hide there."""
    rows = rows_for(small_network(), 20)
    doubled = quantized.graph.tensors["relu_out_quantized"]
    tensors = {**quantized.graph.tensors, doubled.name: replace(doubled, scale=2 * doubled.scale)}
    mistaken = replace(quantized, graph=replace(quantized.graph, tensors=tensors))
    for made, wrong in ((quantized, False), (mistaken, True)):
        found = layer_noise(made, rows)
        assert [noise.original for noise in found] == ["x", "relu_out", "pool_out", "fc_out"]
        assert found[1].original_ratio == pytest.approx(found[1].ratio)
        assert found[1].original_ratio is not None
        assert (found[1].original_ratio > 0.9) == wrong


def test_integers_of_the_file_are_the_integers_of_the_graph() -> None:
    m = Qdq((1, 3, 6, 6)).qdq(0.05, 3).conv((4, 3, 3, 3)).node("Relu").qdq(0.0625, -128)
    model = m.node("MaxPool", kernel_shape=(2, 2)).node("Flatten").matmul(36, 5).qdq(0.5, 0).model()
    found = layer_noise(quantize(model), feeds(model, 20))
    assert [noise.original_ratio for noise in found] == [0.0] * 4
    assert all(noise.original for noise in found)


def test_ratios() -> None:
    row = LayerNoise("t", "layer", "conv", "int8", "int8", 0.1, signal=4.0, noise=0.04)
    assert row.snr_db == pytest.approx(20)
    assert replace(row, noise=0.0).snr_db is None
    assert (replace(row, signal=0.0).ratio, replace(row, noise=None).ratio) == (None, None)
