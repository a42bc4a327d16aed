"""Integer weights of a Conv or Gemm: which scale each output channel gets, and the nearest integers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hwflow.onnx.model import Array
from hwflow.quantize.forms import WeightForm
from hwflow.quantize.scale import SMALLEST_NORMAL
from hwflow.quantize.settings import RangeMethod, WeightSettings

__all__ = ["nearest", "resolved_method", "weight_form"]

#: Shares of the largest weight that the search for the smallest squared error tries as the end of the range.
_SHARES = np.linspace(1.0, 0.2, 81)


def resolved_method(settings: WeightSettings) -> RangeMethod:
    """What automatic means: the whole range from 7 bits on, below that the smallest squared error.

    With 127 steps no weight is worth clipping; with 7 the few large ones take the steps away from all others.
    """
    if settings.method is not RangeMethod.AUTO:
        return settings.method
    return RangeMethod.MINMAX if settings.bits >= 7 else RangeMethod.MSE


def weight_form(weights: Array, settings: WeightSettings) -> WeightForm:
    """Symmetric, narrow integers, -(2**(bits-1) - 1) to 2**(bits-1) - 1, for float `weights` [cout, ...].

    One scale per output channel, or the same for all.  One bit means -1 and +1 times the mean of absolute values, which
    has the smallest squared error (Rastegari et al., XNOR-Net, 2016, section 3.1).  A channel of nothing but zeros has
    scale 1, and with one bit the smallest scale there is.
    """
    rows = np.asarray(weights, np.float64).reshape(len(weights), -1)
    seen = rows if settings.per_channel else rows.reshape(1, -1)
    if settings.bits == 1:
        scales = np.abs(seen).mean(axis=1)
    elif resolved_method(settings) is RangeMethod.MSE:
        scales = _least_squares(seen, settings.bits)
    else:
        scales = np.abs(seen).max(axis=1) / _limit(settings.bits)
    scales = np.where((scales > 0) | (settings.bits == 1), scales, 1.0)
    scales = np.maximum(scales, SMALLEST_NORMAL).astype(np.float32)
    all_scales = np.broadcast_to(scales, len(rows)).copy()
    return WeightForm(nearest(weights, all_scales, settings.bits), all_scales, settings.bits)


def nearest(weights: Array, scales: npt.NDArray[np.float32], bits: int) -> npt.NDArray[np.int64]:
    """The integers of `bits` bits nearest to `weights` [cout, ...] / `scales` [cout], half to even."""
    if bits == 1:
        return np.where(np.asarray(weights, np.float64) >= 0, 1, -1).astype(np.int64)
    steps = scales.astype(np.float64).reshape(-1, *[1] * (weights.ndim - 1))
    limit = _limit(bits)
    return np.clip(np.rint(np.asarray(weights, np.float64) / steps), -limit, limit).astype(np.int64)


def _limit(bits: int) -> int:
    return (1 << (bits - 1)) - 1


def _least_squares(rows: npt.NDArray[np.float64], bits: int) -> npt.NDArray[np.float64]:
    """The scale of each row whose integers have the smallest sum of squared errors, of those that are tried."""
    limit = _limit(bits)
    largest = np.abs(rows).max(axis=1)
    best: npt.NDArray[np.float64] = largest / limit
    least = np.full(len(rows), np.inf)
    for share in _SHARES:
        scales = np.maximum(share * largest / limit, SMALLEST_NORMAL)
        integers = np.clip(np.rint(rows / scales[:, None]), -limit, limit)
        error = np.square(rows - integers * scales[:, None]).sum(axis=1)
        better = error < least
        best, least = np.where(better, scales, best), np.where(better, error, least)
    return np.where(largest > 0, best, 0.0)
