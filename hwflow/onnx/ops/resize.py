"""Resize and Upsample: every axis on its own, by the nearest element or by a weighted sum of neighbours.

The mapping of coordinates follows the document of Resize-19.  Where it leaves room, this holds: a length is the old one
times the scale in float32, rounded down, whatever the region; the coordinates follow the length before it is rounded;
neighbours outside the tensor repeat its border; sums are in float64, and integers are rounded to the nearest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.elements import checked_axes, integers, rounded_to
from hwflow.onnx.ops.resample import Method, resampled


@dataclass(frozen=True)
class _Target:
    """What becomes of one axis: its new length, the scale, and which part of it is looked at (from 0 to 1)."""

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
    wanted, found = integers(sizes), [x.shape[axis] for axis in axes]
    if len(wanted) != len(axes) or any(n < 0 or (n and not d) for n, d in zip(wanted, found, strict=False)):
        raise call.error(f"the sizes must be {len(axes)} numbers, 0 for an axis of 0 elements, not {list(wanted)}")
    policy = call.text("keep_aspect_ratio_policy", "stretch")
    scales = [n / d if d else 1.0 for n, d in zip(wanted, found, strict=True)]
    if policy == "stretch":
        return [_Target(a, n, s) for a, n, s in zip(axes, wanted, scales, strict=True)]
    if policy not in ("not_larger", "not_smaller"):
        raise call.error(f"'keep_aspect_ratio_policy' must be stretch, not_larger or not_smaller, not {policy!r}")
    scale = min(scales) if policy == "not_larger" else max(scales)
    return [_Target(a, int(scale * d + 0.5), scale) for a, d in zip(axes, found, strict=True)]


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
            result = resampled(call, result, target.axis, target.length, target.scale, target.region, method)
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
    """As the first implementations do it, nearest rounds down when the axis grows and up when it shrinks."""
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
