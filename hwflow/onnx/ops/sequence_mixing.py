"""Parts of sequence models beside attention: rotary positions, linear attention, causal convolution with a state."""

from __future__ import annotations

import math

import numpy as np

from hwflow.onnx.model import DType
from hwflow.onnx.ops.base import Arr, Call, Known, Operator, Table
from hwflow.onnx.ops.cells import sigmoid
from hwflow.onnx.ops.element_types import working_type
from hwflow.onnx.ops.shapes import as_first


def _rotary(call: Call, x: Arr, cos: Arr, sin: Arr, positions: Arr | None = None) -> Arr:
    """Turns pairs of elements of each head by the angle of their position (Su et al., arXiv:2104.09864).

    x [batch, heads, positions, size] or [batch, positions, heads * size]; cos and sin [batch, positions, half], or
    [maximum, half] with the positions [batch, positions] to take from it.
    """
    split = _rotary_split(call, x)
    dims = call.integer("rotary_embedding_dim") or split.shape[3]
    if dims < 0 or dims > split.shape[3] or dims % 2:
        raise call.error(f"'rotary_embedding_dim' must be even and at most the head size {split.shape[3]}, not {dims}")
    wide = working_type(x.dtype)
    c, s = (_angles(call, table, positions, split, dims).astype(wide, copy=False) for table in (cos, sin))
    turned, rest = split[..., :dims].astype(wide, copy=False), split[..., dims:]
    interleaved = bool(call.integer("interleaved"))
    a, b = (turned[..., 0::2], turned[..., 1::2]) if interleaved else np.split(turned, 2, axis=-1)
    real, imaginary = c * a - s * b, s * a + c * b
    if interleaved:
        turned = np.stack((real, imaginary), axis=-1).reshape(turned.shape)
    else:
        turned = np.concatenate((real, imaginary), axis=-1)
    y = np.concatenate((turned.astype(x.dtype, copy=False), rest), axis=-1)
    return y.reshape(x.shape) if x.ndim == 3 else y.swapaxes(1, 2)


def _rotary_split(call: Call, x: Arr) -> Arr:
    """x as [batch, positions, heads, size]."""
    if x.ndim == 4:
        return x.swapaxes(1, 2)
    heads = call.integer("num_heads", 0)
    if x.ndim != 3 or heads < 1 or x.shape[2] % heads:
        raise call.error(f"the input must have 4 axes, or 3 with 'num_heads' dividing the last, not {list(x.shape)}")
    return x.reshape(*x.shape[:2], heads, -1)


