"""Rules for the types of outputs that many operators share."""

from __future__ import annotations

import numpy as np

from hwflow.onnx.ops.base import Arr, Call, Kernel, Known, ShapeRule


def as_first(call: Call, first: Known, *others: Known | None) -> Known:
    """The output has the type of the first input."""
    return Known(first.dtype, first.shape)


def common_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that all shapes broadcast to; numpy's own function stops at 32 axes.  Raises ValueError."""
    rank = max(map(len, shapes), default=0)
    dims = [set(column) - {1} for column in zip(*((1,) * (rank - len(s)) + s for s in shapes), strict=True)]
    if any(len(found) > 1 for found in dims):
        raise ValueError("the shapes cannot be broadcast to a single one")
    return tuple(found.pop() if found else 1 for found in dims)


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
        given = [operand for operand in operands if operand is not None]
        single = [None if operand is None else np.ones((), operand.dtype) for operand in operands]
        result = kernel(call, *single)
        assert isinstance(result, np.ndarray | np.generic)
        return Known(np.asarray(result).dtype, broadcast_shape(call, *given))

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
