"""Operators of the domain com.microsoft that onnxruntime's optimizer puts in the place of several standard ones.

The definitions: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.  What its quantizer writes
stands in `microsoft_quantized`.
"""

from __future__ import annotations

import math

import numpy as np

from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.cells import named_activation, sigmoid
from hwflow.onnx.ops.convolution import conv_shapes, convolution
from hwflow.onnx.ops.custom import microsoft_quantized
from hwflow.onnx.ops.element_types import widened, working_type
from hwflow.onnx.ops.normalization import standardized
from hwflow.onnx.ops.quantized_matrix import matmul_shape
from hwflow.onnx.ops.shapes import as_first, broadcast_shape
from hwflow.onnx.ops.special import erf


def _fused_conv(call: Call, x: Arr, w: Arr, b: Arr | None = None, z: Arr | None = None) -> Arr:
    """Convolution, plus z of the same shape, then an activation."""
    y = convolution(call, x, w, b)
    if z is not None:
        if z.shape != y.shape:
            raise call.error(f"the input 'Z' must have the shape {list(y.shape)}, not {list(z.shape)}")
        y = y + z
    return _activated(call, y, call.numbers("activation_params", ()))


def _activated(call: Call, y: Arr, parameters: tuple[float, ...]) -> Arr:
    if not call.has("activation") or not call.text("activation"):
        return y
    name = call.text("activation")
    if name == "Clip" and len(parameters) == 2:
        return np.clip(y, *parameters)
    return np.asarray(named_activation(call, name, parameters)(y)).astype(y.dtype, copy=False)


def _fused_conv_shapes(call: Call, x: Known, w: Known, b: Known | None = None, z: Known | None = None) -> Known:
    return conv_shapes(call, x, w, b)


def _operand(call: Call, x: Arr, side: str) -> Arr:
    """A factor of FusedMatMul with its axes in the order of a matrix product."""
    if x.ndim > 2 and call.integer(f"transBatch{side}", 0):
        x = np.moveaxis(x, 0, -2)
    return x.swapaxes(-1, -2) if x.ndim > 1 and call.integer(f"trans{side}") else x


def _fused_matmul(call: Call, a: Arr, b: Arr) -> Arr:
    """The matrix product of factors that may be transposed, times alpha."""
    wide = working_type(a.dtype)
    left, right = (_operand(call, x, side).astype(wide, copy=False) for x, side in ((a, "A"), (b, "B")))
    shape = matmul_shape(call, left, right)
    call.check_size(shape, wide)
    call.work(math.prod(shape) * left.shape[-1])
    return np.asarray(np.matmul(left, right) * wide.type(call.number("alpha"))).astype(a.dtype, copy=False)


def _fused_matmul_shapes(call: Call, a: Known, b: Known) -> Known:
    left, right = (np.broadcast_to(np.zeros((), x.dtype), x.shape) for x in (a, b))
    return Known(a.dtype, matmul_shape(call, _operand(call, left, "A"), _operand(call, right, "B")))


def _fused_gemm(call: Call, a: Arr, b: Arr, c: Arr | None = None) -> Arr:
    """alpha a b + beta c, then an activation."""
    shape, wide = _gemm_shape(call, a, b, c), working_type(a.dtype)
    left, right = (_operand(call, x, side).astype(wide, copy=False) for x, side in ((a, "A"), (b, "B")))
    call.check_size(shape, wide)
    call.work(math.prod(shape) * left.shape[1])
    y = np.matmul(left, right) * wide.type(call.number("alpha"))
    if c is not None:
        y = y + c.astype(wide, copy=False) * wide.type(call.number("beta"))
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    return _activated(call, y, tuple(call.number(n) for n in names if call.has(n))).astype(a.dtype, copy=False)


def _gemm_shape(call: Call, a: Arr | Known, b: Arr | Known, c: Arr | Known | None) -> tuple[int, ...]:
    if a.ndim != 2 or b.ndim != 2:
        raise call.error(f"both factors must be matrices, not have the shapes {list(a.shape)} and {list(b.shape)}")
    left, right = (x.shape[::-1] if call.integer(t) else x.shape for x, t in ((a, "transA"), (b, "transB")))
    if left[1] != right[0]:
        raise call.error(f"the matrices must fit together, not have the shapes {list(left)} and {list(right)}")
    shape = (left[0], right[1])
    if c is not None and broadcast_shape(call, Known(a.dtype, shape), c) != shape:
        raise call.error(f"the summand must broadcast to {list(shape)}, not have the shape {list(c.shape)}")
    return shape


def _fused_gemm_shapes(call: Call, a: Known, b: Known, c: Known | None = None) -> Known:
    return Known(a.dtype, _gemm_shape(call, a, b, c))


def _gelu(call: Call, x: Arr, bias: Arr | None = None) -> Arr:
    """x times the normal distribution function of x, after the bias is added."""
    wide = working_type(x.dtype)
    y = _biased(call, x, bias).astype(wide, copy=False)
    return np.asarray(y * (erf(y * wide.type(math.sqrt(0.5))) + 1) * wide.type(0.5)).astype(x.dtype, copy=False)