def _angles(call: Call, table: Arr, positions: Arr | None, x: Arr, dims: int) -> Arr:
    """The numbers for each position, as [batch, positions, 1, half]."""
    if positions is not None:
        if table.ndim != 2 or (positions.size and not 0 <= positions.min() <= positions.max() < len(table)):
            raise call.error(f"'position_ids' must be 0 or more and below the {len(table)} rows of the caches")
        table = table[positions]
    if table.shape != (*x.shape[:2], dims // 2):
        expected = [*x.shape[:2], dims // 2]
        raise call.error(f"the caches must give the shape {expected} for all positions, not {list(table.shape)}")
    return table[:, :, None]


_RULES = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}


def _linear_sizes(call: Call, q: Arr | Known, k: Arr | Known, v: Arr | Known) -> tuple[int, int, int, int]:
    """The numbers of query and key heads, and their sizes of keys and values."""
    heads, kv_heads = call.integer("q_num_heads"), call.integer("kv_num_heads")
    if heads < 1 or kv_heads < 1 or heads % kv_heads:
        raise call.error(f"'q_num_heads' must be a multiple of 'kv_num_heads', not {heads} and {kv_heads}")
    if not q.ndim == k.ndim == v.ndim == 3 or not q.shape[:2] == k.shape[:2] == v.shape[:2]:
        raise call.error("query, key and value must have three axes and agree in batch and positions")
    size, value_size = q.shape[2] // heads, v.shape[2] // kv_heads
    if (q.shape[2], k.shape[2], v.shape[2]) != (heads * size, kv_heads * size, kv_heads * value_size) or not size:
        raise call.error(f"the heads must divide the last axes, not {q.shape[2]}, {k.shape[2]} and {v.shape[2]}")
    return heads, kv_heads, size, value_size


def _linear_attention(
    call: Call,
    q: Arr,
    k: Arr,
    v: Arr,
    past: Arr | None = None,
    decay: Arr | None = None,
    beta: Arr | None = None,
) -> tuple[Arr, Arr]:
    """A state [batch, key heads, key size, value size] that each position changes and reads."""
    heads, kv_heads, size, value_size = _linear_sizes(call, q, k, v)
    gated, corrected = _rule(call, decay, beta)
    wide, (batch, steps) = working_type(q.dtype), q.shape[:2]
    call.check_size((batch, steps, heads, value_size), wide)
    call.check_size((batch, heads, size, value_size), wide)
    call.work(steps * max(1000, 3 * batch * heads * size * value_size))
    query = q.reshape(batch, steps, kv_heads, -1, size).astype(wide, copy=False)
    key, value = (a.reshape(batch, steps, kv_heads, -1).astype(wide, copy=False) for a in (k, v))
    state = np.zeros((batch, kv_heads, size, value_size), wide)
    if past is not None:
        if past.shape != state.shape:
            raise call.error(f"'past_state' must have the shape {list(state.shape)}, not {list(past.shape)}")
        state = past.astype(wide)
    decays = _per_step(call, "decay", decay, (batch, steps, kv_heads), (1, size), wide) if gated else None
    rate = _per_step(call, "beta", beta, (batch, steps, kv_heads), (1,), wide) if corrected else None
    scale = wide.type(call.number("scale") or 1 / math.sqrt(size))
    y = np.empty((batch, steps, kv_heads, heads // kv_heads, value_size), wide)
    for t in range(steps):
        if decays is not None:
            state = state * np.exp(decays[:, t])[..., None]
        new = value[:, t]
        if rate is not None:
            new = rate[:, t] * (new - np.matmul(key[:, t, :, None], state)[:, :, 0])
        state = state + key[:, t, :, :, None] * new[:, :, None]
        y[:, t] = np.matmul(query[:, t], state) * scale
    return y.reshape(batch, steps, -1).astype(q.dtype), state.astype(q.dtype if past is None else past.dtype)


def _rule(call: Call, decay: Arr | Known | None, beta: Arr | Known | None) -> tuple[bool, bool]:
    """Whether the rule forgets by 'decay', and whether it corrects by 'beta'."""
    name = call.text("update_rule")
    if name not in _RULES:
        raise call.error(f"'update_rule' must be one of {', '.join(_RULES)}, not {name!r}", "export the model again")
    if _RULES[name] != (decay is not None, beta is not None):
        raise call.error(f"the inputs 'decay' and 'beta' must be those that the rule {name!r} takes, no fewer, no more")
    return _RULES[name]


def _per_step(
    call: Call, name: str, operand: Arr | None, lead: tuple[int, int, int], sizes: tuple[int, ...], wide: DType
) -> Arr:
    """[batch, steps, heads * size] as [batch, steps, heads, size], with one of the sizes; one head may serve all."""
    assert operand is not None
    if name == "beta" and operand.shape == (*lead[:2], 1):
        return operand[..., None].astype(wide)
    if operand.ndim != 3 or operand.shape[:2] != lead[:2] or operand.shape[2] not in [lead[2] * size for size in sizes]:
        raise call.error(
            f"the input '{name}' must have the shape {[*lead[:2], lead[2] * sizes[0]]}, not {list(operand.shape)}"
        )
    return operand.reshape(*lead, -1).astype(wide)


def _linear_shapes(
    call: Call,
    q: Known,
    k: Known,
    v: Known,
    past: Known | None = None,
    decay: Known | None = None,
    beta: Known | None = None,
) -> tuple[Known, Known]:
    heads, kv_heads, size, value_size = _linear_sizes(call, q, k, v)
    _rule(call, decay, beta)
    state = (q.shape[0], kv_heads, size, value_size)
    return Known(q.dtype, (*q.shape[:2], heads * value_size)), Known(q.dtype if past is None else past.dtype, state)


def _check_causal(call: Call, x: Arr | Known, w: Arr | Known, b: Arr | Known | None, past: Arr | Known | None) -> int:
    """The kernel's length."""
    if x.ndim != 3 or w.ndim != 3 or w.shape[:2] != (x.shape[1], 1) or w.shape[2] < 1:
        raise call.error(
            f"the input must have the shape [batch, channels, length] and the weights [channels, 1, kernel], "
            f"not {list(x.shape)} and {list(w.shape)}"
        )
    if b is not None and b.shape != x.shape[1:2]:
        raise call.error(f"the bias must have the shape [{x.shape[1]}], not {list(b.shape)}")
    expected = (*x.shape[:2], w.shape[2] - 1)
    if past is not None and past.shape != expected:
        raise call.error(f"'past_state' must have the shape {list(expected)}, not {list(past.shape)}")
    return w.shape[2]


def _causal_conv(call: Call, x: Arr, w: Arr, b: Arr | None = None, past: Arr | None = None) -> tuple[Arr, Arr]:
    """Convolution of each channel [batch, channels, length] with what came before; the last elements are the state."""
    taps, wide = _check_causal(call, x, w, b, past), working_type(x.dtype)
    call.check_size((*x.shape[:2], x.shape[2] + taps - 1), wide)
    call.work(taps * max(1000, x.size))
    if past is None:
        past = np.zeros((*x.shape[:2], taps - 1), x.dtype)
    whole = np.concatenate((past, x), axis=2)
    values, weights = whole.astype(wide, copy=False), w.astype(wide, copy=False)
    y = np.zeros(x.shape, wide)
    for tap in range(taps):
        y += values[:, :, tap : tap + x.shape[2]] * weights[:, 0, tap, None]
    if b is not None:
        y += b.astype(wide, copy=False)[:, None]
    name = call.text("activation")
    if name not in ("none", "silu", "swish"):
        raise call.error(f"'activation' must be none, silu or swish, not {name!r}", "export the model again")
    y = y if name == "none" else y * sigmoid(y)
    return y.astype(x.dtype, copy=False), whole[:, :, x.shape[2] :]


def _causal_shapes(
    call: Call, x: Known, w: Known, b: Known | None = None, past: Known | None = None
) -> tuple[Known, Known]:
    taps = _check_causal(call, x, w, b, past)
    return Known(x.dtype, x.shape), Known(x.dtype, (*x.shape[:2], taps - 1))


OPERATORS: Table = {
    ("", "RotaryEmbedding"): (Operator(23, _rotary, as_first),),
    ("", "LinearAttention"): (Operator(27, _linear_attention, _linear_shapes),),
    ("", "CausalConvWithState"): (Operator(27, _causal_conv, _causal_shapes),),
}
