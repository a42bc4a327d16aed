"""Convolutions and pools of every version, against onnxruntime, and against plain loops where it refuses."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from hwflow.onnx.ops import convolution
from tests.onnx.neural import agree, case, draw, error_of, evaluated
from tests.onnx.oracle import ChildOracle


@pytest.fixture(scope="module")
def oracle() -> Iterator[ChildOracle]:
    with ChildOracle() as child:
        yield child


POOLS = [
    {"kernel_shape": [3, 2]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 0, 1, 1]},
    {"kernel_shape": [2, 3], "strides": [2, 1], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [2, 3], "strides": [2, 1], "auto_pad": "SAME_LOWER"},
    {"kernel_shape": [2, 3], "strides": [2, 3], "auto_pad": "VALID"},
]


@pytest.mark.parametrize("attributes", POOLS)
@pytest.mark.parametrize("opset", [1, 7, 8, 10, 11, 12, 22])
def test_max_pool(oracle, opset, attributes) -> None:
    agree(case("MaxPool", opset, draw(2, 3, 7, 8), attributes=attributes), oracle)


@pytest.mark.parametrize("attributes", POOLS)
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("opset", [8, 10, 12])
def test_indices(oracle, opset, attributes, order) -> None:
    agree(case("MaxPool", opset, draw(2, 3, 7, 8), outputs=2, storage_order=order, attributes=attributes), oracle)


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float32])
def test_indices_of_equal_elements(oracle, order, dtype) -> None:
    """The first of equal ones wins, and padding never."""
    x = np.random.default_rng(0).integers(0, 2, (2, 2, 6, 5)).astype(dtype)
    x[0, 0] = np.iinfo(np.int8).min if dtype is np.int8 else 0
    agree(
        case("MaxPool", 12, x, outputs=2, kernel_shape=[3, 3], pads=[0, 0, 1, 1], strides=[2, 2], storage_order=order),
        oracle,
    )


@pytest.mark.parametrize("shape", [(1, 2, 9), (2, 1, 5, 4, 6)])
def test_indices_of_other_ranks(oracle, shape) -> None:
    attributes = {"kernel_shape": [2] * (len(shape) - 2), "strides": [2] * (len(shape) - 2)}
    agree(case("MaxPool", 12, draw(*shape), outputs=2, attributes=attributes), oracle)


@pytest.mark.parametrize("attributes", POOLS)
@pytest.mark.parametrize("opset", [1, 7, 10, 11, 19, 22])
def test_average_pool(oracle, opset, attributes) -> None:
    agree(case("AveragePool", opset, draw(2, 3, 7, 8), attributes=attributes, like=max(opset, 7)), oracle)
    if opset >= 7:
        agree(case("AveragePool", opset, draw(2, 3, 7, 8), count_include_pad=1, attributes=attributes), oracle)


@pytest.mark.parametrize("ceil", [0, 1])
@pytest.mark.parametrize("include", [0, 1])
def test_average_pool_with_everything(oracle, ceil, include) -> None:
    for kernel, stride, dilation, pad in itertools.product((2, 3), (1, 2, 3), (1, 2), (0, 1)):
        attributes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "dilations": [dilation] * 2}
        attributes |= {"pads": [pad] * 4, "ceil_mode": ceil, "count_include_pad": include}
        agree(case("AveragePool", 19, draw(1, 2, 7, 8), attributes=attributes), oracle)


@pytest.mark.parametrize("attributes", POOLS)
@pytest.mark.parametrize(("opset", "p"), [(1, 2.0), (1, 3.0), (2, 2), (2, 1), (11, 3), (18, 2), (22, 4)])
def test_lp_pool(oracle, opset, p, attributes) -> None:
    x = draw(2, 3, 7, 8)
    expected = None if opset > 1 else lp_pool(x, float(p), attributes)
    agree(case("LpPool", opset, x, p=p, expected=expected, attributes=attributes), oracle)


def lp_pool(x: np.ndarray, p: float, attributes: dict) -> np.ndarray:
    """onnxruntime has no version 1: the mean of powers times their number, by AveragePool."""
    means = evaluated(case("AveragePool", 7, np.abs(x) ** p, attributes=attributes, count_include_pad=1))[0]
    return (means * np.prod(attributes["kernel_shape"], dtype=np.float32)) ** np.float32(1 / p)


@pytest.mark.parametrize(("opset", "p"), [(1, 3.0), (2, 3), (2, 2), (22, 1)])
def test_global_lp_pool(oracle, opset, p) -> None:
    x = draw(2, 3, 4, 5)
    expected = (np.abs(x.astype(np.float64)) ** p).sum((2, 3), keepdims=True) ** (1 / p)
    agree(case("GlobalLpPool", opset, x, p=p, expected=expected.astype(np.float32)), oracle)


@pytest.mark.parametrize("opset", [1, 11, 22])
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("attributes", [{}, {"pads": [1, 0, 2, 1], "strides": [2, 1]}, {"dilations": [2, 1]}])
def test_conv(oracle, opset, groups, attributes) -> None:
    x, w, b = draw(2, 4, 9, 8), draw(8, 4 // groups, 3, 2), draw(8)
    agree(case("Conv", opset, x, w, b, group=groups, attributes=attributes), oracle)


@pytest.mark.parametrize("groups", [1, 2, 8])
def test_conv_in_blocks(oracle, monkeypatch, groups) -> None:
    """The same in parts of a few rows as in one piece."""
    monkeypatch.setattr(convolution, "BLOCK_BYTES", 3000)
    x, w = draw(3, 8, 17, 9), draw(8, 8 // groups, 3, 3)
    agree(case("Conv", 11, x, w, group=groups, pads=[1, 1, 1, 1], strides=[2, 1]), oracle)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_conv_of_other_types(dtype) -> None:
    x, w, b = draw(1, 2, 6, 6), draw(3, 2, 3, 3), draw(3)
    whole = evaluated(case("Conv", 11, x, w, b))[0]
    found = evaluated(case("Conv", 11, *(a.astype(dtype) for a in (x, w, b))))[0]
    assert found.dtype == dtype
    np.testing.assert_allclose(found.astype(np.float64), whole, atol=2e-2 if dtype is np.float16 else 1e-5)


TRANSPOSED = [
    {},
    {"strides": [2, 3]},
    {"strides": [2, 2], "pads": [1, 0, 1, 2]},
    {"strides": [3, 2], "output_padding": [2, 1]},
    {"dilations": [2, 1], "strides": [1, 2]},
    {"strides": [2, 2], "output_shape": [10, 13]},
    {"strides": [2, 2], "output_shape": [9, 12], "auto_pad": "SAME_UPPER"},
    {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
    {"strides": [2, 2], "auto_pad": "VALID"},
]


@pytest.mark.parametrize("attributes", TRANSPOSED)
@pytest.mark.parametrize(("opset", "groups"), [(1, 1), (11, 1), (11, 2), (22, 4)])
def test_conv_transpose(oracle, opset, groups, attributes) -> None:
    x, w, b = draw(2, 4, 5, 6), draw(4, 3, 3, 3), draw(3 * groups)
    agree(case("ConvTranspose", opset, x, w, b, group=groups, attributes=attributes), oracle)


@pytest.mark.parametrize("shape", [(1, 2, 9), (1, 2, 4, 3, 5)])
def test_conv_transpose_of_other_ranks(oracle, shape) -> None:
    rank = len(shape) - 2
    x, w = draw(*shape), draw(2, 3, *(3, 2, 2)[:rank])
    agree(case("ConvTranspose", 11, x, w, strides=[2] * rank), oracle)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("attributes", [{}, {"strides": [2, 1], "pads": [1, 0, 1, 2]}, {"dilations": [2, 1]}])
def test_deform_conv(groups, masked, attributes) -> None:
    x, w, b = draw(2, 4, 6, 7), draw(6, 4 // groups, 2, 3), draw(6)
    outputs = evaluated(case("Conv", 11, x, w, group=groups, attributes=attributes))[0].shape[2:]
    offset = draw(2, 2 * 2 * 2 * 3, *outputs) * 2
    mask = draw(2, 2 * 2 * 3, *outputs, low=0.0) if masked else None
    found = evaluated(
        case("DeformConv", 19, x, w, offset, b, mask, group=groups, offset_group=2, attributes=attributes)
    )[0]
    expected = deform_conv(x, w, offset, b, mask, attributes, groups)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def deform_conv(x, w, offset, b, mask, attributes, groups) -> np.ndarray:
    """Element by element, with two offset groups."""
    (sh, sw), (dh, dw) = attributes.get("strides", (1, 1)), attributes.get("dilations", (1, 1))
    top, left = attributes.get("pads", (0, 0, 0, 0))[:2]
    n, c, height, width = x.shape
    m, per_group, kh, kw = w.shape
    y = np.zeros((n, m, *offset.shape[2:]))
    moved = offset.reshape(n, 2, kh, kw, 2, *offset.shape[2:])
    shape = (n, 2, kh, kw, *offset.shape[2:])
    weights = np.ones(shape) if mask is None else mask.reshape(shape)
    for s, o, i, j in np.ndindex(y.shape):
        for k, p, q in np.ndindex(per_group, kh, kw):
            channel = o // (m // groups) * per_group + k
            part = channel // (c // 2)
            row = i * sh - top + p * dh + moved[s, part, p, q, 0, i, j]
            column = j * sw - left + q * dw + moved[s, part, p, q, 1, i, j]
            r, t = int(np.floor(row)), int(np.floor(column))
            value = sum(
                (1 - abs(row - a)) * (1 - abs(column - e)) * x[s, channel, a, e]
                for a in (r, r + 1)
                for e in (t, t + 1)
                if 0 <= a < height and 0 <= e < width
            )
            y[s, o, i, j] += w[o, k, p, q] * value * weights[s, part, p, q, i, j]
    return y + b[:, None, None]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (case("ConvTranspose", 11, draw(1, 4, 5, 5), draw(3, 2, 3, 3)),
         "1 groups must divide the channels, not input [1, 4, 5, 5] and weights [3, 2, 3, 3]"),
        (case("ConvTranspose", 11, draw(1, 4, 5, 5), draw(4, 2, 3, 3), output_shape=[3]),
         "'output_shape' must be 2 numbers of 1 or more, not [3]"),
        (case("ConvTranspose", 11, draw(1, 4, 2, 2), draw(4, 2, 3, 3), pads=[2, 2, 2, 2]),
         "the padding must leave something of the output, not its size [0, 0]"),
        (case("Conv", 11, draw(1, 4, 5, 5), draw(4, 4, 3, 3), draw(3)),
         "the bias must have the shape [4], not [3]"),
        (case("Conv", 11, draw(1, 4, 5, 5), draw(4, 4, 3, 3), strides=[1]),
         "'strides' must be 2 numbers of 1 or more, not [1]"),
        (case("LpPool", 2, draw(1, 4, 5, 5), kernel_shape=[2, 2], p=0),
         "'p' must be more than 0, not 0; export the model again"),
        (case("LpPool", 1, draw(1, 4, 5, 5)),
         "attribute 'kernel_shape' must be given, not left out; export the model again"),
        (case("MaxPool", 11, draw(1, 4, 5, 5), kernel_shape=[2]),
         "'kernel_shape' must be 2 numbers of 1 or more, not [2]"),
        (case("GlobalMaxPool", 1, draw(1, 4, 0)),
         "the input must have spatial axes with elements, not the shape [1, 4, 0]"),
        (case("DeformConv", 19, draw(1, 2, 5, 5), draw(2, 2, 3, 3), draw(1, 9, 3, 3)),
         "the input 'offset' must have the shape [1, 18, 3, 3], not [1, 9, 3, 3]"),
    ],
    ids=lambda value: value.label if hasattr(value, "label") else "",
)  # fmt: skip
def test_message(wanted, message) -> None:
    assert error_of(wanted) == message


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "limit"),
    [
        ("Conv", (draw(1, 1, 4, 4), draw(1, 1, 1, 1)), {"pads": [10**9] * 4}, "tensor_bytes"),
        ("ConvTranspose", (draw(1, 1, 4, 4), draw(1, 1, 1, 1)), {"strides": [10**9] * 2}, "tensor_bytes"),
        ("ConvTranspose", (draw(1, 1, 4, 4), draw(1, 1, 1, 1)), {"output_shape": [10**9] * 2}, "tensor_bytes"),
        ("MaxPool", (draw(1, 1, 4, 4),), {"kernel_shape": [1, 1], "pads": [0, 0, 10**9, 10**9]}, "tensor_bytes"),
        ("AveragePool", (draw(1, 1, 4),), {"kernel_shape": [10**9], "pads": [10**9, 10**9]}, "tensor_bytes"),
    ],
)
def test_hostile_sizes(op, inputs, attributes, limit) -> None:
    """Numbers in a file must not decide how much memory or time goes."""
    assert f"({limit})" in error_of(case(op, 11, *inputs, attributes=attributes))


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool", "LpPool"])
def test_kernel_far_beyond_the_input(op) -> None:
    """Only those elements of the kernel cost time that meet the input."""
    x = draw(1, 2, 5)
    found = evaluated(case(op, 11, x, kernel_shape=[10**7], pads=[10**7 - 5, 1]))[0]
    small = evaluated(case(op, 11, x, kernel_shape=[10], pads=[5, 1]))[0]
    assert found.shape == small.shape == (1, 2, 2)
    reduced = {"MaxPool": x.max(2), "AveragePool": x.mean(2), "LpPool": np.sqrt((x**2).sum(2))}[op]
    np.testing.assert_allclose(found[..., 0], reduced, rtol=1e-5)
    np.testing.assert_array_equal(found, small)


def test_work_is_limited() -> None:
    attributes = {"kernel_shape": [2 * 10**7], "pads": [2 * 10**7] * 2, "strides": [2 * 10**7 - 1]}
    assert "(work)" in error_of(case("MaxPool", 11, draw(1, 1, 5), attributes=attributes))
