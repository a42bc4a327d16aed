"""Cross-layer equalization keeps the function and makes weights alike."""

from __future__ import annotations

import numpy as np
import pytest

from hwflow import onnx
from hwflow.quantize.calibrate.equalize import equalize
from hwflow.quantize.calibrate.tune import equalizes
from hwflow.quantize.settings import LayerSettings, QuantizationSettings, WeightSettings
from tests.quantize.tuning.networks import Net, depthwise_network


def outputs(model, rows):
    return np.stack([next(iter(onnx.evaluate(model, {"input": row}).values())) for row in rows["input"]])


def constant(model, node_name, at):
    node = next(node for node in model.graph.nodes if node.name == node_name)
    return model.graph.initializers[node.inputs[at]]


def pool(net, op):
    attributes = {} if op.startswith("Global") else {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    return net.node(op, **attributes)


def between(case):
    net = Net((1, 3, 8, 8)).conv(6)
    if case in ("Relu", "LeakyRelu"):
        return net.node(case).conv(4)
    if case == "nothing":
        return net.conv(4)
    if case == "grouped":
        return net.node("Relu").conv(4, groups=2)
    if case == "transposed":
        return net.node("Relu").node("Transpose", perm=[0, 2, 3, 1]).node("Flatten", axis=1).gemm(6 * 64, 4)
    return pool(net.node("Relu"), case).conv(4, kernel=1)


CASES = ["Relu", "LeakyRelu", "nothing", "grouped", "transposed", "MaxPool", "AveragePool", "GlobalAveragePool",
         "GlobalMaxPool"]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_function_stays_and_the_weights_change(case):
    net = between(case)
    model, rows = net.model(), net.rows(5)
    changed = equalize(model)
    expected = outputs(model, rows)
    assert np.abs(outputs(changed, rows) - expected).max() <= 1e-5 * np.abs(expected).max()
    assert not np.array_equal(constant(changed, "conv1", 1), constant(model, "conv1", 1))


def test_both_sides_of_every_pair_have_the_same_largest_weights():
    net = depthwise_network()
    model, rows = net.model(), net.rows(5)
    changed = equalize(model)
    expected = outputs(model, rows)
    assert np.abs(outputs(changed, rows) - expected).max() <= 1e-5 * np.abs(expected).max()
    first, depthwise, pointwise = (constant(changed, name, 1) for name in ("conv1", "conv3", "conv5"))
    own = [np.abs(w.reshape(len(w), -1)).max(axis=1) for w in (first, depthwise, pointwise)]
    np.testing.assert_allclose(own[0], np.abs(depthwise).max(axis=(1, 2, 3)), rtol=5e-3)
    np.testing.assert_allclose(own[1], np.abs(pointwise).max(axis=(0, 2, 3)), rtol=5e-3)
    gemm = np.abs(constant(changed, "gemm9", 1).reshape(5, 12, 4)).max(axis=(0, 2))
    np.testing.assert_allclose(own[2], gemm, rtol=5e-3)


@pytest.mark.parametrize("case", ["Clip", "Sigmoid", "branch", "output"])
def test_what_is_not_homogeneous_or_is_shared_stays(case):
    net = Net((1, 3, 8, 8)).conv(6)
    if case == "Clip":
        net.node("Clip", net.b.constant("low", np.float32(0)), net.b.constant("high", np.float32(6)))
    elif case == "Sigmoid":
        net.node("Sigmoid")
    elif case == "branch":
        net.node("Add", net.b.node("Relu", net.x))
    else:
        net.b.output(net.x, np.float32)
    model = net.conv(4).model()
    assert np.array_equal(constant(equalize(model), "conv1", 1), constant(model, "conv1", 1))


def test_channels_of_zeros_stay():
    net = Net((1, 3, 8, 8))
    weights = net.weights(6, 3, 3, 3)
    weights[2] = 0
    net.layer("Conv", weights, pads=[1, 1, 1, 1]).node("Relu").conv(4)
    model, rows = net.model(), net.rows(3)
    expected = outputs(model, rows)
    assert np.abs(outputs(equalize(model), rows) - expected).max() <= 1e-5 * np.abs(expected).max()


def test_layers_that_share_weights_get_their_own():
    net = Net((1, 4, 8, 8)).conv(4).node("Relu")
    net.x = net.b.node("Conv", net.x, "conv1.w", "conv1.b", name="again", pads=[1, 1, 1, 1])
    model, rows = net.model(), net.rows(3)
    changed = equalize(model)
    expected = outputs(model, rows)
    assert np.abs(outputs(changed, rows) - expected).max() <= 1e-5 * np.abs(expected).max()
    assert not np.array_equal(constant(changed, "conv1", 1), constant(changed, "again", 1))


@pytest.mark.parametrize(
    ("weights", "wish", "expected"),
    [
        (WeightSettings(), None, False),
        (WeightSettings(bits=4), None, False),
        (WeightSettings(bits=8, per_channel=False), None, False),
        (WeightSettings(bits=4, per_channel=False), None, True),
        (WeightSettings(bits=4, per_channel=False), False, False),
        (WeightSettings(), True, True),
    ],
)
def test_automatic_choice(weights, wish, expected):
    assert equalizes(QuantizationSettings(LayerSettings(weights=weights), equalize=wish), ["a"]) is expected
