"""What onnxruntime's optimizer writes in the place of several nodes: each becomes the layers of those."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnxruntime
import pytest

from hwflow import golden
from hwflow import onnx as hwonnx
from hwflow.quantize import quantize
from tests.quantize.dialects.cases import Maker, standard

ROWS = 100
RNG = np.random.default_rng(3)
BIAS, FIRST, SECOND, SQUARE = (RNG.normal(size=size).astype(np.float32) for size in (24, (16, 24), (24, 8), (24, 24)))
KERNEL, CHANNELS = (RNG.normal(size=size).astype(np.float32) for size in ((4, 4, 1, 3), 4))


def fused(op: str, *operands: object, **attributes: object) -> Callable[[Maker, str], str]:
    return lambda m, x: m.node(op, x, *operands, domain="com.microsoft", name="fused", **attributes)


def conv(z: bool, **attributes: object) -> Callable[[Maker, str], str]:
    """FusedConv of the row as 4 channels of 6 elements, with itself as the summand."""
    def node(m: Maker, x: str) -> str:
        image = m.node("Reshape", x, np.array([1, 4, 1, 6]))
        more = (image,) if z else ()
        made = m.node("FusedConv", image, KERNEL, CHANNELS, *more, domain="com.microsoft", name="fused",
                      pads=[0, 1, 0, 1], **attributes)
        return m.node("Reshape", made, np.array([1, 24]))

    return node


CASES = {
    "gelu": (fused("Gelu"), "dense lookup dense"),
    "bias gelu": (fused("BiasGelu", BIAS), "dense lookup dense"),
    "fast gelu": (fused("FastGelu"), "dense lookup dense"),
    "fast gelu of a bias": (fused("FastGelu", BIAS), "dense lookup dense"),
    "quick gelu": (fused("QuickGelu", alpha=1.5), "dense lookup dense"),
    "matmul": (fused("FusedMatMul", SQUARE, transB=1, alpha=0.5), "dense dense dense"),
    "gemm": (fused("FusedGemm", SQUARE, BIAS, activation="Tanh", beta=0.5), "dense dense lookup dense"),
    "gemm leaky": (fused("FusedGemm", SQUARE, BIAS, activation="LeakyRelu", activation_alpha=0.3),
                   "dense dense lookup dense"),
    "conv": (conv(False, activation="Relu"), "dense rearrange conv dense"),
    "conv and sum": (conv(True, activation="Clip", activation_params=[-0.5, 0.8]), "dense rearrange conv add dense"),
    "conv alone": (conv(True), "dense rearrange conv add dense"),
    "conv of gates": (conv(False, activation="HardSigmoid", activation_params=[0.3, 0.4]),
                      "dense rearrange conv lookup dense"),
}


@pytest.mark.parametrize("title", CASES)
def test_it_is_what_it_was_made_of(title: str) -> None:
    node, kinds = CASES[title]
    m = Maker((1, 16))
    model = m.model(m.node("MatMul", node(m, m.node("MatMul", m.x, FIRST, name="a")), SECOND, name="b"))
    rows = RNG.normal(size=(ROWS, 1, 16)).astype(np.float32)
    (name,) = (value.name for value in model.graph.outputs)
    runtime = onnxruntime.InferenceSession(hwonnx.dumps(model), providers=["CPUExecutionProvider"])
    expected = np.stack([runtime.run([name], {"x": row})[0] for row in rows])
    rewritten = standard(model)
    np.testing.assert_allclose(
        np.stack([hwonnx.evaluate(rewritten, {"x": row})[name] for row in rows]), expected, rtol=1e-4, atol=1e-4)

    quantized = quantize(model, {"x": rows})
    assert " ".join(layer.kind for layer in quantized.graph.layers) == kinds
    noise = golden.predict(quantized, {"x": rows})[name].reshape(expected.shape) - expected
    assert 10 * np.log10(np.mean(expected**2) / np.mean(noise**2)) > (30 if "gelu" in title else 23), "dB, 8 bits"
