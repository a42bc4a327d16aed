"""Elementwise arithmetic, comparison and logic, with numpy's broadcasting (operator set 7 and later)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hwflow.onnx.ops.base import ANY, INT, STRING, Arr, AttributeKind, Call, Kernel, Operator, Table
from hwflow.onnx.ops.shapes import broadcast_shape, by_broadcast

__all__ = ["OPERATORS"]


def _checked(function: Callable[..., Any]) -> Kernel:
    """A numpy function as a kernel: keeps arrays arrays and names the node where shapes do not fit."""

    @functools.wraps(function)
    def kernel(call: Call, *operands: Arr) -> Arr:
        broadcast_shape(call, *operands)
        return np.asarray(function(*operands))

    return kernel


def _divide(a: Arr, b: Arr) -> Arr:
    """Integers round towards zero, as in C."""
    if a.dtype.kind in "iu":
        quotient = a // b
        return np.asarray(quotient + ((a % b != 0) & ((a < 0) != (b < 0)))).astype(a.dtype)
    return np.asarray(a / b)


def _power(base: Arr, exponent: Arr) -> Arr:
    """The result has the type of the base; integers with a negative or fractional exponent go through float64."""
    if base.dtype.kind == "f" and exponent.dtype.kind == "f":
        return np.asarray(np.power(base, exponent)).astype(base.dtype)
    if base.dtype.kind in "iu" and exponent.dtype.kind in "iu" and bool(np.all(exponent >= 0)):
        return np.asarray(np.power(base, exponent.astype(base.dtype)))
    return np.asarray(np.power(base.astype(np.float64), exponent)).astype(base.dtype)


def _mod(call: Call, a: Arr, b: Arr) -> Arr:
    """The remainder has the sign of the divisor, or with fmod=1 of the dividend."""
    broadcast_shape(call, a, b)
    return np.asarray(np.fmod(a, b) if call.integer("fmod", 0) else np.mod(a, b))


_erf = np.frompyfunc(math.erf, 1, 1)  # numpy has none; exact, and fast enough for calibration


def _erf_kernel(call: Call, x: Arr) -> Arr:
    return np.asarray(_erf(x.astype(np.float64))).astype(x.dtype)


def _chain(function: Callable[[Any, Any], Any]) -> Kernel:
    """A function of two operands over any number of them."""

    def kernel(call: Call, *operands: Arr) -> Arr:
        broadcast_shape(call, *operands)
        return np.asarray(functools.reduce(function, operands))

    return kernel


def _mean(call: Call, *operands: Arr) -> Arr:
    broadcast_shape(call, *operands)
    total = functools.reduce(np.add, operands)
    return np.asarray(total / total.dtype.type(len(operands))).astype(operands[0].dtype)


def _unary(function: Callable[[Any], Any], since: int = 1) -> tuple[Operator, ...]:
    kernel = _checked(function)
    return (Operator(since, kernel, by_broadcast(kernel)),)


def _binary(function: Callable[[Any, Any], Any], since: int = 7) -> tuple[Operator, ...]:
    kernel = _checked(function)
    return (Operator(since, kernel, by_broadcast(kernel), inputs=(2, 2)),)


def _variadic(kernel: Kernel) -> tuple[Operator, ...]:
    return (Operator(1, kernel, by_broadcast(kernel), inputs=(1, ANY)),)


def _with(kernel: Kernel, inputs: int, since: int, **attributes: AttributeKind) -> Operator:
    return Operator(since, kernel, by_broadcast(kernel), inputs=(inputs, inputs), attributes=attributes)


def _bit_shift(call: Call, a: Arr, b: Arr) -> Arr:
    """Bits shifted out of the type are lost; a shift by all bits or more gives 0."""
    broadcast_shape(call, a, b)
    shift = np.left_shift if call.text("direction") == "LEFT" else np.right_shift
    return np.asarray(np.where(b < 8 * a.dtype.itemsize, shift(a, b), a.dtype.type(0))).astype(a.dtype)


OPERATORS: Table = {
    ("", "Add"): _binary(np.add),
    ("", "Sub"): _binary(np.subtract),
    ("", "Mul"): _binary(np.multiply),
    ("", "Div"): _binary(_divide),
    ("", "Pow"): _binary(_power),
    ("", "Mod"): (_with(_mod, 2, 10, fmod=INT),),
    ("", "BitShift"): (
        Operator(11, _bit_shift, by_broadcast(_bit_shift), (2, 2), {"direction": STRING}, ("direction",)),
    ),
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
    ("", "Erf"): (_with(_erf_kernel, 1, 9),),
    ("", "Min"): _variadic(_chain(np.minimum)),
    ("", "Max"): _variadic(_chain(np.maximum)),
    ("", "Sum"): _variadic(_chain(np.add)),
    ("", "Mean"): _variadic(_mean),
    ("", "Equal"): _binary(np.equal),
    ("", "Less"): _binary(np.less),
    ("", "LessOrEqual"): _binary(np.less_equal, since=12),
    ("", "Greater"): _binary(np.greater),
    ("", "GreaterOrEqual"): _binary(np.greater_equal, since=12),
    ("", "And"): _binary(np.logical_and),
    ("", "Or"): _binary(np.logical_or),
    ("", "Xor"): _binary(np.logical_xor),
    ("", "Not"): _unary(np.logical_not),
    ("", "Where"): (Operator(9, (_where := _checked(np.where)), by_broadcast(_where), inputs=(3, 3)),),
}
