"""Elementwise arithmetic.  From operator set 7 on operands are broadcast by numpy's rule."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from hwflow.onnx.ops.arithmetic_1 import legacy, same_shapes
from hwflow.onnx.ops.base import Arr, Call, Formula, Kernel, Known, Operator, Table
from hwflow.onnx.ops.precision import in_float32, is_integer, widened
from hwflow.onnx.ops.shapes import as_first, broadcast_shape, by_broadcast
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
}
