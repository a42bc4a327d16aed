"""QuantizeLinear and DequantizeLinear: equal to the oracles, element by element."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import onnx.reference
import pytest
from hwflow_base.errors import HwflowError

import hwflow.onnx
from hwflow.onnx.build import Builder


def scale(*values: float) -> np.ndarray:
    return np.array(values if len(values) > 1 else values[0], np.float32)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("opset", [10, 13, 19, 21, 23])
@pytest.mark.parametrize("zero", [None, 0, 3])
def test_quantize_per_tensor(same_as_onnxruntime, dtype, opset, zero) -> None:
    """Every tie (the scale is a power of two), saturation on both sides, infinities."""
    x = np.concatenate([np.arange(-70, 70, 0.125), [1e9, -1e9, np.inf, -np.inf]]).astype(np.float32)
    if zero is None and dtype is np.int8:
        zero = 0
    zeros = [] if zero is None else [np.array(zero, dtype)]
    same_as_onnxruntime("QuantizeLinear", x, scale(0.25), *zeros, opset=opset, exact=True)


@pytest.mark.parametrize("dtype", [np.int16, np.uint16])
def test_quantize_to_16_bits(same_as_onnxruntime, dtype) -> None:
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32) * 30000
    same_as_onnxruntime("QuantizeLinear", x, scale(0.37), np.array(5, dtype), opset=21, exact=True)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_quantize_per_axis(same_as_onnxruntime, axis) -> None:
    x = np.random.default_rng(0).standard_normal((3, 3, 3)).astype(np.float32)
    zero = np.array([1, -2, 3], np.int8)
    same_as_onnxruntime("QuantizeLinear", x, scale(0.1, 0.013, 0.2), zero, axis=axis, exact=True)
    q = (x * 40).astype(np.int8)
    same_as_onnxruntime("DequantizeLinear", q, scale(0.1, 0.013, 0.2), zero, axis=axis, exact=True)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int16, np.uint16])
def test_dequantize(same_as_onnxruntime, dtype) -> None:
    limits = np.iinfo(dtype)
    x = np.array([limits.min, 0, 1, 100, limits.max // 2], dtype)
    zero = np.array(0 if dtype is np.int32 else 7, dtype)
    same_as_onnxruntime("DequantizeLinear", x, scale(0.017), zero, opset=21, exact=True)
    same_as_onnxruntime("DequantizeLinear", x, scale(0.017), opset=21, exact=True)


def test_blocks(same_as_onnxruntime) -> None:
    x = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    scales = np.abs(np.random.default_rng(1).standard_normal((4, 2)).astype(np.float32)) + np.float32(0.1)
    zeros = np.arange(8, dtype=np.int8).reshape(4, 2)
    same_as_onnxruntime("QuantizeLinear", x, scales, zeros, opset=21, axis=1, block_size=3, exact=True)
    q = (x * 40).astype(np.int8)
    same_as_onnxruntime("DequantizeLinear", q, scales, zeros, opset=21, axis=1, block_size=3, exact=True)


@pytest.mark.parametrize(("dtype", "code"), [(ml_dtypes.int4, 22), (ml_dtypes.uint4, 21)])
def test_four_bits(dtype, code) -> None:
    """Against ONNX's reference evaluator, because onnxruntime has no 4-bit inputs and outputs in Python."""
    b = Builder()
    x = b.input("x", np.float32, (40,))
    zero = b.constant("zero", np.array(2, dtype))
    q = b.node("QuantizeLinear", x, b.constant("scale", scale(0.5)), zero, output="q")
    b.output(b.node("DequantizeLinear", q, "scale", zero, output="y"), np.float32, (40,))
    model = b.model(opset=21, ir_version=10)
    feeds = {"x": np.arange(-10, 10, 0.5).astype(np.float32)}
    reference = onnx.reference.ReferenceEvaluator(onnx.load_from_string(hwflow.onnx.dumps(model)))
    found = hwflow.onnx.evaluate(model, feeds, ["q", "y"])
    np.testing.assert_array_equal(found["y"], reference.run(None, feeds)[0])
    assert found["q"].dtype == dtype
    low, high = (-8, 7) if code == 22 else (0, 15)
    assert (int(found["q"].astype(int).min()), int(found["q"].astype(int).max())) == (low, high)


def test_output_dtype(same_as_onnxruntime) -> None:
    same_as_onnxruntime("QuantizeLinear", scale(0.1, 900.0), scale(0.5), opset=21, output_dtype=3, exact=True)


@pytest.mark.parametrize(
    ("x", "scales", "zero", "message"),
    [
        ((3, 4), scale(1.0, 2.0), np.zeros(2, np.int8),
         "scale and zero point must have the shape [4] of axis 1, not [2]"),
        ((3, 4), scale(1.0), np.zeros((), np.float16),
         "the inputs must suit the operator, not be float32[3, 4], float32[], float16[] "
         "(input 2 'z' must be tensor(int8) or tensor(uint8), not tensor(float16))"),
    ],
)  # fmt: skip
def test_quantize_that_does_not_fit(x, scales, zero, message) -> None:
    b = Builder()
    b.output(b.node("QuantizeLinear", b.input("x", np.float32, x), b.constant("s", scales), b.constant("z", zero)))
    with pytest.raises(HwflowError) as caught:
        hwflow.onnx.evaluate(b.model(), {"x": np.zeros(x, np.float32)})
    assert str(caught.value) == f"graph/node[0] 'QuantizeLinear_0' (QuantizeLinear): {message}"
