"""Operators of image models: pools over regions, selection of boxes, and decoding of pictures."""

from __future__ import annotations

import importlib
import io
import warnings
from dataclasses import dataclass
from types import ModuleType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hwflow.onnx.errors import Unsupported
from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.shapes import by_running, integers

#: The formats that the operator has, as Pillow calls them; no other decoder sees the data.
_FORMATS = ("BMP", "JPEG", "JPEG2000", "TIFF", "PNG", "WEBP", "PPM")


def _pillow(call: Call) -> ModuleType:
    try:
        return importlib.import_module("PIL.Image")
    except ImportError:
        raise Unsupported(
            f"{call.path} {call.node.label}: the package 'pillow' must be installed to decode pictures, "
            "not be missing", "`pip install hwflow[images]`, or decode them in front of the model"
        ) from None


def _image_decoder(call: Call, stream: Arr) -> Arr:
    """uint8 [height, width, channels].  What cannot be decoded gives a tensor without elements, as the text has it."""
    layout = call.text("pixel_format")
    if stream.ndim != 1 or layout not in ("RGB", "BGR", "Grayscale"):
        raise call.error(
            f"the stream must have one axis and 'pixel_format' be RGB, BGR or Grayscale, "
            f"not {list(stream.shape)} and {layout!r}"
        )
    pillow, channels = _pillow(call), 1 if layout == "Grayscale" else 3
    data = io.BytesIO(stream.astype(np.uint8).tobytes())
    try:
        # Pillow warns of large pictures; here the limits judge them.
        with warnings.catch_warnings(action="ignore"), pillow.open(data, formats=_FORMATS) as picture:
            width, height = picture.size
            # The size stands in the header: it is compared before the elements are decoded.
            call.check_size((height, width, 4), np.dtype(np.uint8))
            call.work(height * width * channels)
            decoded = np.asarray(picture.convert("L" if channels == 1 else "RGB"))
    except (OSError, ValueError, SyntaxError, EOFError, pillow.DecompressionBombError):
        return np.empty((0, 0, channels), np.uint8)
    if channels == 1:
        return decoded.reshape(height, width, 1)
    return decoded[:, :, ::-1] if layout == "BGR" else decoded


_Reals: TypeAlias = npt.NDArray[np.floating]


def _roi_align_shapes(call: Call, x: Known, rois: Known, batch: Known) -> Known:
    if x.ndim != 4 or rois.ndim != 2 or rois.shape[1] != 4 or batch.shape != rois.shape[:1]:
        raise call.error(
            f"the input must be [N, C, H, W], the regions [n, 4] and their images [n], "
            f"not {list(x.shape)}, {list(rois.shape)} and {list(batch.shape)}"
        )
    return Known(x.dtype, (rois.shape[0], x.shape[1], call.integer("output_height"), call.integer("output_width")))


def _roi_align_10(call: Call, x: Arr, rois: Arr, batch: Arr) -> Arr:
    """Without the shift by half an element; regions are 1 element high and wide at least."""
    return _roi_aligned(call, x, rois, batch, half_pixel=False)


def _roi_align(call: Call, x: Arr, rois: Arr, batch: Arr) -> Arr:
    mode = call.text("coordinate_transformation_mode")
    if mode not in ("half_pixel", "output_half_pixel"):
        raise call.error(f"'coordinate_transformation_mode' must be half_pixel or output_half_pixel, not {mode!r}")
    return _roi_aligned(call, x, rois, batch, mode == "half_pixel")


