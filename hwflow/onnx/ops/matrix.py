"""Matrix products and determinants."""

from __future__ import annotations

import math

import numpy as np

from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.precision import widened
from hwflow.onnx.ops.shapes import common_shape


def _known(x: Arr) -> Known:
    return Known(x.dtype, x.shape)


def _matmul(call: Call, a: Arr, b: Arr) -> Arr:
    result = _matmul_shapes(call, _known(a), _known(b))
    call.check_size(result.shape, result.dtype)
    call.work(math.prod(result.shape) * a.shape[-1])
    return np.asarray(np.matmul(widened(a), widened(b))).astype(a.dtype, copy=False)


def _matmul_shapes(call: Call, a: Known, b: Known) -> Known:
    """numpy's rule: a vector is a row on the left, a column on the right; leading axes broadcast."""
    left = a.shape if a.ndim > 1 else (1, *a.shape)
    right = b.shape if b.ndim > 1 else (*b.shape, 1)
    try:
        if not a.shape or not b.shape or left[-1] != right[-2]:
            raise ValueError
        lead = common_shape(left[:-2], right[:-2])
    except ValueError:
        raise call.error(f"the matrices must fit together, not be {list(a.shape)} and {list(b.shape)}") from None
    rows = left[-2:-1] if a.ndim > 1 else ()
    columns = right[-1:] if b.ndim > 1 else ()
    return Known(a.dtype, (*lead, *rows, *columns))


def _gemm(call: Call, a: Arr, b: Arr, c: Arr | None = None) -> Arr:
    """alpha * a' b' + beta * c, with a' and b' transposed where the attributes say so."""
    result = _gemm_shapes(call, _known(a), _known(b), None if c is None else _known(c))
    left = widened(a.T if call.integer("transA") else a)
    right = widened(b.T if call.integer("transB") else b)
    call.check_size(result.shape, result.dtype)
    call.work(math.prod(result.shape) * left.shape[1])
    y = _scaled(left @ right, call.number("alpha"))
    if c is not None:
        y = y + _scaled(widened(c), call.number("beta"))
    return np.asarray(y).astype(a.dtype, copy=False)


def _scaled(x: Arr, factor: float) -> Arr:
    """Integers times a fraction (or a factor that they cannot hold) go through float64."""
    if factor == 1:
        return x
    if x.dtype.kind in "iu" and not (factor.is_integer() and 0 <= factor < 1 << 31):
        return np.asarray(x * np.float64(factor))
    return np.asarray(x * x.dtype.type(factor))


def _gemm_shapes(call: Call, a: Known, b: Known, c: Known | None = None) -> Known:
    if a.ndim != 2 or b.ndim != 2:
        raise call.error(f"the inputs must be matrices, not have the shapes {list(a.shape)} and {list(b.shape)}")
    rows, inner = a.shape[::-1] if call.integer("transA") else a.shape
    inner_b, columns = b.shape[::-1] if call.integer("transB") else b.shape
    if inner != inner_b:
        raise call.error(f"the matrices must fit together, not be {list(a.shape)} and {list(b.shape)} before transA/B")
    if c is not None:
        padded = (1,) * (2 - c.ndim) + c.shape
        if len(padded) != 2 or padded[0] not in (1, rows) or padded[1] not in (1, columns):
            raise call.error(f"C must be broadcastable to [{rows}, {columns}], not have the shape {list(c.shape)}")
    return Known(a.dtype, (rows, columns))


def _gemm_1(call: Call, a: Arr, b: Arr, c: Arr) -> Arr:
    """Before operator set 7, C is broadcast only with attribute broadcast=1."""
    _gemm_1_shapes(call, _known(a), _known(b), _known(c))
    return _gemm(call, a, b, c)


def _gemm_1_shapes(call: Call, a: Known, b: Known, c: Known) -> Known:
    result = _gemm_shapes(call, a, b, c)
    if not call.integer("broadcast") and c.shape != result.shape:
        raise call.error(
            f"C must have the shape {list(result.shape)} without attribute broadcast=1, not {list(c.shape)}",
            "export the model again"
        )
    return result


def _determinant(call: Call, x: Arr) -> Arr:
    """The determinant of each matrix in the last two axes."""
    result = _determinant_shapes(call, _known(x))
    call.check_size(result.shape, result.dtype)
    call.work(x.size * (x.shape[-1] if x.size else 0))
    return np.asarray(np.linalg.det(widened(x))).astype(x.dtype)


def _determinant_shapes(call: Call, x: Known) -> Known:
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise call.error(f"the last two axes must be a square matrix, not those of {list(x.shape)}")
    return Known(x.dtype, x.shape[:-2])


OPERATORS: Table = {
    ("", "MatMul"): (Operator(1, _matmul, _matmul_shapes),),
    ("", "Gemm"): (
        Operator(1, _gemm_1, _gemm_1_shapes),
        Operator(7, _gemm, _gemm_shapes),
    ),
    ("", "Det"): (Operator(11, _determinant, _determinant_shapes),),
}
