"""Tuning a whole network: integer weights, corrected biases, what it costs and what it gives."""

from __future__ import annotations

import numpy as np
import pytest

from hwflow import HwflowError, onnx
from hwflow.quantize.calibrate import streams as moments
from hwflow.quantize.calibrate.streams import Streams, quantized
from hwflow.quantize.calibrate.tune import tune
from hwflow.quantize.graphs import with_graph
from hwflow.quantize.settings import LayerSettings, QuantizationSettings, RangeMethod, WeightRounding, WeightSettings
from tests.quantize.tuning.networks import Net, depthwise_network, forms, weights_of

NEAREST = {"rounding": WeightRounding.NEAREST, "bias_correction": False, "method": RangeMethod.MINMAX}


def integer_outputs(tuned, activations, rows, names):
    """The tensors `names` for each row, with integer weights and activations, computed node by node."""
    constants = dict(tuned.model.graph.initializers)
    for node in tuned.model.graph.nodes:
        if node.name in tuned.weights:
            form = tuned.weights[node.name]
            scales = form.scales.reshape(-1, *[1] * (form.integers.ndim - 1))
            constants[node.inputs[1]] = (form.integers * scales).astype(np.float32)
    model = with_graph(tuned.model, tuned.model.graph.nodes, constants)
    streams = Streams.start(model, activations, rows, model.graph.nodes)
    found = {}
    for node in streams.nodes:
        results = streams._run(node, model.graph.initializers, streams.integer)
        found.update({name: np.stack(results[name]) for name in results if name in names})
        streams.advance(node, changed=node, constants=constants)
    return [found[name] for name in names]


def noise(tuned, model, activations, rows):
    """Power of the output's error over the power of the output."""
    name = model.graph.outputs[0].name
    real = np.stack([onnx.evaluate(model, {"input": row})[name] for row in rows["input"]])
    (integer,) = integer_outputs(tuned, activations, rows, [name])
    return np.square(integer - real).sum() / np.square(real).sum()


@pytest.fixture(scope="module")
def case():
    net = depthwise_network()
    model, rows, unseen = net.model(), net.rows(24), net.rows(24)
    return model, forms(model, rows), rows, unseen


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_each_step_wins_on_rows_that_were_not_seen(case, bits):
    model, activations, rows, unseen = case

    def loss(**choices):
        return noise(tune(model, activations, weights_of(bits=bits, **choices), rows), model, activations, unseen)

    nearest = loss(**NEAREST)
    corrected = loss(**{**NEAREST, "bias_correction": True})
    adaptive = loss()
    assert corrected < nearest
    assert adaptive < 0.8 * nearest


@pytest.mark.parametrize("rounding", [WeightRounding.NEAREST, WeightRounding.ADAPTIVE])
def test_corrected_biases_leave_no_mean_error(case, rounding):
    model, activations, rows, _ = case
    settings = weights_of(bits=3, rounding=rounding, bias_correction=True)
    names = [node.outputs[0] for node in model.graph.nodes if node.op_type in ("Conv", "Gemm")]
    found = integer_outputs(tune(model, activations, settings, rows), activations, rows, names)
    for name, values in zip(names, found, strict=True):
        real = np.stack([onnx.evaluate(model, {"input": row}, (name,))[name] for row in rows["input"]])
        axes = tuple(axis for axis in range(values.ndim) if axis != 2)
        np.testing.assert_allclose(values.mean(axis=axes), real.mean(axis=axes), atol=2e-5 * np.abs(real).max())


@pytest.mark.parametrize(("bits", "per_channel"), [(1, True), (2, True), (3, False), (5, True), (8, False)])
def test_weights_fit_their_width(case, bits, per_channel):
    model, activations, rows, _ = case
    settings = weights_of(bits=bits, per_channel=per_channel, rounding=WeightRounding.ADAPTIVE)
    tuned = tune(model, activations, settings, {"input": rows["input"][:4]})
    assert list(tuned.weights) == [node.name for node in model.graph.nodes if node.op_type in ("Conv", "Gemm")]
    for node in model.graph.nodes:
        if node.name in tuned.weights:
            form, real = tuned.weights[node.name], model.graph.initializers[node.inputs[1]]
            assert form.integers.shape == real.shape
            assert form.integers.dtype == np.int64
            assert form.scales.shape == (len(real),)
            assert form.scales.dtype == np.float32
            assert form.bits == bits
            limit = max(1, 2 ** (bits - 1) - 1)
            assert np.abs(form.integers).max() <= limit
            assert bits > 1 or (np.abs(form.integers) == 1).all()
            steps = np.clip(real / form.scales.reshape(-1, *[1] * (real.ndim - 1)), -limit, limit)
            assert bits == 1 or np.abs(form.integers - steps).max() < 1 + 1e-5
            assert per_channel or len(np.unique(form.scales)) == 1


def test_the_same_data_give_the_same_result(case):
    model, activations, rows, _ = case
    first, second = (tune(model, activations, weights_of(bits=3), rows) for _ in range(2))
    assert first.weights == second.weights
    old, new = first.model.graph.initializers, second.model.graph.initializers
    assert old.keys() == new.keys()
    assert all(np.array_equal(old[name], new[name]) for name in old)


def test_eight_bits_read_no_data_and_keep_the_model(case):
    model, activations, _, _ = case
    seen = []
    tuned = tune(model, activations, QuantizationSettings(), {}, lambda done, of: seen.append((done, of)))
    assert tuned.model.graph.nodes == model.graph.nodes
    assert tuned.model.graph.initializers.keys() == model.graph.initializers.keys()
    assert all(not settings.bias_correction for settings in tuned.settings.values())
    assert seen == [(4, 4)]


