"""One axis of a tensor at other places: where each new element lies in the old axis, and what it is made of."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hwflow.onnx.ops.base import Arr, Call

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


def resampled(
    call: Call, x: Arr, axis: int, length: int, scale: float, region: tuple[float, float], method: Method
) -> Arr:
    """`x` with `length` elements in `axis`, both 1 or more; for modes other than nearest, x is of floats."""
    place = _places(call, method.coordinates, x.shape[axis], length, scale, region)
    shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
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


def _places(call: Call, mode: str, size: int, length: int, scale: float, region: tuple[float, float]) -> _Reals:
    """Where the new elements lie, in steps of the old axis; the formulas of Resize-19 and, the last one, Resize-11."""
    step, width, start, end = np.arange(length, dtype=np.float64), scale * size, *region
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
