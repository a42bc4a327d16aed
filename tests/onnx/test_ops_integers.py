"""Quantization and products of integers of every version: equal to onnxruntime, or to sums in Python's integers."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

from tests.onnx.neural import agree, case, draw, error_of, evaluated
from tests.onnx.oracle import ChildOracle


@pytest.fixture(scope="module")
def oracle() -> Iterator[ChildOracle]:
    with ChildOracle() as child:
        yield child


def whole(dtype: type, *shape: int, seed: int = 0) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.random.default_rng((seed, *shape)).integers(limits.min, limits.max + 1, shape).astype(dtype)


def narrow(array: np.ndarray) -> np.ndarray:
    """Seven bits: products of uint8 and int8 saturate in onnxruntime's 16-bit pairs on some processors."""
    return array // 2


def scale(*values: float) -> np.ndarray:
    return np.array(values if len(values) > 1 else values[0], np.float32)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("opset", [10, 13, 19, 21, 23, 24, 25])
def test_quantize(oracle, opset, dtype) -> None:
    x, zero = draw(4, 5) * 50, np.array(3, dtype)
    agree(case("QuantizeLinear", opset, x, scale(0.37), zero, like=min(opset, 21)), oracle)
    agree(case("DequantizeLinear", opset, whole(dtype, 4, 5), scale(0.37), zero, like=min(opset, 21)), oracle)


@pytest.mark.parametrize("opset", [10, 13])
def test_quantize_integers(opset) -> None:
    """int32 is quantized by a scale of float32."""
    x = np.array([0, 5, -5, 7, 100000, 2**31 - 1], np.int32)
    found = evaluated(case("QuantizeLinear", opset, x, scale(2.0), np.array(3, np.uint8)))[0]
    np.testing.assert_array_equal(found, np.array([3, 5, 1, 7, 255, 255], np.uint8))


@pytest.mark.parametrize("opset", [10, 13, 19, 21])
def test_dequantize_int32(oracle, opset) -> None:
    x = np.array([0, 5, -7, 100000, 2**31 - 1, -(2**31)], np.int32)
    agree(case("DequantizeLinear", opset, x, scale(0.01)), oracle)


FLOATS = [
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e5m2fnuz,
    ml_dtypes.float4_e2m1fn,
    ml_dtypes.float6_e2m3fn,
    ml_dtypes.float6_e3m2fn,
]


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("dtype", FLOATS)
def test_small_floats(dtype, saturate) -> None:
    """Beyond the range: the largest value, or with 'saturate' 0 what the type's own rounding gives."""
    x = np.array([0.0, -0.4, 1.3, 70.0, 1e6, -1e6, np.inf, np.nan], np.float32)
    zero = np.zeros((), dtype)
    found = evaluated(case("QuantizeLinear", 28, x, scale(0.5), zero, saturate=saturate))[0]
    largest = float(ml_dtypes.finfo(dtype).max)
    expected = np.clip(x / 0.5, -largest, largest) if saturate else x / np.float32(0.5)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(dtype).astype(np.float32))
    back = evaluated(case("DequantizeLinear", 28, found, scale(0.5), zero))[0]
    np.testing.assert_array_equal(back, found.astype(np.float32) * np.float32(0.5))


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2])
def test_small_integers(dtype) -> None:
    x = np.arange(-12, 12, 0.25).astype(np.float32)
    low, high = int(ml_dtypes.iinfo(dtype).min), int(ml_dtypes.iinfo(dtype).max)
    zero = np.array(1, dtype)
    found = evaluated(case("QuantizeLinear", 25, x, scale(0.5), zero))[0]
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.astype(int), np.clip(np.rint(x / 0.5) + 1, low, high))
    back = evaluated(case("DequantizeLinear", 25, found, scale(0.5), zero))[0]
    np.testing.assert_array_equal(back, (found.astype(np.float32) - 1) * 0.5)


