"""Quotients, maxima and minima of two tensors, as products and sums."""

from __future__ import annotations

import numpy as np
import pytest

from hwflow import golden
from hwflow.onnx import infer
from hwflow.onnx.model import Model
from hwflow.quantize import quantize
from tests.quantize.models import kinds, runtime
from tests.quantize.net import Net, data

SHAPE = (3, 8, 8)


def joined(op: str, whole: bool) -> Model:
    """Of a convolution with another, or with one number of each frame: as in x / max(x)."""
    n = Net(SHAPE)
    a = n.node("Relu", n.conv(n.x, 4, (3, 3)))
    b = n.conv(n.x, 4, (3, 3))
    if whole:
        b = n.node("GlobalAveragePool", n.conv(a, 1, (1, 1)), channels=1)
    b = n.node("Add", n.node("Abs", b), n.constant(1.0))  # no quotient with what is near 0
    return n.model(n.conv(n.node(op, a, b, channels=4), 3, (3, 3)))


@pytest.mark.parametrize("op", ["Div", "Max", "Min"])
@pytest.mark.parametrize("whole", [False, True])
def test_a_join_of_two_tensors(op: str, whole: bool) -> None:
    model = infer(joined(op, whole))
    feeds = data(model, 60)
    quantized = quantize(model, feeds)
    assert "multiply" in kinds(quantized) if op == "Div" else kinds(quantized).count("add") == 2
    name = model.graph.outputs[0].name
    found, expected = golden.predict(quantized, feeds)[name], runtime(model, feeds)
    assert np.sqrt(np.mean((found - expected) ** 2) / np.mean(expected**2)) < 0.05


def test_functions_of_one_tensor_stay_tables() -> None:
    """x / (1 + |x|) is no quotient of two."""
    n = Net(SHAPE)
    x = n.conv(n.x, 4, (3, 3))
    y = n.node("Div", x, n.node("Add", n.node("Abs", x), n.constant(1.0)))
    assert kinds(quantize(infer(n.model(n.conv(y, 3, (3, 3)))))) == ["conv", "lookup", "conv"]


def test_a_division_that_is_guarded_against_zero() -> None:
    """Where(m == 0, 0, x / m), as TensorFlow's divide_no_nan is exported."""
    n = Net(SHAPE)
    x = n.node("Relu", n.conv(n.x, 4, (3, 3)))
    m = n.node("Relu", n.node("GlobalAveragePool", n.conv(x, 1, (1, 1)), channels=1))
    is_zero = n.node("Equal", m, n.constant(0.0))
    y = n.node("Where", is_zero, n.constant(0.0), n.node("Div", x, m), channels=4)
    model = infer(n.model(n.conv(y, 3, (3, 3))))
    feeds = data(model, 60)
    quantized = quantize(model, feeds)
    assert "multiply" in kinds(quantized)
    name = model.graph.outputs[0].name
    assert np.isfinite(golden.predict(quantized, feeds)[name]).all()
