"""Functions of elements: arithmetic, trigonometry, comparisons, logic and bits.

From operator set 7 on operands are broadcast by numpy's rule; `legacy` has what held before: the second operand is
broadcast only where the node says so, and how.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from hwflow.onnx.dtypes import ElementType, element_type, element_type_of, type_name
from hwflow.onnx.ops.base import Arr, Call, Formula, Kernel, Known, Operator, Table, axis_in
from hwflow.onnx.ops.element_types import SMALL_INTEGERS, in_float32, is_integer, widened
from hwflow.onnx.ops.shapes import as_bool, as_first, broadcast_shape, by_broadcast
from hwflow.onnx.ops.special import erf


def elementwise(function: Formula) -> Kernel:
    """A numpy function as a kernel: small floats through float32, a message where shapes do not fit."""
    compute = in_float32(function)

    @functools.wraps(function)
    def kernel(call: Call, *operands: Arr) -> Arr:
        if len(operands) > 1:
            _allowed(call, *operands)
        return compute(*operands)

    return kernel


def _allowed(call: Call, *operands: Arr) -> None:
    call.check_size(broadcast_shape(call, *operands), operands[-1].dtype)


def _divide(a: Arr, b: Arr) -> Arr:
    """Integers round towards zero, as in C; division by zero gives 0."""
    if a.dtype.kind == "u":
        return np.asarray(a // b)
    if a.dtype.kind == "i":
        quotient = a // b
        return np.asarray(quotient + ((a % b != 0) & ((a < 0) != (b < 0)))).astype(a.dtype)
    return np.asarray(a / b)


def _power(call: Call, base: Arr, exponent: Arr) -> Arr:
    """The result has the type of the base; integers with a negative or fractional exponent go through float64."""
    _allowed(call, exponent, base)
    if not is_integer(base.dtype):
        return np.asarray(np.power(widened(base), widened(exponent))).astype(base.dtype)
    if is_integer(exponent.dtype) and bool(np.all(exponent >= 0)):  # modulo 2^64, then modulo 2^bits
        return np.asarray(np.power(base.astype(np.uint64), exponent.astype(np.uint64))).astype(base.dtype)
    return np.asarray(np.power(base.astype(np.float64), exponent.astype(np.float64))).astype(base.dtype)


def _mod(call: Call, a: Arr, b: Arr) -> Arr:
    """The remainder has the sign of the divisor, or with fmod=1 of the dividend."""
    _allowed(call, a, b)
    return in_float32(np.fmod if call.integer("fmod") else np.mod)(a, b)


def _erf(x: Arr) -> Arr:
    return erf(x).astype(x.dtype)


def _chain(function: Callable[[Arr, Arr], Arr]) -> Kernel:
    """A function of two operands over any number of them."""
    return elementwise(lambda *operands: functools.reduce(function, operands))


def _mean_of(*operands: Arr) -> Arr:
    total = functools.reduce(np.add, operands)
    return np.asarray(total / total.dtype.type(len(operands))).astype(operands[0].dtype)


def _unary(function: Formula, since: int = 1) -> tuple[Operator, ...]:
    return (Operator(since, elementwise(function), as_first),)


def _binary(kernel: Kernel) -> tuple[Operator, ...]:
    return legacy(kernel), Operator(7, kernel, by_broadcast(kernel))


def _variadic(kernel: Kernel) -> tuple[Operator, ...]:
    def old_kernel(call: Call, *operands: Arr) -> Arr:
        same_shapes(call, *operands)
        return np.asarray(kernel(call, *operands))

    def old_shapes(call: Call, *operands: Known) -> Known:
        same_shapes(call, *operands)
        return as_first(call, *operands)

    return (
        Operator(1, old_kernel, old_shapes),
        Operator(8, kernel, by_broadcast(kernel)),
    )


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


def _is_nan(call: Call, x: Arr) -> Arr:
    return np.asarray(np.isnan(widened(x)))


def _is_inf(call: Call, x: Arr) -> Arr:
    wide = widened(x)
    positive = np.isposinf(wide) if call.integer("detect_positive") else np.zeros(x.shape, np.bool_)
    return np.asarray(positive | np.isneginf(wide) if call.integer("detect_negative") else positive)


def _not(call: Call, x: Arr) -> Arr:
    return np.asarray(np.logical_not(x))


def _where(call: Call, condition: Arr, x: Arr, y: Arr) -> Arr:
    call.check_size(broadcast_shape(call, condition, x, y), x.dtype)
    return np.where(condition, x, y)


def _where_shapes(call: Call, condition: Known, x: Known, y: Known) -> Known:
    return Known(x.dtype, broadcast_shape(call, condition, x, y))


def _comparison(kernel: Kernel, since: int = 7) -> tuple[Operator, ...]:
    modern = Operator(since, kernel, by_broadcast(kernel))
    return (legacy(kernel), modern) if since == 7 else (modern,)


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


def _bitwise(kernel: Kernel) -> tuple[Operator, ...]:
    return (Operator(18, kernel, by_broadcast(kernel)),)


OPERATORS: Table = {
    ("", "Add"): _binary(elementwise(np.add)),
    ("", "Sub"): _binary(elementwise(np.subtract)),
    ("", "Mul"): _binary(elementwise(np.multiply)),
    ("", "Div"): _binary(elementwise(_divide)),
    ("", "Pow"): _binary(_power),
    ("", "Mod"): (Operator(10, _mod, by_broadcast(_mod)),),
    ("", "Neg"): _unary(np.negative),
    ("", "Abs"): _unary(np.abs),
    ("", "Sqrt"): _unary(np.sqrt),
    ("", "Exp"): _unary(np.exp),
    ("", "Log"): _unary(np.log),
    ("", "Floor"): _unary(np.floor),
    ("", "Ceil"): _unary(np.ceil),
    ("", "Round"): _unary(np.rint, since=11),
    ("", "Sign"): _unary(np.sign, since=9),
    ("", "Reciprocal"): _unary(lambda x: x.dtype.type(1) / x),
    ("", "Erf"): _unary(_erf, since=9),
    ("", "Min"): _variadic(_chain(np.minimum)),
    ("", "Max"): _variadic(_chain(np.maximum)),
    ("", "Sum"): _variadic(_chain(np.add)),
    ("", "Mean"): _variadic(elementwise(_mean_of)),
    ("", "Sin"): _unary(np.sin, since=7),
    ("", "Cos"): _unary(np.cos, since=7),
    ("", "Tan"): _unary(np.tan, since=7),
    ("", "Asin"): _unary(np.arcsin, since=7),
    ("", "Acos"): _unary(np.arccos, since=7),
    ("", "Atan"): _unary(np.arctan, since=7),
    ("", "Sinh"): _unary(np.sinh, since=9),
    ("", "Cosh"): _unary(np.cosh, since=9),
    ("", "Tanh"): _unary(np.tanh),
    ("", "Asinh"): _unary(np.arcsinh, since=9),
    ("", "Acosh"): _unary(np.arccosh, since=9),
    ("", "Atanh"): _unary(np.arctanh, since=9),
    ("", "Equal"): _comparison(elementwise(np.equal)),
    ("", "Less"): _comparison(elementwise(np.less)),
    ("", "LessOrEqual"): _comparison(elementwise(np.less_equal), since=12),
    ("", "Greater"): _comparison(elementwise(np.greater)),
    ("", "GreaterOrEqual"): _comparison(elementwise(np.greater_equal), since=12),
    ("", "And"): _comparison(elementwise(np.logical_and)),
    ("", "Or"): _comparison(elementwise(np.logical_or)),
    ("", "Xor"): _comparison(elementwise(np.logical_xor)),
    ("", "Not"): (Operator(1, _not, as_bool),),
    ("", "IsNaN"): (Operator(9, _is_nan, as_bool),),
    ("", "IsInf"): (Operator(10, _is_inf, as_bool),),
    ("", "Where"): (Operator(9, _where, _where_shapes),),
    ("", "BitShift"): (Operator(11, _bit_shift, by_broadcast(_bit_shift)),),
    ("", "BitwiseAnd"): _bitwise(elementwise(np.bitwise_and)),
    ("", "BitwiseOr"): _bitwise(elementwise(np.bitwise_or)),
    ("", "BitwiseXor"): _bitwise(elementwise(np.bitwise_xor)),
    ("", "BitwiseNot"): (Operator(18, _bitwise_not, as_first),),
    ("", "BitCast"): (Operator(26, _bit_cast, _bit_cast_shapes),),
}
