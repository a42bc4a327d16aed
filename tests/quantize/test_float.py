"""Float models: weights, biases, notes and refusals; float_models.txt has what becomes of them."""

from __future__ import annotations

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow import golden, onnx
from hwflow.layers import Conv, Dense
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model
from hwflow.quantize import Quantized, quantize
from tests.quantize.models import rows, runtime


class Float:
    """Builds a float chain with random weights; `x` is the newest tensor."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.rng, self.b, self.shape = np.random.default_rng(0), Builder("float"), shape
        self.x, self.count = self.b.input("input", np.float32, shape), 0

    def c(self, *shape: int, scale: float = 1.0, offset: float = 0.0) -> str:
        self.count += 1
        value = offset + scale * self.rng.standard_normal(shape)
        return self.b.constant(f"c{self.count}", value.astype(np.float32))

    def ints(self, *values: int) -> str:
        self.count += 1
        return self.b.constant(f"c{self.count}", np.array(values, np.int64))

    def do(self, op: str, *inputs: str, **attributes: object) -> Float:
        self.count += 1
        self.x = self.b.node(op, self.x, *inputs, name=f"{op.lower()}{self.count}", **attributes)
        return self

    def conv(self, cout: int, cin: int, *kernel: int, **attributes: object) -> Float:
        return self.do("Conv", self.c(cout, cin, *kernel, scale=0.4), self.c(cout), **attributes)

    def norm(self, channels: int) -> Float:
        variance = self.b.constant(f"v{self.count}", (0.5 + self.rng.random(channels)).astype(np.float32))
        c = (self.c(channels, scale=0.3, offset=1), self.c(channels), self.c(channels, scale=0.3), variance)
        return self.do("BatchNormalization", *c)

    def model(self, opset: int = 17) -> Model:
        self.b.output(self.x)
        return onnx.infer(self.b.model(opset=opset))


def check(model: Model, error: float = 0.03) -> Quantized:
    """Integers within `error` (root mean square, relative) of the float model, and the QDQ model's in onnxruntime."""
    feeds = rows(model, 100)
    quantized = quantize(model, rows(model, 1000, seed=2))
    name = model.graph.outputs[0].name
    made, expected = golden.predict(quantized, feeds)[name], runtime(model, feeds)
    assert made.shape == expected.shape
    assert made.dtype == expected.dtype
    difference = np.sqrt(np.mean((made - expected) ** 2) / np.mean(expected**2))
    assert difference < error
    assert np.std(expected) > 0.01
    qdq = runtime(quantized.qdq, feeds)
    assert np.mean(np.abs(made - qdq) < 1e-3 * np.std(qdq)) > 0.98  # a step of the output is some 0.03 of that
    return quantized


def test_weights_are_symmetric_and_per_channel() -> None:
    m = Float((1, 2, 8, 8)).conv(6, 2, 3, 3)
    quantized = check(m.model())
    (layer,) = quantized.graph.layers
    assert isinstance(layer, Conv)
    assert np.abs(layer.weights).reshape(6, -1).max(axis=1).tolist() == [127] * 6
    assert len(set(layer.requantize.multiplier.tolist())) > 1


def test_channels_without_weights_keep_their_bias() -> None:
    m = Float((1, 8))
    w = m.rng.standard_normal((8, 4)).astype(np.float32)
    w[:, 1:3] = 0
    b = np.array([0.1, 0.7, 0, -30], np.float32)
    m.do("Gemm", m.b.constant("w", w), m.b.constant("b", b))
    model = m.model()
    feeds = rows(model, 50)
    made = golden.predict(quantize(model, feeds), feeds)[model.graph.outputs[0].name][:, 0]
    np.testing.assert_allclose(made[:, 1], 0.7, atol=0.1)  # a step of the output is some 0.15
    assert (made[:, 2] == 0).all()


def test_a_bias_far_larger_than_the_weights_still_fits() -> None:
    m = Float((1, 8))
    m.do("Gemm", m.c(8, 4, scale=1e-12), m.b.constant("b", np.array([1, 2, 3, 4], np.float32)))
    model = m.model()
    quantized = quantize(model, rows(model, 10))
    (layer,) = quantized.graph.layers
    assert isinstance(layer, Dense)
    made = golden.predict(quantized, rows(model, 10))[model.graph.outputs[0].name]
    np.testing.assert_allclose(made[0, 0], [1, 2, 3, 4], atol=0.01)


def test_without_calibration_data_it_says_so() -> None:
    m = Float((1, 8))
    quantized = quantize(m.do("Gemm", m.c(8, 4)).model())
    assert quantized.notes == (
        "no calibration data: ranges come from 64 rows of normally distributed noise, and the accuracy will suffer; "
        "give real inputs with --data",
        "on the host: QuantizeLinear, DequantizeLinear",
    )


def test_progress_is_reported() -> None:
    m = Float((1, 8))
    model = m.do("Gemm", m.c(8, 4)).model()
    seen: list[tuple[int, int]] = []
    quantize(model, rows(model, 3), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_values_that_overflow_in_calibration_are_refused() -> None:
    m = Float((1, 8))
    model = m.do("Gemm", m.c(8, 4)).do("Exp").do("Gemm", m.c(4, 4)).model()
    feeds = {"input": np.full((2, 1, 8), 1e30, np.float32)}
    message = r"tensor 'exp.*' must be finite on calibration data, not .* in row 0; check the data and the weights"
    with pytest.raises(HwflowError, match=message):
        quantize(model, feeds)


def test_the_same_model_gives_the_same_integers() -> None:
    m = Float((1, 2, 8, 8)).conv(6, 2, 3, 3).norm(6).do("Relu").conv(4, 6, 3, 3)
    model = m.model()
    feeds = rows(model, 10)
    one, two = quantize(model, feeds), quantize(model, feeds)
    assert one.graph == two.graph
    assert onnx.dumps(one.qdq) == onnx.dumps(two.qdq)
