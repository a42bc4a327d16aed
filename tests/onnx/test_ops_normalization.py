"""Normalization of every version, against onnxruntime, and against the formulas in float64 where it has none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.onnx.neural import agree, case, draw, error_of, evaluated
from tests.onnx.oracle import ChildOracle

EPSILON = 1e-5


@pytest.fixture(scope="module")
def oracle() -> Iterator[ChildOracle]:
    with ChildOracle() as child:
        yield child


def batch(*shape: int, parameters: tuple[int, ...] | None = None) -> tuple[np.ndarray, ...]:
    """x, scale, bias, mean and variance."""
    size = parameters or shape[1:2]
    return draw(*shape), draw(*size), draw(*size, seed=1), draw(*size, seed=2), draw(*size, low=0.5)


def column(a: np.ndarray, rank: int) -> np.ndarray:
    return a.astype(np.float64).reshape(-1, *(1,) * (rank - 2))


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 7), (2, 3, 4, 5)])
@pytest.mark.parametrize("opset", [7, 9, 14, 15])
def test_batch(oracle, opset, shape) -> None:
    agree(case("BatchNormalization", opset, *batch(*shape), epsilon=1e-3), oracle)


@pytest.mark.parametrize("opset", [1, 6])
def test_batch_of_the_first_versions(oracle, opset) -> None:
    """'is_test' 1 is what version 7 always does with one output."""
    inputs, legacy = batch(2, 3, 4, 5), {"consumed_inputs": [0, 0, 0, 1, 1]} if opset == 1 else {}
    expected = evaluated(case("BatchNormalization", 7, *inputs))
    agree(case("BatchNormalization", opset, *inputs, is_test=1, expected=expected, attributes=legacy), oracle)


@pytest.mark.parametrize(
    ("opset", "attributes", "outputs"),
    [
        (1, {"consumed_inputs": [0, 0, 0, 1, 1]}, 5),
        (6, {"is_test": 0}, 5),
        (6, {"is_test": 0}, 1),
        (7, {}, 5),
        (9, {}, (True, True, True)),
        (14, {"training_mode": 1}, 3),
        (15, {"training_mode": 1, "momentum": 0.7}, 3),
        (15, {"training_mode": 1}, 1),
    ],
)
def test_batch_in_training(opset, attributes, outputs) -> None:
    """The formulas of the specification with the population's variance."""
    x, scale, bias, mean, variance = inputs = batch(4, 3, 5, 6)
    axes, share = (0, 2, 3), attributes.get("momentum", 0.9)
    now, spread = x.astype(np.float64).mean(axes), x.astype(np.float64).var(axes)
    normal = (x - column(now, 4)) / np.sqrt(column(spread, 4) + EPSILON)
    expected = [
        normal * column(scale, 4) + column(bias, 4),
        mean * share + now * (1 - share),
        variance * share + spread * (1 - share),
        now,
        spread,
    ]
    count = outputs if isinstance(outputs, int) else len(outputs)
    expected = [a.astype(np.float32) for a in expected[:count]]
    results = evaluated(case("BatchNormalization", opset, *inputs, outputs=outputs, attributes=attributes))
    for found, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("opset", [1, 6, 7])
@pytest.mark.parametrize("training", [False, True])
def test_batch_for_each_element(opset, training) -> None:
    """'spatial' 0: one set of parameters for each element of a sample."""
    x, scale, bias, mean, variance = inputs = batch(6, 3, 4, parameters=(3, 4))
    attributes: dict[str, Any] = {"consumed_inputs": [0] * 5} if opset == 1 else {}
    attributes |= {"is_test": int(not training)} if opset < 7 else {}
    if training:
        mean, variance = x.mean(0), x.var(0)
    expected = (x - mean) / np.sqrt(variance + EPSILON) * scale + bias
    outputs = 5 if training else 1
    found = evaluated(
        case("BatchNormalization", opset, *inputs, spatial=0, outputs=outputs, attributes=attributes)
    )
    np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-5)
    assert [a.shape for a in found[1:]] == [(3, 4)] * (outputs - 1)


