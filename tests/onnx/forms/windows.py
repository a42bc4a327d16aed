"""Forms of convolutions and pools: every version, window, group and rank."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from hwflow.onnx.schemas import versions_of
from tests.onnx.forms.elementwise import each
from tests.onnx.forms.form import Case, case, draw

#: Shapes of inputs and weights, and attributes.
CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 9, 8), (4, 3, 3, 3), {}),
    ((1, 3, 9, 8), (4, 3, 3, 2), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    ((1, 3, 9, 8), (4, 3, 1, 1), {"strides": [2, 2]}),
    ((1, 3, 11, 10), (4, 3, 3, 3), {"dilations": [2, 3], "pads": [2, 3, 2, 3]}),
    ((1, 4, 9, 8), (6, 2, 3, 3), {"group": 2}),
    ((2, 4, 9, 8), (4, 1, 3, 3), {"group": 4, "pads": [1, 1, 1, 1]}),
    ((1, 4, 9, 8), (8, 1, 3, 3), {"group": 4}),
    ((1, 4, 9, 8), (4, 1, 3, 3), {"group": 4, "dilations": [2, 1], "strides": [1, 2]}),
    ((1, 3, 9, 8), (4, 3, 4, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ((1, 3, 9, 8), (4, 3, 4, 3), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    ((1, 3, 9, 8), (4, 3, 2, 3), {"auto_pad": "SAME_LOWER"}),
    ((1, 3, 9, 8), (4, 3, 3, 3), {"auto_pad": "VALID", "strides": [2, 3]}),
    ((2, 6, 20), (4, 6, 5), {"pads": [2, 2], "strides": [2]}),
    ((1, 6, 20), (6, 1, 3), {"group": 6, "auto_pad": "SAME_UPPER"}),
    ((1, 2, 5, 6, 7), (3, 2, 2, 3, 2), {"pads": [1, 0, 1, 0, 1, 0]}),
]
TRANSPOSED: list[dict[str, Any]] = [
    {},
    {"strides": [2, 3]},
    {"strides": [2, 2], "pads": [1, 0, 1, 2]},
    {"strides": [3, 2], "output_padding": [2, 1]},
    {"dilations": [2, 1], "strides": [1, 2]},
    {"strides": [2, 2], "output_shape": [10, 13]},
    {"strides": [2, 2], "output_shape": [9, 12], "auto_pad": "SAME_UPPER"},
    {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
    {"strides": [2, 2], "auto_pad": "VALID"},
]
POOLS: list[dict[str, Any]] = [
    {"kernel_shape": [3, 2]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 0, 1, 1]},
    {"kernel_shape": [2, 3], "strides": [2, 1], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [2, 3], "strides": [2, 1], "auto_pad": "SAME_LOWER"},
    {"kernel_shape": [2, 3], "strides": [2, 3], "auto_pad": "VALID"},
]
#: Windows that need an operator set from 10 on.
CEILED: list[dict[str, Any]] = [
    {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
    {"kernel_shape": [2, 2], "strides": [2, 3], "ceil_mode": 1},
    {"kernel_shape": [2, 2], "strides": [3, 3], "ceil_mode": 1, "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 3], "strides": [3, 3], "ceil_mode": 1, "pads": [1, 1, 1, 1]},
]
X = draw(1, 2, 7, 8)


def cases() -> Iterator[Case]:
    yield from _convolutions()
    yield from _transposed()
    yield from _deformed()
    yield from _max_pools()
    yield from _average_pools()
    yield from _power_pools()
    yield from _global_pools()
    yield from _far_kernels()


def _convolutions() -> Iterator[Case]:
    for x, w, how in CONVOLUTIONS:
        for bias in ((), (draw(w[0]),)):
            weights, how = draw(*w), {"kernel_shape": list(w[2:]), **how}
            yield from each("Conv", (1, 11, 22), draw(*x), weights, *bias, attributes=how,
                            constants=(1, 2)[: 1 + len(bias)])  # fmt: skip
        yield case("Conv", 22, draw(*x), draw(*w), draw(w[0]), attributes=how)
    yield from each("Conv", (1, 11, 22), draw(1, 4, 6, 5), draw(4, 4, 3, 2), draw(4))
    for dtype in (np.float16, np.float64):
        inputs = [draw(1, 2, 6, 6), draw(3, 2, 3, 3), draw(3)]
        plain = np.array([[[[(inputs[0][0, :, i : i + 3, j : j + 3] * w).sum() + b for j in range(4)] for i in range(4)]
                           for w, b in zip(*inputs[1:], strict=True)]])  # fmt: skip
        tolerance = 5e-3 if dtype is np.float16 else 1e-5
        yield case("Conv", 11, *(a.astype(dtype) for a in inputs), expected=plain.astype(dtype), tolerance=tolerance)


def _transposed() -> Iterator[Case]:
    for how in TRANSPOSED:
        for since, group in ((1, 1), (11, 2), (22, 4)):
            x, w, b = draw(1, 4, 5, 6), draw(4, 3, 3, 3), draw(3 * group)
            yield case("ConvTranspose", since, x, w, b, attributes=how if group == 1 else {**how, "group": group})
    for shape in ((1, 2, 9), (1, 2, 4, 3, 5)):
        rank = len(shape) - 2
        yield case("ConvTranspose", 11, draw(*shape), draw(2, 3, *(3, 2, 2)[:rank]), strides=[2] * rank)


def _deformed() -> Iterator[Case]:
    sizes: list[tuple[dict[str, Any], tuple[int, int]]] = [
        ({}, (5, 5)), ({"strides": [2, 1], "pads": [1, 0, 1, 2]}, (4, 7)), ({"dilations": [2, 1]}, (4, 5))]  # fmt: skip
    for how, size in sizes:
        for groups, masked in ((1, False), (2, True)):
            x, w, b = draw(2, 4, 6, 7), draw(6, 4 // groups, 2, 3), draw(6)
            offset = draw(2, 2 * 2 * 2 * 3, *size) * 2
            mask = draw(2, 2 * 2 * 3, *size, low=0.0) if masked else None
            answer = deform_conv(x, w, offset, b, mask, how, groups).astype(np.float32)
            yield from each("DeformConv", (19, 22), x, w, offset, b, mask, group=groups, offset_group=2, attributes=how,
                            expected=answer, tolerance=1e-4)  # fmt: skip


def deform_conv(x, w, offset, b, mask, attributes, groups) -> np.ndarray:
    """Element by element, with two offset groups."""
    (sh, sw), (dh, dw) = attributes.get("strides", (1, 1)), attributes.get("dilations", (1, 1))
    top, left = attributes.get("pads", (0, 0, 0, 0))[:2]
    n, c, height, width = x.shape
    m, per_group, kh, kw = w.shape
    y = np.zeros((n, m, *offset.shape[2:]))
    moved = offset.reshape(n, 2, kh, kw, 2, *offset.shape[2:])
    shape = (n, 2, kh, kw, *offset.shape[2:])
    weights = np.ones(shape) if mask is None else mask.reshape(shape)
    for s, o, i, j in np.ndindex(y.shape):
        for k, p, q in np.ndindex(per_group, kh, kw):
            channel = o // (m // groups) * per_group + k
            part = channel // (c // 2)
            row = i * sh - top + p * dh + moved[s, part, p, q, 0, i, j]
            column = j * sw - left + q * dw + moved[s, part, p, q, 1, i, j]
            r, t = int(np.floor(row)), int(np.floor(column))
            value = sum(
                (1 - abs(row - a)) * (1 - abs(column - e)) * x[s, channel, a, e]
                for a in (r, r + 1)
                for e in (t, t + 1)
                if 0 <= a < height and 0 <= e < width
            )
            y[s, o, i, j] += w[o, k, p, q] * value * weights[s, part, p, q, i, j]
    return y + b[:, None, None]


def _max_pools() -> Iterator[Case]:
    for schema in versions_of("", "MaxPool"):
        since = schema.since
        for how in POOLS:
            yield case("MaxPool", since, X, attributes=how)
            if since >= 8:
                yield from (case("MaxPool", since, X, outputs=2, storage_order=o, attributes=how) for o in (0, 1))
        yield case("MaxPool", since, draw(1, 2, 7), kernel_shape=[3])
        yield case("MaxPool", since, draw(2, 3, 11), kernel_shape=[3], strides=[2], pads=[1, 1])
        if since >= 10:
            for how in (*CEILED, {"kernel_shape": [2, 2], "dilations": [2, 3]}):
                yield case("MaxPool", since, X, attributes=how)
        if since >= 12:
            whole = np.arange(-8, 8, dtype=np.int8).reshape(1, 1, 4, 4)
            answer = np.array([[[[-3, -1], [5, 7]]]], np.int8)
            yield case("MaxPool", since, whole, kernel_shape=[2, 2], strides=[2, 2], expected=answer)
    for shape in ((1, 2, 9), (2, 1, 5, 4, 6)):
        two = [2] * (len(shape) - 2)
        yield case("MaxPool", 12, draw(*shape), outputs=2, kernel_shape=two, strides=two)
    for dtype in (np.int8, np.uint8, np.float32, np.float64):
        yield case("MaxPool", 17, (draw(1, 2, 6, 6) * 40).astype(dtype), kernel_shape=[3, 3], pads=[1] * 4, tolerance=0)
        # The first of equal ones wins, and padding never.
        x = np.random.default_rng(0).integers(0, 2, (2, 2, 6, 5)).astype(dtype)
        x[0, 0] = np.iinfo(np.int8).min if dtype is np.int8 else 0
        for order in (0, 1):
            yield case("MaxPool", 12, x, outputs=2, kernel_shape=[3, 3], pads=[0, 0, 1, 1], strides=[2, 2],
                       storage_order=order)  # fmt: skip


def _average_pools() -> Iterator[Case]:
    for schema in versions_of("", "AveragePool"):
        since = schema.since
        for how in POOLS:
            yield case("AveragePool", since, X, attributes=how, like=7 if since == 1 else 0)
            if since >= 7:
                yield case("AveragePool", since, X, count_include_pad=1, attributes=how)
        yield case("AveragePool", since, draw(2, 3, 11), kernel_shape=[3], strides=[2], pads=[1, 1], like=max(since, 7))
        for how in CEILED if since >= 10 else ():
            yield from (case("AveragePool", since, X, count_include_pad=include, attributes=how, like=19)
                        for include in (0, 1))  # fmt: skip
        if since >= 19:
            yield case("AveragePool", since, X, kernel_shape=[2, 2], dilations=[2, 2])
    for kernel, stride, dilation, pad, ceil, include in product((2, 3), (1, 2, 3), (1, 2), (0, 1), (0, 1), (0, 1)):
        how = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "dilations": [dilation] * 2, "pads": [pad] * 4}
        yield case("AveragePool", 19, X, ceil_mode=ceil, count_include_pad=include, attributes=how)


def _power_pools() -> Iterator[Case]:
    for schema in versions_of("", "LpPool"):
        since = schema.since
        for p in (1, 2, 3):
            power: Any = float(p) if since == 1 else p
            windows = np.lib.stride_tricks.sliding_window_view(np.abs(X.astype(np.float64)) ** p, (3, 2), (2, 3))
            answer = (windows.sum((4, 5)) ** (1 / p)).astype(np.float32)
            yield case("LpPool", since, X, p=power, kernel_shape=[3, 2], expected=answer)
            for how in POOLS[1:]:
                yield case("LpPool", since, X, p=power, attributes=how,
                           asked={"opset": max(since, 2), "attributes": {"p": p, **how}})  # fmt: skip
        if since >= 18:
            yield case("LpPool", since, X, kernel_shape=[2, 2], dilations=[2, 1])
    padded = np.pad(np.abs(draw(1, 2, 4, 5)) ** 2.5, [(0, 0)] * 3 + [(1, 0)])
    yield case("LpPool", 1, draw(1, 2, 4, 5), p=2.5, kernel_shape=[4, 6], pads=[0, 1, 0, 0],
               expected=padded.sum((2, 3), keepdims=True) ** np.float32(0.4))  # fmt: skip


def _global_pools() -> Iterator[Case]:
    for since in (1, 22):
        for shape in ((2, 3, 4), (1, 2, 3, 4), (1, 2, 2, 2, 3)):
            axes, x = tuple(range(2, len(shape))), draw(*shape)
            yield case("GlobalAveragePool", since, x, expected=np.mean(x, axis=axes, keepdims=True))
            yield case("GlobalMaxPool", since, x, expected=np.max(x, axis=axes, keepdims=True))
    for since in (1, 2, 22):
        for p in (None, 1, 3, *((2.5,) if since == 1 else ())):
            power = 2 if p is None else p
            answer = (np.abs(X.astype(np.float64)) ** power).sum((2, 3), keepdims=True) ** (1 / power)
            how = {} if p is None else {"p": float(p) if since == 1 else p}
            yield case("GlobalLpPool", since, X, attributes=how, expected=answer.astype(np.float32))


def _far_kernels() -> Iterator[Case]:
    """Only those elements of a kernel cost time that meet the input: all five of them, in both windows."""
    x = draw(1, 2, 5)
    reductions = {"MaxPool": np.max, "AveragePool": np.mean, "LpPool": lambda a, axis: np.sqrt((a**2).sum(axis))}
    for op, function in reductions.items():
        answer = np.stack([function(x, axis=2)] * 2, 2)
        for kernel, pads in ((10, [5, 1]), (10**7, [10**7 - 5, 1])):
            yield case(op, 11, x, kernel_shape=[kernel], pads=pads, expected=answer)
