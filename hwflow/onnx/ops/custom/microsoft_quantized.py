"""Operators of the domain com.microsoft that onnxruntime's quantizer writes: on integers with scales and zero points.

The definitions: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.  A zero point that is left
out is 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from hwflow.onnx.model import DType
from hwflow.onnx.ops import quantization
from hwflow.onnx.ops.base import Arr, Call, Kernel, Known, Operator, Table, axis_in
from hwflow.onnx.ops.cells import sigmoid
from hwflow.onnx.ops.pooling import pool_windows, window_sums
from hwflow.onnx.ops.quantization import dequantized, dynamic_quantized, quantized
from hwflow.onnx.ops.quantized_matrix import (
    centred,
    exact_matmul,
    matmul_shape,
    one_or_each,
    requantized,
)
from hwflow.onnx.ops.shapes import as_first, broadcast_shape
from hwflow.onnx.ops.softmax import softmax

FLOAT32 = np.dtype(np.float32)
T = TypeVar("T")


def _real(call: Call, x: Arr, scale: Arr, zero: Arr | None) -> Arr:
    """The numbers that x stands for; scale and zero point are one number each."""
    return dequantized(x, _single(call, scale), None if zero is None else _single(call, zero))


def _single(call: Call, parameter: Arr) -> Arr:
    if parameter.size != 1:
        raise call.error(f"scale and zero point must be one number, not have the shape {list(parameter.shape)}")
    return parameter.reshape(())


def _quantized(call: Call, y: Arr, scale: Arr, zero: Arr | None, dtype: DType) -> Arr:
    return quantized(y, _single(call, scale), 0 if zero is None else _single(call, zero), dtype)


def _binary(function: np.ufunc) -> Kernel:
    def kernel(
        call: Call,
        a: Arr,
        a_scale: Arr,
        a_zero: Arr | None,
        b: Arr,
        b_scale: Arr,
        b_zero: Arr | None,
        c_scale: Arr,
        c_zero: Arr | None = None,
    ) -> Arr:
        call.check_size(broadcast_shape(call, a, b), FLOAT32)
        y = function(_real(call, a, a_scale, a_zero), _real(call, b, b_scale, b_zero))
        return _quantized(call, np.asarray(y), c_scale, c_zero, a.dtype)

    return kernel


def _binary_shapes(call: Call, *operands: Known) -> Known:
    return Known(operands[0].dtype, broadcast_shape(call, operands[0], operands[3]))


def _sigmoid(
    call: Call, x: Arr, scale: Arr, zero: Arr | None, y_scale: Arr, y_zero: Arr | None = None
) -> Arr:
    return _quantized(call, sigmoid(_real(call, x, scale, zero)), y_scale, y_zero, x.dtype)


def _leaky_relu(
    call: Call, x: Arr, scale: Arr, zero: Arr | None, y_scale: Arr, y_zero: Arr | None = None
) -> Arr:
    real = _real(call, x, scale, zero)
    y = np.where(real >= 0, real, real * real.dtype.type(call.number("alpha")))
    return _quantized(call, y, y_scale, y_zero, x.dtype)


def _softmax(call: Call, x: Arr, scale: Arr, zero: Arr | None, y_scale: Arr, y_zero: Arr) -> Arr:
    """Softmax of the operator set that `opset` names: below 13 all axes from `axis` on are one."""
    axis = axis_in(call, call.integer("axis"), x.ndim)
    real = _real(call, x, scale, zero)
    if call.integer("opset") < 13:
        y = softmax(real.reshape(math.prod(x.shape[:axis]), -1), 1).reshape(x.shape)
    else:
        y = softmax(real, axis)
    return _quantized(call, y, y_scale, y_zero, x.dtype)


def _planes(call: Call, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The spatial axes."""
    axes = tuple(range(1, len(shape) - 1) if call.integer("channels_last") else range(2, len(shape)))
    if not axes or not math.prod(shape[i] for i in axes):
        raise call.error(f"the input must have spatial axes with elements, not the shape {list(shape)}")
    return axes


def _global_average(call: Call, x: Arr, scale: Arr, zero: Arr, y_scale: Arr, y_zero: Arr) -> Arr:
    """The mean of each plane; sums are exact."""
    axes = _planes(call, x.shape)
    total = np.asarray(np.sum(centred(call, x, zero), axis=axes, keepdims=True, dtype=np.int64))
    count = np.float32(math.prod(x.shape[i] for i in axes))
    factor = _single(call, scale) / (_single(call, y_scale) * count)
    return requantized(total, np.asarray(factor), _single(call, y_zero), x.dtype)


