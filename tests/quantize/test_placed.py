"""Constants with a value for each element: positions, masks, windows; QDQ against onnxruntime, floats against float."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hwflow import golden
from hwflow.layers import AveragePool
from hwflow.onnx import infer
from hwflow.onnx.model import Model
from hwflow.quantize import quantize
from tests.quantize.models import Qdq, assert_agrees, kinds, runtime
from tests.quantize.net import Net, data
from tests.quantize.played import check_played
from tests.quantize.test_refusals import refusal

SEQUENCE, IMAGE = (1, 6, 5), (1, 3, 4, 5)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def mask(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 2, shape).astype(np.float32)


#: Shape of the input, operator, constant; the layer in front of the next one, and how many classes it has.
CONSTANTS = {
    "positions": (SEQUENCE, "Add", normal(1, 6, 5), 6),
    "positions of an image": (IMAGE, "Sub", normal(4, 5), 20),
    "one for each row": (IMAGE, "Add", normal(4, 1), 4),
    "one for each step": (SEQUENCE, "Add", normal(6, 1), 6),
    "a window": (SEQUENCE, "Mul", np.hanning(8)[1:-1, None].astype(np.float32), 3),
    "a mask of steps": (SEQUENCE, "Mul", mask(6, 1), 2),
    "a mask of elements": (IMAGE, "Mul", mask(1, 3, 4, 5), 20),
    "a mask that is added": (SEQUENCE, "Add", np.where(mask(6, 5), np.float32(-1e9), np.float32(0)), 6),
    "divisors": (SEQUENCE, "Div", 0.5 + mask(6, 5), 6),
}


def behind(shape: tuple[int, ...], op: str, constant: np.ndarray) -> Model:
    m = Qdq(shape).qdq(0.03, 5)
    m.node(op, m.constant("k", constant)).qdq(0.03, -3)
    return (m.matmul(5, 4) if len(shape) == 3 else m.conv((2, 3, 1, 1))).qdq(0.05, 0).model()


@pytest.mark.parametrize("name", CONSTANTS)
def test_elements_have_constants_of_their_own(name: str) -> None:
    """A mean of single pixels, whose classes are the pixels with the same constants: no element moves."""
    shape, op, constant, classes = CONSTANTS[name]
    quantized = assert_agrees(behind(shape, op, constant), 0.05, share=0.998)
    assert kinds(quantized) == ["average_pool", "conv"]
    layer = quantized.graph.layers[0]
    assert isinstance(layer, AveragePool)
    assert layer.classes == classes


def test_constants_that_negate_some_elements() -> None:
    """As the sines of rotary positions do: a depthwise product with a channel for each element."""
    quantized = assert_agrees(behind(SEQUENCE, "Mul", normal(6, 5)), 0.05)
    assert kinds(quantized) == ["rearrange", "conv", "rearrange", "conv"]


def test_constants_right_behind_a_product() -> None:
    """The exact sums go on to where the constants are added: they are rounded once."""
    m = Qdq(SEQUENCE).qdq(0.03, 5).matmul(5, 7)
    m.node("Add", m.constant("positions", normal(1, 6, 7))).node("Relu").qdq(0.04, -128).matmul(7, 4)
    assert kinds(assert_agrees(m.qdq(0.1, 0).model(), 0.1)) == ["conv", "average_pool", "conv"]


@pytest.mark.parametrize("function", ["Sigmoid", "Tanh"])
def test_functions_behind_them(function: str) -> None:
    m = Qdq(SEQUENCE).qdq(0.03, 5)
    m.node("Add", m.constant("positions", normal(1, 6, 5))).node(function).qdq(0.008, 0).matmul(5, 4)
    assert kinds(assert_agrees(m.qdq(0.02, 0).model(), 0.02, share=0.99)) == ["average_pool", "conv"]


def test_constants_behind_a_concat() -> None:
    """Each part gets those of its channels."""
    m = Qdq(IMAGE).qdq(0.03, 5)
    x = m.x
    part = m.node("Relu").qdq(0.03, 5).x
    m.x = x
    m.node("Concat", part, axis=1).node("Add", m.constant("k", normal(1, 6, 4, 5))).qdq(0.05, 0)
    quantized = assert_agrees(m.conv((2, 6, 1, 1)).qdq(0.1, 0).model(), 0.1, share=0.99)
    assert kinds(quantized) == ["lookup", "average_pool", "average_pool", "concat", "conv"]


def test_a_product_that_is_negated_element_by_element_is_refused() -> None:
    m = Qdq(SEQUENCE).qdq(0.03, 5).matmul(5, 7)
    m.node("Mul", m.constant("signs", normal(1, 6, 7))).qdq(0.04, -128).matmul(7, 4)
    lines = refusal(m.qdq(0.1, 0).model())
    assert "constants that differ from element to element and are not all positive" in lines[1]
    assert lines[2].startswith("quantize the whole model: a QuantizeLinear and DequantizeLinear after every layer")


def encoder() -> Model:
    """A linear embedding with learned positions, then a residual block."""
    n = Net((6, 8))
    x = n.node("Add", n.matmul(n.x, 16, cin=8), n.constant(n.normal(1, 6, 16)))
    return n.model(n.gemm(n.mean(n.node("Add", n.relu(n.matmul(x, 16, cin=16)), x), (1,)), 4, cin=16))


def windowed() -> Model:
    """A mask between two convolutions."""
    n = Net((3, 6, 6))
    x = n.node("Mul", n.unit(n.x, 4), n.constant(np.hanning(8)[1:-1, None] * np.hanning(8)[1:-1]))
    return n.model(n.gemm(n.flatten(n.unit(x, 4)), 3, cin=144))


@pytest.mark.parametrize("make", [encoder, windowed])
def test_floats(make: Callable[[], Model]) -> None:
    model = infer(make())
    rows = data(model)
    quantized = quantize(model, rows)
    assert kinds(quantized).count("average_pool") == 1 + (make is encoder)
    assert "rearrange" not in kinds(quantized)
    (made,), expected = golden.predict(quantized, rows).values(), runtime(model, rows)
    assert np.abs(made - expected).max() < 0.03 * np.abs(expected).max()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_as_hardware(seed: int) -> None:
    for make in (encoder, windowed):
        model = infer(make())
        check_played(quantize(model, data(model)).graph, seed)
    check_played(quantize(behind(SEQUENCE, "Mul", normal(6, 5))).graph, seed)
