"""Sampling at free places: AffineGrid says where, GridSample fetches the values."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.resize import cubic
from hwflow.onnx.ops.shapes import integers, rounded_to, zero_of

_Reals: TypeAlias = npt.NDArray[np.floating]

#: What one step over all points costs at least, in multiplications: with many axes the steps are many and small.
_STEP_COST = 10**6


def _affine_grid_shapes(call: Call, theta: Known, size: Known) -> Known:
    assert size.value is not None  # `constant` of the operator
    sizes = integers(size.value)
    rank = len(sizes) - 2
    if rank not in (2, 3) or theta.shape != (sizes[0], rank, rank + 1):
        raise call.error(
            f"the size must be [N, C, H, W] with theta [N, 2, 3] or [N, C, D, H, W] with theta [N, 3, 4], "
            f"not {list(sizes)} with theta {list(theta.shape)}"
        )
    call.check_size((*sizes, 1), theta.dtype)
    return Known(theta.dtype, (sizes[0], *sizes[2:], rank))


def _affine_grid(call: Call, theta: Arr, size: Arr) -> Arr:
    """[N, (D,) H, W, rank]: the places of the output's elements, x first, between -1 and 1 before theta moves them."""
    shape = _affine_grid_shapes(call, Known(theta.dtype, theta.shape), Known(size.dtype, size.shape, size)).shape
    rank, wide = shape[-1], theta.astype(np.float64)
    call.check_size(shape, wide.dtype)
    result = np.empty(shape, np.float64)
    for n, matrix in enumerate(wide):
        result[n] = matrix[:, rank]
        for axis, length in enumerate(shape[1:-1]):
            along = _steps(length, bool(call.integer("align_corners"))).reshape([-1] + [1] * (rank - axis))
            result[n] += along * matrix[:, rank - 1 - axis]
    return result.astype(theta.dtype)


def _steps(length: int, align_corners: bool) -> npt.NDArray[np.float64]:
    """Evenly from -1 to 1, which are the middles of the outer elements or their edges."""
    if align_corners:
        return np.linspace(-1, 1, length) if length > 1 else np.zeros(length)
    return (2 * np.arange(length) + 1) / max(length, 1) - 1


def _grid_sample_shapes(call: Call, x: Known, grid: Known) -> Known:
    rank = x.ndim - 2
    if rank < 1 or grid.ndim != x.ndim or grid.shape[0] != x.shape[0] or grid.shape[-1] != rank:
        raise call.error(
            f"the grid must be [N, d1, ..., dr, r] for an input [N, C, D1, ..., Dr], "
            f"not {list(grid.shape)} for {list(x.shape)}"
        )
    return Known(x.dtype, (*x.shape[:2], *grid.shape[1:-1]))


def _grid_sample(call: Call, x: Arr, grid: Arr) -> Arr:
    shape = _grid_sample_shapes(call, Known(x.dtype, x.shape), Known(grid.dtype, grid.shape)).shape
    call.check_size(shape, np.dtype(np.float64))
    if 0 in shape:
        return np.empty(shape, x.dtype)
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(call.text("mode"), call.text("mode"))
    padding = call.text("padding_mode")
    if mode not in ("linear", "nearest", "cubic") or padding not in ("zeros", "border", "reflection") or 0 in x.shape:
        raise call.error(
            f"'mode' must be linear, nearest or cubic with 'padding_mode' zeros, border or reflection for an input "
            f"that has elements, not {mode!r} with {padding!r} for {list(x.shape)}"
        )
    exact: _Reals = grid.astype(np.float64 if grid.dtype == np.float64 else np.float32)
    points = exact.reshape(len(grid), -1, grid.shape[-1])
    flat = x.reshape(*x.shape[:2], -1)
    sampler = _nearest if mode == "nearest" else _interpolated
    return sampler(call, flat, x.shape[2:], points, padding).reshape(shape)