def _fast_gelu(call: Call, x: Arr, bias: Arr | None = None) -> Arr:
    """The same by the hyperbolic tangent of a polynomial (Hendrycks and Gimpel, arXiv:1606.08415)."""
    wide = working_type(x.dtype)
    y = _biased(call, x, bias).astype(wide, copy=False)
    inner = wide.type(math.sqrt(2 / math.pi)) * (y + wide.type(0.044715) * y * y * y)
    return np.asarray(y * (np.tanh(inner) + 1) * wide.type(0.5)).astype(x.dtype, copy=False)


def _quick_gelu(call: Call, x: Arr) -> Arr:
    wide = widened(x)
    return np.asarray(wide * sigmoid(wide * wide.dtype.type(call.number("alpha")))).astype(x.dtype, copy=False)


def _biased(call: Call, x: Arr, bias: Arr | None) -> Arr:
    if bias is None:
        return x
    if bias.shape != x.shape[-1:]:
        raise call.error(f"the bias must have the shape {list(x.shape[-1:])}, not {list(bias.shape)}")
    return np.asarray(x + bias)


def _skip_layer_normalization(
    call: Call, x: Arr, skip: Arr, gamma: Arr, beta: Arr | None = None, bias: Arr | None = None
) -> tuple[Arr, ...]:
    """Layer normalization over the last axis of x + skip + bias; also the mean, 1 / deviation, and the sum."""
    wide = working_type(x.dtype)
    total = _skip_sum(call, x.astype(wide, copy=False), skip.astype(wide, copy=False))
    for parameter in (gamma, beta, bias):
        if parameter is not None and parameter.shape != x.shape[-1:]:
            raise call.error(
                f"gamma, beta and bias must have the shape {list(x.shape[-1:])}, not {list(parameter.shape)}")
    if bias is not None:
        total = total + bias.astype(wide, copy=False)
    normal, mean, inverse = standardized(total, (x.ndim - 1,), call.number("epsilon"))
    y = normal * gamma.astype(wide, copy=False)
    if beta is not None:
        y = y + beta.astype(wide, copy=False)
    statistics = (mean.astype(np.float32, copy=False), inverse.astype(np.float32, copy=False))
    return (y.astype(x.dtype, copy=False), *statistics, total.astype(x.dtype, copy=False))


def _skip_sum(call: Call, x: Arr, skip: Arr) -> Arr:
    if x.ndim < 1 or broadcast_shape(call, x, skip) != x.shape:
        raise call.error(f"'skip' must broadcast to the input {list(x.shape)}, not have the shape {list(skip.shape)}")
    return np.asarray(x + skip)


def _skip_shapes(call: Call, x: Known, skip: Known, *others: Known | None) -> tuple[Known, ...]:
    if x.ndim < 1 or broadcast_shape(call, x, skip) != x.shape:
        raise call.error(f"'skip' must broadcast to the input {list(x.shape)}, not have the shape {list(skip.shape)}")
    statistics = Known(np.dtype(np.float32), (*x.shape[:-1], 1))
    return Known(x.dtype, x.shape), statistics, statistics, Known(x.dtype, x.shape)


_DOMAIN = "com.microsoft"


_PLAIN = "export the model for sequences of one length, without padding, caches and packed operands"


def _heads(call: Call, *widths: int) -> int:
    heads = call.integer("num_heads", 0)
    if heads < 1 or any(width % heads for width in widths):
        raise call.error(f"'num_heads' must divide {' and '.join(map(str, widths))}, not be {heads}")
    return heads


def _refuse(call: Call, **operands: Arr | Known | None) -> None:
    for name, value in operands.items():
        if value is not None:
            raise call.error(f"the input '{name}' is not computed by hwflow", _PLAIN)


def _mixed(call: Call, q: Arr, k: Arr, v: Arr, added: Arr | None) -> Arr:
    """Softmax of the scaled scores, times v; all are [batch, positions, heads * size]."""
    heads, wide = _heads(call, q.shape[2], v.shape[2]), working_type(q.dtype)
    call.check_size((q.shape[0], heads, q.shape[1], k.shape[1]), wide)
    call.work(q.shape[0] * q.shape[1] * k.shape[1] * (q.shape[2] + v.shape[2]))
    query, key, value = (x.astype(wide).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for x in (q, k, v))
    scale = call.number("scale", 0.0) or 1 / math.sqrt(query.shape[3])
    scores = np.matmul(query, key.swapaxes(2, 3)) * wide.type(scale)
    if added is not None:
        scores = scores + added.astype(wide)
    if call.integer("unidirectional", 0):
        ahead = np.arange(k.shape[1]) - (k.shape[1] - q.shape[1]) > np.arange(q.shape[1])[:, None]
        scores = np.where(ahead, wide.type(-np.inf), scores)
    shares = np.exp(scores - scores.max(axis=3, keepdims=True))
    mixed = np.matmul(shares / shares.sum(axis=3, keepdims=True), value)
    return np.asarray(mixed.swapaxes(1, 2).reshape(q.shape[0], q.shape[1], -1).astype(q.dtype))