def test_precision_of_the_division() -> None:
    """The division is one of the scale's type, unless 'precision' names another."""
    x, step = np.array([1000.4], np.float32), np.array(0.1, np.float16)
    zero = np.zeros((), np.int16)
    found = evaluated(case("QuantizeLinear", 23, x, step, zero))[0]
    assert found == np.rint(np.float16(1000.4) / np.float16(0.1))
    found = evaluated(case("QuantizeLinear", 23, x, step, zero, precision=1))[0]
    assert found == np.rint(np.float32(1000.4) / np.float32(np.float16(0.1)))
    assert found != np.rint(np.float16(1000.4) / np.float16(0.1))


def test_power_of_two_scales() -> None:
    """float8e8m0 holds powers of two alone."""
    steps = np.array([0.5, 4.0], np.float32).astype(ml_dtypes.float8_e8m0fnu)
    x = np.array([[1.2, 20.0], [-3.0, -9.0]], np.float32)
    zero = np.zeros(2, np.int8)
    found = evaluated(case("QuantizeLinear", 24, x, steps, zero, axis=1))[0]
    np.testing.assert_array_equal(found, [[2, 5], [-6, -2]])
    back = evaluated(case("DequantizeLinear", 24, found, steps, zero, axis=1, output_dtype=10))[0]
    assert back.dtype == np.float16
    np.testing.assert_array_equal(back, [[1, 20], [-3, -8]])


def test_zero_point_is_added_to_whole_numbers() -> None:
    """Sums of large floats would round; int32 targets are not the only ones that show it."""
    x = np.array([-3e38, 3e38, np.nan, 0.5, 1.5], np.float32)
    found = evaluated(case("QuantizeLinear", 21, x, scale(1.0), np.array(-32767, np.int16)))[0]
    np.testing.assert_array_equal(found, [-32768, 32767, 0, -32767, -32765])


@pytest.mark.parametrize("x", [draw(3, 4), draw(7, low=1.0), -draw(5, low=2.0), np.zeros(4, np.float32)])
def test_dynamic_quantize(oracle, x) -> None:
    agree(case("DynamicQuantizeLinear", 11, x, outputs=3), oracle)


@pytest.mark.parametrize("zeros", [0, 1, 2])
@pytest.mark.parametrize("types", [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)])
@pytest.mark.parametrize("shapes", [((5, 7), (7, 4)), ((2, 3, 5, 7), (7, 4)), ((2, 1, 5, 7), (3, 7, 4))])
def test_matmul_integer(oracle, shapes, types, zeros) -> None:
    a, b = (whole(dtype, *shape) for dtype, shape in zip(types, shapes, strict=True))
    b = narrow(b)
    points = [np.array(12, types[0]), np.array(9, types[1])][:zeros]
    agree(case("MatMulInteger", 10, a, b, *points), oracle)


@pytest.mark.parametrize("zero", [(5, 1), (5,)])
def test_matmul_integer_per_row_and_column(zero) -> None:
    a, b, za, zb = whole(np.uint8, 5, 7), whole(np.int8, 7, 4), whole(np.uint8, *zero), whole(np.int8, 4)
    expected = (a.astype(int) - za.astype(int).reshape(5, 1)) @ (b.astype(int) - zb.astype(int))
    np.testing.assert_array_equal(evaluated(case("MatMulInteger", 10, a, b, za, zb))[0], expected)


def test_sums_beyond_float32_are_exact() -> None:
    """Products whose sum float32 cannot hold, and one beyond 32 bits, which wraps around."""
    a, b = np.full((1, 70000), 255, np.uint8), np.full((70000, 1), 127, np.int8)
    a[0, 0] = 254
    total = 255 * 127 * 70000 - 127
    found = evaluated(case("MatMulInteger", 10, a, b))[0]
    assert found[0, 0] == (total + 2**31) % 2**32 - 2**31


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("shapes", [((5, 7), (7, 4)), ((2, 5, 7), (2, 7, 4))])
def test_qlinear_matmul(oracle, shapes, dtype) -> None:
    a, b = (whole(dtype, *shape) for shape in shapes)
    zeros = [np.array(z, dtype) for z in (3, 5, 7)]
    inputs = (a, scale(0.02), zeros[0], b, scale(0.03), zeros[1], scale(0.9), zeros[2])
    agree(case("QLinearMatMul", 10, *inputs), oracle)
    agree(case("QLinearMatMul", 21, *inputs, like=10), oracle)