def _global_shapes(call: Call, x: Known, *others: Known) -> Known:
    axes = _planes(call, x.shape)
    return Known(x.dtype, tuple(1 if i in axes else d for i, d in enumerate(x.shape)))


def _average_pool(
    call: Call, x: Arr, scale: Arr, zero: Arr | None, y_scale: Arr, y_zero: Arr | None = None
) -> Arr:
    """The mean of each window; padding is the number 0, thus the zero point."""
    first = np.moveaxis(x, -1, 1) if call.integer("channels_last") else x
    real = _real(call, first, scale, zero)
    total, windows = window_sums(call, real)
    counts = windows.counts(padding=bool(call.integer("count_include_pad")))
    y = _quantized(call, total / counts.astype(real.dtype), y_scale, y_zero, x.dtype)
    return np.moveaxis(y, 1, -1) if call.integer("channels_last") else y


def _average_shapes(call: Call, x: Known, *others: Known | None) -> Known:
    last = bool(call.integer("channels_last")) and x.ndim > 2
    first = Known(x.dtype, (x.shape[0], x.shape[-1], *x.shape[1:-1])) if last else x
    outputs = pool_windows(call, first).outputs
    return Known(x.dtype, (x.shape[0], *outputs, x.shape[-1]) if last else (*x.shape[:2], *outputs))


def _concat(call: Call, y_scale: Arr, y_zero: Arr, *operands: Arr) -> Arr:
    """Parts that each come with a scale and a zero point, along an axis, in the output's scale."""
    parts = [
        quantized(_real(call, x, s, z), _single(call, y_scale), _single(call, y_zero), y_zero.dtype)
        for x, s, z in _triples(call, operands)
    ]
    call.check_size(_concat_shape(call, parts), y_zero.dtype)
    return np.concatenate(parts, axis=call.integer("axis"))


def _triples(call: Call, operands: tuple[T, ...]) -> list[tuple[T, T, T]]:
    if len(operands) % 3 or not operands:
        raise call.error(f"the inputs must be tensor, scale and zero point each time, not {len(operands)} in all")
    return [(operands[i], operands[i + 1], operands[i + 2]) for i in range(0, len(operands), 3)]


def _concat_shape(call: Call, parts: Sequence[Arr | Known]) -> tuple[int, ...]:
    shape = list(parts[0].shape)
    axis = axis_in(call, call.integer("axis"), len(shape))
    for part in parts:
        if [*part.shape[:axis], *part.shape[axis + 1 :]] != [*shape[:axis], *shape[axis + 1 :]]:
            raise call.error(f"the parts must differ in axis {axis} alone, not be {shape} and {list(part.shape)}")
    shape[axis] = sum(part.shape[axis] for part in parts)
    return tuple(shape)


def _concat_shapes(call: Call, y_scale: Known, y_zero: Known, *operands: Known) -> Known:
    return Known(y_zero.dtype, _concat_shape(call, [x for x, _, _ in _triples(call, operands)]))


def _gemm(
    call: Call,
    a: Arr,
    a_scale: Arr,
    a_zero: Arr,
    b: Arr,
    b_scale: Arr,
    b_zero: Arr,
    c: Arr | None = None,
    y_scale: Arr | None = None,
    y_zero: Arr | None = None,
) -> Arr:
    """The product of matrices plus c int32 in its scale; in the output's scale, or in float32 if that is left out."""
    shape = _gemm_shape(call, a, b, c)
    left, right = centred(call, a, a_zero), centred(call, b, b_zero, -1 if not call.integer("transB") else -2)
    total = exact_matmul(call, left.T if call.integer("transA") else left, right.T if call.integer("transB") else right)
    if c is not None:
        total = total + c
    factor = np.float32(call.number("alpha")) * _single(call, a_scale) * b_scale.reshape(-1)
    if b_scale.size not in (1, shape[1]):
        raise call.error(f"the scale of b must be one number or {shape[1]}, not {b_scale.size}")
    if y_scale is None:
        return total.astype(FLOAT32) * factor
    zero = np.zeros((), a.dtype) if y_zero is None else _single(call, y_zero)
    return requantized(total, np.asarray(factor / _single(call, y_scale)), zero, zero.dtype)