def _roi_aligned(call: Call, x: Arr, rois: Arr, batch: Arr, half_pixel: bool) -> Arr:
    known = [Known(a.dtype, a.shape) for a in (x, rois, batch)]
    shape, mode, ratio = _roi_align_shapes(call, *known).shape, call.text("mode"), call.integer("sampling_ratio")
    call.check_size(shape, np.dtype(np.float64))
    if mode not in ("avg", "max") or ratio < 0 or not np.isfinite(rois.astype(np.float64)).all():
        raise call.error(
            f"'mode' must be avg or max, 'sampling_ratio' 0 or more and the regions finite, not {mode!r} and {ratio}"
        )
    images = _image_indices(call, batch, len(x))
    if 0 in shape:
        return np.empty(shape, x.dtype)
    # Coordinates in the precision of the type: rounding decides how many places are sampled.
    exact = _exact(rois)
    ends = exact * exact.dtype.type(call.number("spatial_scale")) - exact.dtype.type(0.5 if half_pixel else 0)
    pool = _mean if mode == "avg" else _largest
    result = np.zeros(shape, np.float64)
    for number, (image, (left, top, right, bottom)) in enumerate(zip(images, ends, strict=True)):
        rows = _samples(call, top, bottom, shape[2], x.shape[2], half_pixel)
        columns = _samples(call, left, right, shape[3], x.shape[3], half_pixel)
        if rows.count and columns.count:
            result[number] = pool(call, x[image], rows, columns)
    return result.astype(x.dtype)


def _exact(rois: Arr) -> npt.NDArray[np.float32 | np.float64]:
    """The coordinates in float32, or float64 where they have it."""
    return rois.astype(np.float64 if rois.dtype == np.float64 else np.float32)


def _image_indices(call: Call, batch: Arr, count: int) -> tuple[int, ...]:
    images = integers(batch)
    if images and not 0 <= min(images) <= max(images) < count:
        raise call.error(f"the image of each region must be 0 to {count - 1}, not {min(images)} to {max(images)}")
    return images


@dataclass(frozen=True)
class _Samples:
    """Where one axis is sampled, `count` places in each of the bins: two neighbours [bins * count] with weights."""

    count: int
    size: int
    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]
    low_weight: _Reals
    high_weight: _Reals

    def mean_matrix(self, first: int, last: int) -> _Reals:
        """[bins, last - first]: the weights of elements `first` to `last` in the mean of each bin."""
        bins = len(self.low) // self.count
        matrix = np.zeros((bins, last - first))
        row = np.repeat(np.arange(bins), self.count)
        np.add.at(matrix, (row, self.low - first), self.low_weight)
        np.add.at(matrix, (row, self.high - first), self.high_weight)
        return matrix / self.count


def _samples(call: Call, start: np.floating, end: np.floating, bins: int, size: int, half_pixel: bool) -> _Samples:
    length = end - start if half_pixel else max(end - start, type(start)(1))
    width = length / type(start)(bins)
    count = call.integer("sampling_ratio") or max(int(np.ceil(width)), 0)
    call.check_size((bins, count), np.dtype(np.float64))
    call.work(bins * count)
    offset = (np.arange(count, dtype=type(start)) + type(start)(0.5)) * width / type(start)(max(count, 1))
    place = (start + np.arange(bins, dtype=type(start)).reshape(-1, 1) * width + offset).reshape(-1)
    exists = (place >= -1) & (place <= size)
    inner = np.clip(place, 0, size - 1)
    low = inner.astype(np.int64)
    part = (inner - low).astype(np.float64)
    return _Samples(
        count, size, low, np.minimum(low + 1, size - 1), np.where(exists, 1 - part, 0.0), np.where(exists, part, 0.0)
    )


def _mean(call: Call, image: Arr, rows: _Samples, columns: _Samples) -> _Reals:
    """[C, height, width]: bilinear sampling and the mean are sums, one after the other in both axes."""
    top, bottom = int(rows.low.min()), int(rows.high.max()) + 1
    left, right = int(columns.low.min()), int(columns.high.max()) + 1
    down, across = rows.mean_matrix(top, bottom), columns.mean_matrix(left, right)
    part = image[:, top:bottom, left:right].astype(np.float64)
    call.work(part.size * len(down) + len(image) * len(down) * across.size)
    result: _Reals = down @ part @ across.T
    return result


