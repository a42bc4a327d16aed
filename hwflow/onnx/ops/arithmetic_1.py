"""Binary operators of operator sets 1 to 6: the second operand is broadcast only where the node says so, and how."""

from __future__ import annotations

import math

import numpy as np

from hwflow.onnx.ops.base import Arr, Call, Kernel, Known, Operator, axis_in
from hwflow.onnx.ops.shapes import by_broadcast


def _aligned(call: Call, a: Arr | Known, b: Arr | Known) -> tuple[int, ...]:
    """The shape in which b is broadcast to a.

    With broadcast=1, b is one element or its shape is a part of a's: the last axes, or those from attribute `axis` on.
    Axes of size 1 in that part are stretched as in later versions: exporters relied on it, and ONNX's suite has cases.
    """
    if not call.integer("broadcast"):
        if a.shape != b.shape:
            raise call.error(
                f"the input shapes must be equal without attribute broadcast=1, not {list(a.shape)} and {list(b.shape)}"
            )
        return a.shape
    if math.prod(b.shape) == 1:
        return (1,) * len(a.shape)
    rank, start = len(a.shape), len(a.shape) - len(b.shape)
    if call.has("axis"):
        start = axis_in(call, call.integer("axis"), rank)
    part = a.shape[start : start + len(b.shape)]
    if start < 0 or len(part) != len(b.shape) or any(n not in (1, m) for n, m in zip(b.shape, part, strict=True)):
        raise call.error(
            f"the shape of the second input must be a part of {list(a.shape)} from axis {start} on, not {list(b.shape)}"
        )
    return b.shape + (1,) * (rank - start - len(b.shape))


def legacy(kernel: Kernel) -> Operator:
    """Version 1 (and 6) of a binary operator, made from the kernel of version 7."""
    modern_shapes = by_broadcast(kernel)

    def old_kernel(call: Call, a: Arr, b: Arr) -> Arr:
        return np.asarray(kernel(call, a, b.reshape(_aligned(call, a, b))))

    def old_shapes(call: Call, a: Known, b: Known) -> Known | tuple[Known, ...]:
        return modern_shapes(call, a, Known(b.dtype, _aligned(call, a, b)))

    return Operator(1, old_kernel, old_shapes)


def same_shapes(call: Call, *operands: Arr | Known) -> None:
    """Operators of any number of operands do not broadcast before operator set 8."""
    if any(x.shape != operands[0].shape for x in operands):
        listed = " and ".join(str(list(x.shape)) for x in operands)
        raise call.error(f"the input shapes must be equal before operator set 8, not {listed}")