def test_batch_of_float16_with_float32_statistics() -> None:
    inputs = batch(2, 3, 5)
    expected = evaluated(case("BatchNormalization", 15, *inputs))[0]
    half = (inputs[0].astype(np.float16), *(a.astype(np.float16) for a in inputs[1:3]), *inputs[3:])
    found = evaluated(case("BatchNormalization", 15, *half))[0]
    assert found.dtype == np.float16
    np.testing.assert_allclose(found.astype(np.float32), expected, atol=2e-2)


@pytest.mark.parametrize("opset", [1, 6, 22])
@pytest.mark.parametrize("shape", [(2, 3, 7), (2, 3, 4, 5)])
def test_instance(oracle, opset, shape) -> None:
    legacy = {"consumed_inputs": [0]} if opset == 1 else {}
    inputs = draw(*shape), draw(3), draw(3, seed=1)
    expected = evaluated(case("InstanceNormalization", 6, *inputs)) if opset == 1 else None
    agree(case("InstanceNormalization", opset, *inputs, expected=expected, attributes=legacy), oracle)


@pytest.mark.parametrize("opset", [18, 21])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group(opset, groups) -> None:
    """Scale and bias are for groups in version 18, for channels from 21 on."""
    size = 6 if opset == 21 else groups
    x, scale, bias = draw(2, 6, 3, 4), draw(size), draw(size, seed=1)
    parts = x.astype(np.float64).reshape(2, groups, -1)
    normal = (parts - parts.mean(2, keepdims=True)) / np.sqrt(parts.var(2, keepdims=True) + EPSILON)
    expected = normal.reshape(2, size, -1) * scale[:, None] + bias[:, None]
    kernel, shapes = group_operator(opset)
    found = kernel(x, scale, bias, groups)
    assert shapes == x.shape
    np.testing.assert_allclose(found, expected.reshape(x.shape), rtol=1e-4, atol=1e-5)


def group_operator(opset: int) -> Any:
    """Version 18 is deprecated, so models cannot use it; its kernel stays for those that did."""
    from hwflow.onnx.build import make_node
    from hwflow.onnx.ops import find_operator
    from hwflow.onnx.ops.base import Call, Known
    from hwflow.onnx.schemas import find_schema

    operator = find_operator("", "GroupNormalization", opset)
    assert operator is not None
    assert operator.shapes is not None

    def kernel(x: np.ndarray, scale: np.ndarray, bias: np.ndarray, groups: int) -> Any:
        node = make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=groups)
        return operator.kernel(Call(node, opset, schema=find_schema("", "GroupNormalization", opset)), x, scale, bias)

    node = make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2)
    call = Call(node, opset, schema=find_schema("", "GroupNormalization", opset))
    of_groups = Known(np.dtype(np.float32), (6 if opset == 21 else 2,))
    return kernel, operator.shapes(call, Known(np.dtype(np.float32), (2, 6, 3, 4)), of_groups, of_groups).shape


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("outputs", [1, 3])
def test_layer(oracle, axis, biased, outputs) -> None:
    x = draw(2, 3, 4)
    inputs = (x, draw(*x.shape[axis:]), *([draw(*x.shape[axis:], seed=1)] if biased else []))
    agree(case("LayerNormalization", 17, *inputs, axis=axis, outputs=outputs, epsilon=1e-4), oracle)


