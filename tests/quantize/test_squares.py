"""Squares and their sums have twice the bits of other tensors."""

from __future__ import annotations

import numpy as np
import pytest

from hwflow import golden, onnx
from hwflow.accuracy.metrics import signal_to_noise
from hwflow.onnx.build import Builder
from hwflow.quantize import quantize


@pytest.mark.parametrize("how", ["Pow", "Mul"])
def test_squares_have_twice_the_bits(how: str) -> None:
    """Of a magnitude, sqrt(x * x + y * y): the small ones are not lost beside the large ones."""
    b = Builder("magnitude")
    rng = np.random.default_rng(0)
    x = b.input("x", np.float32, (1, 4, 6))
    weights = b.constant("w", rng.normal(0, 1, (6, 4, 1)).astype(np.float32))
    halves = b.nodes("Split", b.node("Conv", x, weights, name="bins"), b.constant("half", np.array([3, 3])),
                     outputs=("re", "im"), axis=1)  # fmt: skip
    two = b.constant("two", np.float32(2))
    squares = [b.node("Pow", half, two) if how == "Pow" else b.node("Mul", half, half) for half in halves]
    b.output(b.node("Conv", b.node("Sqrt", b.node("Add", *squares, name="power"), name="root"),
                    b.constant("v", rng.normal(0, 1, (2, 3, 1)).astype(np.float32))), np.float32)
    model = onnx.infer(b.model(opset=17))
    loud = np.exp(rng.normal(0, 1, (60, 1, 1, 1)))
    rows = {"x": (loud * rng.normal(0, 1, (60, 1, 4, 6))).astype(np.float32)}
    quantized = quantize(model, rows)
    bits = {layer.name: quantized.graph.tensors[layer.output].format.bits for layer in quantized.graph.layers}
    assert [bits[name] for name in ("bins", "power", "root")] == [8, 16, 8]
    assert sorted(bits.values()).count(16) == 3
    noise = signal_to_noise(golden.evaluate_rows(model, rows), golden.predict(quantized, rows))
    assert noise is not None
    assert noise > 26
    assert quantize(quantized.qdq).graph.layers == quantized.graph.layers
