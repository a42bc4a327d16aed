"""Matrix products and convolutions of integers: exact sums, scaled to a quantized type.

Sums of products are made in a float matrix product wherever no sum can leave the whole numbers that the float type
represents (2^24 in float32, 2^53 in float64), which is as exact as integers and far faster.
"""

from __future__ import annotations

import math

import numpy as np

from hwflow.onnx.model import DType
from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.convolution import check_bias, conv_shapes, convolve
from hwflow.onnx.ops.quantization import saturated
from hwflow.onnx.ops.shapes import common_shape

INT32 = np.dtype(np.int32)


def _exact_type(a: Arr, b: Arr, terms: int) -> DType:
    """A type in which a sum of `terms` products of elements of a and b is exact; int64 wraps around beyond 2^63."""
    bound = terms * _largest(a) * _largest(b)
    return np.dtype(np.float32 if bound <= 1 << 24 else np.float64 if bound <= 1 << 53 else np.int64)


def _largest(a: Arr) -> int:
    return max(abs(int(a.min())), abs(int(a.max()))) if a.size else 0


def exact_matmul(call: Call, a: Arr, b: Arr) -> Arr:
    """The matrix product of integer arrays, as int64."""
    shape = matmul_shape(call, a, b)
    call.check_size(shape, np.dtype(np.int64))
    call.work(math.prod(shape) * a.shape[-1])
    wide = _exact_type(a, b, a.shape[-1])
    return np.asarray(np.matmul(a.astype(wide), b.astype(wide))).astype(np.int64)


def matmul_shape(call: Call, a: Arr | Known, b: Arr | Known) -> tuple[int, ...]:
    """The shape of a matrix product by numpy's rule."""
    rows, columns = a.shape[-2:-1] if a.ndim > 1 else (), b.shape[-1:] if b.ndim > 1 else ()
    if not a.ndim or not b.ndim or a.shape[-1] != b.shape[max(0, b.ndim - 2)]:
        raise call.error(f"the matrices must fit together, not have the shapes {list(a.shape)} and {list(b.shape)}")
    try:
        return (*common_shape(a.shape[:-2], b.shape[:-2]), *rows, *columns)
    except ValueError:
        raise call.error(
            f"the matrices must fit together, not have the shapes {list(a.shape)} and {list(b.shape)}"
        ) from None


def requantized(total: Arr, factor: Arr, zero: Arr, dtype: DType) -> Arr:
    """Sums times a factor, rounded half to even, in a quantized type; the product is one of float32."""
    wide = factor.astype(np.float32, copy=False)
    return saturated(np.rint(total.astype(np.float32) * wide), zero.astype(np.int32), dtype)


def centred(call: Call, x: Arr, zero: Arr | None, axis: int | None = None) -> Arr:
    """x minus its zero point as int32.

    The zero point is one number, an array that broadcasts, or one number for each element of `axis` from the end.
    """
    wide = x.astype(INT32)
    if zero is None:
        return wide
    return np.asarray(wide - one_or_each(call, zero.astype(INT32), x, axis))


def one_or_each(call: Call, parameter: Arr, x: Arr, axis: int | None) -> Arr:
    """A scale or zero point so that it broadcasts to x: one number, or one for each element of `axis` from the end."""
    if parameter.size == 1:
        return parameter.reshape(())
    if parameter.ndim == 1 and axis is not None and -axis <= x.ndim and len(parameter) == x.shape[axis]:
        return parameter.reshape(-1, *(1,) * (-axis - 1))
    if parameter.ndim == x.ndim > 1 and common_shape(parameter.shape, x.shape) == x.shape:
        return parameter
    raise call.error(
        f"scale and zero point must be one number or one for each row or column of {list(x.shape)}, "
        f"not have the shape {list(parameter.shape)}"
    )


def _matmul_integer(call: Call, a: Arr, b: Arr, a_zero: Arr | None = None, b_zero: Arr | None = None) -> Arr:
    """(a - a_zero) @ (b - b_zero) as int32; zero points of a per row, of b per column."""
    return exact_matmul(call, centred(call, a, a_zero, -2), centred(call, b, b_zero, -1)).astype(INT32)


