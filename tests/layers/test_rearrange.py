"""What the constructors of offsets mean, by numpy's own ways to move elements; what a Rearrange refuses."""

from __future__ import annotations

import dataclasses
import itertools
import re

import numpy as np
import pytest

from hwflow.layers import Frame, IntFormat, LayerGraph, Rearrange, Tensor
from hwflow.layers.base import MOST_ELEMENTS
from hwflow.layers.formats import BIPOLAR
from hwflow.layers.rearrange import Offsets, depth_to_space, picked, space_to_depth, transposed

INT8 = IntFormat(8, True)
FRAME = Frame(4, 6, 12)


def graph_of(offsets: Offsets, padding: int = -9, frame: Frame = FRAME, format: IntFormat = INT8) -> LayerGraph:
    layer = Rearrange("move", ("x",), "y", format, *offsets, padding)
    tensors = {"x": Tensor("x", frame, format, 0.5, 1), "y": Tensor("y", offsets.frame, format, 0.5, 1)}
    return LayerGraph("one", tensors, (layer,), ("x",), ("y",))


def moved(offsets: Offsets) -> tuple[np.ndarray, np.ndarray]:
    """Three frames and what the layer makes of them."""
    graph = graph_of(offsets)
    graph.check()
    x = np.random.default_rng(0).integers(-128, 128, (3, FRAME.height, FRAME.width, FRAME.channels))
    return x, graph.layers[0].evaluate(graph, x)


@pytest.mark.parametrize("block", [1, 2])
def test_depth_to_space(block: int) -> None:
    """As the ONNX specification writes it, for channels last."""
    n, h, w, c, b = 3, 4, 6, 12, block
    x, y = moved(depth_to_space(FRAME, b))
    expected = x.reshape(n, h, w, b, b, c // b**2).transpose(0, 1, 3, 2, 4, 5).reshape(n, h * b, w * b, c // b**2)
    np.testing.assert_array_equal(y, expected)
    x, y = moved(depth_to_space(FRAME, b, channels_first=True))
    expected = x.reshape(n, h, w, c // b**2, b, b).transpose(0, 1, 4, 2, 5, 3).reshape(n, h * b, w * b, c // b**2)
    np.testing.assert_array_equal(y, expected)


def test_space_to_depth() -> None:
    x, y = moved(space_to_depth(FRAME, 2))
    expected = x.reshape(3, 2, 2, 3, 2, 12).transpose(0, 1, 3, 2, 4, 5).reshape(3, 2, 3, 48)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("axes", [*itertools.permutations(range(3))])
def test_transposed(axes: tuple[int, int, int]) -> None:
    x, y = moved(transposed(FRAME, axes))
    np.testing.assert_array_equal(y, x.transpose(0, *(axis + 1 for axis in axes)))


def test_picked() -> None:
    x, y = moved(picked(FRAME, [3, 1], range(5, -1, -2), [0, 0, 11]))
    np.testing.assert_array_equal(y, x[:, [3, 1]][:, :, ::-2][..., [0, 0, 11]])
    x, y = moved(picked(FRAME, [-1, 0, 1, 2, 3], [0, 1, 2, 3, 4, 5, -1, -1]))
    np.testing.assert_array_equal(y, np.pad(x, ((0, 0), (1, 0), (0, 2), (0, 0)), constant_values=-9))


@pytest.mark.parametrize(("make", "message"), [
    (lambda: picked(FRAME, rows=[4]), "row indices must be from 0 to 3, or -1 for padding, not 4 to 4"),
    (lambda: picked(FRAME, columns=[-2, 0]), "column indices must be from 0 to 5, or -1 for padding, not -2 to 0"),
    (lambda: picked(FRAME, channels=[]), "channel indices must be a list of integers with at least one entry, not []"),
    (lambda: picked(FRAME, rows=[0.5]), "row indices must be a list of integers with at least one entry, not [0.5]"),
    (lambda: depth_to_space(FRAME, 3), "channels must be a multiple of the block's 3 x 3 pixels, not 12"),
    (lambda: depth_to_space(FRAME, 0), "channels must be a multiple of the block's 0 x 0 pixels, not 12"),
    (lambda: space_to_depth(FRAME, 4), "height and width must be multiples of the block's 4, not 4 x 6"),
    (lambda: transposed(FRAME, (0, 1, 1)), "axes must be 0, 1 and 2 in any order, not (0, 1, 1)"),
])
def test_constructors_refuse(make, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


def long(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


MUCH = np.zeros(MOST_ELEMENTS // 2 + 1, dtype=np.int64)


@pytest.mark.parametrize(("offsets", "message"), [
    (Offsets(long(), long(0), long(0)), "rows must be int64 with one axis and at least one entry, not int64 of shape"),
    (Offsets(long(0), np.zeros(2), long(0)), "columns must be int64 with one axis and at least one entry, not float64"),
    (Offsets(long(0), long(0), long(-2)), "channels must be offsets, or -1 for padding, not -2"),
    (Offsets(long(200), long(80), long(8)), "must lead to one of the input's 288 elements, not to element 288"),
    (Offsets(long(2**63 - 1), long(2**63 - 1), long(2)), f"288 elements, not to element {2**64}"),
    (Offsets(MUCH, long(0, 0), long(0)), f"the output must have at most {MOST_ELEMENTS} elements, not"),
])
def test_refuses_tables(offsets: Offsets, message: str) -> None:
    with pytest.raises(ValueError, match=rf"layer 'move': .*{re.escape(message)}"):
        graph_of(offsets).layers[0].output_frame(FRAME)


@pytest.mark.parametrize(("format", "padding", "message"), [
    (INT8, 128, "padding must be inside int8, not 128"),
    (INT8, 10**30, f"padding must be inside int8, not {10**30}"),
    (BIPOLAR, 0, "padding must be inside bipolar (-1 to 1), not 0 to 0"),
])
def test_refuses_padding(format: IntFormat, padding: int, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        graph_of(picked(FRAME), padding, format=format).check()


def test_refuses_an_output_of_another_scale() -> None:
    graph = graph_of(picked(FRAME))
    tensors = {**graph.tensors, "y": dataclasses.replace(graph.tensors["y"], scale=0.25)}
    with pytest.raises(ValueError, match="output 'y' must have the input's format, scale and zero point"):
        dataclasses.replace(graph, tensors=tensors).check()
