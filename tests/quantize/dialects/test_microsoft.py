"""Quantized operators of com.microsoft: the same integers before and after, in float32 arithmetic that is exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwflow import onnx
from tests.quantize.dialects.cases import Maker, agree, ops, standard
from tests.quantize.dialects.test_qoperator import TYPES, whole, zero_of

MS = "com.microsoft"


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("other", [(2, 3, 4), (3, 1), None])
def test_binary(op, dtype, other) -> None:
    """Two computed tensors, or one and a constant; any scale gives the same bits."""
    m = Maker((2, 3, 4), dtype)
    b = m.b.input("b", dtype, other) if other else m.constant(whole(dtype, (4,), 1))
    scales = (np.float32(0.037), zero_of(dtype, 3), b, np.float32(0.021), zero_of(dtype, -4), np.float32(0.05))
    y = m.node(op, m.x, *scales, zero_of(dtype, 1), domain=MS)
    z = m.node(op, m.x, np.float32(0.01), "", b, np.float32(0.02), "", np.float32(0.03), domain=MS)
    feed = {"x": whole(dtype, (2, 3, 4)), **({"b": whole(dtype, other, 2)} if other else {})}
    model = m.model(y, z)
    made = standard(model)
    for name, expected in onnx.evaluate(model, feed).items():
        np.testing.assert_array_equal(onnx.evaluate(made, feed)[name], expected)
    agree(model, feed, apart=1)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize(
    ("op", "attributes"),
    [("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": 0.25}), ("QLinearSoftmax", {"axis": 1, "opset": 13}),
     ("QLinearSoftmax", {"axis": -1, "opset": 11})],
)  # fmt: skip
def test_unary(op, attributes, dtype) -> None:
    m = Maker((1, 256), dtype)
    inputs = (m.x, np.float32(0.07), zero_of(dtype, 5), np.float32(2.0**-8), zero_of(dtype, -128))
    x = np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1).astype(dtype).reshape(1, 256)
    made = agree(m.model(m.node(op, *inputs, domain=MS, **attributes)), {"x": x}, apart=0)
    assert ops(made) == ["DequantizeLinear", op.removeprefix("QLinear"), "QuantizeLinear"]


def test_concat() -> None:
    m = Maker((1, 2, 3), np.uint8)
    b = m.b.input("b", np.uint8, (1, 4, 3))
    parts = (m.x, np.float32(0.037), np.uint8(3), b, np.float32(0.021), np.uint8(128))
    y = m.node("QLinearConcat", np.float32(0.04), np.uint8(100), *parts, domain=MS, axis=1)
    feed = {"x": whole(np.uint8, (1, 2, 3)), "b": whole(np.uint8, (1, 4, 3), 1)}
    agree(m.model(y), feed, apart=0)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("op", ["QLinearGlobalAveragePool", "QLinearAveragePool"])
def test_pools(op, last, dtype) -> None:
    """Windows of powers of two, whose means are exact; channels first and last."""
    shape = (1, 8, 4, 3) if last else (1, 3, 8, 4)
    m = Maker(shape, dtype)
    inputs = (m.x, np.float32(0.5), zero_of(dtype, 5), np.float32(0.25), zero_of(dtype, -3))
    window: dict[str, Any] = {} if "Global" in op else {"kernel_shape": [2, 2], "strides": [2, 1]}
    y = m.node(op, *inputs, domain=MS, channels_last=last, **window)
    made = agree(m.model(y), {"x": whole(dtype, shape)}, apart=0)
    assert ops(made).count("Transpose") == 2 * last


def test_average_of_any_scale() -> None:
    m = Maker((1, 3, 7, 7), np.uint8)
    inputs = (m.x, np.float32(0.037), np.uint8(7), np.float32(0.03), np.uint8(20))
    pads = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "count_include_pad": 1}
    outputs = m.node("QLinearAveragePool", *inputs, domain=MS, **pads), m.node(
        "QLinearGlobalAveragePool", *inputs, domain=MS
    )
    agree(m.model(*outputs), {"x": whole(np.uint8, (1, 3, 7, 7))}, apart=1)


@settings(deadline=None, max_examples=12)
@given(TYPES, TYPES, st.booleans(), st.integers(0, 1), st.integers(0, 1), st.sampled_from([None, (5,), (1, 5), (1,)]))
def test_qgemm(a_type, b_type, per_column, trans_a, trans_b, bias) -> None:
    m = Maker((8, 2) if trans_a else (2, 8), a_type)
    count = 5 if per_column else 1
    steps = np.float32(2.0) ** np.arange(-count, 0, dtype=np.float32)
    zeros = (np.arange(count) + zero_of(b_type, 0).astype(int)).astype(b_type)
    b = whole(b_type, (5, 8) if trans_b else (8, 5), 1)
    c: Any = np.arange(-500, 500, 1000 // np.prod(bias), dtype=np.int32).reshape(bias) if bias else ""
    inputs = (m.x, np.float32(0.5), zero_of(a_type, 3), b, steps, zeros, c)
    attributes = {"transA": trans_a, "transB": trans_b, "alpha": 2.0}
    whole_output = m.node("QGemm", *inputs, np.float32(64), zero_of(a_type, 2), domain=MS, **attributes)
    real_output = m.node("QGemm", *inputs, domain=MS, **attributes)
    agree(m.model(whole_output, real_output), {"x": whole(a_type, (8, 2) if trans_a else (2, 8))})


def test_matmul_integer_to_float() -> None:
    m = Maker((2, 8), np.uint8)
    steps, zeros = np.float32([0.5, 0.25, 1.0]), np.int8([1, 2, 3])
    inputs = (m.x, whole(np.int8, (8, 3), 1), np.float32(0.125), steps, np.uint8(9), zeros, np.float32([1, 2, 3]))
    agree(m.model(m.node("MatMulIntegerToFloat", *inputs, domain=MS)), {"x": whole(np.uint8, (2, 8))})


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_quantizers(dtype) -> None:
    """The copies of QuantizeLinear and DequantizeLinear, which had 16 bits before the standard did."""
    m = Maker((3, 4))
    q = m.node("QuantizeLinear", m.x, np.float32(0.37), zero_of(dtype, 7), domain=MS)
    weights = whole(np.int8, (3, 4)), np.float32([1, 2, 3, 4]), np.zeros(4, np.int8)
    w = m.node("DequantizeLinear", *weights, domain=MS, axis=1)
    y = m.node("Add", m.node("DequantizeLinear", q, np.float32(0.37), zero_of(dtype, 7), domain=MS), w)
    made = agree(m.model(q, y), {"x": np.random.default_rng(0).normal(0, 20, (3, 4)).astype(np.float32)})
    assert made.opsets[""] == (21 if np.dtype(dtype).itemsize == 2 else 13)
