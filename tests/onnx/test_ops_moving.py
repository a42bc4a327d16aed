"""Operators that move, select and resize elements: element types, edges, messages, hostile sizes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow.onnx.errors import LimitError
from tests.onnx.single import evaluated


def deep(rank: int = 64) -> np.ndarray:
    return np.arange(8, dtype=np.float32).reshape(*(1,) * (rank - 3), 2, 2, 2)


def test_64_axes() -> None:
    """As many axes as numpy has."""
    x = deep()
    index = np.zeros(x.shape, np.int64)
    assert evaluated("GatherElements", x, index, axis=-1).shape == x.shape
    assert np.array_equal(evaluated("GatherElements", x, index, axis=-1)[..., 1], x[..., 0])
    assert evaluated("ScatterElements", x, index, x, axis=63).shape == x.shape
    assert np.array_equal(evaluated("GatherND", x, np.array([[0] * 63 + [1]])), [1])
    assert evaluated("ScatterND", x, np.array([[0] * 64]), x.reshape(-1)[:1]).shape == x.shape
    assert evaluated("Tile", x, np.array([1] * 63 + [3])).shape == (*x.shape[:-1], 6)
    assert evaluated("Pad", x, np.array([0] * 127 + [1])).shape == (*x.shape[:-1], 3)
    assert evaluated("Slice", x, np.array([1]), np.array([2]), np.array([-1])).shape == (*x.shape[:-1], 1)
    assert evaluated("Expand", x, np.array([3, *x.shape[1:]])).shape == (3, *x.shape[1:])
    assert evaluated("Mul", x, x).shape == x.shape
    assert evaluated("Unsqueeze", deep(63), np.array([0])).shape == x.shape
    with pytest.raises(HwflowError, match=r"^graph/node\[0\] 'n' \(Unsqueeze\): "):
        evaluated("Unsqueeze", x, np.array([0]))


TEXTS = np.array([["a", "b"], ["c", "b"]], object)


def test_texts() -> None:
    """Where a schema takes texts, nothing is the empty text, and order is that of code points."""
    assert evaluated("Pad", TEXTS[0], np.array([1, 0])).tolist() == ["", "a", "b"]
    assert evaluated("Pad", TEXTS[0], np.array([0, 1]), np.array("x", object)).tolist() == ["a", "b", "x"]
    assert evaluated("Trilu", TEXTS).tolist() == [["a", "b"], ["", "b"]]
    assert evaluated("CenterCropPad", TEXTS, np.array([2, 3])).tolist() == [["a", "b", ""], ["c", "b", ""]]
    assert evaluated("NonZero", np.array(["", "x"], object)).tolist() == [[1]]
    assert evaluated("Resize", TEXTS, None, np.array([1, 2], np.float32)).tolist()[0] == ["a", "a", "b", "b"]
    values, first, inverse, counts = evaluated("Unique", TEXTS, outputs=4)
    assert (values.tolist(), first.tolist(), inverse.tolist(), counts.tolist()) == (
        ["a", "b", "c"], [0, 1, 2], [0, 1, 2, 1], [1, 2, 1])  # fmt: skip
    image, places = TEXTS.reshape(1, 1, 2, 2), np.array([-1, 1, 9, 9], np.float32).reshape(1, 1, 2, 2)
    sampled = evaluated("GridSample", image, places, mode="nearest", align_corners=1)
    assert sampled.tolist() == [[[["c", ""]]]]


def test_places_halfway_between_two_elements() -> None:
    """A region from 0.25 on of 7 elements starts at 1.5; what is multiplied before it is divided stays there."""
    x, roi, sizes = np.arange(7, dtype=np.float32), np.array([0.25, 1.25], np.float32), np.array([7])
    found = evaluated("Resize", x, roi, None, sizes, mode="nearest", nearest_mode="round_prefer_ceil",
                      coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=-1.0)  # fmt: skip
    assert found.tolist() == [2, 3, 4, 5, 6, -1, -1]


def test_scalars_stay_tensors() -> None:
    text, none = np.array("a", object), np.empty(0, np.int64)
    for found in (evaluated("Slice", text, none, none), evaluated("Gather", TEXTS[0], np.array(1))):
        assert (found.dtype, found.shape) == (np.object_, ())


def test_not_a_number_is_one_element() -> None:
    """Not-a-number equals itself here, comes last, and is the largest of TopK, also in types that numpy cannot sort."""
    for dtype in (np.float32, ml_dtypes.bfloat16):
        x = np.array([np.nan, 1, np.nan, -1], dtype)
        assert evaluated("Unique", x, outputs=4)[3].tolist() == [1, 1, 2]
        assert evaluated("TopK", x, np.array([3]), outputs=2)[1].tolist() == [0, 2, 1]
        assert evaluated("TopK", x, np.array([1]), outputs=2, largest=0)[1].tolist() == [3]


def test_integers_are_rounded_and_stay_inside() -> None:
    x = np.array([0, 255, 0, 0], np.uint8).reshape(1, 4)
    found = evaluated("Resize", x, None, np.array([1, 2], np.float32), mode="cubic")
    exact = evaluated("Resize", x.astype(np.float64), None, np.array([1, 2], np.float32), mode="cubic")
    assert found.tolist() == np.clip(np.rint(exact), 0, 255).tolist()
    assert exact.min() < 0


def test_nothing_goes_in_and_comes_out() -> None:
    """Tensors without elements."""
    none = np.empty((0, 3), np.float32)
    assert evaluated("Resize", none, None, np.array([2, 2], np.float32)).shape == (0, 6)
    assert evaluated("Resize", none, None, None, np.array([0, 0])).shape == (0, 0)
    assert evaluated("RoiAlign", np.ones((1, 2, 3, 3)), np.empty((0, 4)), np.empty(0, np.int64)).shape == (0, 2, 1, 1)
    assert evaluated("NonMaxSuppression", none.reshape(1, 0, 4), none.reshape(1, 3, 0), np.array(5)).shape == (0, 3)
    assert evaluated("TopK", none, np.array([2]), outputs=2)[0].shape == (0, 2)
    assert evaluated("Unique", none, axis=0, outputs=4)[0].shape == (0, 3)
    assert evaluated("NonZero", none).shape == (2, 0)
    assert evaluated("NonZero", np.array(3.0)).shape == (0, 1)
    assert evaluated("GatherND", none, np.empty((4, 0, 1), np.int64)).shape == (4, 0, 3)
    assert evaluated("Col2Im", np.empty((0, 4, 6)), np.array([3, 4]), np.array([2, 2])).shape == (0, 1, 3, 4)
    assert evaluated("AffineGrid", np.empty((0, 2, 3), np.float32), np.array([0, 1, 2, 2])).shape == (0, 2, 2, 2)


X = np.zeros((2, 3), np.float32)
IMAGE = np.zeros((1, 1, 2, 2), np.float32)
HUGE = 1 << 40


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def reals(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "message"),
    [
        ("Reshape", [X, ints(2, 3, 0)], {}, "0 in the new shape must stand for a dim of [2, 3], not be in [2, 3, 0]"),
        ("Reshape", [X, ints(0, -1)], {"allowzero": 1},
         "the new shape must keep 6 elements, not be [0, -1] for an input of [2, 3]"),
        ("Transpose", [X], {"perm": (0, 0)}, "'perm' must hold 0 to 1 once each, not [0, 0]"),
        ("Unsqueeze", [X, ints(0, -4)], {}, "'axes' must name each axis once, not be [0, -4]"),
        ("DepthToSpace", [X], {"blocksize": 2},
         "the input must be [N, C, H, W] with a 'blocksize' of 1 or more and mode DCR or CRD, "
         "not [2, 3] with 2 and 'DCR'"),
        ("DepthToSpace", [IMAGE], {"blocksize": 2}, "the channels must be a multiple of 4, not 1"),
        ("SpaceToDepth", [IMAGE], {"blocksize": 3}, "the height and width must be multiples of 3, not 2 and 2"),
        ("Split", [X, ints(3)], {"axis": 1, "num_outputs": 2},
         "'num_outputs' must be 1, the number of outputs, without sizes of the parts"),
        ("Tile", [X, ints(2)], {}, "the repeats must be 2 numbers of 0 or more, one per axis, not [2]"),
        ("Tile", [X, ints(2, -1)], {}, "the repeats must be 2 numbers of 0 or more, one per axis, not [2, -1]"),
        ("Slice", [X, ints(0, 0), ints(1, 1), ints(0, -2)], {}, "'axes' must name each axis once, not be [0, -2]"),
        ("Slice", [X, ints(0), ints(1), ints(2)], {}, "the axis must be -2 to 1, not 2; export the model again"),
        ("Pad", [X, ints(1)], {}, "pads must be 4 numbers, a begin and an end per axis, not [1]"),
        ("Pad", [X, ints(0, 0, 0, 0)], {"mode": "mirror"},
         "'mode' must be constant, reflect, edge or wrap, not 'mirror'"),
        ("Pad", [X[:0], ints(0, 0, 1, 0)], {"mode": "edge"},
         "an axis must have elements to be continued by mode 'edge', not 0"),
        ("CenterCropPad", [X, ints(1)], {}, "the shape must be 2 numbers, one per axis, not [1]"),
        ("GatherElements", [X, ints(0)], {},
         "the indices must have the rank of the data and, except in axis 0, no larger dims, "
         "not be [1] for data of [2, 3]"),
        ("GatherElements", [X, ints(2).reshape(1, 1)], {}, "the indices must be -2 to 1, not 2 to 2"),
        ("GatherND", [X, ints(0, -4).reshape(1, 2)], {}, "the indices must be -3 to 2, not -4 to -4"),
        ("GatherND", [X, ints(0, 0, 0)], {}, "the last dim of the indices must be 1 to 2, not 3"),
        ("GatherND", [X, X.astype(np.int64)[:1]], {"batch_dims": 1},
         "'batch_dims' must be a number of first dims that data and indices share, not 1 for [2, 3] and [1, 3]"),
        ("Compress", [X, X > 0], {},
         "the condition must have one axis and the input at least one, not be [2, 3] and [2, 3]"),
        ("OneHot", [ints(1), ints(1, 2), reals(0, 1)], {},
         "the depth must be one number, not a tensor of the shape [2]"),
        ("OneHot", [ints(1), ints(1), reals(0)], {}, "the values must be two, off and on, not a tensor of [1]"),
        ("ReverseSequence", [X, ints(1, 4)], {"batch_axis": 0, "time_axis": 1},
         "the lengths must be 2 numbers from 0 to 3, not [1, 4]"),
        ("ReverseSequence", [X, ints(1, 1, 1)], {"batch_axis": 1, "time_axis": 1},
         "'batch_axis' and 'time_axis' must be 0 and 1 or 1 and 0 of an input with two axes or more, "
         "not 1 and 1 of [2, 3]"),
        ("Trilu", [X[0]], {}, "the input must have two axes or more, not be [3]"),
        ("ScatterElements", [X, ints(0, 1).reshape(1, 2), X[:1]], {},
         "indices and updates must have one shape that fits into the data except in axis 0, "
         "not be [1, 2] and [1, 3] for data of [2, 3]"),
        ("ScatterElements", [X, ints(3).reshape(1, 1), X[:1, :1]], {"axis": 1},
         "the indices must be -3 to 2, not 3 to 3"),
        ("ScatterElements", [TEXTS, ints(0).reshape(1, 1), TEXTS[:1, :1]], {"reduction": "add"},
         "'reduction' must be none, or for numbers one of add, mul, max, min, not 'add' for texts"),
        ("ScatterND", [X, ints(0).reshape(1, 1), X], {},
         "the last dim of the indices must be 1 to 2 and the updates [1, 3], "
         "not indices of [1, 1] and updates of [2, 3]"),
        ("TensorScatter", [X, X[:, :1], ints(0, 3)], {"axis": 1},
         "the write indices must be 2 numbers from 0 to 2, not [0, 3]"),
        ("TensorScatter", [X, X], {"axis": 0},
         "the update must have the shape of the cache [2, 3] with at most 2 elements in axis 0, which must not be 0, "
         "and mode linear or circular, not [2, 3] and 'linear'"),
        ("ArgMax", [X[:0]], {}, "axis 0 must have 1 element or more, not be that of [0, 3]"),
        ("Resize", [X, None, reals(1, 1), ints(1, 1)], {}, "either scales or sizes must be given, not both"),
        ("Resize", [X], {}, "either scales or sizes must be given, not none of them"),
        ("Resize", [X, None, reals(1, 0)], {}, "the scales must be 2 numbers above 0, not [1.0, 0.0]"),
        ("Resize", [X, None, reals(1, np.inf)], {}, "the scales must be 2 numbers above 0, not [1.0, inf]"),
        ("Resize", [X[:0], None, None, ints(1, 1)], {},
         "the sizes must be 2 numbers, 0 for an axis of 0 elements, not [1, 1]"),
        ("Resize", [X, None, None, ints(4, 4)], {"mode": "spline"},
         "'mode' must be nearest, linear or cubic, not 'spline'"),
        ("Resize", [X, None, None, ints(4, 4)], {"nearest_mode": "up"},
         "'nearest_mode' must be round_prefer_floor, round_prefer_ceil, floor or ceil, not 'up'"),
        ("Resize", [X, None, None, ints(4, 4)], {"coordinate_transformation_mode": "tf_half_pixel_for_nn"},
         "'coordinate_transformation_mode' must be one of operator set 28, not 'tf_half_pixel_for_nn'"),
        ("Resize", [X, reals(0, 1), None, ints(4, 4)], {"coordinate_transformation_mode": "tf_crop_and_resize"},
         "roi must be 4 numbers, a start and an end per axis, for tf_crop_and_resize"),
        ("Resize", [TEXTS, None, None, ints(4, 4)], {"mode": "linear"},
         "'mode' must be nearest for texts, not 'linear'"),
        ("RoiAlign", [IMAGE, reals(0, 0, 1, 1).reshape(1, 4), ints(1)], {},
         "the image of each region must be 0 to 0, not 1 to 1"),
        ("RoiAlign", [IMAGE, reals(0, 0, 1, np.nan).reshape(1, 4), ints(0)], {},
         "'mode' must be avg or max, 'sampling_ratio' 0 or more and the regions finite, not 'avg' and 0"),
        ("MaxRoiPool", [IMAGE, reals(-1, 0, 0, 1, 1).reshape(1, 5)], {"pooled_shape": (1, 1)},
         "the image of each region must be 0 to 0, not -1 to -1"),
        ("NonMaxSuppression", [X.reshape(1, 1, 6), X], {},
         "the boxes must be [N, n, 4] and the scores [N, classes, n], not [1, 1, 6] and [2, 3]"),
        ("GridSample", [IMAGE, X], {},
         "the grid must be [N, d1, ..., dr, r] for an input [N, C, D1, ..., Dr], not [2, 3] for [1, 1, 2, 2]"),
        ("AffineGrid", [X.reshape(1, 2, 3), ints(2, 1, 4, 4)], {},
         "the size must be [N, C, H, W] with theta [N, 2, 3] or [N, C, D, H, W] with theta [N, 3, 4], "
         "not [2, 1, 4, 4] with theta [1, 2, 3]"),
        ("MaxUnpool", [IMAGE, np.full((1, 1, 2, 2), 9)], {"kernel_shape": (2, 2)},
         "the indices must be -9 to 8, not 9 to 9"),
        ("MaxUnpool", [IMAGE, np.full((1, 1, 2, 2), -1)], {"kernel_shape": (2, 2)},
         "the indices must be 0 to 8, not -1 to -1"),
        ("Col2Im", [TEXTS.reshape(1, 4, 1), ints(2, 2), ints(2, 2)], {},
         "the elements must be numbers, not texts: what lies over each other is added"),
        ("Col2Im", [X.reshape(1, 3, 2), ints(4, 4), ints(2, 2)], {},
         "the input must be [N, C * 4, 9] for an image of [4, 4] in blocks of [2, 2], not [1, 3, 2]"),
    ],
)  # fmt: skip
def test_what_does_not_fit(op: str, inputs: list[Any], attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(HwflowError) as caught:
        evaluated(op, *inputs, **attributes)
    assert str(caught.value) == f"graph/node[0] 'n' ({op}): {message}"


def test_k_larger_than_the_axis() -> None:
    with pytest.raises(HwflowError, match="k must be one number from 0 to 3, not 4"):
        evaluated("TopK", X, ints(4), outputs=2)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("Tile", [X, ints(HUGE, HUGE)], {}),
        ("Expand", [X, ints(HUGE, 1, 1)], {}),
        ("Pad", [X, ints(0, 0, HUGE, 0)], {}),
        ("Pad", [X, ints(0, 0, -9, 0)], {}),
        ("Pad", [X, ints(0, 0, HUGE, 0)], {"mode": "wrap"}),
        ("CenterCropPad", [X, ints(HUGE, HUGE)], {}),
        ("OneHot", [ints(1), ints(HUGE), reals(0, 1)], {}),
        ("OneHot", [ints(1), ints(-1), reals(0, 1)], {}),
        ("Gather", [np.broadcast_to(X, (1 << 20, 2, 3)), np.broadcast_to(ints(0), (1 << 10,))], {"axis": 1}),
        ("Resize", [X, None, None, ints(HUGE, 1)], {}),
        ("Resize", [X, None, reals(1, 1e30)], {}),
        ("Resize", [X, None, None, ints(1 << 20, 1 << 20)], {"mode": "linear"}),
        ("RoiAlign", [IMAGE, reals(0, 0, 1e30, 1e30).reshape(1, 4), ints(0)], {}),
        ("RoiAlign", [IMAGE, reals(0, 0, 1, 1).reshape(1, 4), ints(0)], {"sampling_ratio": HUGE}),
        ("RoiAlign", [IMAGE, reals(0, 0, 1, 1).reshape(1, 4), ints(0)], {"output_height": HUGE}),
        ("MaxRoiPool", [IMAGE, reals(0, 0, 0, 1, 1).reshape(1, 5)], {"pooled_shape": (HUGE, HUGE)}),
        ("AffineGrid", [X.reshape(1, 2, 3), ints(1, 1, HUGE, HUGE)], {}),
        ("GridSample", [np.zeros((1, 1, *(1,) * 40), np.float32), np.zeros((1, *(1,) * 40, 40), np.float32)], {}),
        ("MaxUnpool", [IMAGE, np.zeros((1, 1, 2, 2), np.int64)], {"kernel_shape": (1, 1), "strides": (HUGE, 1)}),
        ("Col2Im", [np.broadcast_to(np.False_, (1, 1, HUGE)), ints(1, HUGE), ints(1, 1)], {}),
    ],
)  # fmt: skip
def test_hostile_sizes(op: str, inputs: list[Any], attributes: dict[str, Any]) -> None:
    """What would take too much memory or time is refused before it is made."""
    with pytest.raises(HwflowError, match=r"^graph/node\[0\] 'n' ") as caught:
        evaluated(op, *inputs, **attributes)
    assert isinstance(caught.value, LimitError) or op == "Resize"
