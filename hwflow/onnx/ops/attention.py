"""Scaled dot-product attention with masks, caches and shared heads, and its flexible form."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from hwflow.onnx.model import DType
from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.element_types import float_attribute, working_type

_Operand: TypeAlias = Arr | Known | None


@dataclass(frozen=True)
class _Sizes:
    """Sizes of a call: `past` and `new` keys make the total; each key head serves `heads / kv_heads` query heads."""

    batch: int
    heads: int
    kv_heads: int
    queries: int
    past: int
    new: int
    size: int
    value_size: int
    packed: bool  # heads in the last of three axes

    @property
    def keys(self) -> int:
        return self.past + self.new

    @property
    def scores(self) -> tuple[int, int, int, int]:
        return self.batch, self.heads, self.queries, self.keys


def _sizes(call: Call, q: Arr | Known, k: Arr | Known, v: Arr | Known, past: Arr | Known | None = None) -> _Sizes:
    shapes = f"not have the shapes {list(q.shape)}, {list(k.shape)} and {list(v.shape)}"
    if not q.ndim == k.ndim == v.ndim or q.ndim not in (3, 4):
        raise call.error(f"Q, K and V must all have 3 or all have 4 axes, {shapes}")
    if q.ndim == 3:
        heads, kv_heads = call.integer("q_num_heads", 0), call.integer("kv_num_heads", 0)
        if heads < 1 or kv_heads < 1 or q.shape[2] % heads or k.shape[2] % kv_heads or v.shape[2] % kv_heads:
            raise call.error(f"'q_num_heads' and 'kv_num_heads' must divide the last axes of Q, K and V, {shapes}")
        size, key_size, value_size = q.shape[2] // heads, k.shape[2] // kv_heads, v.shape[2] // kv_heads
        new, values = k.shape[1], v.shape[1]
        queries = q.shape[1]
    else:
        (heads, queries, size), (kv_heads, new, key_size), value_size = q.shape[1:], k.shape[1:], v.shape[3]
        values = v.shape[2] if v.shape[1] == kv_heads else -1
    if new != values or size != key_size or not q.shape[0] == k.shape[0] == v.shape[0] or not size:
        raise call.error(f"Q, K and V must agree in batch, heads, positions and head size, {shapes}")
    if kv_heads < 1 or heads % kv_heads:
        raise call.error(f"the {heads} heads of Q must be a multiple of the {kv_heads} heads of K and V")
    cached = 0 if past is None or past.ndim != 4 else past.shape[2]
    return _Sizes(q.shape[0], heads, kv_heads, queries, cached, new, size, value_size, q.ndim == 3)


def _check_extras(call: Call, s: _Sizes, past_key: _Operand, past_value: _Operand, lengths: _Operand) -> None:
    if (past_key is None) != (past_value is None) or (past_key is not None and lengths is not None):
        raise call.error("'past_key' and 'past_value' must be given together and without 'nonpad_kv_seqlen'")
    lead = (s.batch, s.kv_heads, s.past)
    for cache, size in ((past_key, s.size), (past_value, s.value_size)):
        if cache is not None and cache.shape != (*lead, size):
            raise call.error(f"past keys and values must have the shape {[*lead, size]}, not {list(cache.shape)}")
    if lengths is not None and lengths.shape != (s.batch,):
        raise call.error(f"'nonpad_kv_seqlen' must have the shape [{s.batch}], not {list(lengths.shape)}")


def _split(x: Arr, heads: int) -> Arr:
    """[batch, positions, heads * size] or [batch, heads, positions, size] to the latter."""
    return x if x.ndim == 4 else x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def _attention(
    call: Call,
    q: Arr,
    k: Arr,
    v: Arr,
    mask: Arr | None = None,
    past_key: Arr | None = None,
    past_value: Arr | None = None,
    lengths: Arr | None = None,
) -> tuple[Arr, Arr, Arr, Arr]:
    """Y, the present keys and values, and the scores at the stage that 'qk_matmul_output_mode' names."""
    s = _sizes(call, q, k, v, past_key)
    _check_extras(call, s, past_key, past_value, lengths)
    _check_work(call, s)
    key, value = _split(k, s.kv_heads), _split(v, s.kv_heads)
    if past_key is not None and past_value is not None:
        key, value = np.concatenate((past_key, key), axis=2), np.concatenate((past_value, value), axis=2)
    scale = call.number("scale", 1 / math.sqrt(s.size))
    mode, shown = call.integer("qk_matmul_output_mode"), []
    scores = _scores(s, _split(q, s.heads), key, scale)
    shown.append(scores)
    if cap := call.number("softcap"):
        scores = np.tanh(scores / scores.dtype.type(cap)) * scores.dtype.type(cap)
    shown.append(scores)
    allowed, added = _masks(call, s, mask, lengths, scores.dtype)
    scores = scores if added is None else scores + added
    scores = np.where(allowed, scores, scores.dtype.type(-np.inf))
    shown.append(scores)
    bias = np.where(allowed, 0 if added is None else added, -np.inf)
    open_rows = np.max(bias, axis=-1, keepdims=True, initial=-np.inf) > -np.inf
    precision = float_attribute(call, "softmax_precision", q.dtype)
    shares = np.where(open_rows, _softmax(scores, precision), 0).astype(q.dtype)
    shown.append(shares)
    if not 0 <= mode < len(shown):
        raise call.error(f"'qk_matmul_output_mode' must be 0 to 3, not {mode}", "export the model again")
    return _weighted(s, shares, value, q.dtype), key, value, shown[mode].astype(q.dtype, copy=False)


def _check_work(call: Call, s: _Sizes) -> None:
    call.check_size(s.scores, np.dtype(np.float64))
    call.work(math.prod(s.scores) * (s.size + s.value_size))


def _scores(s: _Sizes, q: Arr, key: Arr, scale: float) -> Arr:
    """[batch, heads, queries, keys] in the type of q; heads that share keys are one matrix product.

    Both factors are multiplied by the root of the scale and rounded, as the operator's definition has it.
    """
    wide, root = working_type(q.dtype), q.dtype.type(np.sqrt(scale))
    groups = (q * root).astype(wide, copy=False).reshape(s.batch, s.kv_heads, -1, s.size)
    product = np.matmul(groups, (key * root).astype(wide, copy=False).swapaxes(2, 3))
    return np.asarray(product).reshape(s.scores).astype(q.dtype, copy=False)


def _weighted(s: _Sizes, shares: Arr, value: Arr, dtype: DType) -> Arr:
    wide = working_type(dtype)
    groups = shares.astype(wide, copy=False).reshape(s.batch, s.kv_heads, -1, s.keys)
    y = np.asarray(np.matmul(groups, value.astype(wide, copy=False)))
    y = y.reshape(s.batch, s.heads, s.queries, s.value_size)
    if s.packed:
        y = y.swapaxes(1, 2).reshape(s.batch, s.queries, -1)
    return y.astype(dtype, copy=False)


def _softmax(x: Arr, precision: DType) -> Arr:
    """Over the last axis, in a precision; rows of -infinity alone give not-a-number."""
    x = x.astype(precision, copy=False)
    x = np.exp(x - np.max(x, axis=-1, keepdims=True, initial=-np.inf))
    total = np.sum(x, axis=-1, keepdims=True, dtype=working_type(precision)).astype(precision, copy=False)
    return np.asarray(x / total)


def _masks(
    call: Call, s: _Sizes, mask: Arr | None, lengths: Arr | None, dtype: DType
) -> tuple[Arr, Arr | None]:
    """Which keys a query may see, and what is added to the scores; both broadcast to the scores."""
    allowed: Arr = np.ones((1, 1, s.queries, s.keys), np.bool_)
    before = np.full((1, 1, 1, 1), s.past)  # keys in front of the first query
    at = np.arange(s.keys)
    if lengths is not None:
        before = (lengths - s.queries).reshape(-1, 1, 1, 1)
        allowed = allowed & (at < lengths.reshape(-1, 1, 1, 1))
    ahead = at - before - np.arange(s.queries)[:, None]
    if call.integer("is_causal"):
        allowed = allowed & (ahead <= 0)
    for name, distance in (("left_window_size", -ahead), ("right_window_size", ahead)):
        if (bound := call.integer(name, -1)) >= 0:
            allowed = allowed & (distance <= bound)
    if mask is None:
        return allowed, None
    if not mask.ndim or mask.ndim > 4 or mask.shape[-1] > s.keys:
        raise call.error(f"the mask must broadcast to {list(s.scores)}, not have the shape {list(mask.shape)}")
    allowed = allowed & (at < mask.shape[-1])
    padded = np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, s.keys - mask.shape[-1])])
    try:
        np.broadcast_to(padded, s.scores)
    except ValueError:
        raise call.error(
            f"the mask must broadcast to {list(s.scores)}, not have the shape {list(mask.shape)}"
        ) from None
    return (allowed & padded, None) if mask.dtype == np.bool_ else (allowed, padded.astype(dtype))


def _shapes(
    call: Call,
    q: Known,
    k: Known,
    v: Known,
    mask: Known | None = None,
    past_key: Known | None = None,
    past_value: Known | None = None,
    lengths: Known | None = None,
) -> tuple[Known, ...]:
    s = _sizes(call, q, k, v, past_key)
    _check_extras(call, s, past_key, past_value, lengths)
    return (
        Known(q.dtype, _output_shape(s)),
        Known(k.dtype, (s.batch, s.kv_heads, s.keys, s.size)),
        Known(v.dtype, (s.batch, s.kv_heads, s.keys, s.value_size)),
        Known(q.dtype, s.scores),
    )


def _output_shape(s: _Sizes) -> tuple[int, ...]:
    if s.packed:
        return s.batch, s.queries, s.heads * s.value_size
    return s.batch, s.heads, s.queries, s.value_size


def _flex_attention(call: Call, q: Arr, k: Arr, v: Arr) -> Arr:
    """Attention whose scores and shares the graphs 'score_mod' and 'prob_mod' may change."""
    s = _flex_sizes(call, q, k, v)
    _check_work(call, s)
    usual = np.dtype(np.float64 if q.dtype == np.float64 else np.float32)
    precision = float_attribute(call, "softmax_precision", usual)
    scores = _scores(s, q, k, call.number("scale", 1 / math.sqrt(s.size))).astype(precision, copy=False)
    shares = _softmax(_modified(call, "score_mod", scores), precision)
    return _weighted(s, _modified(call, "prob_mod", shares), v, q.dtype)


def _modified(call: Call, name: str, x: Arr) -> Arr:
    if not call.has(name):
        return x
    (y,) = call.subgraph(name, (x,))
    if not isinstance(y, np.ndarray) or y.shape != x.shape or y.dtype != x.dtype:
        raise call.error(f"'{name}' must give a tensor of the type and shape that it takes", "export the model again")
    return y


def _flex_sizes(call: Call, q: Arr | Known, k: Arr | Known, v: Arr | Known) -> _Sizes:
    if q.ndim != 4:
        raise call.error(f"Q, K and V must have 4 axes, not the shape {list(q.shape)}")
    return _sizes(call, q, k, v)


def _flex_shapes(call: Call, q: Known, k: Known, v: Known) -> Known:
    return Known(q.dtype, _output_shape(_flex_sizes(call, q, k, v)))


OPERATORS: Table = {
    ("", "Attention"): (Operator(23, _attention, _shapes),),
    ("ai.onnx.preview", "FlexAttention"): (Operator(1, _flex_attention, _flex_shapes),),
}
