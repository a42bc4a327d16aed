"""Forms of attention and the parts of sequence models against their definitions, head by head and step by step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.onnx.forms.elementwise import each, logistic
from tests.onnx.forms.form import Case, case, draw, ints

BATCH, QUERIES, KEYS, SIZE, VALUE_SIZE = 2, 3, 5, 4, 6


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: np.ndarray, scale: float, cap: float = 0) -> np.ndarray:
    """[batch, heads, queries, size] one head and one query at a time; a query that sees no key gives 0."""
    batch, heads, queries, _ = q.shape
    y = np.zeros((batch, heads, queries, v.shape[-1]))
    for b, h, i in np.ndindex(batch, heads, queries):
        shared = h // (heads // k.shape[1])
        scores = k[b, shared].astype(np.float64) @ q[b, h, i] * scale
        scores = (np.tanh(scores / cap) * cap if cap else scores) + bias[b, h, i]
        if np.isneginf(bias[b, h, i]).all():
            continue
        shares = np.exp(scores - scores.max())
        y[b, h, i] = shares / shares.sum() @ v[b, shared]
    return y.astype(np.float32)


def heads(count: int, kv_count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return (
        draw(BATCH, count, QUERIES, SIZE),
        draw(BATCH, kv_count, KEYS, SIZE, seed=1),
        draw(BATCH, kv_count, KEYS, VALUE_SIZE, seed=2),
    )


def packed(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1))


def masked(allowed: Any, keys: int = KEYS) -> np.ndarray:
    return np.broadcast_to(np.where(allowed, 0.0, -np.inf), (BATCH, 4, QUERIES, keys))


def cases() -> Iterator[Case]:
    yield from _attention()
    yield from _masks(*heads(4, 2))
    yield from _scores()
    yield from _linear_attention()
    yield from _causal_convolutions()
    yield from _rotations()


def _attention() -> Iterator[Case]:
    """Shared heads, in four axes and in three; scale, cap and the precision of the softmax; a cache."""
    for kv_count in (1, 2, 4):
        q, k, v = heads(4, kv_count)
        answer = attend(q, k, v, masked(True), 0.5)
        yield from each("Attention", (23, 24, 25), q, k, v, expected=answer)
        yield from each("Attention", (23, 24, 25), packed(q), packed(k), packed(v), q_num_heads=4,
                        kv_num_heads=kv_count, expected=packed(answer))  # fmt: skip
    q, k, v = heads(4, 2)
    for cap in (0.0, 0.7):
        yield case("Attention", 23, q, k, v, scale=0.3, softcap=cap, expected=attend(q, k, v, masked(True), 0.3, cap))
    half, answer = [a.astype(np.float16) for a in (q, k, v)], attend(q, k, v, masked(True), 0.5)
    yield case("Attention", 23, *half, softmax_precision=1, expected=answer.astype(np.float16), tolerance=3e-3)
    # Queries stand behind the keys of the cache; all keys come out again.
    past = draw(BATCH, 2, 3, SIZE, seed=3), draw(BATCH, 2, 3, VALUE_SIZE, seed=4)
    key, value = np.concatenate((past[0], k), 2), np.concatenate((past[1], v), 2)
    allowed = np.arange(8) <= np.arange(QUERIES)[:, None] + 3
    yield case("Attention", 23, q, k, v, None, *past, is_causal=1, outputs=3,
               expected=[attend(q, key, value, masked(allowed, 8), 0.5), key, value])  # fmt: skip


def _masks(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> Iterator[Case]:
    """Of any rank that broadcasts; a mask that is too short lets nothing behind it through; lengths and windows."""
    for rank in (1, 2, 3, 4):
        for kind in ("bool", "float", "short"):
            shape = (BATCH, 4, QUERIES, KEYS - 2 if kind == "short" else KEYS)[4 - rank :]
            mask = draw(*shape) if kind == "float" else draw(*shape) > -0.5
            mask[..., 0] = 1
            added = np.where(mask, 0.0, -np.inf) if mask.dtype == np.bool_ else mask.astype(np.float64)
            added = np.pad(added, [(0, 0)] * (rank - 1) + [(0, KEYS - shape[-1])], constant_values=-np.inf)
            yield case("Attention", 24, q, k, v, mask, expected=attend(q, k, v, masked(True) + added, 0.5))
    many = heads(4, 4)
    lengths = ints(2, 5).reshape(2, 1, 1, 1)  # the first query of the short sample sees no key where it is causal
    seen = np.arange(KEYS) < lengths
    causal = seen & (np.arange(KEYS) <= np.arange(QUERIES)[:, None] + lengths - QUERIES)
    for how, allowed in (({}, seen), ({"is_causal": 1}, causal)):
        yield case("Attention", 24, *many, None, None, None, lengths.reshape(2), attributes=how,
                   expected=attend(*many, masked(allowed), 0.5))  # fmt: skip
    distance = np.arange(KEYS) - np.arange(QUERIES)[:, None]
    for left, right in ((1, -1), (-1, 0), (2, 1), (0, 0)):
        allowed = (distance >= -left if left >= 0 else True) & (distance <= right if right >= 0 else np.True_)
        yield case("Attention", 25, q, k, v, left_window_size=left, right_window_size=right,
                   expected=attend(q, k, v, masked(allowed), 0.5))  # fmt: skip


def _scores() -> Iterator[Case]:
    q, k, v = heads(4, 4)
    mask = draw(QUERIES, KEYS)
    raw = q.astype(np.float64) @ k.swapaxes(2, 3) * 0.5
    capped = np.tanh(raw / 0.8) * 0.8
    shares = np.exp(capped + mask) / np.exp(capped + mask).sum(-1, keepdims=True)
    y = attend(q, k, v, np.broadcast_to(mask, (BATCH, 4, QUERIES, KEYS)), 0.5, 0.8)
    for mode, scores in enumerate((raw, capped, capped + mask, shares)):
        yield case("Attention", 24, q, k, v, mask, softcap=0.8, qk_matmul_output_mode=mode,
                   outputs=(True, False, False, True), expected=[y, scores.astype(np.float32)])  # fmt: skip


def _linear_attention() -> Iterator[Case]:
    """The recurrences of the specification, for four query heads that share two states."""
    q, k, v = draw(2, 6, 4 * 3), draw(2, 6, 2 * 3, seed=1), draw(2, 6, 2 * 5, seed=2)
    past = draw(2, 2, 3, 5, seed=3)
    for rule in ("linear", "gated", "delta", "gated_delta"):
        for per_head in (False, True):
            decay = -draw(2, 6, 2 * (3 if per_head else 1), low=0.0) if "gated" in rule else None
            beta = draw(2, 6, 2 if per_head else 1, low=0.0) if "delta" in rule else None
            y, s = np.zeros((2, 6, 4, 5)), past.astype(np.float64)
            for b, t, h in np.ndindex(2, 6, 2):
                key, value = k[b, t, 3 * h : 3 * h + 3], v[b, t, 5 * h : 5 * h + 5]
                if decay is not None:
                    s[b, h] *= np.exp(decay[b, t].reshape(2, -1)[h])[:, None]
                change = value if beta is None else beta[b, t, h if per_head else 0] * (value - s[b, h].T @ key)
                s[b, h] += np.outer(key, change)
                for at in (2 * h, 2 * h + 1):
                    y[b, t, at] = q[b, t, 3 * at : 3 * at + 3] @ s[b, h] / np.sqrt(3)
            yield case("LinearAttention", 27, q, k, v, past, decay, beta, outputs=2, q_num_heads=4, kv_num_heads=2,
                       update_rule=rule, expected=[a.astype(np.float32) for a in (y.reshape(2, 6, -1), s)])  # fmt: skip


def _causal_convolutions() -> Iterator[Case]:
    for steps in (1, 7):
        x, w, b = draw(2, 3, steps), draw(3, 1, 4), draw(3)
        for past in (None, draw(2, 3, 3, seed=1)):
            row = np.concatenate((np.zeros((2, 3, 3), np.float32) if past is None else past, x), 2)
            y = np.stack([(row[:, :, t : t + 4] * w[:, 0]).sum(2) + b for t in range(steps)], 2)
            for activation, answer in (("none", y), ("silu", y * logistic(y))):
                yield case("CausalConvWithState", 27, x, w, b, past, outputs=2, activation=activation,
                           expected=[answer, row[:, :, -3:]])  # fmt: skip


def _rotations() -> Iterator[Case]:
    x, positions = draw(2, 3, 5, 8), np.array([[0, 1, 2, 3, 9], [4, 4, 0, 7, 1]], np.int64)
    for interleaved in (0, 1):
        for dims in (0, 4):
            half = (dims or 8) // 2
            cos, sin, y = np.cos(draw(10, half)), np.sin(draw(10, half)), x.copy()
            for b, h, t, i in np.ndindex(2, 3, 5, half):
                first, second = (2 * i, 2 * i + 1) if interleaved else (i, i + half)
                c, s = cos[positions[b, t], i], sin[positions[b, t], i]
                y[b, h, t, first] = c * x[b, h, t, first] - s * x[b, h, t, second]
                y[b, h, t, second] = s * x[b, h, t, first] + c * x[b, h, t, second]
            how = {"interleaved": interleaved, "rotary_embedding_dim": dims}
            for tables in ((cos, sin, positions), (cos[positions], sin[positions])):
                yield case("RotaryEmbedding", 23, x, *tables, attributes=how, expected=y)
                yield case("RotaryEmbedding", 23, packed(x), *tables, num_heads=3, attributes=how, expected=packed(y))
