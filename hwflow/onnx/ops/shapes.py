"""Shapes and indices, which kernels share: broadcasting, numbers from tensors, axes, indices, what fills gaps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from hwflow.onnx.model import DType
from hwflow.onnx.ops.base import Arr, Call, Kernel, Known, ShapeRule, axis_in


def as_first(call: Call, first: Known, *others: Known | None) -> Known:
    """The output has the type of the first input."""
    return Known(first.dtype, first.shape)


def after(check: Callable[..., object]) -> ShapeRule:
    """The output is as the first input, once `check` has looked at all of them."""

    def rule(call: Call, first: Known, *others: Known | None) -> Known:
        check(call, first, *others)
        return as_first(call, first)

    return rule


def of_type(dtype: DType | Callable[[Call], DType]) -> ShapeRule:
    """The output has the shape of the first input, and another type, which the attributes may tell."""

    def rule(call: Call, first: Known, *others: Known | None) -> Known:
        return Known(dtype if isinstance(dtype, np.dtype) else dtype(call), first.shape)

    return rule


#: The output has the shape of the first input, and is a truth for each element.
as_bool = of_type(np.dtype(np.bool_))


def common_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that all shapes broadcast to; numpy's own function stops at 32 axes.  Raises ValueError."""
    rank = max(map(len, shapes), default=0)
    dims = [set(column) - {1} for column in zip(*((1,) * (rank - len(s)) + s for s in shapes), strict=True)]
    if any(len(sizes) > 1 for sizes in dims):
        raise ValueError("the shapes cannot be broadcast to a single one")
    return tuple(sizes.pop() if sizes else 1 for sizes in dims)


def broadcast_shape(call: Call, *operands: Known | Arr) -> tuple[int, ...]:
    """The common shape of the operands by numpy's (and ONNX's) rule."""
    shapes = [operand.shape for operand in operands]
    try:
        return common_shape(*shapes)
    except ValueError:
        listed = " and ".join(str(list(shape)) for shape in shapes)
        raise call.error(f"the input shapes must fit together by broadcasting, not be {listed}") from None


def by_broadcast(kernel: Kernel) -> ShapeRule:
    """For elementwise operators: the shape by broadcasting, the type by running the kernel on single elements."""

    def rule(call: Call, *operands: Known | None) -> Known:
        tensors = [operand for operand in operands if operand is not None]
        single = [None if operand is None else np.ones((), operand.dtype) for operand in operands]
        result = kernel(call, *single)
        assert isinstance(result, np.ndarray | np.generic)
        return Known(np.asarray(result).dtype, broadcast_shape(call, *tensors))

    return rule


def by_running(kernel: Kernel) -> ShapeRule:
    """For operators that only move elements: run the kernel on arrays without storage (all strides 0)."""

    def rule(call: Call, *operands: Known | None) -> tuple[Known, ...]:
        results = kernel(call, *(None if operand is None else _without_storage(operand) for operand in operands))
        arrays = results if isinstance(results, tuple) else (results,)
        return tuple(Known(a.dtype, a.shape) for a in arrays if isinstance(a, np.ndarray))

    return rule


def _without_storage(operand: Known) -> Arr:
    if operand.value is not None:
        return operand.value
    return np.broadcast_to(np.zeros((), operand.dtype), operand.shape)


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