def test_qlinear_matmul_per_column(oracle) -> None:
    a, b = whole(np.uint8, 5, 7), whole(np.int8, 7, 3)
    agree(
        case("QLinearMatMul", 10, a, scale(0.02), np.array(3, np.uint8), b, scale(0.03, 0.01, 0.002),
             np.zeros(3, np.int8), scale(0.9), np.array(100, np.uint8)),
        oracle,
    )  # fmt: skip


def test_qlinear_matmul_of_other_scales() -> None:
    a, b = whole(np.int8, 2, 3), whole(np.int8, 3, 2)
    zero = np.zeros((), np.int8)
    steps = [scale(s).astype(np.float16) for s in (0.5, 0.25, 16.0)]
    found = evaluated(case("QLinearMatMul", 21, a, steps[0], zero, b, steps[1], zero, steps[2], zero))[0]
    expected = np.clip(np.rint(a.astype(int) @ b.astype(int) * 0.125 / 16), -128, 127)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("attributes", [{}, {"pads": [1, 0, 2, 1], "strides": [2, 1]}, {"auto_pad": "SAME_UPPER"}])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_conv_integer(oracle, dtype, groups, attributes) -> None:
    """Padding is the number 0, thus the zero point."""
    x, w = whole(np.uint8, 2, 4, 7, 8), whole(dtype, 4, 4 // groups, 3, 3)
    points = [np.array(120, np.uint8), np.array(11, dtype)]
    wanted = case("ConvInteger", 10, x, w, *points, group=groups, attributes=attributes)
    if dtype is np.uint8:
        agree(wanted, oracle)
    else:
        wide = [a.astype(np.float64) - z for a, z in zip((x, w), points, strict=True)]
        expected = evaluated(case("Conv", 11, *wide, group=groups, attributes=attributes))[0]
        np.testing.assert_array_equal(evaluated(wanted)[0], expected)


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_qlinear_conv(oracle, groups, channels, biased) -> None:
    x, w = whole(np.uint8, 1, 4, 7, 8), narrow(whole(np.int8, 4, 4 // groups, 3, 3))
    steps = scale(0.01, 0.02, 0.004, 0.03) if channels else scale(0.01)
    zeros = np.zeros(steps.shape, np.int8)
    inputs = (x, scale(0.05), np.array(120, np.uint8), w, steps, zeros, scale(0.4), np.array(128, np.uint8))
    bias = [np.array([1000, -2000, 3000, 0], np.int32)] if biased else []
    agree(case("QLinearConv", 10, *inputs, *bias, group=groups, pads=[1, 1, 1, 1]), oracle)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (case("QuantizeLinear", 21, draw(2, 3), scale(1.0), np.zeros((), np.int8), output_dtype=2),
         "'output_dtype' must be the type of the zero point, int8, not uint8"),
        (case("QuantizeLinear", 21, draw(2, 3), draw(2, 1), block_size=10**9),
         "'block_size' must be 0 to the size of axis 1, not 1000000000; quantize the model again"),
        (case("QuantizeLinear", 23, draw(2, 3), scale(1.0), precision=7),
         "'precision' must be a float type of 16 bits or more, not int64; export the model again"),
        (case("MatMulInteger", 10, whole(np.uint8, 2, 3), whole(np.uint8, 2, 3)),
         "the matrices must fit together, not have the shapes [2, 3] and [2, 3]"),
        (case("MatMulInteger", 10, whole(np.uint8, 2, 3), whole(np.uint8, 3, 4), whole(np.uint8, 3)),
         "scale and zero point must be one number or one for each row or column of [2, 3], not have the shape [3]"),
        (case("ConvInteger", 10, whole(np.uint8, 1, 1, 3, 3), whole(np.uint8, 1, 1, 2, 2), whole(np.uint8, 2)),
         "the zero point of the input must be one number, not have the shape [2]"),
    ],
    ids=lambda value: value.label if hasattr(value, "label") else "",
)  # fmt: skip
def test_message(wanted, message) -> None:
    assert error_of(wanted) == message
