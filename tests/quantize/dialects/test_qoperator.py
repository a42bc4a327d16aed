"""QOperator nodes of the default domain: the same integers before and after.

Where scales are powers of two the float32 arithmetic of the rewritten model is exact, and so is the comparison.  With
other scales a sum that lies on a tie but for float32's error may go either way: at most one step apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwflow import onnx
from hwflow.onnx.model import Model
from tests.quantize.dialects.cases import Maker, agree, ops, standard


def whole(dtype: Any, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max + 1, shape, dtype=dtype)


def zero_of(dtype: Any, offset: int) -> np.ndarray:
    """A zero point so far from the middle of the type."""
    return np.array(offset + (0 if np.dtype(dtype).kind == "i" else 128), dtype)


TYPES = st.sampled_from([np.int8, np.uint8])


def qlinear_conv(
    x_type: Any, w_type: Any, y_type: Any, steps: np.ndarray, bias: bool, zeros: np.ndarray, exponent: int
) -> Model:
    m = Maker((1, 4, 6, 6), x_type)
    w = whole(w_type, (6, 2, 3, 3), 1)
    w_zero = (zeros + zero_of(w_type, 0).astype(int)).astype(w_type)
    inputs: list[Any] = [m.x, np.float32(0.5), zero_of(x_type, 3), w, steps, w_zero]
    inputs += [np.float32(2.0**exponent), zero_of(y_type, -5)]
    if bias:
        inputs.append(np.arange(-3000, 3000, 1000, dtype=np.int32))
    y = m.node("QLinearConv", *inputs, group=2, pads=[1, 1, 0, 0], strides=[2, 1])
    return m.model(y, opset=10, domains={})


@settings(deadline=None, max_examples=25)
@given(TYPES, TYPES, TYPES, st.booleans(), st.booleans(), st.booleans(), st.integers(1, 6))
def test_qlinear_conv(x_type, w_type, y_type, per_channel, many_zeros, bias, exponent) -> None:
    steps = np.float32(2.0) ** np.arange(-6, 0, dtype=np.float32) if per_channel else np.float32(2.0**-4)
    zeros = np.arange(-3, 3) if per_channel and many_zeros else np.array(2)
    model = qlinear_conv(x_type, w_type, y_type, steps, bias, zeros, exponent)
    made = agree(model, {"x": whole(x_type, (1, 4, 6, 6), exponent)}, apart=0)
    assert ops(made) == ["DequantizeLinear"] * (3 if bias else 2) + ["Conv", "QuantizeLinear"]


def test_any_scale() -> None:
    """Nearly all elements are equal, the others one apart."""
    model = qlinear_conv(np.uint8, np.int8, np.uint8, np.linspace(0.01, 0.05, 6).astype("f4"), True, np.array(0), 3)
    made, count, equal = standard(model), 0, 0
    for seed in range(100):
        feed = {"x": whole(np.uint8, (1, 4, 6, 6), seed)}
        before, after = (next(iter(onnx.evaluate(m, feed).values())).astype(int) for m in (model, made))
        assert np.abs(before - after).max() <= 1
        count, equal = count + before.size, equal + int((before == after).sum())
    assert equal / count >= 0.999


@settings(deadline=None, max_examples=20)
@given(TYPES, TYPES, st.booleans(), st.sampled_from([(3, 8), (1, 8), (2, 3, 8)]), st.integers(3, 7))
def test_qlinear_matmul(a_type, b_type, per_column, shape, exponent) -> None:
    m = Maker(shape, a_type)
    count = 5 if per_column else 1
    steps = np.float32(2.0) ** np.arange(-count, 0, dtype=np.float32)
    zeros = (np.arange(count) + zero_of(b_type, 0).astype(int)).astype(b_type)
    b = whole(b_type, (8, 5), 1)
    inputs = (m.x, np.float32(0.5), zero_of(a_type, 3), b, steps, zeros, np.float32(2.0**exponent), zero_of(a_type, 1))
    made = agree(m.model(m.node("QLinearMatMul", *inputs), domains={}), {"x": whole(a_type, shape)}, apart=0)
    _, weights = (node for node in made.graph.nodes if node.op_type == "DequantizeLinear")
    along = 1 if shape[-2:] == shape == (1, 8) else 0  # of several rows it is a Conv
    assert weights.attributes.get("axis") == (along if per_column else None)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("x_type", [np.int8, np.uint8])
def test_conv_integer(x_type, per_channel) -> None:
    """Straight from integers, with the int32 result read as it is."""
    m = Maker((1, 3, 5, 5), x_type)
    zeros = np.arange(4, dtype=np.int8) if per_channel else np.array(-7, np.int8)
    y = m.node("ConvInteger", m.x, whole(np.int8, (4, 3, 3, 3), 2), zero_of(x_type, 9), zeros, pads=[1, 1, 1, 1])
    agree(m.model(y, domains={}), {"x": whole(x_type, (1, 3, 5, 5))}, apart=0)


@pytest.mark.parametrize("left_out", [0, 1, 2])
def test_matmul_integer(left_out) -> None:
    """Zero points may be left out, from the end."""
    m = Maker((3, 8), np.uint8)
    inputs = [m.x, whole(np.uint8, (8, 5), 2), zero_of(np.uint8, 4), np.arange(100, 105, dtype=np.uint8)]
    y = m.node("MatMulInteger", *inputs[: 4 - left_out])
    agree(m.model(y, domains={}), {"x": whole(np.uint8, (3, 8))}, apart=0)


def test_integer_product_of_quantized_values() -> None:
    """The scale of the input is the quantizer's, so that a QuantizeLinear and a DequantizeLinear belong together."""
    m = Maker((1, 3, 6, 6))
    step, zero = np.float32(0.25), np.int8(3)
    q = m.node("QuantizeLinear", m.x, step, zero)
    pooled = m.node("MaxPool", q, kernel_shape=[2, 2], strides=[2, 2])
    total = m.node("ConvInteger", pooled, whole(np.int8, (4, 3, 3, 3), 2), zero, np.int8(0))
    real = m.node("Mul", m.node("Cast", total, to=1), np.float32(2.0**-6))
    y = m.node("Relu", m.node("Add", real, np.arange(-2, 2, dtype=np.float32).reshape(1, 4, 1, 1)))
    feeds = [{"x": np.random.default_rng(k).normal(0, 9, (1, 3, 6, 6)).astype(np.float32)} for k in range(5)]
    made = agree(m.model(y, domains={}), *feeds)
    assert ops(made) == [
        "QuantizeLinear", "DequantizeLinear", "MaxPool", "DequantizeLinear", "Conv", "Div", "Mul", "Add", "Relu"
    ]  # fmt: skip
    scales = {float(made.graph.initializers[n.inputs[1]]) for n in made.graph.nodes if n.op_type == "QuantizeLinear"}
    assert scales == {0.25}


