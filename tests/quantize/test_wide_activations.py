"""Activations of 9 to 16 bits: quantizers of int16 and uint16, and a golden model that is nearer to the floats."""

from __future__ import annotations

import numpy as np
import pytest

import hwflow.onnx
from hwflow import golden
from hwflow.quantize import quantize
from hwflow.quantize.settings import ActivationSettings, LayerSettings, QuantizationSettings
from tests.quantize.tuning.networks import Net


@pytest.mark.parametrize("bits, symmetric", [(9, False), (12, True), (16, False), (16, True)])
def test_wide_activations(bits: int, symmetric: bool) -> None:
    model = Net((1, 6)).gemm(6, 5).node("Relu").gemm(5, 4).model()
    name = model.graph.inputs[0].name
    x = np.random.default_rng(bits).normal(size=(100, 1, 6)).astype(np.float32)
    expected = np.stack([hwflow.onnx.evaluate(model, {name: row})[model.graph.outputs[0].name] for row in x])
    errors = []
    for width in (8, bits):
        settings = QuantizationSettings(LayerSettings(output=ActivationSettings(width, symmetric)))
        made = quantize(model, {name: x}, settings=settings)
        found = golden.predict(made, {name: x})[model.graph.outputs[0].name]
        errors.append(float(np.abs(found - expected).mean()))
    assert {tensor.format.bits for tensor in made.graph.tensors.values()} <= {bits, bits - 1}
    assert errors[1] < errors[0]
    assert made.qdq.opsets[""] >= 21
    assert quantize(made.qdq).graph == made.graph
