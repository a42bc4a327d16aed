"""Arithmetic, activations, comparison, casts and normalization against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

FLOAT, DOUBLE, INT32, INT64, UINT8, BOOL = 1, 11, 6, 7, 2, 9


def array(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Min", "Max", "Sum", "Mean", "Less", "Greater", "Equal"])
@pytest.mark.parametrize("shapes", [((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (4,)), ((3, 1), (2, 1, 4)), ((), (2, 2))])
def test_binary_broadcasts(same_as_onnxruntime, op, shapes) -> None:
    same_as_onnxruntime(op, *(array(*shape) for shape in shapes))


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("opset", [7, 13, 14])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float64])
def test_arithmetic_of_other_types(same_as_onnxruntime, op, opset, dtype) -> None:
    a, b = np.array([7, -7, 7, -7, 0], dtype), np.array([2, 2, -2, -2, 5], dtype)
    same_as_onnxruntime(op, a, b, opset=opset, exact=True)


@pytest.mark.parametrize(("a", "b"), [(7, 200), (255, 2)])
def test_unsigned_division(same_as_onnxruntime, a, b) -> None:
    same_as_onnxruntime("Div", np.array([a], np.uint8), np.array([b], np.uint8), opset=14)


@pytest.mark.parametrize("exponent", [np.float32, np.int32, np.int64])
@pytest.mark.parametrize("base", [np.float32, np.int32])
def test_pow(same_as_onnxruntime, base, exponent) -> None:
    same_as_onnxruntime("Pow", np.array([1, 2, 3], base), np.array([3, 2, 1], exponent))


@pytest.mark.parametrize("fmod", [0, 1])
def test_mod(same_as_onnxruntime, fmod) -> None:
    same_as_onnxruntime("Mod", np.array([7, -7, 7, -7], np.int32), np.array([3, 3, -3, -3], np.int32), fmod=fmod)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_bit_shift(same_as_onnxruntime, direction) -> None:
    same_as_onnxruntime("BitShift", np.array([1, 200, 3], np.uint8), np.array([1, 3, 7], np.uint8), direction=direction)


@pytest.mark.parametrize("op", ["And", "Or", "Xor"])
def test_logic(same_as_onnxruntime, op) -> None:
    same_as_onnxruntime(op, np.array([0, 0, 1, 1], bool), np.array([[0], [1]], bool))


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("op", ["Sum", "Max", "Min", "Mean"])
def test_variadic(same_as_onnxruntime, op, count) -> None:
    same_as_onnxruntime(op, *(array(2, 3) * i for i in range(1, count + 1)), opset=8)


UNARY = [
    "Abs", "Ceil", "Elu", "Erf", "Exp", "Floor", "HardSigmoid", "HardSwish", "LeakyRelu", "LogSoftmax", "Neg", "Relu",
    "Round", "Sigmoid", "Sign", "Softmax", "Softplus", "Softsign", "Tanh", "Identity", "Reciprocal",
]  # fmt: skip


@pytest.mark.parametrize("op", UNARY)
def test_unary(same_as_onnxruntime, op) -> None:
    special = np.array([0.5, -0.5, 1.5, 2.5, -3.7, 90, -90, 1e-6], np.float32)
    same_as_onnxruntime(op, np.concatenate([special, 3 * array(56)]).reshape(2, 4, 8))


@pytest.mark.parametrize("op", ["Sqrt", "Log"])
def test_unary_of_positive(same_as_onnxruntime, op) -> None:
    same_as_onnxruntime(op, np.abs(array(3, 5)) + np.float32(0.01))


def test_results_that_are_no_numbers(same_as_onnxruntime) -> None:
    x = np.array([-1, 0, 1, np.inf, np.nan], np.float32)
    for op in ("Sqrt", "Log", "Reciprocal", "Exp", "Relu"):
        same_as_onnxruntime(op, x)
    same_as_onnxruntime("Div", x, np.zeros(5, np.float32))


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("LeakyRelu", {"alpha": 0.3}),
        ("Elu", {"alpha": 0.7}),
        ("HardSigmoid", {"alpha": 0.4, "beta": 0.1}),
        ("Softmax", {"axis": 1}),
        ("Softmax", {"axis": -3}),
        ("LogSoftmax", {"axis": 0}),
    ],
)
def test_unary_with_attributes(same_as_onnxruntime, op, attributes) -> None:
    same_as_onnxruntime(op, 2 * array(2, 3, 4), **attributes)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("axis", [None, 0, 2, -1])
def test_softmax_before_13_flattens(same_as_onnxruntime, op, axis) -> None:
    same_as_onnxruntime(op, array(2, 3, 4), opset=11, axis=axis)


@pytest.mark.parametrize("slope", [(3, 1, 1), (4,), (1,), (2, 3, 4, 4)])
def test_prelu(same_as_onnxruntime, slope) -> None:
    same_as_onnxruntime("PRelu", array(2, 3, 4, 4), array(*slope))


@pytest.mark.parametrize("bounds", [{}, {"min": -0.5}, {"max": 0.5}, {"min": -0.5, "max": 0.5}])
def test_clip_by_attributes(same_as_onnxruntime, bounds) -> None:
    same_as_onnxruntime("Clip", array(3, 4), opset=9, **bounds)


@pytest.mark.parametrize("low", [None, -0.5])
@pytest.mark.parametrize("high", [None, 0.5])
def test_clip_by_inputs(same_as_onnxruntime, low, high) -> None:
    bounds = [None if bound is None else np.array(bound, np.float32) for bound in (low, high)]
    same_as_onnxruntime("Clip", array(3, 4), *bounds)


def test_clip_integers(same_as_onnxruntime) -> None:
    x = np.array([-128, -3, 0, 100], np.int8)
    same_as_onnxruntime("Clip", x, np.array(-5, np.int8), np.array(7, np.int8))
    same_as_onnxruntime("Relu", x)


def test_where(same_as_onnxruntime) -> None:
    same_as_onnxruntime("Where", np.array([[True], [False]]), array(3), array(2, 3))


@pytest.mark.parametrize("to", [FLOAT, DOUBLE, INT32, INT64, UINT8, BOOL])
def test_cast(same_as_onnxruntime, to) -> None:
    same_as_onnxruntime("Cast", np.array([0, 1.7, 2.5, 100.9], np.float32), to=to)
    same_as_onnxruntime("Cast", np.array([0, 1, 127], np.int8), to=to)


def test_cast_to_negative_integers(same_as_onnxruntime) -> None:
    same_as_onnxruntime("Cast", np.array([-1.7, -0.2], np.float32), to=INT32)


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 5), (2, 3, 4, 4)])
def test_batch_normalization(same_as_onnxruntime, opset, shape) -> None:
    mean, variance = array(3), np.abs(array(3)) + np.float32(0.1)
    same_as_onnxruntime(
        "BatchNormalization", array(*shape), array(3), array(3), mean, variance, opset=opset, epsilon=1e-3
    )


@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize("bias", [False, True])
def test_layer_normalization(same_as_onnxruntime, axis, bias) -> None:
    shape = (4,) if axis == -1 else (3, 4)
    same_as_onnxruntime("LayerNormalization", array(2, 3, 4), *([array(*shape)] * (1 + bias)), axis=axis)
