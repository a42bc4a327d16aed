"""Matrix products."""

from __future__ import annotations

import numpy as np

from hwflow.onnx.ops.base import FLOAT, INT, Arr, Call, Known, Operator, Table

__all__ = ["OPERATORS"]


def _matmul(call: Call, a: Arr, b: Arr) -> Arr:
    _matmul_shapes(call, Known(a.dtype, a.shape), Known(b.dtype, b.shape))
    return np.asarray(np.matmul(a, b))


def _matmul_shapes(call: Call, a: Known, b: Known) -> Known:
    """numpy's rule: a vector is a row on the left, a column on the right; leading axes broadcast."""
    left = a.shape if a.ndim > 1 else (1, *a.shape)
    right = b.shape if b.ndim > 1 else (*b.shape, 1)
    try:
        if not a.shape or not b.shape or left[-1] != right[-2]:
            raise ValueError
        lead = np.broadcast_shapes(left[:-2], right[:-2])
    except ValueError:
        raise call.error(f"the matrices must fit together, not be {list(a.shape)} and {list(b.shape)}") from None
    rows = left[-2:-1] if a.ndim > 1 else ()
    columns = right[-1:] if b.ndim > 1 else ()
    return Known(a.dtype, (*lead, *rows, *columns))


def _gemm(call: Call, a: Arr, b: Arr, c: Arr | None = None) -> Arr:
    """alpha * a' b' + beta * c, with a' and b' transposed where the attributes say so."""
    _gemm_shapes(call, *(None if x is None else Known(x.dtype, x.shape) for x in (a, b, c)))
    y = (a.T if call.integer("transA", 0) else a) @ (b.T if call.integer("transB", 0) else b)
    alpha, beta = call.number("alpha", 1.0), call.number("beta", 1.0)
    y = y if alpha == 1 else y * a.dtype.type(alpha)
    if c is not None:
        y = y + (c if beta == 1 else c * c.dtype.type(beta))
    return np.asarray(y)


def _gemm_shapes(call: Call, a: Known | None, b: Known | None, c: Known | None = None) -> Known:
    assert a is not None
    assert b is not None
    if a.ndim != 2 or b.ndim != 2:
        raise call.error(f"the inputs must be matrices, not have the shapes {list(a.shape)} and {list(b.shape)}")
    rows, inner = a.shape[::-1] if call.integer("transA", 0) else a.shape
    inner_b, columns = b.shape[::-1] if call.integer("transB", 0) else b.shape
    if inner != inner_b:
        raise call.error(f"the matrices must fit together, not be {list(a.shape)} and {list(b.shape)} before transA/B")
    if c is not None:
        padded = (1,) * (2 - c.ndim) + c.shape
        if len(padded) != 2 or padded[0] not in (1, rows) or padded[1] not in (1, columns):
            raise call.error(f"C must be broadcastable to [{rows}, {columns}], not have the shape {list(c.shape)}")
    return Known(a.dtype, (rows, columns))


_GEMM = {"alpha": FLOAT, "beta": FLOAT, "transA": INT, "transB": INT}

OPERATORS: Table = {
    ("", "MatMul"): (Operator(1, _matmul, _matmul_shapes, inputs=(2, 2)),),
    ("", "Gemm"): (
        Operator(7, _gemm, _gemm_shapes, inputs=(3, 3), attributes=_GEMM),
        Operator(11, _gemm, _gemm_shapes, inputs=(2, 3), attributes=_GEMM),
    ),
}
