"""Channels that training has made constants: weights next to 0 beside their bias, wherever the bias comes from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hwflow import golden, onnx
from hwflow.onnx.model import Model
from hwflow.quantize import quantize
from tests.quantize.models import Qdq

SHAPE = (1, 3, 5, 5)
ROWS = {"input": np.random.default_rng(4).standard_normal((24, *SHAPE)).astype(np.float32)}
BIAS = np.array([0.1, 0.7, -0.2, 0.3], np.float32)

#: From next to nothing beside the bias to below the smallest float32 that is not subnormal.
SMALL = (1e-6, 1e-9, 1e-12, 1e-20, 1e-33, 1e-37)


def _weights(small: float) -> np.ndarray:
    weights = np.random.default_rng(3).normal(0, 0.3, (4, 3, 3, 3)).astype(np.float32)
    weights[1] *= np.float32(small)
    return weights


def weights_in_reals(small: float) -> Model:
    """Quantized in part: the sums leave the hardware as they are."""
    m = Qdq(SHAPE).qdq(0.03, 0)
    return m.node("Conv", m.constant("w", _weights(small)), m.constant("b", BIAS), pads=(1, 1, 1, 1)).model()


def weights_in_integers(small: float) -> Model:
    """A scale for each channel, and a bias in reals."""
    m, weights = Qdq(SHAPE).qdq(0.03, 0), _weights(small)
    scales = np.maximum(np.abs(weights).max(axis=(1, 2, 3)) / 127, np.finfo(np.float32).tiny).astype(np.float32)
    integers = np.rint(weights / scales[:, None, None, None]).astype(np.int8)
    parts = m.constant("w", integers), m.constant("s", scales), m.constant("z", np.zeros(4, np.int8))
    real = m.b.node("DequantizeLinear", *parts, name="weights", axis=0)
    m.node("Conv", real, m.constant("b", BIAS), pads=(1, 1, 1, 1)).node("Relu")
    return m.qdq(0.02, -128).model()


def normalized(op: str, quantized: bool) -> Callable[[float], Model]:
    """A collapsed batch normalization behind `op`."""
    def made(small: float) -> Model:
        m = Qdq(SHAPE)
        m = m.qdq(0.03, 0) if quantized else m
        kernel = {} if op == "Relu" else {"kernel_shape": (2, 2)}
        m.node(op, *((m.constant("w", _weights(1)[:3, :, :2, :2].copy()),) if op == "Conv" else ()), **kernel)
        values = (np.array([1, small, 0.5]), BIAS[:3], np.array([0.1, 0.2, 0.3]), np.array([1, 1e-3, 2]))
        m.node("BatchNormalization", *(m.constant("bn", value.astype(np.float32)) for value in values)).node("Relu")
        m = m.qdq(0.02, -128) if quantized else m
        return m.node("Conv", m.constant("v", _weights(1)[:, :, :1, :1].copy())).model()

    return made


MAKERS: dict[str, Callable[[float], Model]] = {
    "weights_in_reals": weights_in_reals, "weights_in_integers": weights_in_integers,
    **{f"{op}_{quantized}": normalized(op, quantized)
       for op in ("Conv", "AveragePool", "MaxPool", "Relu") for quantized in (True, False)},
}  # fmt: skip


@pytest.mark.quick(20)
@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("small", SMALL)
def test_a_dead_channel_is_a_constant(name: str, small: float) -> None:
    model = onnx.infer(MAKERS[name](small))
    (output,) = (value.name for value in model.graph.outputs)
    found = golden.predict(quantize(model, ROWS), ROWS)[output]
    expected = np.stack([onnx.evaluate(model, {"input": row})[output] for row in ROWS["input"]])
    error = np.sqrt(np.mean((found - expected) ** 2) / np.mean(expected**2))
    assert error < (1e-3 if name == "weights_in_integers" else 0.03)


def test_a_constant_is_exact() -> None:
    """Every element of the dead channel is its bias in steps."""
    model = onnx.infer(weights_in_integers(1e-33))
    made = quantize(model)
    channel = golden.predict(made, ROWS)[model.graph.outputs[0].name][:, 0, 1]
    assert set(channel.ravel().tolist()) == {float(np.float32(35) * np.float32(0.02))}


def test_sums_beside_a_bias_break_its_ties() -> None:
    """The constant is halfway between two elements, and the sums, which are nothing beside it, say which."""
    m = Qdq((1, 4)).qdq(1.0, 0)
    integers = np.full((4, 2), 127, np.int8)
    parts = m.constant("w", integers), m.constant("s", np.array([1.0, 1e-10], np.float32))
    real = m.b.node("DequantizeLinear", *parts, m.constant("z", np.zeros(2, np.int8)), name="weights", axis=1)
    m.node("Gemm", real, m.constant("b", np.array([0, 150.5], np.float32))).qdq(1.0, -128)
    model = onnx.infer(m.model())
    rows = {"input": np.array([5, 1, 0, -1, -5], np.float32)[:, None, None] * np.ones((1, 1, 4), np.float32)}
    found = golden.predict(quantize(model), rows)[model.graph.outputs[0].name][:, 0, 1]
    assert found.tolist() == [151, 151, 150, 150, 150]
