"""Small models of every dialect through the golden model: the values of the model as it was written.

Scales are powers of two, so that float32 is exact and ties occur; nothing may differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hwflow import golden, onnx
from hwflow.onnx.model import Model
from hwflow.quantize import Quantized, quantize
from tests.quantize.dialects.cases import QONNX, Maker
from tests.quantize.dialects.test_microsoft import MS
from tests.quantize.dialects.test_qonnx_activations import MODES
from tests.quantize.dialects.test_qoperator import whole
from tests.quantize.models import rows


def agree(model: Model, count: int = 20) -> Quantized:
    """Golden equals the evaluation, and what is exported gives the same integer graph when it is read again."""
    quantized, feeds = quantize(model), rows(model, count)
    for feed in feeds.values():
        feed *= np.array(3, feed.dtype)
    name = model.graph.outputs[0].name
    expected = np.stack([onnx.evaluate(model, {k: v[i] for k, v in feeds.items()})[name] for i in range(count)])
    np.testing.assert_array_equal(golden.predict(quantized, feeds)[name], expected)
    assert len(np.unique(expected)) > 5
    assert quantize(quantized.qdq).graph == quantized.graph
    return quantized


def network(activation: Any, scale: Any = 0.25, bits: int = 4) -> Model:
    """Two convolutions with `activation` (Maker and tensor to tensor) between them."""
    rng, m = np.random.default_rng(0), Maker((1, 3, 6, 6))
    x = m.quant(m.x, 0.25, 0, 8)
    w = m.quant(rng.normal(0, 1, (4, 3, 3, 3)), scale, 0, bits, narrow=1)
    bias = m.quant(rng.normal(0, 1, 4), 2.0**-4, 0, 16)
    y = activation(m, m.node("Conv", x, w, bias, pads=[1, 1, 1, 1]))
    y = m.node("Conv", y, m.quant(rng.normal(0, 1, (5, 4, 1, 1)), 0.25, 0, 3))
    return m.model(m.quant(y, 0.25, 0, 8))


@pytest.mark.quick(9)
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode.isupper()])
@pytest.mark.parametrize(("bits", "zero"), [(4, 0), (8, -3)])
def test_rounding_modes(mode, bits, zero) -> None:
    agree(network(lambda m, y: m.quant(y, 0.5, zero, bits, rounding_mode=mode)))


@pytest.mark.quick(8)
@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("signed", [0, 1])
def test_widths(bits, signed) -> None:
    """Signed ones quantize the sum itself, unsigned ones what a Relu leaves of it."""
    quantized = agree(network(lambda m, y: m.quant(y if signed else m.node("Relu", y), 0.5, 0, bits, signed=signed)))
    assert str(quantized.graph.tensors[quantized.graph.layers[0].output].format).lstrip("u") in {
        f"int{bits}", f"int{bits - 1}", "bipolar"
    }  # fmt: skip


@pytest.mark.quick(8)
@pytest.mark.parametrize("scale", [0.25, 2.0 ** -np.arange(1, 5).reshape(4, 1, 1, 1)], ids=["tensor", "channel"])
@pytest.mark.parametrize("bits", range(1, 9))
def test_weights(bits, scale) -> None:
    agree(network(lambda m, y: m.quant(m.node("Relu", y), 0.5, 0, 4, signed=0), scale, bits))


def test_bipolar() -> None:
    quantized = agree(network(lambda m, y: m.node("BipolarQuant", y, 0.5, domain=QONNX), bits=1))
    assert str(quantized.graph.tensors[quantized.graph.layers[0].output].format) == "bipolar"


@pytest.mark.parametrize(("scale", "bias", "levels"), [(1.0, 0.0, 3), (0.25, -0.5, 7), (2.0, -1.0, 1)])
def test_multi_threshold(scale, bias, levels) -> None:
    thresholds = np.sort(np.random.default_rng(1).normal(0, 2, (4, levels)), axis=1)
    attributes = {"out_scale": scale, "out_bias": bias, "out_dtype": "INT4"}
    agree(network(lambda m, y: m.node("MultiThreshold", y, thresholds, domain=QONNX, **attributes)))


@pytest.mark.parametrize("version", [1, 2])
def test_trunc(version) -> None:
    m = Maker((1, 3, 4, 4))
    mean = m.node("AveragePool", m.quant(m.x, 0.5, 0, 4, signed=0), kernel_shape=[2, 2], strides=[2, 2])
    widths = (6.0, 4.0) if version == 1 else (6.0, 2.0, 4.0)
    signed = {} if version == 1 else {"signed": 0}
    y = m.node("Trunc", m.node("Mul", mean, np.float32(4)), 0.5, 0.0, *widths, domain=QONNX, **signed)
    y = m.node("Conv", y, m.quant(np.random.default_rng(0).normal(0, 1, (5, 3, 1, 1)), 0.25, 0, 3))
    agree(m.model(m.quant(y, 0.25, 0, 8), domains={QONNX: version}))


def test_integer_products() -> None:
    """ConvInteger of a quantized tensor, then scale, bias and Relu in float, then MatMulInteger of its integers."""
    m, step, zero = Maker((1, 3, 6, 6)), np.float32(0.25), np.int8(3)
    total = m.node("ConvInteger", m.node("QuantizeLinear", m.x, step, zero), whole(np.int8, (4, 3, 3, 3), 2), zero)
    real = m.node("Mul", m.node("Cast", total, to=1), np.float32(2.0**-9))
    y = m.node("Relu", m.node("Add", real, np.arange(-2, 2, dtype=np.float32).reshape(1, 4, 1, 1)))
    flat = m.node("Flatten", m.node("QuantizeLinear", y, np.float32(0.125), np.uint8(0)))
    dense = m.node("MatMulInteger", flat, whole(np.int8, (64, 5), 3), np.uint8(0), np.arange(5, dtype=np.int8))
    agree(m.model(m.quant(m.node("Mul", m.node("Cast", dense, to=1), np.float32(2.0**-12)), 0.25, 0, 8)))


@pytest.mark.parametrize("entry", ["float", "integers"])
def test_a_pool_of_the_input(entry) -> None:
    """The first layer pools integers, which two products read."""
    m, scaled = Maker((1, 3, 6, 6), np.float32 if entry == "float" else np.int8), (np.float32(0.25), np.int8(3))
    x = m.node("QuantizeLinear", m.x, *scaled) if entry == "float" else m.x
    pool = m.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    convs = [
        m.node("QLinearConv", pool, *scaled, whole(np.int8, (4, 3, 2, 2), k), np.float32(2.0**-6), np.int8(0), *scaled)
        for k in (1, 2)
    ]
    added = m.node("QLinearAdd", convs[0], *scaled, convs[1], *scaled, *scaled, domain=MS)
    quantized = agree(m.model(m.node("DequantizeLinear", added, *scaled)))
    assert [layer.kind for layer in quantized.graph.layers] == ["max_pool", "conv", "conv", "add"]


def test_branches_of_com_microsoft() -> None:
    m, half = Maker((1, 3, 4, 4), np.uint8), (np.float32(0.5), np.uint8(3))
    left = m.node("QLinearLeakyRelu", m.x, *half, np.float32(0.25), np.uint8(9), domain=MS, alpha=0.25)
    both = (m.x, *half, left, np.float32(0.25), np.uint8(9))
    joined = m.node("QLinearConcat", *half, *both, domain=MS, axis=1)
    added = m.node("QLinearAdd", *both, *half, domain=MS)
    product = m.node("QLinearMul", added, *half, *both[3:], *half, domain=MS)
    last = m.node("QLinearConcat", *half, joined, *half, product, *half, domain=MS, axis=1)
    pooled = m.node("QLinearGlobalAveragePool", last, *half, *half, domain=MS)
    agree(m.model(m.node("DequantizeLinear", pooled, *half)))
