"""com.microsoft: attention with the heads side by side, with and without the projections in front.

The definitions: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.  Padding, caches and
packed operands are refused.
"""

from __future__ import annotations

import math

import numpy as np

from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.precision import working_type

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
    found = tuple(int(size) for size in call.integers("qkv_hidden_sizes", ())) or (weights.shape[1] // 3,) * 3
    if len(found) != 3 or sum(found) != weights.shape[1] or found[0] != found[1]:
        raise call.error(f"'qkv_hidden_sizes' must be three sizes that make up {weights.shape[1]}, not {list(found)}")
    return found[0], found[1], found[2]


def _attention(
    call: Call, x: Arr, weights: Arr, bias: Arr | None = None, mask: Arr | None = None, past: Arr | None = None,
    added: Arr | None = None, length: Arr | None = None,
) -> Arr:  # fmt: skip
    _refuse(call, mask_index=mask, past=past, past_sequence_length=length)
    if call.integer("do_rotary", 0):
        raise call.error("'do_rotary' is not computed by hwflow", "export the model without fused rotary positions")
    widths, wide = _widths(call, x, weights), working_type(x.dtype)
    made = np.matmul(x.astype(wide), weights.astype(wide))
    made = made if bias is None else made + bias.astype(wide)
    q, k, v = np.split(made.astype(x.dtype), np.cumsum(widths)[:2], axis=2)
    return _mixed(call, q, k, v, added)


def _attention_shapes(call: Call, x: Known, weights: Known, *others: Known | None) -> Known:
    widths = _widths(call, x, weights)
    _heads(call, widths[0], widths[2])
    return Known(x.dtype, (*x.shape[:2], widths[2]))


OPERATORS: Table = {
    ("com.microsoft", "Attention"): (Operator(1, _attention, _attention_shapes),),
    ("com.microsoft", "MultiHeadAttention"): (Operator(1, _multi_head, _multi_head_shapes),),
}