def _check(call: Call, q: Arr | Known, k: Arr | Known | None, v: Arr | Known | None) -> None:
    if k is None or v is None or not q.ndim == k.ndim == v.ndim == 3:
        raise call.error("query, key and value must be three tensors of three axes", _PLAIN)
    if q.shape[0] != k.shape[0] or k.shape[:2] != v.shape[:2] or q.shape[2] != k.shape[2]:
        raise call.error(f"query, key and value must fit together, not have the shapes {list(q.shape)}, "
                         f"{list(k.shape)} and {list(v.shape)}")


def _multi_head(
    call: Call, q: Arr, k: Arr | None = None, v: Arr | None = None, bias: Arr | None = None, padding: Arr | None = None,
    added: Arr | None = None, past_key: Arr | None = None, past_value: Arr | None = None, length: Arr | None = None,
    indirection: Arr | None = None,
) -> Arr:  # fmt: skip
    _check(call, q, k, v)
    _refuse(call, key_padding_mask=padding, past_key=past_key, past_value=past_value, past_sequence_length=length,
            cache_indirection=indirection)
    assert k is not None
    assert v is not None
    if bias is not None:
        if bias.shape != (q.shape[2] + k.shape[2] + v.shape[2],):
            raise call.error(f"the bias must have an entry for each feature, not the shape {list(bias.shape)}")
        ends = q.shape[2], q.shape[2] + k.shape[2]
        q, k, v = q + bias[: ends[0]], k + bias[ends[0] : ends[1]], v + bias[ends[1] :]
    return _mixed(call, q, k, v, added)


def _multi_head_shapes(call: Call, q: Known, k: Known | None = None, v: Known | None = None, bias: Known | None = None,
                       *others: Known | None) -> Known:  # fmt: skip
    _check(call, q, k, v)
    assert v is not None
    _heads(call, q.shape[2], v.shape[2])
    return Known(q.dtype, (*q.shape[:2], v.shape[2]))


def _widths(call: Call, x: Arr | Known, weights: Arr | Known) -> tuple[int, int, int]:
    if x.ndim != 3 or weights.ndim != 2 or x.shape[2] != weights.shape[0]:
        raise call.error(f"the input [batch, positions, size] and the weights [size, all] must fit together, not have "
                         f"the shapes {list(x.shape)} and {list(weights.shape)}")
    widths = tuple(int(size) for size in call.integers("qkv_hidden_sizes", ())) or (weights.shape[1] // 3,) * 3
    if len(widths) != 3 or sum(widths) != weights.shape[1] or widths[0] != widths[1]:
        raise call.error(f"'qkv_hidden_sizes' must be three sizes that make up {weights.shape[1]}, not {list(widths)}")
    return widths[0], widths[1], widths[2]


def _attention(
    call: Call, x: Arr, weights: Arr, bias: Arr | None = None, mask: Arr | None = None, past: Arr | None = None,
    added: Arr | None = None, length: Arr | None = None,
) -> Arr:  # fmt: skip
    _refuse(call, mask_index=mask, past=past, past_sequence_length=length)
    if call.integer("do_rotary", 0):
        raise call.error("'do_rotary' is not computed by hwflow", "export the model without fused rotary positions")
    widths, wide = _widths(call, x, weights), working_type(x.dtype)
    projected = np.matmul(x.astype(wide), weights.astype(wide))
    projected = projected if bias is None else projected + bias.astype(wide)
    q, k, v = np.split(projected.astype(x.dtype), np.cumsum(widths)[:2], axis=2)
    return _mixed(call, q, k, v, added)


def _attention_shapes(call: Call, x: Known, weights: Known, *others: Known | None) -> Known:
    widths = _widths(call, x, weights)
    _heads(call, widths[0], widths[2])
    return Known(x.dtype, (*x.shape[:2], widths[2]))


OPERATORS: Table = {
    (_DOMAIN, "FusedConv"): (Operator(1, _fused_conv, _fused_conv_shapes),),
    (_DOMAIN, "FusedMatMul"): (Operator(1, _fused_matmul, _fused_matmul_shapes),),
    (_DOMAIN, "FusedGemm"): (Operator(1, _fused_gemm, _fused_gemm_shapes),),
    (_DOMAIN, "Gelu"): (Operator(1, _gelu, as_first),),
    (_DOMAIN, "BiasGelu"): (Operator(1, _gelu, as_first),),
    (_DOMAIN, "FastGelu"): (Operator(1, _fast_gelu, as_first),),
    (_DOMAIN, "QuickGelu"): (Operator(1, _quick_gelu, as_first),),
    (_DOMAIN, "SkipLayerNormalization"): (Operator(1, _skip_layer_normalization, _skip_shapes),),
    **microsoft_quantized.OPERATORS,
    ("com.microsoft", "Attention"): (Operator(1, _attention, _attention_shapes),),
    ("com.microsoft", "MultiHeadAttention"): (Operator(1, _multi_head, _multi_head_shapes),),
}