def test_only_layers_of_few_bits_change(case):
    model, activations, rows, _ = case
    few = LayerSettings(weights=WeightSettings(bits=4))
    seen = []
    tuned = tune(model, activations, QuantizationSettings(layers={"conv3": few}), rows, lambda *now: seen.append(now))
    assert [form.bits for form in tuned.weights.values()] == [8, 4, 8, 8]
    changed = [a.name for a, b in zip(tuned.model.graph.nodes, model.graph.nodes, strict=True) if a != b]
    assert changed == ["conv3"]
    assert seen == [(1, 4), (2, 4), (4, 4)]


def test_activations_of_few_bits_have_their_mean_error_corrected(case):
    model, activations, rows, _ = case
    first = next(iter(activations))
    narrow = {**activations, first: type(activations[first])(np.float32(0.5), 0, activations[first].format, -8, 7)}
    tuned = tune(model, narrow, QuantizationSettings(), rows)
    assert [settings.bias_correction for settings in tuned.settings.values()] == [True, False, False, False]


def test_without_data_weights_are_the_nearest(case):
    model, activations, rows, _ = case
    tuned = tune(model, activations, weights_of(bits=4, method=RangeMethod.MINMAX), None)
    assert tuned.weights == tune(model, activations, weights_of(bits=4, **NEAREST), rows).weights


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (
            {"rounding": WeightRounding.ADAPTIVE},
            "settings: layers/conv1/weights/rounding must be nearest or auto without calibration data, not adaptive; "
            "give real inputs with --data",
        ),
        (
            {"bias_correction": True},
            "settings: layers/conv1/weights/bias_correction must be false or left out without calibration data, not "
            "true; give real inputs with --data",
        ),
    ],
)
def test_what_needs_data_is_refused_without(case, choice, message):
    model, activations, _, _ = case
    with pytest.raises(HwflowError) as error:
        tune(model, activations, weights_of(**choice), None)
    assert str(error.value) == message


@pytest.mark.quick(3)
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("bits", [1, 2, 4])
def test_hardly_any_data_zeros_and_constants(count, bits):
    net = Net((1, 3, 6, 6))
    weights = net.weights(6, 3, 3, 3)
    weights[1] = 0
    net.layer("Conv", weights, np.array([0, 0, 0.5, -1, 1, 0]), pads=[1, 1, 1, 1]).node("Relu")
    net.layer("Conv", np.zeros((4, 6, 1, 1)), np.arange(4)).node("Relu").conv(4, groups=2).node("Flatten").gemm(144, 3)
    model, rows = net.model(), net.rows(count)
    rows["input"][:, :, 1] = 2.5  # a constant channel
    tuned = tune(model, forms(model, rows), weights_of(bits=bits), rows)
    for form in tuned.weights.values():
        assert np.isfinite(form.scales).all()
        assert (form.scales > 0).all()
    if bits > 1:
        assert not tuned.weights["conv1"].integers[1].any()
        assert not tuned.weights["conv3"].integers.any()
    for array in tuned.model.graph.initializers.values():
        assert np.isfinite(array).all()


def test_few_rows_where_memory_is_short(case, monkeypatch):
    model, activations, rows, _ = case
    monkeypatch.setattr("hwflow.quantize.calibrate.streams._MEMORY", 60_000)
    layers = [node for node in model.graph.nodes if node.name == "gemm9"]
    streams = Streams.start(model, activations, rows, layers)
    assert 1 < len(streams.real["input"]) < 24
    assert np.array_equal(streams.real["input"][-1], rows["input"][-1])


def test_many_positions_and_wide_layers_are_cut(case, monkeypatch):
    model, activations, rows, unseen = case
    nearest = noise(tune(model, activations, weights_of(bits=3, **NEAREST), rows), model, activations, unseen)
    monkeypatch.setattr(moments, "_POSITIONS", 200)
    monkeypatch.setattr(moments, "_BLOCK", 50)
    tuned = tune(model, activations, weights_of(bits=3), rows)
    assert noise(tuned, model, activations, unseen) < 0.7 * nearest


def test_moments_are_means_of_windows():
    net = Net((1, 4, 5, 5)).conv(6, groups=2, strides=[2, 1], dilations=[1, 2])
    model, rows = net.model(), net.rows(3)
    node = model.graph.nodes[0]
    weights, bias = (model.graph.initializers[name] for name in node.inputs[1:3])
    y = [onnx.evaluate(model, {"input": row})[node.outputs[0]] for row in rows["input"]]
    found = moments.measure(node, weights, model.opsets, list(rows["input"]), y, products=True)
    groups = moments.blocks(weights, node)
    np.testing.assert_allclose((groups[:, 0] @ found.x[:, :, None])[..., 0].ravel() + bias, found.y.ravel(), rtol=1e-5)
    np.testing.assert_allclose(groups @ found.xx, found.yx, rtol=1e-4, atol=1e-6)
    assert np.array_equal(moments.unblocked(groups, weights.shape), weights.astype(np.float64))


def test_quantized_is_quantize_and_dequantize(case):
    _, activations, rows, _ = case
    form = next(iter(activations.values()))
    model = Net((1, 3, 8, 8))
    parameters = model.b.constant("s", form.scale), model.b.constant("z", np.int8(form.zero_point))
    model.node("QuantizeLinear", *parameters).node("DequantizeLinear", *parameters)
    expected = onnx.evaluate(model.model(), {"input": 3 * rows["input"][0]})
    assert np.array_equal(quantized(3 * rows["input"][0], form), next(iter(expected.values())))
