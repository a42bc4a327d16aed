"""Every version of the operators that move, select and resize: against onnxruntime, or against numpy where it refuses.

A case names the operator set that it is for; `expected` is the answer where onnxruntime lacks the version.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import hwflow.onnx
from hwflow.onnx.ops import grid, images, indexing, layout, pad, pieces, pooling, resize, sort
from hwflow.onnx.schemas import find_schema, versions_of
from tests.onnx.conftest import one_node_model
from tests.onnx.oracle import ChildOracle


@dataclass(frozen=True)
class Case:
    op: str
    opset: int
    inputs: tuple[np.ndarray | None, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    expected: Any = None

    @property
    def label(self) -> str:
        shown = ",".join(f"{k}={v}" for k, v in self.attributes.items())
        return f"{self.op}-{self.opset}-{shown}"[:80]


def case(op: str, opset: int, *inputs: Any, outputs: int = 1, expected: Any = None, **attributes: Any) -> Case:
    return Case(op, opset, inputs, attributes, outputs, expected)


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def real(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
IMAGE = floats(1, 2, 5, 4)

LAYOUT = [
    case("Flatten", 1, X, axis=2),
    case("Flatten", 9, X.astype(np.int32), axis=0),
    case("Flatten", 11, X, axis=-1),
    case("Reshape", 1, X, shape=[0, -1], expected=X.reshape(2, 12)),
    case("Reshape", 1, X, shape=[4, 6], consumed_inputs=[0], expected=X.reshape(4, 6)),
    case("Reshape", 5, X, ints(0, -1)),
    case("Reshape", 13, X, ints(4, 0, 2)),
    case("Reshape", 14, X[:0], ints(0, 5), allowzero=1),
    case("Transpose", 1, X),
    case("Transpose", 13, X, perm=[2, 0, 1]),
    case("Squeeze", 1, X[:1, :1], axes=[0, 1]),
    case("Squeeze", 1, X[:1, :1]),
    case("Squeeze", 11, X[:, :1], axes=[-2]),
    case("Squeeze", 13, X[:, :1], ints(1)),
    case("Squeeze", 13, X[:1, :1], ints(), expected=X[:1, :1]),
    case("Unsqueeze", 1, X, axes=[0, 4]),
    case("Unsqueeze", 11, X, axes=[-1, 0]),
    case("Unsqueeze", 13, X, ints(2, -1)),
    case("DepthToSpace", 1, floats(2, 8, 2, 3), blocksize=2),
    case("DepthToSpace", 11, floats(2, 8, 2, 3), blocksize=2, mode="CRD"),
    case("DepthToSpace", 13, floats(1, 9, 1, 2), blocksize=3, mode="DCR"),
    case("SpaceToDepth", 1, floats(2, 3, 4, 6), blocksize=2),
    case("SpaceToDepth", 13, floats(1, 1, 3, 6), blocksize=3),
    case("SpaceToDepth", 28, np.arange(16.0, dtype=np.float32).reshape(1, 1, 4, 4), blocksize=2, mode="CRD",
         expected=real(0, 2, 8, 10, 1, 3, 9, 11, 4, 6, 12, 14, 5, 7, 13, 15).reshape(1, 4, 2, 2)),
    case("Expand", 8, X[:, :1], ints(2, 5, 1)),
    case("Expand", 13, X[:, :1], ints(3, 1)[1:]),
]  # fmt: skip

PIECES = [
    case("Concat", 1, X, X, expected=np.concatenate([X, X], 1)),
    case("Concat", 1, X, X, axis=2, expected=np.concatenate([X, X], 2)),
    case("Concat", 4, X, X[:1], axis=0),
    case("Concat", 11, X, X, axis=-1),
    case("Concat", 13, X.astype(np.int8), X.astype(np.int8), axis=1),
    case("Split", 1, X, axis=1, split=[1, 2], outputs=2, expected=(X[:, :1], X[:, 1:])),
    case("Split", 1, X, real(1, 2), axis=1, outputs=2, expected=(X[:, :1], X[:, 1:])),
    case("Split", 1, X, outputs=2, expected=(X[:1], X[1:])),
    case("Split", 2, X, axis=2, outputs=2),
    case("Split", 11, X, axis=-1, split=[1, 0, 3], outputs=3),
    case("Split", 13, X, ints(3, 1), axis=2, outputs=2),
    case("Split", 18, X, axis=1, num_outputs=2, outputs=2),
    case("Tile", 1, X, real(2), real(1), expected=np.tile(X, (1, 2, 1))),
    case("Tile", 6, X, ints(1, 2, 3)),
    case("Tile", 6, X, ints(1, 0, 3)),
    case("Tile", 13, X.astype(np.int64), ints(2, 1, 2)),
]

SLICES = [
    case("Slice", 1, X, starts=[0, -3], ends=[1, 1000], axes=[0, 2]),
    case("Slice", 1, X, starts=[1], ends=[-1], axes=[1]),
    case("Slice", 1, X, starts=[1, 1], ends=[2, 9]),
    case("Slice", 10, X, ints(1, -1), ints(2, -9), ints(0, 2), ints(1, -2)),
    case("Slice", 10, X, ints(0), ints(2)),
    case("Slice", 11, X, ints(3), ints(-100), ints(-1), ints(-1)),
    case("Slice", 13, X.astype(bool), *(np.array([v], np.int32) for v in (2, 0, 1, -1))),
    case("Pad", 1, X, paddings=[0, 1, 0, 2, 0, 1], value=3.5,
         expected=np.pad(X, [(0, 2), (1, 0), (0, 1)], constant_values=3.5)),
    case("Pad", 1, X, paddings=[0, 1, 2, 1, 0, 1], mode="reflect",
         expected=np.pad(X, [(0, 1), (1, 0), (2, 1)], mode="reflect")),
    case("Pad", 2, X, pads=[0, -1, 0, 1, 2, -1], value=1.0),
    case("Pad", 2, X, pads=[0, 2, 3, 0, 1, 1], mode="reflect"),
    case("Pad", 2, X, pads=[0, 2, 3, 1, 1, 1], mode="edge"),
    case("Pad", 11, X, ints(1, 0, 0, 0, 2, 0), real(2)),
    case("Pad", 11, X, ints(0, 0, 0, 0, 0, 3), mode="edge"),
    case("Pad", 13, X.astype(np.int64), ints(1, 0, 0, 0, 0, 1), np.array(7, np.int64)),
    case("Pad", 18, X, ints(1, 2), None, ints(-1), mode="reflect"),
    case("Pad", 19, X, ints(1, 2, 3, 1), None, ints(2, 1), mode="wrap"),
    case("Pad", 19, X, ints(-1, 3), None, ints(2), mode="wrap",
         expected=X[:, :, [1, 2, 3, 1, 2, 3]]),
    case("Pad", 21, X, ints(-1, 2), None, ints(2), mode="reflect"),
    case("Pad", 23, X, ints(9, 9), None, ints(2), mode="reflect",
         expected=np.pad(X, [(0, 0), (0, 0), (9, 9)], mode="reflect")),
    case("CenterCropPad", 18, X, ints(3, 2), axes=[0, 2]),
    case("CenterCropPad", 18, X, ints(1, 6, 1)),
    case("CenterCropPad", 18, X, np.array([1, 6, 1], np.int32),
         expected=np.pad(X[:1, :, 1:2], [(0, 0), (1, 2), (0, 0)])),
]  # fmt: skip

AT = ints(2, 0, -1).reshape(3, 1)
SELECTION = [
    case("Gather", 1, X, ints(0, 2, 1), axis=1),
    case("Gather", 11, X, ints(-1, 0), axis=-1),
    case("Gather", 13, X.astype(np.int8), np.array([[1, 0]], np.int32)),
    case("GatherElements", 11, X, ints(2, 0).reshape(1, 2, 1), axis=2),
    case("GatherElements", 13, X, ints(*range(-12, 12)).reshape(2, 3, 4) % 2, axis=0),
    case("GatherND", 11, X, ints(0, 2, 1, -1).reshape(2, 2)),
    case("GatherND", 12, X, ints(2, 0).reshape(2, 1), batch_dims=1),
    case("GatherND", 13, X, ints(1, 1, 3).reshape(1, 3)),
    case("Compress", 9, X, np.array([True, False, True]), axis=1),
    case("Compress", 9, X, np.array([False, True, True])),
    case("Compress", 11, X, np.array([False, True, True]), axis=-2),
    case("NonZero", 9, (X % 3).astype(np.float32)),
    case("NonZero", 13, X > 20),
    case("OneHot", 9, ints(1, -1, 5), ints(3), real(2, 5)),
    case("OneHot", 11, ints(1, 0, 2).reshape(3, 1), np.array(3, np.int64), real(0, 1), axis=0),
    case("OneHot", 11, real(1, 0, 2), real(4), real(0, 1), axis=1),
    case("OneHot", 28, np.array([1, 2**64 - 1], np.uint64), np.array(2, np.int8), np.array(["no", "yes"], object),
         expected=np.array([["no", "yes"], ["no", "no"]], object)),
    case("ReverseSequence", 10, X[..., 0], ints(1, 2, 0), batch_axis=1, time_axis=0),
    case("ReverseSequence", 10, X, ints(2, 3), batch_axis=0, time_axis=1),
    case("Trilu", 14, X, np.array(1, np.int64)),
    case("Trilu", 14, X, np.array(-1, np.int64), upper=0),
    case("Scatter", 9, X, ints(1, 0).reshape(1, 2, 1), real(-1, -2).reshape(1, 2, 1), axis=2),
    case("ScatterElements", 11, X[0], AT[:2].T, real(-1, -2).reshape(1, 2), axis=1),
    case("ScatterElements", 13, X[0], AT, real(-1, -2, -3).reshape(3, 1)[:3], axis=1),
    case("ScatterElements", 16, X[0], AT, real(1, 2, 3).reshape(3, 1), axis=0, reduction="add"),
    case("ScatterElements", 16, X[0], AT, real(1, 2, 3).reshape(3, 1), axis=0, reduction="mul"),
    case("ScatterElements", 18, X[0], AT, real(9, 2, 3).reshape(3, 1), axis=0, reduction="max"),
    case("ScatterElements", 18, X[0], AT, real(9, 2, 3).reshape(3, 1), axis=0, reduction="min"),
    case("ScatterND", 11, X, ints(1, 0, 0, 2).reshape(2, 2), -X[0, :2]),
    case("ScatterND", 13, X, ints(1, -1).reshape(2, 1)[:1], -X[:1]),
    case("ScatterND", 16, X, ints(1, 1).reshape(2, 1), X, reduction="add"),
    case("ScatterND", 16, X, ints(1, 1).reshape(2, 1), X, reduction="mul"),
    case("ScatterND", 18, X, ints(1, 1).reshape(2, 1), X + 9, reduction="max"),
    case("ScatterND", 18, X, ints(1, 1).reshape(2, 1), X - 9, reduction="min"),
    case("TensorScatter", 24, X, -X[:, :2], ints(1, 0)),
    case("TensorScatter", 24, X, -X[:, :2], ints(2, 1), mode="circular", axis=1),
]

TIES, ARGS = real(1, 3, 3, 3, 1, 1, 3, 3, 1).reshape(3, 3), ("ArgMax", "ArgMin")
SORTED = [
    *(case(op, opset, TIES, axis=axis, keepdims=0) for op in ARGS for opset, axis in ((1, 1), (11, -2))),
    *(case(op, 12, TIES, axis=1, select_last_index=1) for op in ARGS),
    *(case(op, 13, TIES.astype(np.int8), axis=0) for op in ARGS),
    case("TopK", 1, TIES, k=2, axis=1, outputs=2),
    case("TopK", 1, TIES, k=1, axis=0, outputs=2),
    case("TopK", 10, TIES, ints(2), axis=0, outputs=2),
    case("TopK", 11, TIES, ints(2), largest=0, outputs=2),
    case("TopK", 24, TIES.astype(np.int32), ints(3), outputs=2),
    case("Unique", 11, real(2, 1, 1, 3, 4, 3), sorted=0, outputs=4),
    case("Unique", 11, ints(1, 0, 0, 1, 0, 0, 2, 3, 4).reshape(3, 3), axis=0, outputs=4),
    case("Unique", 11, ints(1, 0, 0, 1, 0, 0, 2, 3, 4).reshape(3, 3), axis=-1, sorted=0, outputs=4),
]

RESIZED = [
    case("Upsample", 1, IMAGE, height_scale=2.0, width_scale=3.0,
         expected=IMAGE.repeat(2, axis=2).repeat(3, axis=3)),
    case("Upsample", 1, real(0, 1, 2, 3).reshape(1, 1, 2, 2), height_scale=1.0, width_scale=2.0, mode="bilinear",
         expected=real(0, 0.5, 1, 1, 2, 2.5, 3, 3).reshape(1, 1, 2, 4)),
    case("Upsample", 7, IMAGE, scales=[1.0, 1.0, 2.5, 1.0]),
    case("Upsample", 7, IMAGE, scales=[1.0, 1.0, 2.0, 1.5], mode="linear"),
    case("Upsample", 9, IMAGE, real(1, 1, 1.6, 2)),
    case("Upsample", 9, IMAGE, real(1, 1, 3, 1.25), mode="linear"),
    case("Resize", 10, IMAGE, real(1, 1, 2, 1.5)),
    case("Resize", 10, IMAGE, real(1, 1, 0.6, 0.7)),
    case("Resize", 10, IMAGE, real(1, 1, 0.6, 2), mode="linear"),
    *(case("Resize", 11, IMAGE, real(), real(), ints(1, 2, 8, 3), nearest_mode=near,
           coordinate_transformation_mode=mode)
      for mode in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn")
      for near in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")),
    *(case("Resize", opset, IMAGE, real(), real(), ints(1, 2, 7, 3), coordinate_transformation_mode=mode, mode=kind)
      for mode in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
      for kind in ("linear", "cubic") for opset in (11, 13)),
    case("Resize", 13, IMAGE, None, real(1, 1, 2, 0.6), mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1),
    *(case("Resize", 13, IMAGE, real(0, 0, 0.2, -0.25, 1, 1, 0.7, 1.2), None, ints(1, 2, 6, 6), mode=mode,
           coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=4.5)
      for mode in ("nearest", "linear")),
    *(case("Resize", 18, IMAGE, None, None, ints(7, 9), axes=[2, 3], keep_aspect_ratio_policy=policy, mode="linear")
      for policy in ("not_larger", "not_smaller")),
    case("Resize", 18, IMAGE, None, real(0.5), axes=[-1], mode="linear"),
    case("Resize", 19, IMAGE, None, None, ints(8, 3), axes=[3, 2], mode="linear",
         coordinate_transformation_mode="half_pixel_symmetric"),
    case("Resize", 19, (IMAGE * 50).astype(np.uint8), None, real(1, 1, 2, 3)),
]  # fmt: skip

BOXES = real(0, 0, 1, 1, 0, 0.1, 1, 1.1, 0, -0.1, 1, 0.9, 0, 10, 1, 11).reshape(1, 4, 4)
SCORES = real(0.9, 0.75, 0.6, 0.95, 0.1, 0.2, 0.3, 0.2).reshape(1, 2, 4)
ROIS = real(0, 0, 3, 4, 1, 1, 2, 2, -1, 0.5, 2.5, 9, 2, 2, 1, 1).reshape(4, 4)
PADDINGS = ("zeros", "border", "reflection")
PLACES = np.random.default_rng(1).uniform(-1.4, 1.4, (1, 3, 4, 2)).astype(np.float32)

IMAGES = [
    case("NonMaxSuppression", 10, BOXES, SCORES, ints(3)[0], real(0.5)[0], real(0.15)[0]),
    case("NonMaxSuppression", 11, BOXES, SCORES, ints(2), real(0.3), center_point_box=1),
    case("NonMaxSuppression", 11, BOXES, SCORES),
    *(case("RoiAlign", opset, IMAGE, ROIS, ints(0, 0, 0, 0), output_height=2, output_width=3, mode=mode,
           sampling_ratio=ratio, spatial_scale=0.75)
      for opset in (10, 16) for mode in ("avg", "max") for ratio in (0, 2)),
    case("RoiAlign", 16, IMAGE, ROIS, ints(0, 0, 0, 0), coordinate_transformation_mode="output_half_pixel"),
    case("MaxRoiPool", 1, IMAGE, np.insert(ROIS * 1.3, 0, 0, axis=1).astype(np.float32), pooled_shape=[2, 3]),
    case("MaxRoiPool", 1, IMAGE, np.insert(ROIS, 0, 0, axis=1), pooled_shape=[7, 2], spatial_scale=0.5),
    # Half an element outside of the first one is inside of the border: (-0.75)(1.1^3 - 5 * 1.1^2 + 8 * 1.1 - 4).
    case("GridSample", 20, real(0, 1).reshape(1, 1, 1, 2), real(-0.6, 0).reshape(1, 1, 1, 2), mode="cubic",
         padding_mode="border", expected=real(-0.06075).reshape(1, 1, 1, 1)),
    *(case("GridSample", 16, IMAGE, PLACES, mode=mode, padding_mode=padding, align_corners=align)
      for mode in ("bilinear", "nearest", "bicubic") for padding in PADDINGS for align in (0, 1)
      if (mode, padding) != ("bicubic", "border")),  # test_cubic_at_the_border
    *(case("GridSample", 20, floats(1, 2, 3, 4, 2), floats(1, 2, 2, 3, 3), mode=mode, padding_mode=padding)
      for mode in ("linear", "nearest") for padding in PADDINGS),
    *(case("AffineGrid", 20, floats(2, 2, 3), ints(2, 3, 4, 5), align_corners=align) for align in (0, 1)),
    *(case("AffineGrid", 20, floats(1, 3, 4), ints(1, 3, 2, 4, 5), align_corners=align) for align in (0, 1)),
    *(case("MaxUnpool", opset, real(5, 6, 7, 8).reshape(1, 1, 2, 2), ints(0, 7, 13, 10).reshape(1, 1, 2, 2),
           kernel_shape=[2, 2], strides=[2, 2]) for opset in (9, 11)),
    case("Col2Im", 18, floats(2, 8, 6), ints(5, 4), ints(2, 2), strides=[2, 1], pads=[0, 1, 0, 0], dilations=[1, 2]),
]  # fmt: skip

CASES = [*LAYOUT, *PIECES, *SLICES, *SELECTION, *SORTED, *RESIZED, *IMAGES]


@pytest.fixture(scope="module")
def oracle() -> Iterator[ChildOracle]:
    with ChildOracle() as child:
        yield child


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.label)
def test_version(oracle: ChildOracle, case: Case) -> None:
    """What is computed and what is inferred agree with the answer."""
    model, feeds = one_node_model(case.op, case.inputs, case.opset, case.outputs, case.attributes)
    if case.expected is None:
        expected = oracle.run(model, feeds)
    else:
        expected = list(case.expected) if isinstance(case.expected, tuple) else [case.expected]
    found = list(hwflow.onnx.evaluate(model, feeds).values())
    assert len(found) == len(expected)
    for array, wanted in zip(found, expected, strict=True):
        assert (array.dtype, array.shape) == (wanted.dtype, wanted.shape)
        if wanted.dtype.kind == "f":
            np.testing.assert_allclose(array, wanted, rtol=1e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(array, wanted)


@pytest.mark.parametrize("align", [0, 1])
def test_cubic_at_the_border(oracle: ChildOracle, align: int) -> None:
    """Beyond the border there is the border's value, as the operator's text has it; onnxruntime overshoots there."""
    edge = np.array([1 - 1 / 4, 1 - 1 / 5], np.float32) if not align else np.float32(1)
    how = {"mode": "bicubic", "padding_mode": "border", "align_corners": align}
    model, feeds = one_node_model("GridSample", (IMAGE, PLACES), 16, 1, how)
    moved = np.where(abs(PLACES) > 1, np.clip(PLACES, -edge, edge), PLACES)
    _, inside = one_node_model("GridSample", (IMAGE, moved), 16, 1, how)
    found = hwflow.onnx.evaluate(model, feeds)["y0"]
    np.testing.assert_allclose(found, oracle.run(model, inside)[0], rtol=1e-4, atol=1e-5)


FAMILIES = (grid, images, indexing, layout, pad, pieces, pooling, resize, sort)
#: Tested with their own families.
OTHERS = {
    *("Identity", "Dropout", "Shape", "Size", "ImageDecoder"),
    *("AveragePool", "LpPool", "MaxPool", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool"),
}


def new_signatures(op: str) -> list[int]:
    """The versions of an operator that have other inputs or attributes than the version before."""
    found, before = [], None
    for schema in versions_of("", op):
        signature = ([(p.name, p.option) for p in schema.inputs], dict(schema.attributes))
        if signature != before and not schema.deprecated:
            found.append(schema.since)
        before = signature
    return found


@pytest.mark.parametrize(
    ("op", "since"),
    [
        (op, since)
        for family in FAMILIES
        for _, op in family.OPERATORS
        for since in new_signatures(op)
        if op not in OTHERS
    ],
)
def test_every_signature_is_tried(op: str, since: int) -> None:
    tried = [find_schema("", case.op, case.opset) for case in CASES if case.op == op]
    assert since in {schema.since for schema in tried if schema is not None}
