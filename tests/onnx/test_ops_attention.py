"""Attention and the parts of sequence models against their definitions, written out head by head and step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hwflow.onnx
from hwflow.onnx.build import Builder, make_graph, make_node, tensor_type
from hwflow.onnx.model import Value
from tests.onnx.neural import Case, case, draw, error_of, evaluated

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
    return y


def heads(count: int, kv_count: int, keys: int = KEYS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return (
        draw(BATCH, count, QUERIES, SIZE),
        draw(BATCH, kv_count, keys, SIZE, seed=1),
        draw(BATCH, kv_count, keys, VALUE_SIZE, seed=2),
    )


def packed(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1))


def masked(allowed: Any, count: int = 4, keys: int = KEYS) -> np.ndarray:
    return np.broadcast_to(np.where(allowed, 0.0, -np.inf), (BATCH, count, QUERIES, keys))


def near(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kv_count", [1, 2, 4])
@pytest.mark.parametrize("opset", [23, 24, 25])
def test_shared_heads(opset, kv_count) -> None:
    q, k, v = heads(4, kv_count)
    expected = attend(q, k, v, masked(True), 0.5)
    near(evaluated(case("Attention", opset, q, k, v))[0], expected)
    flat = case("Attention", opset, packed(q), packed(k), packed(v), q_num_heads=4, kv_num_heads=kv_count)
    near(evaluated(flat)[0], packed(expected))


@pytest.mark.parametrize("cap", [0.0, 0.7])
def test_scale_and_cap(cap) -> None:
    q, k, v = heads(4, 2)
    found = evaluated(case("Attention", 23, q, k, v, scale=0.3, softcap=cap))[0]
    near(found, attend(q, k, v, masked(True), 0.3, cap))


def test_causal_with_a_cache() -> None:
    """Queries stand behind the keys of the cache; all keys come out again."""
    q, k, v = heads(4, 2)
    past_k, past_v = draw(BATCH, 2, 3, SIZE, seed=3), draw(BATCH, 2, 3, VALUE_SIZE, seed=4)
    y, key, value = evaluated(case("Attention", 23, q, k, v, None, past_k, past_v, is_causal=1, outputs=3))
    np.testing.assert_array_equal(key, np.concatenate((past_k, k), 2))
    np.testing.assert_array_equal(value, np.concatenate((past_v, v), 2))
    allowed = np.arange(8) <= np.arange(QUERIES)[:, None] + 3
    near(y, attend(q, key, value, masked(allowed, keys=8), 0.5))


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", ["bool", "float", "short"])
def test_masks(rank, kind) -> None:
    """Of any rank that broadcasts; a mask that is too short lets nothing behind it through."""
    q, k, v = heads(4, 2)
    shape = (BATCH, 4, QUERIES, KEYS - 2 if kind == "short" else KEYS)[4 - rank :]
    mask = draw(*shape) if kind == "float" else draw(*shape) > -0.5
    mask[..., 0] = 1
    added = np.where(mask, 0.0, -np.inf) if mask.dtype == np.bool_ else mask.astype(np.float64)
    added = np.pad(added, [(0, 0)] * (rank - 1) + [(0, KEYS - shape[-1])], constant_values=-np.inf)
    near(evaluated(case("Attention", 24, q, k, v, mask))[0], attend(q, k, v, masked(True) + added, 0.5))


def test_lengths() -> None:
    """Keys behind the length are padding; queries stand at the end of those in front of it."""
    q, k, v = heads(4, 4)
    lengths = np.array([2, 5], np.int64)
    inputs = (q, k, v, None, None, None, lengths)
    seen = np.arange(KEYS) < lengths.reshape(2, 1, 1, 1)
    near(evaluated(case("Attention", 24, *inputs))[0], attend(q, k, v, masked(seen), 0.5))
    causal = seen & (np.arange(KEYS) <= np.arange(QUERIES)[:, None] + lengths.reshape(2, 1, 1, 1) - QUERIES)
    found = evaluated(case("Attention", 24, *inputs, is_causal=1))[0]
    near(found, attend(q, k, v, masked(causal), 0.5))
    assert not found[0, :, 0].any()  # the first query of the short sample sees no key


@pytest.mark.parametrize(("left", "right"), [(1, -1), (-1, 0), (2, 1), (0, 0)])
def test_window(left, right) -> None:
    q, k, v = heads(4, 2)
    distance = np.arange(KEYS) - np.arange(QUERIES)[:, None]
    allowed = (distance >= -left if left >= 0 else True) & (distance <= right if right >= 0 else np.True_)
    found = evaluated(case("Attention", 25, q, k, v, left_window_size=left, right_window_size=right))[0]
    near(found, attend(q, k, v, masked(allowed), 0.5))


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_scores(mode) -> None:
    q, k, v = heads(4, 4)
    mask = draw(QUERIES, KEYS)
    raw = q.astype(np.float64) @ k.swapaxes(2, 3) * 0.5
    capped = np.tanh(raw / 0.8) * 0.8
    shares = np.exp(capped + mask) / np.exp(capped + mask).sum(-1, keepdims=True)
    wanted = case("Attention", 24, q, k, v, mask, softcap=0.8, qk_matmul_output_mode=mode)
    found = evaluated(Case("Attention", 24, wanted.inputs, wanted.attributes, (True, False, False, True)))[1]
    near(found, [raw, capped, capped + mask, shares][mode])


def test_float16() -> None:
    q, k, v = heads(4, 2)
    found = evaluated(case("Attention", 23, *(a.astype(np.float16) for a in (q, k, v)), softmax_precision=1))[0]
    assert found.dtype == np.float16
    np.testing.assert_allclose(found.astype(np.float32), attend(q, k, v, masked(True), 0.5), atol=5e-3)


def test_flex_attention() -> None:
    """The graphs see the scores and the shares in the precision of the softmax."""
    q, k, v = (a.astype(np.float16) for a in heads(4, 2))
    b = Builder()
    names = [b.input(n, a.dtype, a.shape) for n, a in zip("qkv", (q, k, v), strict=True)]
    shape = (BATCH, 4, QUERIES, KEYS)
    graphs = {
        name: make_graph(
            [make_node("Mul", ["s", "two"], ["t"])],
            [Value("s", tensor_type(np.float32, shape))],
            [Value("t", tensor_type(np.float32, shape))],
            {"two": np.float32(2)},
        )
        for name in ("score_mod", "prob_mod")
    }
    b.output(b.nodes("FlexAttention", *names, outputs=["y"], domain="ai.onnx.preview", name="n", **graphs)[0])
    model = b.model(opset=25, opsets={"ai.onnx.preview": 1})
    found = hwflow.onnx.evaluate(model, dict(zip("qkv", (q, k, v), strict=True)))["y"]
    assert found.dtype == np.float16
    np.testing.assert_allclose(found.astype(np.float32), 2 * attend(q, k, v, masked(True), 1.0), atol=5e-3)


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize("each", [False, True])
def test_linear_attention(rule, each) -> None:
    """The recurrences of the specification, for four query heads that share two states."""
    q, k, v = draw(2, 6, 4 * 3), draw(2, 6, 2 * 3, seed=1), draw(2, 6, 2 * 5, seed=2)
    past = draw(2, 2, 3, 5, seed=3)
    decay = -draw(2, 6, 2 * (3 if each else 1), low=0.0) if "gated" in rule else None
    beta = draw(2, 6, 2 if each else 1, low=0.0) if "delta" in rule else None
    attributes = {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": rule}
    y, state = evaluated(
        case("LinearAttention", 27, q, k, v, past, decay, beta, outputs=2, attributes=attributes)
    )
    expected, s = np.zeros((2, 6, 4, 5)), past.astype(np.float64)
    for b, t, h in np.ndindex(2, 6, 2):
        key, value = k[b, t, 3 * h : 3 * h + 3], v[b, t, 5 * h : 5 * h + 5]
        if decay is not None:
            s[b, h] *= np.exp(decay[b, t].reshape(2, -1)[h])[:, None]
        change = value if beta is None else beta[b, t, h if each else 0] * (value - s[b, h].T @ key)
        s[b, h] += np.outer(key, change)
        for g in range(2):
            at = 2 * h + g
            expected[b, t, at] = q[b, t, 3 * at : 3 * at + 3] @ s[b, h] / np.sqrt(3)
    near(y, expected.reshape(2, 6, -1))
    near(state, s)


@pytest.mark.parametrize("activation", ["none", "silu"])
@pytest.mark.parametrize("steps", [1, 7])
@pytest.mark.parametrize("cached", [False, True])
def test_causal_conv(activation, steps, cached) -> None:
    x, w, b = draw(2, 3, steps), draw(3, 1, 4), draw(3)
    past = draw(2, 3, 3, seed=1) if cached else None
    y, state = evaluated(case("CausalConvWithState", 27, x, w, b, past, outputs=2, activation=activation))
    whole = np.concatenate((np.zeros((2, 3, 3), np.float32) if past is None else past, x), 2)
    expected = np.stack([(whole[:, :, t : t + 4] * w[:, 0]).sum(2) + b for t in range(steps)], 2)
    near(y, expected / (1 + np.exp(-expected)) if activation == "silu" else expected)
    np.testing.assert_array_equal(state, whole[:, :, -3:])


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("dims", [0, 4])
@pytest.mark.parametrize("taken", [False, True])
def test_rotary(interleaved, dims, taken) -> None:
    x, positions = draw(2, 3, 5, 8), np.array([[0, 1, 2, 3, 9], [4, 4, 0, 7, 1]], np.int64)
    half = (dims or 8) // 2
    angles = draw(10, half)
    cos, sin = np.cos(angles), np.sin(angles)
    tables = (cos, sin, positions) if taken else (cos[positions], sin[positions])
    attributes = {"interleaved": interleaved, "rotary_embedding_dim": dims}
    found = evaluated(case("RotaryEmbedding", 23, x, *tables, attributes=attributes))[0]
    expected = x.copy()
    for b, h, t, i in np.ndindex(2, 3, 5, half):
        first, second = (2 * i, 2 * i + 1) if interleaved else (i, i + half)
        c, s = cos[positions[b, t], i], sin[positions[b, t], i]
        expected[b, h, t, first] = c * x[b, h, t, first] - s * x[b, h, t, second]
        expected[b, h, t, second] = s * x[b, h, t, first] + c * x[b, h, t, second]
    near(found, expected)
    flat = case("RotaryEmbedding", 23, packed(x), *tables, num_heads=3, attributes=attributes)
    near(evaluated(flat)[0], packed(expected))


Q, K, V = heads(4, 2)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (case("Attention", 23, packed(Q), packed(K), packed(V)),
         "'q_num_heads' and 'kv_num_heads' must divide the last axes of Q, K and V, "
         "not have the shapes [2, 3, 16], [2, 5, 8] and [2, 5, 12]"),
        (case("Attention", 23, Q, draw(2, 3, 5, 4), draw(2, 3, 5, 6)),
         "the 4 heads of Q must be a multiple of the 3 heads of K and V"),
        (case("Attention", 23, Q, K, V, np.ones((2, 2), np.bool_)),
         "the mask must broadcast to [2, 4, 3, 5], not have the shape [2, 2]"),
        (case("Attention", 23, Q, K, V, qk_matmul_output_mode=4),
         "'qk_matmul_output_mode' must be 0 to 3, not 4; export the model again"),
        (case("LinearAttention", 27, draw(1, 2, 4), draw(1, 2, 4), draw(1, 2, 4), q_num_heads=2, kv_num_heads=2),
         "the inputs 'decay' and 'beta' must be those that the rule 'gated_delta' takes, no fewer, no more"),
        (case("RotaryEmbedding", 23, draw(1, 1, 2, 4), draw(3, 2), draw(3, 2), np.array([[0, 3]])),
         "'position_ids' must be 0 or more and below the 3 rows of the caches"),
    ],
    ids=lambda value: value.label if isinstance(value, Case) else "",
)  # fmt: skip
def test_message(wanted, message) -> None:
    assert error_of(wanted) == message
