"""Operators on the bits of integers, and the bits of one type read as another."""

from __future__ import annotations

import numpy as np

from hwflow.onnx.dtypes import ElementType, element_type, element_type_of, type_name
from hwflow.onnx.ops.arithmetic import elementwise
from hwflow.onnx.ops.base import Arr, Call, Kernel, Known, Operator, Table
from hwflow.onnx.ops.precision import SMALL_INTEGERS
from hwflow.onnx.ops.shapes import as_first, broadcast_shape, by_broadcast


def _bit_shift(call: Call, x: Arr, y: Arr) -> Arr:
    """Bits shifted out of the type are lost; all of them by a negative count and by one of the type's size or more."""
    shape = broadcast_shape(call, x, y)
    call.check_size(shape, x.dtype)
    direction = call.text("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise call.error(f"attribute 'direction' must be LEFT or RIGHT, not '{direction}'", "export the model again")
    last = 8 * x.dtype.itemsize - 1
    all_lost = (y < 0) | (y > last)
    count = np.where(all_lost, 0, y).astype(x.dtype)
    if direction == "LEFT":
        return np.asarray(np.where(all_lost, 0, np.left_shift(x, count))).astype(x.dtype)
    sign_only = np.right_shift(np.minimum(x, 0).astype(x.dtype), x.dtype.type(last))
    return np.asarray(np.where(all_lost, sign_only, np.right_shift(x, count)))


def _bitwise_not(call: Call, x: Arr) -> Arr:
    return np.asarray(np.invert(x))


def _bit_cast(call: Call, x: Arr) -> Arr:
    target = _bit_cast_type(call, Known(x.dtype, x.shape))
    bits = np.ascontiguousarray(x).reshape(x.shape).view(f"u{x.dtype.itemsize}")
    if target.bits == 8 * target.dtype.itemsize:
        return bits != 0 if target.dtype.kind == "b" else bits.view(target.dtype)
    bits = bits & np.uint8((1 << target.bits) - 1)  # one element to a byte, whose upper bits mean nothing
    if target.dtype not in SMALL_INTEGERS:
        return bits.view(target.dtype)
    half = 1 << (target.bits - 1)
    signed = not target.dtype.name.startswith("u")
    values = (bits.astype(np.int8) ^ half) - half if signed else bits
    return np.asarray(values).astype(np.int8).astype(target.dtype)


def _bit_cast_type(call: Call, x: Known) -> ElementType:
    source = element_type_of(x.dtype, f"the input of {call.node.label}")
    target = element_type(call.integer("to"), f"the output of {call.node.label}")
    if "O" in (x.dtype.kind, target.dtype.kind) or source.bits != target.bits:
        raise call.error(
            f"the bits of {type_name(x.dtype)} must be read as a type of the same size, not as "
            f"{type_name(target.dtype)}", "use Cast to convert values"
        )
    return target


def _bit_cast_shapes(call: Call, x: Known) -> Known:
    return Known(_bit_cast_type(call, x).dtype, x.shape)


def _binary(kernel: Kernel) -> tuple[Operator, ...]:
    return (Operator(18, kernel, by_broadcast(kernel)),)


OPERATORS: Table = {
    ("", "BitShift"): (Operator(11, _bit_shift, by_broadcast(_bit_shift)),),
    ("", "BitwiseAnd"): _binary(elementwise(np.bitwise_and)),
    ("", "BitwiseOr"): _binary(elementwise(np.bitwise_or)),
    ("", "BitwiseXor"): _binary(elementwise(np.bitwise_xor)),
    ("", "BitwiseNot"): (Operator(18, _bitwise_not, as_first),),
    ("", "BitCast"): (Operator(26, _bit_cast, _bit_cast_shapes),),
}