def test_layer_in_bfloat16() -> None:
    """'stash_type' 16: mean and inverse deviation come in bfloat16; without it, in float32."""
    x, scale = draw(3, 8), draw(8)
    small = [a.astype(ml_dtypes.bfloat16) for a in (x, scale)]
    _, mean, inverse = evaluated(case("LayerNormalization", 17, *small, outputs=3, stash_type=16))
    assert mean.dtype == inverse.dtype == ml_dtypes.bfloat16
    y, mean, _ = evaluated(case("LayerNormalization", 17, *small, outputs=3))
    assert (y.dtype, mean.dtype) == (ml_dtypes.bfloat16, np.float32)
    expected = evaluated(case("LayerNormalization", 17, x, scale))[0]
    np.testing.assert_allclose(y.astype(np.float32), expected, atol=0.05)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_rms(axis) -> None:
    x = draw(2, 3, 4)
    scale = draw(*x.shape[axis:])
    axes = tuple(range(axis % 3, 3))
    expected = x / np.sqrt((x.astype(np.float64) ** 2).mean(axes, keepdims=True) + EPSILON) * scale
    np.testing.assert_allclose(
        evaluated(case("RMSNormalization", 23, x, scale, axis=axis))[0], expected, rtol=1e-5, atol=1e-6
    )


def test_rms_takes_the_type_of_the_scale() -> None:
    x, scale = draw(2, 4).astype(np.float16), draw(4)
    assert evaluated(case("RMSNormalization", 23, x, scale))[0].dtype == np.float32


@pytest.mark.parametrize("opset", [1, 13])
@pytest.mark.parametrize("size", [1, 3, 5, 31])
def test_local_response(oracle, opset, size) -> None:
    agree(case("LRN", opset, draw(2, 7, 4, 3), size=size, alpha=0.3, beta=0.6, bias=1.5), oracle)


@pytest.mark.parametrize("size", [2, 4])
def test_local_response_of_even_size(size) -> None:
    """One more neighbour behind than in front; onnxruntime refuses even sizes."""
    x = draw(1, 6, 2).astype(np.float64)
    total = np.stack(
        [(x[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1] ** 2).sum(1) for c in range(6)], axis=1
    )
    expected = x / (1 + 0.5 / size * total) ** 0.75
    found = evaluated(case("LRN", 13, x.astype(np.float32), size=size, alpha=0.5))[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("opset", [1, 22])
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [0, -1])
def test_lp(oracle, opset, p, axis) -> None:
    x = draw(3, 4)
    x[1], x[:, 2] = 0, 0
    agree(case("LpNormalization", opset, x, p=p, axis=axis), oracle)


@pytest.mark.parametrize("opset", [9, 13])
def test_mean_variance(oracle, opset) -> None:
    agree(case("MeanVarianceNormalization", opset, draw(2, 3, 4, 5), tolerance=1e-4), oracle)
    x = draw(2, 3, 4)
    expected = (x - x.mean((1, 2), keepdims=True)) / x.std((1, 2), keepdims=True)
    agree(case("MeanVarianceNormalization", opset, x, axes=[1, -1], expected=expected), oracle)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (case("BatchNormalization", 15, *batch(2, 3, 4)[:4], draw(4)),
         "the parameters must have the shape [3], not [4]"),
        (case("BatchNormalization", 15, *batch(2, 3, 4), outputs=3),
         "outputs beyond the first must not be named without training; export the model again"),
        (case("InstanceNormalization", 6, draw(2, 3, 4), draw(2), draw(2)),
         "scale and bias must have the shape [3], not [2]"),
        (case("GroupNormalization", 21, draw(2, 6, 4), draw(6), draw(6), num_groups=4),
         "'num_groups' must divide the channels of the input [2, 6, 4], not be 4"),
        (case("LayerNormalization", 17, draw(2, 3), draw(3), axis=2),
         "the axis must be -2 to 1, not 2; export the model again"),
        (case("LayerNormalization", 17, draw(1, 3), draw(2, 3)),
         "scale and bias must broadcast to the input [1, 3], not have the shape [2, 3]"),
        (case("LpNormalization", 22, draw(2, 3), p=3), "'p' must be 1 or 2, not 3; export the model again"),
        (case("LRN", 13, draw(2, 3), size=0), "'size' must be 1 or more and the input have channels, not 0 and [2, 3]"),
    ],
    ids=lambda value: value.label if hasattr(value, "label") else "",
)  # fmt: skip
def test_message(wanted, message) -> None:
    assert error_of(wanted) == message