def test_a_sum_with_many_readers() -> None:
    """Cast to float, and the integers themselves: as an output and for another cast."""
    m = Maker((2, 8), np.int8)
    total = m.node("MatMulInteger", m.x, whole(np.int8, (8, 3), 2))
    outputs = m.node("Mul", m.node("Cast", total, to=1), np.float32(0.5)), total, m.node("Cast", total, to=7)
    agree(m.model(*outputs, domains={}), {"x": whole(np.int8, (2, 8))})


def test_a_mixture_of_dialects() -> None:
    """Float layers, QDQ, QOperator and QONNX in one model; one quantized tensor read three times."""
    m = Maker((1, 8))
    hidden = m.node("Relu", m.x)
    q = m.node("QuantizeLinear", hidden, np.float32(0.125), np.uint8(0))
    dense = (np.float32(0.125), np.uint8(0), whole(np.int8, (8, 8), 3), np.float32(0.5), np.int8(0))
    middle = np.float32(16), np.uint8(128)
    left = m.node("QLinearMatMul", q, *dense, *middle)
    real = m.node("DequantizeLinear", q, np.float32(0.125), np.uint8(0))
    right = m.quant(m.node("MatMul", real, m.quant(np.eye(8) * 3, 0.5, 0, 4)), 0.5, 0, 5)
    added = m.node("Add", m.node("DequantizeLinear", left, *middle), right)
    factors = q, *dense[:2], left, *middle, np.float32(4), np.uint8(9)
    shared = m.node("QLinearMul", *factors, domain="com.microsoft")
    feeds = [{"x": np.random.default_rng(k).normal(0, 9, (1, 8)).astype(np.float32)} for k in range(5)]
    made = agree(m.model(added, right, shared), *feeds)
    assert "QLinearMatMul" not in ops(made)
