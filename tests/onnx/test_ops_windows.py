"""Convolution and pooling against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest


def array(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        ((2, 3, 9, 8), (4, 3, 3, 3), {}),
        ((1, 3, 9, 8), (4, 3, 3, 2), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
        ((1, 3, 9, 8), (4, 3, 1, 1), {"strides": [2, 2]}),
        ((1, 3, 11, 10), (4, 3, 3, 3), {"dilations": [2, 3], "pads": [2, 3, 2, 3]}),
        ((1, 4, 9, 8), (6, 2, 3, 3), {"group": 2}),
        ((2, 4, 9, 8), (4, 1, 3, 3), {"group": 4, "pads": [1, 1, 1, 1]}),
        ((1, 4, 9, 8), (8, 1, 3, 3), {"group": 4}),
        ((1, 4, 9, 8), (4, 1, 3, 3), {"group": 4, "dilations": [2, 1], "strides": [1, 2]}),
        ((1, 3, 9, 8), (4, 3, 4, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        ((1, 3, 9, 8), (4, 3, 4, 3), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
        ((1, 3, 9, 8), (4, 3, 2, 3), {"auto_pad": "SAME_LOWER"}),
        ((1, 3, 9, 8), (4, 3, 3, 3), {"auto_pad": "VALID", "strides": [2, 3]}),
        ((2, 6, 20), (4, 6, 5), {"pads": [2, 2], "strides": [2]}),
        ((1, 6, 20), (6, 1, 3), {"group": 6, "auto_pad": "SAME_UPPER"}),
        ((1, 2, 5, 6, 7), (3, 2, 2, 3, 2), {"pads": [1, 0, 1, 0, 1, 0]}),
    ],
)
@pytest.mark.parametrize("bias", [False, True])
def test_conv(same_as_onnxruntime, x, w, attributes, bias) -> None:
    b = array(w[0]) if bias else None
    same_as_onnxruntime("Conv", array(*x), array(*w), *([b] if bias else []), kernel_shape=list(w[2:]), **attributes)


@pytest.mark.parametrize("opset", [7, 11, 22])
def test_conv_opsets(same_as_onnxruntime, opset) -> None:
    same_as_onnxruntime("Conv", array(1, 2, 5, 5), array(3, 2, 3, 3), array(3), opset=opset)


POOLS = [
    {"kernel_shape": [2, 2], "strides": [2, 2]},
    {"kernel_shape": [3, 2]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 1, 1, 0]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "VALID"},
    {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
    {"kernel_shape": [2, 2], "strides": [2, 3], "ceil_mode": 1},
    {"kernel_shape": [2, 2], "strides": [3, 3], "ceil_mode": 1, "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 3], "strides": [3, 3], "ceil_mode": 1, "pads": [1, 1, 1, 1]},
]


@pytest.mark.parametrize("attributes", [*POOLS, {"kernel_shape": [2, 3], "dilations": [2, 2]}])
@pytest.mark.parametrize("shape", [(2, 3, 10, 9), (1, 2, 7, 8)])
def test_max_pool(same_as_onnxruntime, attributes, shape) -> None:
    same_as_onnxruntime("MaxPool", array(*shape), **attributes)


@pytest.mark.parametrize("attributes", POOLS)
@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("shape", [(2, 3, 10, 9), (1, 2, 7, 8)])
def test_average_pool(same_as_onnxruntime, attributes, include, shape) -> None:
    same_as_onnxruntime("AveragePool", array(*shape), count_include_pad=include, opset=19, **attributes)


@pytest.mark.parametrize("opset", [7, 10, 11, 19, 22])
def test_pool_opsets(same_as_onnxruntime, opset) -> None:
    window = {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}
    same_as_onnxruntime("MaxPool", array(2, 3, 11), opset=max(opset, 8), **window)
    same_as_onnxruntime("AveragePool", array(2, 3, 11), opset=opset, **window)


def test_average_pool_dilated(same_as_onnxruntime) -> None:
    same_as_onnxruntime("AveragePool", array(1, 2, 9, 9), opset=19, kernel_shape=[2, 3], dilations=[2, 2])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float64])
def test_max_pool_of_other_types(same_as_onnxruntime, dtype) -> None:
    x = (array(1, 2, 6, 6) * 40).astype(dtype)
    same_as_onnxruntime("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], exact=True)


@pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool"])
@pytest.mark.parametrize("shape", [(2, 3, 7), (2, 3, 5, 6), (1, 2, 3, 4, 5)])
def test_global_pool(same_as_onnxruntime, op, shape) -> None:
    same_as_onnxruntime(op, array(*shape))