def _largest(call: Call, image: Arr, rows: _Samples, columns: _Samples) -> _Reals:
    """[C, height, width]: the largest of the weighted neighbours of all places, as the first implementation has it."""
    shape = (len(image), len(rows.low), len(columns.low))
    call.check_size(shape, np.dtype(np.float64))
    call.work(4 * shape[0] * shape[1] * shape[2])
    best = np.full(shape, -np.inf)
    for row, row_weight in ((rows.low, rows.low_weight), (rows.high, rows.high_weight)):
        for column, column_weight in ((columns.low, columns.low_weight), (columns.high, columns.high_weight)):
            values = image[:, row.reshape(-1, 1), column].astype(np.float64)
            np.maximum(best, values * (row_weight.reshape(-1, 1) * column_weight), out=best)
    bins = (len(image), len(rows.low) // rows.count, rows.count, len(columns.low) // columns.count, columns.count)
    result: _Reals = best.reshape(bins).max(axis=(2, 4))
    return result


def _max_roi_pool_shapes(call: Call, x: Known, rois: Known) -> Known:
    pooled = call.integers("pooled_shape")
    if x.ndim != 4 or rois.ndim != 2 or rois.shape[1] != 5 or len(pooled) != 2 or min(pooled) < 1:
        raise call.error(
            f"the input must be [N, C, H, W], the regions [n, 5] and 'pooled_shape' two numbers above 0, "
            f"not {list(x.shape)}, {list(rois.shape)} and {list(pooled)}"
        )
    return Known(x.dtype, (rois.shape[0], x.shape[1], *pooled))


def _max_roi_pool(call: Call, x: Arr, rois: Arr) -> Arr:
    """The corners are rounded to elements, which belong to the region; bins without elements give 0."""
    shape = _max_roi_pool_shapes(call, Known(x.dtype, x.shape), Known(rois.dtype, rois.shape)).shape
    call.check_size(shape, np.dtype(np.float64))
    exact = _exact(rois)
    if not np.isfinite(exact).all():
        raise call.error("the regions must be finite numbers")
    images = _image_indices(call, exact[:, 0].astype(np.int64), len(x))
    scaled = exact[:, 1:] * exact.dtype.type(call.number("spatial_scale"))
    corners = np.clip(np.copysign(np.floor(np.abs(scaled) + 0.5), scaled), -(2.0**40), 2.0**40)
    result = np.zeros(shape, x.dtype)
    if 0 in shape or 0 in x.shape:
        return result
    for number, (image, (left, top, right, bottom)) in enumerate(zip(images, corners, strict=True)):
        rows = _bins(float(top), float(bottom), shape[2], x.shape[2])
        columns = _bins(float(left), float(right), shape[3], x.shape[3])
        part = x[image][:, rows[0, 0] : rows[-1, 1], columns[0, 0] : columns[-1, 1]]
        call.work(part.size + result[number].size)
        part = _bin_maxima(_bin_maxima(part, rows - rows[0, 0], 1), columns - columns[0, 0], 2)
        empty = (rows[:, 0] >= rows[:, 1]).reshape(-1, 1) | (columns[:, 0] >= columns[:, 1])
        result[number] = np.where(empty, x.dtype.type(0), part)
    return result


def _bins(start: float, end: float, bins: int, size: int) -> npt.NDArray[np.int64]:
    """[bins, 2]: the first element of each bin and the one behind its last."""
    width = np.float32(max(end - start + 1, 1)) / np.float32(bins)
    number = np.arange(bins, dtype=np.float32)
    edges = np.stack([np.floor(number * width), np.ceil((number + 1) * width)], axis=1).astype(np.float64)
    return np.clip(edges + start, 0, size).astype(np.int64)


def _bin_maxima(x: Arr, bins: npt.NDArray[np.int64], axis: int) -> Arr:
    """The largest element of each bin along `axis`; anything for bins without elements."""
    border = np.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), -np.inf, x.dtype)
    edges = np.clip(bins.reshape(-1), 0, x.shape[axis])
    maxima = np.maximum.reduceat(np.concatenate([x, border], axis), edges, axis=axis)
    return np.asarray(maxima[(*(slice(None),) * axis, slice(None, None, 2))])


_Floats = npt.NDArray[np.float32]