def _matmul_integer_shapes(call: Call, a: Known, b: Known, *zeros: Known | None) -> Known:
    return Known(INT32, matmul_shape(call, a, b))


def _qlinear_matmul(
    call: Call,
    a: Arr,
    a_scale: Arr,
    a_zero: Arr,
    b: Arr,
    b_scale: Arr,
    b_zero: Arr,
    y_scale: Arr,
    y_zero: Arr,
) -> Arr:
    """The product of quantized matrices; scales and zero points of a per row, of b per column, of y one number."""
    total = exact_matmul(call, centred(call, a, a_zero, -2), centred(call, b, b_zero, -1))
    rows, columns = (one_or_each(call, s.astype(np.float32), m, i) for s, m, i in ((a_scale, a, -2), (b_scale, b, -1)))
    factor = rows * columns / one_or_each(call, y_scale.astype(np.float32), total, -1)
    return requantized(total, np.asarray(factor), one_or_each(call, y_zero, total, -1), y_zero.dtype)


def _qlinear_matmul_shapes(call: Call, *operands: Known) -> Known:
    return Known(operands[7].dtype, matmul_shape(call, operands[0], operands[3]))


def _exact_convolution(call: Call, x: Arr, w: Arr, x_zero: Arr | None, w_zero: Arr | None) -> Arr:
    """Convolution of x - x_zero with w - w_zero as int64; the zero point of w may be one for each output channel."""
    if x_zero is not None and x_zero.size != 1:
        raise call.error(f"the zero point of the input must be one number, not have the shape {list(x_zero.shape)}")
    x, w = centred(call, x, x_zero), centred(call, w, w_zero, -w.ndim)
    wide = _exact_type(x, w, math.prod(w.shape[1:]))
    return convolve(call, x.astype(wide), w.astype(wide)).astype(np.int64)


def _conv_integer(call: Call, x: Arr, w: Arr, x_zero: Arr | None = None, w_zero: Arr | None = None) -> Arr:
    return _exact_convolution(call, x, w, x_zero, w_zero).astype(INT32)


def _conv_integer_shapes(call: Call, x: Known, w: Known, *zeros: Known | None) -> Known:
    return Known(INT32, conv_shapes(call, x, w).shape)


def _qlinear_conv(
    call: Call,
    x: Arr,
    x_scale: Arr,
    x_zero: Arr,
    w: Arr,
    w_scale: Arr,
    w_zero: Arr,
    y_scale: Arr,
    y_zero: Arr,
    b: Arr | None = None,
) -> Arr:
    """x [n, c, ...], w [m, c / groups, ...] with one scale or one per channel, b int32[m] in the scale of x times w."""
    total = _exact_convolution(call, x, w, x_zero, w_zero)
    ones = (1,) * (x.ndim - 2)
    if b is not None:
        check_bias(call, b, w.shape[0])
        total += b.reshape(-1, *ones)
    if w_scale.size not in (1, w.shape[0]) or any(p.size != 1 for p in (x_scale, y_scale, y_zero)):
        raise call.error("scales and zero points must be one number, those of the weights one or one per channel")
    factor = x_scale.reshape(()) * w_scale.reshape(-1, *ones) / y_scale.reshape(())
    return requantized(total, np.asarray(factor), y_zero.reshape(()), y_zero.dtype)


def _qlinear_conv_shapes(call: Call, *operands: Known) -> Known:
    x, w, y_zero, *bias = (*operands[:1], *operands[3:4], *operands[7:])
    return Known(y_zero.dtype, conv_shapes(call, x, w, *bias).shape)


OPERATORS: Table = {
    ("", "MatMulInteger"): (Operator(10, _matmul_integer, _matmul_integer_shapes),),
    ("", "QLinearMatMul"): (Operator(10, _qlinear_matmul, _qlinear_matmul_shapes),),
    ("", "ConvInteger"): (Operator(10, _conv_integer, _conv_integer_shapes),),
    ("", "QLinearConv"): (Operator(10, _qlinear_conv, _qlinear_conv_shapes),),
}
