"""Operators of com.microsoft against onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.onnx.neural import Case, agree, case, draw, error_of, evaluated
from tests.onnx.oracle import ChildOracle
from tests.onnx.test_ops_integers import narrow, scale, whole


@pytest.fixture(scope="module")
def oracle() -> Iterator[ChildOracle]:
    with ChildOracle() as child:
        yield child


def microsoft(op: str, *inputs: Any, **others: Any) -> Case:
    return case(op, 1, *inputs, domain="com.microsoft", **others)


def zero(value: int, dtype: type) -> np.ndarray:
    return np.array(value, dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
def test_quantize(oracle, dtype) -> None:
    at = zero(7, dtype)
    agree(microsoft("QuantizeLinear", draw(4, 5) * 50, scale(0.37), at), oracle)
    agree(microsoft("DequantizeLinear", whole(dtype, 4, 5), scale(0.37), at), oracle)
    steps, zeros = scale(0.1, 0.2, 0.3, 0.4, 0.5), np.arange(5).astype(dtype)
    agree(microsoft("QuantizeLinear", draw(4, 5) * 50, steps, zeros, axis=1), oracle)
    agree(microsoft("DequantizeLinear", whole(dtype, 4, 5), steps, zeros, axis=1), oracle)


@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("shapes", [((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (4,)), ((2, 1, 4), (3, 1))])
def test_binary(oracle, op, dtype, shapes) -> None:
    """A result half way between two integers may go either way: onnxruntime adds in another order."""
    a, b = (whole(dtype, *shape) for shape in shapes)
    step = 0.05 if op == "QLinearAdd" else 0.9
    inputs = (a, scale(0.03), zero(5, dtype), b, scale(0.04), zero(-3 if dtype is np.int8 else 120, dtype), scale(step))
    agree(microsoft(op, *inputs, zero(9, dtype), steps=1), oracle)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize(("op", "attributes"), [("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": 0.2})])
def test_unary(oracle, op, attributes, dtype) -> None:
    x = np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1).astype(dtype)
    step = 1 / 256 if op == "QLinearSigmoid" else 0.0613
    inputs = (x, scale(0.05), zero(20, dtype), scale(step), zero(3, dtype))
    agree(microsoft(op, *inputs, attributes=attributes, steps=1), oracle)
    exact = np.abs(differences(op, x, dtype, step, attributes))
    assert (exact > 0).mean() < 0.02


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize(("opset", "axis"), [(13, -1), (13, 1), (12, 1), (12, 2)])
def test_softmax(oracle, opset, axis, dtype) -> None:
    """onnxruntime takes exponentials from a table of integers."""
    low = np.iinfo(dtype).min
    inputs = (whole(dtype, 2, 3, 4), scale(0.05), zero(low + 120, dtype), scale(1 / 256), zero(low, dtype))
    agree(microsoft("QLinearSoftmax", *inputs, attributes={"axis": axis, "opset": opset}, steps=1), oracle)


def differences(op: str, x: np.ndarray, dtype: type, step: float, attributes: dict[str, Any]) -> np.ndarray:
    """How far the result is from the formula in float64."""
    real = (x.astype(np.float64) - 20) * np.float32(0.05)
    y = 1 / (1 + np.exp(-real)) if op == "QLinearSigmoid" else np.where(real >= 0, real, real * 0.2)
    limits = np.iinfo(dtype)
    expected = np.clip(np.rint(y / np.float32(step)) + 3, limits.min, limits.max)
    inputs = (x, scale(0.05), zero(20, dtype), scale(step), zero(3, dtype))
    return np.asarray(evaluated(microsoft(op, *inputs, attributes=attributes))[0] - expected)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_global_average(oracle, dtype, last) -> None:
    x = whole(dtype, 2, 5, 4, 3)
    inputs = (x, scale(0.05), zero(12, dtype), scale(0.01), zero(7, dtype))
    agree(microsoft("QLinearGlobalAveragePool", *inputs, channels_last=last, steps=1), oracle)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("attributes", [{}, {"pads": [1, 0, 1, 1], "strides": [2, 1]}, {"auto_pad": "SAME_UPPER"}])
def test_average_pool(oracle, last, include, attributes) -> None:
    x = whole(np.uint8, 1, 7, 8, 3) if last else whole(np.uint8, 1, 3, 7, 8)
    inputs = (x, scale(0.05), zero(12, np.uint8), scale(0.04), zero(7, np.uint8))
    attributes = {**attributes, "kernel_shape": [3, 2], "count_include_pad": include, "channels_last": last}
    agree(microsoft("QLinearAveragePool", *inputs, attributes=attributes, steps=1), oracle)


@pytest.mark.parametrize("axis", [1, -1])
def test_concat(oracle, axis) -> None:
    parts = [whole(np.uint8, 2, 3, 4, seed=i) for i in range(3)]
    triples = [a for i, x in enumerate(parts) for a in (x, scale(0.02 * (i + 1)), zero(10 * i, np.uint8))]
    agree(microsoft("QLinearConcat", scale(0.05), zero(100, np.uint8), *triples, axis=axis), oracle)


@pytest.mark.parametrize("transposed", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("quantized", [False, True])
@pytest.mark.parametrize("columns", [False, True])
def test_gemm(oracle, transposed, biased, quantized, columns) -> None:
    a = whole(np.uint8, *((7, 5) if transposed[0] else (5, 7)))
    b = narrow(whole(np.int8, *((4, 7) if transposed[1] else (7, 4))))
    steps = scale(0.01, 0.02, 0.03, 0.04) if columns else scale(0.01)
    c = np.array([100, -200, 300, 0], np.int32) if biased else None
    inputs = [a, scale(0.05), zero(128, np.uint8), b, steps, np.zeros(steps.shape, np.int8), c]
    inputs += [scale(0.7), zero(100, np.uint8)] if quantized else []
    while inputs[-1] is None:
        inputs.pop()
    agree(microsoft("QGemm", *inputs, transA=transposed[0], transB=transposed[1], alpha=1.0), oracle)


@pytest.mark.parametrize("biased", [False, True])
def test_integer_products_as_floats(oracle, biased) -> None:
    a, b, bias = whole(np.uint8, 2, 5, 7), narrow(whole(np.int8, 7, 4)), [draw(4)] if biased else [None]
    zeros = zero(100, np.uint8), zero(3, np.int8)
    agree(microsoft("MatMulIntegerToFloat", a, b, scale(0.02), scale(0.1, 0.2, 0.3, 0.4), *zeros, *bias), oracle)
    agree(microsoft("DynamicQuantizeMatMul", draw(2, 5, 7), b, scale(0.1), zero(3, np.int8), *bias), oracle)


@pytest.mark.parametrize(
    "attributes",
    [
        {"activation": "Relu"},
        {"activation": "Tanh"},
        {"activation": "Sigmoid"},
        {"activation": "LeakyRelu", "activation_params": [0.3]},
        {"activation": "Clip", "activation_params": [-0.5, 0.8]},
        {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]},
    ],
)
@pytest.mark.parametrize("added", [False, True])
def test_fused_conv(oracle, attributes, added) -> None:
    x, w, b = draw(1, 2, 6, 6), draw(4, 2, 3, 3), draw(4)
    z = [draw(1, 4, 4, 4)] if added else []
    agree(microsoft("FusedConv", x, w, b, *z, attributes=attributes), oracle)


@pytest.mark.parametrize(
    ("a", "b", "attributes"),
    [
        ((5, 7), (7, 4), {}),
        ((7, 5), (7, 4), {"transA": 1, "alpha": 0.5}),
        ((5, 7), (4, 7), {"transB": 1}),
        ((2, 3, 7, 5), (2, 3, 4, 7), {"transA": 1, "transB": 1}),
        ((5, 2, 3, 7), (2, 3, 7, 4), {"transBatchA": 1}),
        ((7, 2, 3, 5), (7, 2, 3, 4), {"transBatchA": 1, "transA": 1, "transBatchB": 1}),
    ],
)
def test_fused_matmul(oracle, a, b, attributes) -> None:
    agree(microsoft("FusedMatMul", draw(*a), draw(*b), attributes=attributes), oracle)


@pytest.mark.parametrize("activation", ["Relu", "Sigmoid", "LeakyRelu"])
def test_fused_gemm(oracle, activation) -> None:
    attributes = {"activation": activation, "alpha": 0.5, "beta": 2.0, "transA": 1}
    attributes |= {"activation_alpha": 0.3} if activation == "LeakyRelu" else {}
    agree(microsoft("FusedGemm", draw(7, 5), draw(7, 4), draw(4), attributes=attributes), oracle)


def test_gelu(oracle) -> None:
    x = draw(3, 40) * 3
    agree(microsoft("Gelu", x), oracle)
    agree(microsoft("BiasGelu", x, draw(40)), oracle)
    agree(microsoft("FastGelu", x), oracle)
    agree(microsoft("FastGelu", x, draw(40)), oracle)
    agree(microsoft("QuickGelu", x, alpha=1.5), oracle)


@pytest.mark.parametrize("given", [1, 2, 3])
@pytest.mark.parametrize("skip", [(2, 3, 8), (1, 3, 8), (3, 8)])
def test_skip_layer_normalization(oracle, given, skip) -> None:
    inputs = (draw(2, 3, 8), draw(*skip), *(draw(8, seed=i) for i in range(given)))
    agree(microsoft("SkipLayerNormalization", *inputs, epsilon=1e-5), oracle)
    agree(microsoft("SkipLayerNormalization", *inputs, outputs=(True, False, False, True)), oracle)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (microsoft("QLinearConcat", scale(1.0), zero(0, np.uint8), whole(np.uint8, 2), scale(1.0), zero(0, np.uint8),
                   whole(np.uint8, 2), axis=0),
         "the inputs must be tensor, scale and zero point each time, not 4 in all"),
        (microsoft("QLinearSigmoid", whole(np.uint8, 2), scale(1.0, 2.0), None, scale(1.0)),
         "scale and zero point must be one number, not have the shape [2]"),
        (microsoft("FusedConv", draw(1, 1, 2, 2), draw(1, 1, 1, 1), activation="Gelu"),
         "'activation' must be one of affine, elu, hardsigmoid, leakyrelu, relu, scaledtanh, sigmoid, softplus, "
         "softsign, tanh, thresholdedrelu, not 'Gelu'"),
        (microsoft("BiasGelu", draw(2, 3), draw(2)), "the bias must have the shape [3], not [2]"),
    ],
    ids=lambda value: value.label if isinstance(value, Case) else "",
)  # fmt: skip
def test_message(wanted, message) -> None:
    assert error_of(wanted) == message


@pytest.mark.parametrize("attributes", [{}, {"scale": 0.3}, {"unidirectional": 1}], ids=str)
def test_multi_head_attention(oracle, attributes) -> None:
    q, k, v = draw(2, 5, 8), draw(2, 5, 8), draw(2, 5, 8)
    agree(microsoft("MultiHeadAttention", q, k, v, attributes={"num_heads": 2, **attributes}), oracle)
    agree(microsoft("MultiHeadAttention", q, k, v, draw(24), None, draw(1, 2, 5, 5),
                    attributes={"num_heads": 2, **attributes}), oracle)


def test_attention_with_projections(oracle) -> None:
    x, weights, bias = draw(2, 5, 6), draw(6, 24), draw(24)
    agree(microsoft("Attention", x, weights, bias, attributes={"num_heads": 2}), oracle)
    agree(microsoft("Attention", x, weights, bias, attributes={"num_heads": 4, "unidirectional": 1}), oracle)


@pytest.mark.parametrize(("op", "inputs", "message"), [
    ("MultiHeadAttention", (draw(1, 3, 6), draw(1, 3, 6), draw(1, 3, 6)), "'num_heads' must divide 6 and 6, not be 4"),
    ("MultiHeadAttention", (draw(1, 3, 6),), "query, key and value must be three tensors of three axes"),
    ("Attention", (draw(1, 3, 6), draw(5, 24)), "must fit together, not have the shapes")])
def test_attention_refuses(op, inputs, message) -> None:
    assert message in error_of(microsoft(op, *inputs, attributes={"num_heads": 4}))