def _places(call: Call, points: _Reals, axis: int, size: int, padding: str, nearest: bool) -> _Reals:
    """[N, points]: where the points lie in one axis, in steps of its elements.  The grid names the last axis first."""
    place = points[:, :, points.shape[2] - 1 - axis]
    place = (place + 1) / 2 * (size - 1) if call.integer("align_corners") else ((place + 1) * size - 1) / 2
    return _inside(call, np.rint(place) if nearest else place, size, padding)


def _inside(call: Call, place: _Reals, size: int, padding: str) -> _Reals:
    """Places beyond the border moved inside, as far as the padding says so.

    The border is what the grid names -1 and 1: the middles of the outer elements, or their edges.
    """
    if padding == "zeros":
        return place
    low, high = (0.0, size - 1.0) if call.integer("align_corners") else (-0.5, size - 0.5)
    span = high - low
    if padding == "border":
        moved = np.clip(place, 0, size - 1)
    elif not span:
        return np.full_like(place, low)
    else:
        way = np.abs(place - low) % (2 * span)
        moved = low + np.where(way > span, 2 * span - way, way)
    return np.where((place < low) | (place > high), moved, place)


def _elements(
    call: Call, place: _Reals, size: int, padding: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_] | None]:
    """Indices of elements, and with padding by zeros which of them exist."""
    inside = (place >= 0) & (place < size) if padding == "zeros" else None
    moved = np.nan_to_num(_inside(call, place, size, padding))
    return np.clip(moved, 0, size - 1).astype(np.int64), inside


def _nearest(call: Call, x: Arr, sizes: tuple[int, ...], points: _Reals, padding: str) -> Arr:
    index = np.zeros(points.shape[:2], np.int64)
    exists = np.ones(points.shape[:2], np.bool_)
    for axis, size in enumerate(sizes):
        element, inside = _elements(call, _places(call, points, axis, size, padding, nearest=True), size, padding)
        index = index * size + element
        exists = exists if inside is None else exists & inside
    result = np.take_along_axis(x, index[:, None, :], axis=2)
    result[np.broadcast_to(~exists[:, None, :], result.shape)] = zero_of(x.dtype)
    return result


def _interpolated(call: Call, x: Arr, sizes: tuple[int, ...], points: _Reals, padding: str) -> Arr:
    """Sums over the 2 or 4 neighbours in each axis, in float64."""
    if x.dtype.kind == "O":
        raise call.error(f"'mode' must be nearest for texts, not {call.text('mode')!r}")
    result = np.zeros((*x.shape[:2], points.shape[1]), np.complex128 if x.dtype.kind == "c" else np.float64)
    taps = [list(_taps(call, points, axis, size, padding)) for axis, size in enumerate(sizes)]
    call.work(math.prod(map(len, taps)) * max(result.size, _STEP_COST))
    for neighbour in itertools.product(*taps):
        index = np.zeros(points.shape[:2], np.int64)
        for size, (element, _) in zip(sizes, neighbour, strict=True):
            index = index * size + element
        weight = functools.reduce(np.multiply, [w for _, w in neighbour])
        result += np.take_along_axis(x, index[:, None, :], axis=2) * weight[:, None, :]
    return rounded_to(result, x.dtype)


def _taps(
    call: Call, points: _Reals, axis: int, size: int, padding: str
) -> Iterator[tuple[npt.NDArray[np.int64], _Reals]]:
    """The neighbours of the points in one axis with their weights."""
    place = _places(call, points, axis, size, padding, nearest=False)
    first = np.floor(place)
    smooth = call.text("mode").endswith("cubic")
    for offset in range(-1, 3) if smooth else range(2):
        distance = (place - first - offset).astype(np.float64)
        weight = cubic(distance, -0.75) if smooth else 1 - np.abs(distance)
        element, inside = _elements(call, first + offset, size, padding)
        yield element, weight if inside is None else np.where(inside, weight, 0.0)


OPERATORS: Table = {
    ("", "AffineGrid"): (Operator(20, _affine_grid, _affine_grid_shapes, constant=(1,)),),
    ("", "GridSample"): (Operator(16, _grid_sample, _grid_sample_shapes),),
}
