"""Resize and Upsample: every axis on its own, by the nearest element or by a weighted sum of neighbours.

The mapping of coordinates follows the document of Resize-19.  Where it leaves room, this holds: a length is the old one
times the scale in float32, rounded down, whatever the region; the coordinates follow the length before it is rounded;
neighbours outside the tensor repeat its border; sums are in float64, and integers are rounded to the nearest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.shapes import checked_axes, integers, rounded_to


@dataclass(frozen=True)
class _Target:
    """One axis: its new length, the scale, and which part of it is looked at (from 0 to 1)."""

    axis: int
    length: int
    scale: float
    region: tuple[float, float] = (0.0, 1.0)


def _by_scales(call: Call, x: Arr | Known, axes: Sequence[int], scales: Arr) -> list[_Target]:
    factors = scales.astype(np.float32).reshape(-1)
    if len(factors) != len(axes) or not all(np.isfinite(s) and s > 0 for s in factors):
        raise call.error(f"the scales must be {len(axes)} numbers above 0, not {factors.tolist()}")
    sizes = np.array([x.shape[axis] for axis in axes], np.float32)
    lengths = np.floor(sizes * factors).astype(np.float64)
    if lengths.size and lengths.max() >= 2**62:
        raise call.error(f"the scales must not make an axis of {lengths.max():.0f} elements")
    return [_Target(a, int(n), float(s)) for a, n, s in zip(axes, lengths, factors, strict=True)]


def _by_sizes(call: Call, x: Arr | Known, axes: Sequence[int], sizes: Arr) -> list[_Target]:
    targets, now = integers(sizes), [x.shape[axis] for axis in axes]
    if len(targets) != len(axes) or any(n < 0 or (n and not d) for n, d in zip(targets, now, strict=False)):
        raise call.error(f"the sizes must be {len(axes)} numbers, 0 for an axis of 0 elements, not {list(targets)}")
    policy = call.text("keep_aspect_ratio_policy", "stretch")
    scales = [n / d if d else 1.0 for n, d in zip(targets, now, strict=True)]
    if policy == "stretch":
        return [_Target(a, n, s) for a, n, s in zip(axes, targets, scales, strict=True)]
    if policy not in ("not_larger", "not_smaller"):
        raise call.error(f"'keep_aspect_ratio_policy' must be stretch, not_larger or not_smaller, not {policy!r}")
    scale = min(scales) if policy == "not_larger" else max(scales)
    return [_Target(a, int(scale * d + 0.5), scale) for a, d in zip(axes, now, strict=True)]


def _targets(call: Call, x: Arr | Known, scales: Arr | None, sizes: Arr | None) -> list[_Target]:
    """The axes to resize.  An empty tensor counts as left out (operator set 11 has no other way)."""
    axes = checked_axes(call, call.integers("axes", tuple(range(x.ndim))), x.ndim)
    by_scales, by_sizes = scales is not None and scales.size > 0, sizes is not None and sizes.size > 0
    if by_scales == by_sizes and axes:
        raise call.error(f"either scales or sizes must be given, not {'both' if by_scales else 'none of them'}")
    if scales is not None and by_scales:
        return _by_scales(call, x, axes, scales)
    return _by_sizes(call, x, axes, np.empty(0, np.int64) if sizes is None else sizes)


def _with_regions(call: Call, targets: list[_Target], roi: Arr | None) -> list[_Target]:
    """The targets with the regions that mode tf_crop_and_resize looks at."""
    count = len(targets)
    if roi is None or roi.size != 2 * count or not np.isfinite(roi.astype(np.float64)).all():
        raise call.error(f"roi must be {2 * count} numbers, a start and an end per axis, for tf_crop_and_resize")
    ends = [float(end) for end in roi.reshape(-1)]
    return [_Target(t.axis, t.length, t.scale, (ends[i], ends[i + count])) for i, t in enumerate(targets)]


def _shape(call: Call, x: Arr | Known, targets: Sequence[_Target]) -> tuple[int, ...]:
    shape = list(x.shape)
    for target in targets:
        shape[target.axis] = target.length
    call.check_size(shape, x.dtype)
    return tuple(shape)


def _resized(call: Call, x: Arr, targets: Sequence[_Target], method: Method) -> Arr:
    shape = _shape(call, x, targets)
    if 0 in shape:
        return np.empty(shape, x.dtype)
    if method.mode != "nearest" and x.dtype.kind == "O":
        raise call.error(f"'mode' must be nearest for texts, not {method.mode!r}")
    result = x if method.mode == "nearest" else x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    for target in targets:
        if target.scale != 1 or target.length != x.shape[target.axis] or target.region != (0.0, 1.0):
            result = _resampled(call, result, target, method)
    return rounded_to(result, x.dtype)


def _resize(call: Call, x: Arr, roi: Arr | None = None, scales: Arr | None = None, sizes: Arr | None = None) -> Arr:
    targets = _targets(call, x, scales, sizes)
    method = Method(
        mode=call.text("mode"),
        coordinates=call.text("coordinate_transformation_mode"),
        nearest=call.text("nearest_mode"),
        cubic_a=call.number("cubic_coeff_a"),
        exclude_outside=bool(call.integer("exclude_outside")),
        antialias=bool(call.integer("antialias", 0)),
        outside=call.number("extrapolation_value"),
    )
    if method.coordinates == "tf_crop_and_resize":
        targets = _with_regions(call, targets, roi)
    return _resized(call, x, targets, method)


def _resize_shapes(
    call: Call, x: Known, roi: Known | None = None, scales: Known | None = None, sizes: Known | None = None
) -> Known:
    values = [None if known is None else known.value for known in (scales, sizes)]
    return Known(x.dtype, _shape(call, x, _targets(call, x, *values)))


def _old_method(call: Call, nearest: str) -> Method:
    """Before operator set 11, element 0 stays where it is."""
    mode = call.text("mode")
    return Method(mode="linear" if mode == "bilinear" else mode, coordinates="asymmetric", nearest=nearest)


def _resize_10(call: Call, x: Arr, scales: Arr) -> Arr:
    """Nearest rounds as in the first implementations: down when the axis grows and up when it shrinks."""
    return _resized(call, x, _by_scales(call, x, range(x.ndim), scales), _old_method(call, "away"))


def _upsample(call: Call, x: Arr, scales: Arr) -> Arr:
    return _resized(call, x, _enlarged(call, x, scales), _old_method(call, "floor"))


def _enlarged(call: Call, x: Arr | Known, scales: Arr) -> list[_Target]:
    targets = _by_scales(call, x, range(x.ndim), scales)
    if any(target.scale < 1 for target in targets):
        raise call.error(f"the scales must be 1 or more, not {[target.scale for target in targets]}")
    return targets


def _scales_7(call: Call) -> Arr:
    return np.array(call.numbers("scales"), np.float32)


def _scales_1(call: Call, x: Arr | Known) -> Arr:
    if x.ndim != 4:
        raise call.error(f"the input must be [N, C, H, W], not {list(x.shape)}")
    return np.array([1.0, 1.0, call.number("height_scale"), call.number("width_scale")], np.float32)


def _upsample_1(call: Call, x: Arr) -> Arr:
    return _upsample(call, x, _scales_1(call, x))


def _upsample_7(call: Call, x: Arr) -> Arr:
    return _upsample(call, x, _scales_7(call))


def _upsample_1_shapes(call: Call, x: Known) -> Known:
    return Known(x.dtype, _shape(call, x, _enlarged(call, x, _scales_1(call, x))))


def _upsample_7_shapes(call: Call, x: Known) -> Known:
    return Known(x.dtype, _shape(call, x, _enlarged(call, x, _scales_7(call))))


def _upsample_shapes(call: Call, x: Known, scales: Known) -> Known:
    assert scales.value is not None  # `constant` of the operator
    return Known(x.dtype, _shape(call, x, _enlarged(call, x, scales.value)))


def _resize_10_shapes(call: Call, x: Known, scales: Known) -> Known:
    assert scales.value is not None  # `constant` of the operator
    return Known(x.dtype, _shape(call, x, _by_scales(call, x, range(x.ndim), scales.value)))


_Reals = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Method:
    """The attributes of Resize under shorter names.

    `nearest` "away" is that of Resize-10: down when the axis grows, up when it shrinks.
    """

    mode: str
    coordinates: str
    nearest: str
    cubic_a: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    outside: float = 0.0


def _resampled(call: Call, x: Arr, target: _Target, method: Method) -> Arr:
    """`x` with another length of one axis, both 1 or more; for modes other than nearest, x is of floats."""
    axis, scale = target.axis, target.scale
    place = _places(call, method.coordinates, x.shape[axis], target)
    shape = (*x.shape[:axis], target.length, *x.shape[axis + 1 :])
    call.check_size(shape, x.dtype)
    if method.mode == "nearest":
        index = np.clip(_nearest(call, place, scale, method), 0, x.shape[axis] - 1).astype(np.int64)
        result = np.take(x, index, axis=axis)
    else:
        result = _mixed(call, x, axis, place, scale, method)
    if method.coordinates == "tf_crop_and_resize":
        beyond = (place < 0) | (place > x.shape[axis] - 1)
        result[(*(slice(None),) * axis, beyond)] = "" if x.dtype.kind == "O" else method.outside
    return result


def _places(call: Call, mode: str, size: int, target: _Target) -> _Reals:
    """Where the new elements lie, in steps of the old axis; the formulas of Resize-19 and, the last one, Resize-11."""
    length, scale, (start, end) = target.length, target.scale, target.region
    step, width = np.arange(length, dtype=np.float64), scale * size
    match mode:
        case "half_pixel":
            return (step + 0.5) / scale - 0.5
        case "half_pixel_symmetric":
            return size / 2 * (1 - length / width) + (step + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (step + 0.5) / scale - 0.5 if length > 1 else step
        case "align_corners":
            return step if width == 1 else step * (size - 1) / (width - 1)
        case "asymmetric":
            return step / scale
        case "tf_crop_and_resize":
            if width == 1:
                return np.full(length, (start + end) / 2 * (size - 1))
            return start * (size - 1) + step * (end - start) * (size - 1) / (width - 1)  # divided last: ties stay ties
        case "tf_half_pixel_for_nn" if call.opset < 13:
            return (step + 0.5) / scale
    raise call.error(f"'coordinate_transformation_mode' must be one of operator set {call.opset}, not {mode!r}")


def _nearest(call: Call, place: _Reals, scale: float, method: Method) -> _Reals:
    match method.nearest:
        case "round_prefer_floor":
            return np.ceil(place - 0.5)
        case "round_prefer_ceil":
            return np.floor(place + 0.5)
        case "floor":
            return np.floor(place)
        case "ceil":
            return np.ceil(place)
        case "away":
            return np.floor(place) if scale >= 1 else np.ceil(place)
    raise call.error(
        f"'nearest_mode' must be round_prefer_floor, round_prefer_ceil, floor or ceil, not {method.nearest!r}"
    )


def cubic(distance: _Reals, a: float) -> _Reals:
    """Weights of cubic convolution: R. Keys, https://ieeexplore.ieee.org/document/1163711, equation (4)."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((d - 5) * d + 8) * d * a - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def _mixed(call: Call, x: Arr, axis: int, place: _Reals, scale: float, method: Method) -> Arr:
    """Weighted sums of neighbours.  Antialias stretches the filter over all elements that a new one stands for."""
    if method.mode not in ("linear", "cubic"):
        raise call.error(f"'mode' must be nearest, linear or cubic, not {method.mode!r}")
    size, stretch = x.shape[axis], max(1.0, 1 / scale) if method.antialias else 1.0
    half = math.ceil((1 if method.mode == "linear" else 2) * stretch)
    call.check_size((len(place), 2 * half), np.dtype(np.float64))
    call.work(2 * half * len(place) * (x.size // size))
    index = np.floor(place).astype(np.int64).reshape(-1, 1) + np.arange(1 - half, half + 1)
    distance = (index - place.reshape(-1, 1)) / stretch
    weights = np.maximum(1 - np.abs(distance), 0.0) if method.mode == "linear" else cubic(distance, method.cubic_a)
    if method.exclude_outside:
        weights = np.where((index >= 0) & (index < size), weights, 0.0)
    total = weights.sum(axis=1, keepdims=True)
    weights = weights / np.where(total == 0, 1.0, total)
    return _weighted_sum(call, x, axis, np.clip(index, 0, size - 1), weights)


def _weighted_sum(call: Call, x: Arr, axis: int, index: npt.NDArray[np.int64], weights: _Reals) -> Arr:
    """Sums over the columns of `index` and `weights` [length, taps]."""
    length, taps = index.shape
    size = x.shape[axis]
    if taps >= size:
        call.check_size((length, size), weights.dtype)
        matrix = np.zeros((length, size))
        np.add.at(matrix, (np.arange(length).reshape(-1, 1), index), weights)
        return np.moveaxis(np.tensordot(x, matrix, axes=(axis, 1)), -1, axis)
    shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
    result = np.zeros(shape, x.dtype)
    along = [-1 if i == axis else 1 for i in range(x.ndim)]
    for column in range(taps):
        result += np.take(x, index[:, column], axis=axis) * weights[:, column].reshape(along)
    return result


OPERATORS: Table = {
    ("", "Resize"): (
        Operator(10, _resize_10, _resize_10_shapes, constant=(1,)),
        Operator(11, _resize, _resize_shapes, constant=(2, 3)),
    ),
    ("", "Upsample"): (
        Operator(1, _upsample_1, _upsample_1_shapes),
        Operator(7, _upsample_7, _upsample_7_shapes),
        Operator(9, _upsample, _upsample_shapes, constant=(1,)),
    ),
}
