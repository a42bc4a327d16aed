"""Operators that move elements, matrix products and reductions, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest


def array(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1, None])
def test_flatten(same_as_onnxruntime, axis) -> None:
    same_as_onnxruntime("Flatten", array(2, 3, 4), axis=axis)


@pytest.mark.parametrize("shape", [(6, 4), (-1,), (0, 12), (2, -1, 2), (0, 0, 2, 2)])
@pytest.mark.parametrize("opset", [7, 14])
def test_reshape(same_as_onnxruntime, shape, opset) -> None:
    same_as_onnxruntime("Reshape", array(2, 3, 4), ints(*shape), opset=opset)


def test_reshape_allowzero(same_as_onnxruntime) -> None:
    same_as_onnxruntime("Reshape", np.zeros((0, 3), np.float32), ints(3, 0), allowzero=1)


@pytest.mark.parametrize("perm", [None, [0, 2, 1], [2, 0, 1]])
def test_transpose(same_as_onnxruntime, perm) -> None:
    same_as_onnxruntime("Transpose", array(2, 3, 4), perm=perm)


@pytest.mark.parametrize("axes", [[0], [0, 3], [-1], None])
def test_squeeze(same_as_onnxruntime, axes) -> None:
    same_as_onnxruntime("Squeeze", array(1, 3, 4, 1), opset=11, axes=axes)
    same_as_onnxruntime("Squeeze", array(1, 3, 4, 1), *([] if axes is None else [ints(*axes)]))


@pytest.mark.parametrize("axes", [[0], [0, 3], [-1], [2, 0]])
def test_unsqueeze(same_as_onnxruntime, axes) -> None:
    same_as_onnxruntime("Unsqueeze", array(3, 4), opset=11, axes=axes)
    same_as_onnxruntime("Unsqueeze", array(3, 4), ints(*axes))


@pytest.mark.parametrize("shape", [(2, 3, 4), (1,), (3, 1), (5, 1, 1, 4)])
def test_expand(same_as_onnxruntime, shape) -> None:
    same_as_onnxruntime("Expand", array(3, 1), ints(*shape))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat(same_as_onnxruntime, axis) -> None:
    same_as_onnxruntime("Concat", array(2, 2), array(2, 2), array(2, 2), axis=axis)


def test_split(same_as_onnxruntime) -> None:
    same_as_onnxruntime("Split", array(6, 4), opset=11, outputs=3)
    same_as_onnxruntime("Split", array(6, 4), opset=11, outputs=2, axis=1, split=[1, 3])
    same_as_onnxruntime("Split", array(6, 4), ints(2, 4), opset=13, outputs=2)
    same_as_onnxruntime("Split", array(6, 4), opset=13, outputs=2, axis=-1)
    same_as_onnxruntime("Split", array(7, 4), opset=18, outputs=3, num_outputs=3)


def test_dropout(same_as_onnxruntime) -> None:
    same_as_onnxruntime("Dropout", array(3, 4), opset=7, ratio=0.3)
    same_as_onnxruntime("Dropout", array(3, 4), opset=10)
    same_as_onnxruntime("Dropout", array(3, 4), np.array(0.3, np.float32), opset=13, outputs=2)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("indices", [[0, 2], [[1, -1], [0, 1]], 1])
def test_gather(same_as_onnxruntime, axis, indices) -> None:
    same_as_onnxruntime("Gather", array(3, 3, 3), np.array(indices, np.int64), axis=axis)


SLICES = [
    ([1], [3], None, None),
    ([0, 1], [2, -1], [0, 2], None),
    ([-100], [100], [1], None),
    ([-1], [-100], [2], [-1]),
    ([3], [0], [1], [-2]),
    ([10], [-10], [1], [-1]),
    ([0], [2**62], [-1], [3]),
    ([4], [1], [1], [1]),
]


@pytest.mark.parametrize(("starts", "ends", "axes", "steps"), SLICES)
def test_slice(same_as_onnxruntime, starts, ends, axes, steps) -> None:
    rest = [None if v is None else ints(*v) for v in (axes, steps)]
    same_as_onnxruntime("Slice", array(4, 5, 6), ints(*starts), ints(*ends), *rest)
    if steps is None:
        same_as_onnxruntime("Slice", array(4, 5, 6), opset=9, starts=starts, ends=ends, axes=axes)


def test_slice_of_a_single_element_backwards(same_as_onnxruntime) -> None:
    same_as_onnxruntime("Slice", array(1, 3), ints(0), ints(-100), ints(0), ints(-1))


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pad(same_as_onnxruntime, mode) -> None:
    pads = [1, 0, 2, 0, 2, 1]
    same_as_onnxruntime("Pad", array(3, 3, 4), opset=9, pads=pads, mode=mode)
    same_as_onnxruntime("Pad", array(3, 3, 4), ints(*pads), opset=13, mode=mode)
    same_as_onnxruntime("Pad", array(3, 3, 4), ints(1, 2), None, ints(-1), opset=18, mode=mode)


def test_pad_with_a_value_and_negative(same_as_onnxruntime) -> None:
    same_as_onnxruntime("Pad", array(3, 4), ints(1, -1, 0, 2), np.array(7, np.float32))
    same_as_onnxruntime("Pad", array(3, 4), opset=9, pads=[0, 1, 1, 0], value=2.5)
    same_as_onnxruntime("Pad", array(3, 4), ints(0, 3, 0, 3), opset=19, mode="wrap")


def test_shape_and_size(same_as_onnxruntime) -> None:
    same_as_onnxruntime("Shape", array(2, 3, 4))
    same_as_onnxruntime("Shape", array(2, 3, 4), start=1)
    same_as_onnxruntime("Shape", array(2, 3, 4), start=-2, end=-1)
    same_as_onnxruntime("Size", array(2, 3, 4))


@pytest.mark.parametrize(
    "value",
    [
        {"value": np.array([[1, 2]], np.int8)},
        {"value_float": 1.5},
        {"value_floats": [1.0, 2.5]},
        {"value_int": 3},
        {"value_ints": [3, 4]},
    ],
)
def test_constant(same_as_onnxruntime, value) -> None:
    same_as_onnxruntime("Constant", **value)


@pytest.mark.parametrize("value", [None, np.array([7], np.int64), np.array([0.5], np.float32)])
@pytest.mark.parametrize("shape", [(2, 3), (), (0, 4)])
def test_constant_of_shape(same_as_onnxruntime, value, shape) -> None:
    same_as_onnxruntime("ConstantOfShape", np.array(shape, np.int64), value=value)


def test_range(same_as_onnxruntime) -> None:
    same_as_onnxruntime("Range", *(np.array(v, np.int64) for v in (2, 11, 3)))
    same_as_onnxruntime("Range", *(np.array(v, np.float32) for v in (5, 0, -1.5)))


@pytest.mark.parametrize(
    ("a", "b"),
    [((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 1, 2, 3), (5, 3, 4)), ((3,), (3, 4)), ((2, 3), (3,)), ((3,), (3,))],
)
def test_matmul(same_as_onnxruntime, a, b) -> None:
    same_as_onnxruntime("MatMul", array(*a), array(*b))


@pytest.mark.parametrize("transposed", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("c", [None, (4,), (2, 4), (2, 1), ()])
@pytest.mark.parametrize("factors", [{}, {"alpha": 0.5, "beta": 2.0}])
def test_gemm(same_as_onnxruntime, transposed, c, factors) -> None:
    a = array(3, 2) if transposed[0] else array(2, 3)
    b = array(4, 3) if transposed[1] else array(3, 4)
    inputs = [a, b] if c is None else [a, b, array(*c)]
    same_as_onnxruntime("Gemm", *inputs, transA=transposed[0], transB=transposed[1], **factors)


@pytest.mark.parametrize("op", ["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare"])
@pytest.mark.parametrize("axes", [None, [1], [0, -1]])
@pytest.mark.parametrize("keep", [0, 1])
def test_reduce(same_as_onnxruntime, op, axes, keep) -> None:
    same_as_onnxruntime(op, array(2, 3, 4), opset=11, axes=axes, keepdims=keep)
    same_as_onnxruntime(op, array(2, 3, 4), *([] if axes is None else [ints(*axes)]), opset=18, keepdims=keep)


def test_reduce_without_axes(same_as_onnxruntime) -> None:
    same_as_onnxruntime("ReduceSum", array(2, 3), opset=13, noop_with_empty_axes=1)
    same_as_onnxruntime("ReduceSum", array(2, 3), ints(), opset=13)


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("axis", [0, -1])
def test_arg(same_as_onnxruntime, op, last, keep, axis) -> None:
    x = np.array([[1, 3, 3], [3, 1, 1], [3, 3, 1]], np.float32)
    same_as_onnxruntime(op, x, axis=axis, keepdims=keep, select_last_index=last)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_top_k(same_as_onnxruntime, largest, axis) -> None:
    x = np.array([[1, 3, 3], [3, 1, 1], [3, 3, 1]], np.float32)
    same_as_onnxruntime("TopK", x, ints(2), outputs=2, axis=axis, largest=largest)