def _gemm_shape(call: Call, a: Arr | Known, b: Arr | Known, c: Arr | Known | None) -> tuple[int, ...]:
    if a.ndim != 2 or b.ndim != 2:
        raise call.error(f"both factors must be matrices, not have the shapes {list(a.shape)} and {list(b.shape)}")
    rows, left = a.shape[::-1] if call.integer("transA") else a.shape
    right, columns = b.shape[::-1] if call.integer("transB") else b.shape
    if left != right:
        raise call.error(f"the matrices must fit together, not have the shapes {list(a.shape)} and {list(b.shape)}")
    if c is not None and broadcast_shape(call, Known(FLOAT32, (rows, columns)), c) != (rows, columns):
        raise call.error(f"the summand must broadcast to {[rows, columns]}, not have the shape {list(c.shape)}")
    return rows, columns


def _gemm_shapes(call: Call, *operands: Known | None) -> Known:
    (a, b), (c, y_scale, y_zero) = (operands[0], operands[3]), (*operands[6:], None, None, None)[:3]
    assert a is not None
    assert b is not None
    dtype = FLOAT32 if y_scale is None else a.dtype if y_zero is None else y_zero.dtype
    return Known(dtype, _gemm_shape(call, a, b, c))


def _matmul_to_float(
    call: Call,
    a: Arr,
    b: Arr,
    a_scale: Arr,
    b_scale: Arr,
    a_zero: Arr | None = None,
    b_zero: Arr | None = None,
    bias: Arr | None = None,
) -> Arr:
    """The product of integer matrices as numbers, plus a bias for each column."""
    total = exact_matmul(call, centred(call, a, a_zero), centred(call, b, b_zero, -1))
    columns = one_or_each(call, b_scale, b, -1)
    y = total.astype(FLOAT32) * np.asarray(_single(call, a_scale) * columns).astype(FLOAT32)
    if bias is not None:
        if bias.shape != y.shape[-1:]:
            raise call.error(f"the bias must have the shape {list(y.shape[-1:])}, not {list(bias.shape)}")
        y = y + bias
    return np.asarray(y).astype(a_scale.dtype, copy=False)


def _dynamic_matmul(
    call: Call, a: Arr, b: Arr, b_scale: Arr, b_zero: Arr | None = None, bias: Arr | None = None
) -> Arr:
    """The same for an a of float32, which is quantized to uint8 over its range first."""
    whole, scale, zero = dynamic_quantized(a)
    return _matmul_to_float(call, whole, b, scale, b_scale, zero, b_zero, bias)


def _matmul_shapes(call: Call, a: Known, b: Known, scale: Known, *others: Known | None) -> Known:
    return Known(scale.dtype, matmul_shape(call, a, b))


_DOMAIN = "com.microsoft"


def _as_standard(name: str) -> tuple[Operator, ...]:
    newest = quantization.OPERATORS["", name][-1]
    return (Operator(1, newest.kernel, newest.shapes),)


OPERATORS: Table = {
    (_DOMAIN, "QuantizeLinear"): _as_standard("QuantizeLinear"),
    (_DOMAIN, "DequantizeLinear"): _as_standard("DequantizeLinear"),
    (_DOMAIN, "QLinearAdd"): (Operator(1, _binary(np.add), _binary_shapes),),
    (_DOMAIN, "QLinearMul"): (Operator(1, _binary(np.multiply), _binary_shapes),),
    (_DOMAIN, "QLinearSigmoid"): (Operator(1, _sigmoid, as_first),),
    (_DOMAIN, "QLinearLeakyRelu"): (Operator(1, _leaky_relu, as_first),),
    (_DOMAIN, "QLinearSoftmax"): (Operator(1, _softmax, as_first),),
    (_DOMAIN, "QLinearGlobalAveragePool"): (Operator(1, _global_average, _global_shapes),),
    (_DOMAIN, "QLinearAveragePool"): (Operator(1, _average_pool, _average_shapes),),
    (_DOMAIN, "QLinearConcat"): (Operator(1, _concat, _concat_shapes),),
    (_DOMAIN, "QGemm"): (Operator(1, _gemm, _gemm_shapes),),
    (_DOMAIN, "MatMulIntegerToFloat"): (Operator(1, _matmul_to_float, _matmul_shapes),),
    (_DOMAIN, "DynamicQuantizeMatMul"): (Operator(1, _dynamic_matmul, _matmul_shapes),),
}
