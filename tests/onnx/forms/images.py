"""Forms of operators on images: resizing, sampling by a grid, regions and their scores."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.onnx.forms.elementwise import each
from tests.onnx.forms.form import Case, case, draw, ints, number, real, words

IMAGE = draw(1, 2, 5, 4)

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
    *(case("GridSample", 20, draw(1, 2, 3, 4, 2), draw(1, 2, 2, 3, 3), mode=mode, padding_mode=padding)
      for mode in ("linear", "nearest") for padding in PADDINGS),
    *(case("AffineGrid", 20, draw(2, 2, 3), ints(2, 3, 4, 5), align_corners=align) for align in (0, 1)),
    *(case("AffineGrid", 20, draw(1, 3, 4), ints(1, 3, 2, 4, 5), align_corners=align) for align in (0, 1)),
    *(case("MaxUnpool", opset, real(5, 6, 7, 8).reshape(1, 1, 2, 2), ints(0, 7, 13, 10).reshape(1, 1, 2, 2),
           kernel_shape=[2, 2], strides=[2, 2]) for opset in (9, 11)),
    case("Col2Im", 18, draw(2, 8, 6), ints(5, 4), ints(2, 2), strides=[2, 1], pads=[0, 1, 0, 0], dilations=[1, 2]),
]  # fmt: skip


def cases() -> Iterator[Case]:
    yield from (*RESIZED, *IMAGES)
    yield from _resized()
    yield from _sampled()
    yield from _nothing(np.empty((0, 3), np.float32))


def nearest(x: np.ndarray, rows: list[int], columns: list[int]) -> np.ndarray:
    return x[..., rows, :][..., columns]


def _resized() -> Iterator[Case]:
    """Numbers of every version; the axes and the default of a mode that changed."""
    grown = IMAGE.repeat(2, 2).repeat(2, 3)
    yield case("Upsample", 1, IMAGE, height_scale=2.0, width_scale=2.0, mode="nearest", expected=grown)
    yield case("Upsample", 7, IMAGE, scales=[1.0, 1.0, 2.0, 2.0], expected=grown)
    yield case("Upsample", 9, IMAGE, real(1, 1, 2, 2), expected=grown)
    yield case("Upsample", 1, IMAGE, height_scale=2.0, width_scale=1.4, mode="nearest",
               expected=nearest(IMAGE, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4], [0, 0, 1, 2, 2]))  # fmt: skip
    # Version 10 takes the element below where it grows, and the one above where it shrinks.
    for scales, rows, columns in (((0.6, 1.4), [0, 2, 4], [0, 0, 1, 2, 2]), ((0.75, 1), [0, 2, 3], [0, 1, 2, 3])):
        yield case("Resize", 10, IMAGE, real(1, 1, *scales), expected=nearest(IMAGE, rows, columns))
    for since in (11, 13, 18, 19):
        empty = real() if since < 13 else None
        yield case("Resize", since, IMAGE, empty, real(1, 1, 2, 2), expected=grown)
        yield case("Resize", since, IMAGE, empty, real(1, 1, 2, 2), mode="linear")
        yield case("Resize", since, IMAGE, empty, empty, ints(1, 2, 3, 3), mode="cubic")
        yield case("Resize", since, IMAGE, empty, empty, ints(1, 2, 7, 2), mode="linear",
                   coordinate_transformation_mode="align_corners")  # fmt: skip
    yield case("Resize", 11, IMAGE, real(), real(1, 1, 1.5, 0.6), nearest_mode="floor",
               coordinate_transformation_mode="tf_half_pixel_for_nn")  # fmt: skip
    # A region from 0.25 on of 7 elements starts at 1.5; what is multiplied before it is divided stays there.
    yield case("Resize", 19, np.arange(7, dtype=np.float32), real(0.25, 1.25), None, ints(7), mode="nearest",
               nearest_mode="round_prefer_ceil", coordinate_transformation_mode="tf_crop_and_resize",
               extrapolation_value=-1.0, own=True, expected=real(2, 3, 4, 5, 6, -1, -1))  # fmt: skip
    pair = words("a", "b", "c", "b", shape=(2, 2))
    yield case("Resize", 19, pair, None, real(1, 2), expected=pair.repeat(2, 1))
    # Integers are rounded and stay inside: the cubic goes below 0 and above 255, by weights of a quarter and three.
    quarter = np.array([-0.10546875, 0.87890625, 0.26171875, -0.03515625])
    row = np.array([[0, 255, 0, 0]], np.uint8)
    around = [np.pad(row[0].astype(np.float64), 2, mode="edge")[k : k + 4] for k in range(5)]
    inner = [weights @ around[k] for k in (1, 2, 3) for weights in (quarter, quarter[::-1])]
    exact = [quarter[::-1] @ around[0], *inner, quarter @ around[4]]
    answer = np.clip(np.rint([exact]), 0, 255).astype(np.uint8)
    yield case("Resize", 19, row, None, real(1, 2), mode="cubic", expected=answer)


def _sampled() -> Iterator[Case]:
    rois = np.insert(ROIS, 0, 0, axis=1)
    yield from each("MaxRoiPool", (1, 22), IMAGE, rois, pooled_shape=[2, 2], like=1)
    yield from each("RoiAlign", (10, 16, 22), IMAGE, ROIS, ints(0, 0, 0, 0), output_height=2, output_width=2)
    for since in (16, 20, 22):
        yield case("GridSample", since, IMAGE, PLACES)
        yield case("GridSample", since, IMAGE, PLACES, mode="bilinear" if since < 20 else "linear", align_corners=1)
        yield case("GridSample", since, IMAGE, PLACES, mode="bicubic" if since < 20 else "cubic")
    for align in (0, 1):
        # Beyond the border there is the border's value, as the operator's text has it; onnxruntime overshoots there.
        edge = number(1) if align else real(1 - 1 / 4, 1 - 1 / 5)
        moved = np.where(abs(PLACES) > 1, np.clip(PLACES, -edge, edge), PLACES)
        how = {"mode": "bicubic", "padding_mode": "border", "align_corners": align}
        yield case("GridSample", 16, IMAGE, PLACES, attributes=how, asked={"inputs": (IMAGE, moved)}, tolerance=1e-4,
                   own=True)  # fmt: skip
    texts, places = words("a", "b", "c", "b", shape=(1, 1, 2, 2)), real(-1, 1, 9, 9).reshape(1, 1, 2, 2)
    yield case("GridSample", 22, texts, places, mode="nearest", align_corners=1,
               expected=words("c", "", shape=(1, 1, 1, 2)))  # fmt: skip
    for since in (9, 11, 22):
        values, at = real(5, 6, 7, 8).reshape(1, 1, 2, 2), ints(0, 7, 13, 10).reshape(1, 1, 2, 2)
        yield case("MaxUnpool", since, values, at, kernel_shape=[2, 2], strides=[2, 2])
    yield from each("NonMaxSuppression", (10, 11), BOXES, SCORES, ints(2), real(0.3), real(0.2))


def _nothing(none: np.ndarray) -> Iterator[Case]:
    """Tensors without elements; `none` is [0, 3]."""
    yield case("Resize", 19, none, None, real(2, 2), expected=np.empty((0, 6), np.float32))
    yield case("Resize", 19, none, None, None, ints(0, 0), expected=np.empty((0, 0), np.float32))
    yield case("RoiAlign", 22, np.ones((1, 2, 3, 3)), np.empty((0, 4)), ints(), expected=np.empty((0, 2, 1, 1)))
    yield case("NonMaxSuppression", 11, none.reshape(1, 0, 4), none.reshape(1, 3, 0), ints(5)[0],
               expected=np.empty((0, 3), np.int64))  # fmt: skip
    yield case("Col2Im", 18, np.empty((0, 4, 6)), ints(3, 4), ints(2, 2), expected=np.empty((0, 1, 3, 4)))
    theta = np.empty((0, 2, 3), np.float32)
    yield case("AffineGrid", 20, theta, ints(0, 1, 2, 2), expected=np.empty((0, 2, 2, 2), np.float32))
