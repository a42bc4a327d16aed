"""A sum that leaves int32: hwflow keeps it and saturates the output; onnxruntime's 32 bits wrap around."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import hwflow
from hwflow import onnx
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model

LOW, HIGH = -(2**31), 2**31 - 1
X = np.array([0, 1, 100, 255], np.uint8).reshape(1, 1, 2, 2)


def convolution(bias: int) -> Model:
    """y = saturate(round((x + bias) / 2**25) + 128), of one channel."""
    b = Builder("ends")
    x = b.input("x", np.uint8, (1, 1, 2, 2))
    one, zero = b.constant("one", np.float32(1)), b.constant("zero", np.uint8(0))
    weights = b.constant("w", np.ones((1, 1, 1, 1), np.int8))
    b.output(b.node("QLinearConv", x, one, zero, weights, one, b.constant("wz", np.int8(0)),
                    b.constant("ys", np.float32(2**25)), b.constant("yz", np.uint8(128)),
                    b.constant("b", np.array([bias], np.int32)), output="y"))
    return b.model()


def expected(bias: int, *, wraps: bool) -> list[int]:
    """In Python's integers, which have no ends."""
    sums = [int(x) + bias for x in X.reshape(-1)]
    sums = [(total - LOW) % 2**32 + LOW if wraps else total for total in sums]
    return [min(max(round(total / 2**25) + 128, 0), 255) for total in sums]


@pytest.mark.parametrize("bias", [LOW, LOW + 1, HIGH - 200, HIGH - 1, HIGH])
def test_sums_do_not_wrap(bias: int) -> None:
    model = convolution(bias)
    outputs = onnx.evaluate(model, {"x": X})["y"].reshape(-1).tolist()
    quantized = hwflow.quantize_model(onnx.simplify(onnx.infer(model)))
    assert outputs == expected(bias, wraps=False)
    assert hwflow.run_golden(quantized, X[None])["y"].reshape(-1).tolist() == outputs
    session = onnxruntime.InferenceSession(onnx.dumps(model), providers=["CPUExecutionProvider"])
    assert session.run(None, {"x": X})[0].reshape(-1).tolist() == expected(bias, wraps=True)
