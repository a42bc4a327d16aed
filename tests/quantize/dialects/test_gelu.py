"""Gelu in the spellings of onnxruntime's optimizer: each is one table of the hardware."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from hwflow import golden
from hwflow import onnx as hwonnx
from hwflow.quantize import quantize
from tests.quantize.dialects.cases import Maker, standard

ROWS = 100
RNG = np.random.default_rng(3)
BIAS, FIRST, SECOND = (RNG.normal(size=size).astype(np.float32) for size in (24, (16, 24), (24, 8)))


@pytest.mark.parametrize(("op", "operands", "attributes"), [
    ("Gelu", (), {}), ("BiasGelu", (BIAS,), {}), ("FastGelu", (), {}), ("FastGelu", (BIAS,), {}),
    ("QuickGelu", (), {"alpha": 1.5}),
])
def test_gelu_is_a_table(op, operands, attributes):
    m = Maker((1, 16))
    x = m.node("MatMul", m.x, FIRST, name="a")
    y = m.node(op, x, *operands, domain="com.microsoft", name="g", **attributes)
    model = m.model(m.node("MatMul", y, SECOND, name="b"))
    rows = RNG.normal(size=(ROWS, 1, 16)).astype(np.float32)
    (name,) = (value.name for value in model.graph.outputs)
    runtime = onnxruntime.InferenceSession(hwonnx.dumps(model), providers=["CPUExecutionProvider"])
    expected = np.stack([runtime.run([name], {"x": row})[0] for row in rows])
    rewritten = standard(model)
    np.testing.assert_allclose(
        np.stack([hwonnx.evaluate(rewritten, {"x": row})[name] for row in rows]), expected, rtol=1e-4, atol=1e-4)

    quantized = quantize(model, {"x": rows})
    assert [layer.kind for layer in quantized.graph.layers] == ["dense", "lookup", "dense"]
    noise = golden.predict(quantized, {"x": rows})[name].reshape(expected.shape) - expected
    assert 10 * np.log10(np.mean(expected**2) / np.mean(noise**2)) > 30, "dB, 8 bits"
