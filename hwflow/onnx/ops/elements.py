"""What operators that move elements share: lists of numbers from tensors, axes, indices, and what fills gaps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hwflow.onnx.model import DType
from hwflow.onnx.ops.base import Arr, Call, axis_in


def integers(array: Arr) -> tuple[int, ...]:
    """The elements of a tensor of integers; a scalar counts as one."""
    return tuple(int(value) for value in array.reshape(-1).tolist())


def one_integer(call: Call, array: Arr, what: str) -> int:
    """The element of a tensor that must have exactly one."""
    if array.size != 1:
        raise call.error(f"{what} must be one number, not a tensor of the shape {list(array.shape)}")
    return int(array.reshape(-1)[0])


def checked_axes(call: Call, axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """The axes counted from the front, each of them once."""
    places = tuple(axis_in(call, axis, rank) for axis in axes)
    if len(set(places)) != len(places):
        raise call.error(f"'axes' must name each axis once, not be {list(axes)}")
    return places


def checked_indices(call: Call, indices: Arr, size: int) -> npt.NDArray[np.int64]:
    """Indices into an axis of `size` elements, counted from the front; negative ones count from the end."""
    if indices.size and not (-size <= int(indices.min()) and int(indices.max()) < size):
        raise call.error(f"the indices must be {-size} to {size - 1}, not {indices.min()} to {indices.max()}")
    wide = indices.astype(np.int64)
    return np.where(wide < 0, wide + size, wide)


def zero_of(dtype: DType) -> str | Arr:
    """The element that stands for nothing: 0, False or the empty text."""
    return "" if dtype.kind == "O" else np.zeros((), dtype)


def filled(call: Call, shape: Sequence[int], dtype: DType, value: npt.ArrayLike | None = None) -> Arr:
    """A new tensor of one value (by default what stands for nothing), after its size is checked."""
    call.check_size(shape, dtype)
    return np.full(tuple(shape), zero_of(dtype) if value is None else value, dtype)


def rounded_to(values: Arr, dtype: DType) -> Arr:
    """Integers are rounded, and those too large or small become the last one there is."""
    if values.dtype == dtype or dtype.kind not in "iu":
        return values.astype(dtype, copy=False)
    limits = np.iinfo(dtype.name)
    rounded = np.rint(values)
    inside = np.clip(rounded, float(limits.min), float(limits.max)).astype(dtype)
    return np.where(rounded >= float(limits.max), np.array(limits.max, dtype), inside)