def _non_max_suppression(
    call: Call,
    boxes: Arr,
    scores: Arr,
    largest_count: Arr | None = None,
    iou_threshold: Arr | None = None,
    score_threshold: Arr | None = None,
) -> Arr:
    """[n, 3]: image, class and number of each box that is kept; of a class the highest score comes first."""
    fits = boxes.ndim == scores.ndim == 3 and boxes.shape[2] == 4
    if not fits or (boxes.shape[0], boxes.shape[1]) != (scores.shape[0], scores.shape[2]):
        raise call.error(
            f"the boxes must be [N, n, 4] and the scores [N, classes, n], "
            f"not {list(boxes.shape)} and {list(scores.shape)}"
        )
    count = int(_number(call, largest_count, "max_output_boxes_per_class", 0))
    overlap = _number(call, iou_threshold, "iou_threshold", 0.0)
    if not 0 <= overlap <= 1:
        raise call.error(f"'iou_threshold' must be 0 to 1, not {overlap}")
    lowest = None
    if score_threshold is not None and score_threshold.size:
        lowest = _number(call, score_threshold, "score_threshold", 0.0)
    call.work(scores.size)
    boxes_left = []
    for image, corners in enumerate(_corners(call, boxes)):
        for number, values in enumerate(scores[image]):
            order = np.argsort(-values, kind="stable")
            candidates = order if lowest is None else order[values[order] > lowest]
            apart = _apart(call, corners, candidates, count, np.float32(overlap))
            boxes_left += [(image, number, box) for box in apart]
    return np.array(boxes_left, np.int64).reshape(-1, 3)


def _number(call: Call, operand: Arr | None, what: str, default: float) -> float:
    if operand is None or not operand.size:
        return default
    if operand.size != 1:
        raise call.error(f"'{what}' must be one number, not a tensor of the shape {list(operand.shape)}")
    return operand.reshape(-1)[0].item()  # type: ignore[no-any-return]


def _corners(call: Call, boxes: Arr) -> _Floats:
    """[N, n, 4]: two coordinates of the lower corner, then those of the higher one."""
    if call.integer("center_point_box"):
        half = boxes[:, :, 2:] / np.float32(2)
        first, second = boxes[:, :, :2] - half, boxes[:, :, :2] + half
    else:
        first, second = boxes[:, :, :2], boxes[:, :, 2:]
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=2)


def _apart(
    call: Call, corners: _Floats, candidates: npt.NDArray[np.intp], count: int, overlap: np.float32
) -> list[int]:
    """The first boxes of `candidates`, each without those behind it that overlap it too much."""
    apart: list[int] = []
    while len(candidates) and len(apart) < count:
        call.work(max(len(candidates), 1000))
        best, candidates = candidates[0], candidates[1:]
        apart.append(int(best))
        candidates = candidates[~_overlaps(corners[best], corners[candidates], overlap)]
    return apart


def _overlaps(box: _Floats, others: _Floats, overlap: np.float32) -> npt.NDArray[np.bool_]:
    """Where the common area divided by that of both together is above the limit; boxes without area overlap nothing."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    common = np.where((sides > 0).all(axis=1), sides.prod(axis=1), np.float32(0))
    area, areas = (box[2:] - box[:2]).prod(), (others[:, 2:] - others[:, :2]).prod(axis=1)
    union = area + areas - common
    usable = (common > 0) & (area > 0) & (areas > 0) & (union > 0)
    too_much: npt.NDArray[np.bool_] = usable & (common / np.where(usable, union, np.float32(1)) > overlap)
    return too_much


OPERATORS: Table = {
    ("", "ImageDecoder"): (Operator(20, _image_decoder, None),),
    ("", "RoiAlign"): (Operator(10, _roi_align_10, _roi_align_shapes), Operator(16, _roi_align, _roi_align_shapes)),
    ("", "MaxRoiPool"): (Operator(1, _max_roi_pool, _max_roi_pool_shapes),),
    ("", "NonMaxSuppression"): (
        Operator(10, _non_max_suppression, by_running(_non_max_suppression), constant=(0, 1, 2, 3, 4)),
    ),
}
