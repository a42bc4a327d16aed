"""Forms of normalization, against the formulas in float64 or onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from hwflow.onnx.schemas import versions_of
from tests.onnx.forms.elementwise import each
from tests.onnx.forms.form import Case, case, draw

EPSILON = 1e-5
X = draw(2, 3, 4)


def batch(*shape: int, parameters: tuple[int, ...] | None = None) -> tuple[np.ndarray, ...]:
    """x, scale, bias, mean and variance."""
    size = parameters or shape[1:2]
    return draw(*shape), draw(*size), draw(*size, seed=1), draw(*size, seed=2), draw(*size, low=0.5)


def column(a: np.ndarray, rank: int) -> np.ndarray:
    return a.astype(np.float64).reshape(-1, *(1,) * (rank - 2))


def normal(x: np.ndarray, axes: Any, epsilon: float = EPSILON) -> np.ndarray:
    """Mean 0 and variance 1 along axes."""
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def single(*arrays: np.ndarray) -> list[np.ndarray]:
    return [a.astype(np.float32) for a in arrays]


def cases() -> Iterator[Case]:
    yield from _batch()
    yield from _batch_of_elements()
    yield from _groups()
    yield from _layers()
    yield from _others()


def _batch() -> Iterator[Case]:
    """Inference and training of every version."""
    for schema in versions_of("", "BatchNormalization"):
        since = schema.since
        legacy: dict[str, Any] = {"consumed_inputs": [0, 0, 0, 1, 1]} if since == 1 else {}
        test = {"is_test": 1} if since < 7 else {}
        for shape in ((4, 3, 5, 6), (2, 3, 7), (4, 3)) if since >= 7 else ((4, 3, 5, 6),):
            x, scale, bias, mean, variance = given = batch(*shape)
            rank = len(shape)
            answer = (x - column(mean, rank)) / np.sqrt(column(variance, rank) + 1e-3) * column(scale, rank)
            one = case("BatchNormalization", since, *given, epsilon=1e-3, attributes={**legacy, **test},
                       expected=(answer + column(bias, rank)).astype(np.float32))  # fmt: skip
            yield from (one, replace(one, constants=(1, 2, 3, 4)))
        yield from _training(since, legacy)
    x, scale, bias, mean, variance = batch(2, 3, 5)
    half = [a.astype(np.float16) for a in (x, scale, bias)]
    answer = (x - mean[:, None]) / np.sqrt(variance[:, None] + EPSILON) * scale[:, None] + bias[:, None]
    yield case("BatchNormalization", 15, *half, mean, variance, expected=answer.astype(np.float16), tolerance=1e-2)


def _training(since: int, legacy: dict[str, Any]) -> Iterator[Case]:
    """With the population's variance."""
    axes = (0, 2, 3)
    x, scale, bias, mean, variance = given = batch(4, 3, 5, 6)
    now, spread = x.astype(np.float64).mean(axes), x.astype(np.float64).var(axes)
    how = {**legacy, **({"training_mode": 1} if since >= 14 else {})}
    for momentum in (0.9, 0.7):
        y = normal(x, axes) * column(scale, 4) + column(bias, 4)
        outputs = [y, mean * momentum + now * (1 - momentum), variance * momentum + spread * (1 - momentum)]
        answers = single(*outputs, *([now, spread] if since < 14 else []))
        one = case("BatchNormalization", since, *given, momentum=momentum, attributes=how)
        yield replace(one, outputs=len(answers), expected=answers)
        yield replace(one, outputs=(True, True, True), expected=answers[:3])
        yield replace(one, outputs=(True, False, True), expected=[answers[0], answers[2]])
    if since < 7 or since >= 14:
        yield case("BatchNormalization", since, *given, expected=answers[:1], attributes=how)
    if since == 6:
        yield case("BatchNormalization", since, *given, is_test=0, expected=answers[:1])


def _batch_of_elements() -> Iterator[Case]:
    """'spatial' 0: one set of parameters for each element of a sample."""
    x, scale, bias, mean, variance = given = batch(6, 3, 4, parameters=(3, 4))
    for since in (1, 6, 7):
        legacy: dict[str, Any] = {"consumed_inputs": [0] * 5} if since == 1 else {}
        answer = (x - mean) / np.sqrt(variance + EPSILON) * scale + bias
        test = {"is_test": 1} if since < 7 else {}
        yield case("BatchNormalization", since, *given, spatial=0, expected=answer, attributes={**legacy, **test})
        now, spread = x.mean(0), x.var(0)
        answers = single(normal(x, 0) * scale + bias, mean * 0.9 + now * 0.1, variance * 0.9 + spread * 0.1, now,
                         spread)  # fmt: skip
        one = case("BatchNormalization", since, *given, spatial=0, attributes=legacy)
        yield replace(one, outputs=5, expected=answers)
        yield replace(one, outputs=(True, False, True), expected=[answers[0], answers[2]])


def _groups() -> Iterator[Case]:
    for shape in ((2, 3, 7), (2, 3, 4, 5)):
        x, scale, bias = draw(*shape), draw(3), draw(3, seed=1)
        answer = normal(x, tuple(range(2, len(shape))), 1e-3) * column(scale, len(shape)) + column(bias, len(shape))
        for since in (1, 6, 22):
            legacy = {"consumed_inputs": [0, 0, 0]} if since == 1 else {}
            yield case("InstanceNormalization", since, x, scale, bias, epsilon=1e-3, attributes=legacy,
                       expected=answer.astype(np.float32))  # fmt: skip
    x = draw(2, 6, 3, 4)
    for groups in (1, 2, 6):
        parts = normal(x.reshape(2, groups, -1), 2)
        for since, size in ((18, groups), (21, 6)):  # for groups in version 18, for channels from 21 on
            scale, bias = draw(size), draw(size, seed=1)
            answer = (parts.reshape(2, size, -1) * scale[:, None] + bias[:, None]).reshape(x.shape)
            yield case("GroupNormalization", since, x, scale, bias, num_groups=groups,
                       expected=answer.astype(np.float32))  # fmt: skip


def _layers() -> Iterator[Case]:
    for axis in (0, 1, -1):
        size = X.shape[axis:]
        axes = tuple(range(axis % 3, 3))
        for biased in (False, True):
            for outputs in (1, 2, 3):
                given = (draw(*size), *([draw(*size, seed=1)] if biased else []))
                yield case("LayerNormalization", 17, X, *given, axis=axis, outputs=outputs, epsilon=1e-4)
        answer = X / np.sqrt((X.astype(np.float64) ** 2).mean(axes, keepdims=True) + EPSILON) * draw(*size)
        yield case("RMSNormalization", 23, X, draw(*size), axis=axis, expected=answer.astype(np.float32))
    half = draw(2, 4).astype(np.float16)  # the result has the type of the scale
    answer = half / np.sqrt((half.astype(np.float64) ** 2).mean(1, keepdims=True) + EPSILON) * draw(4)
    yield case("RMSNormalization", 23, half, draw(4), expected=answer.astype(np.float32), tolerance=2e-3)
    x, scale = (a.astype(ml_dtypes.bfloat16) for a in (draw(3, 8), draw(8)))
    wide = x.astype(np.float64)
    y, mean, inverse = normal(wide, 1) * scale.astype(np.float64), wide.mean(1), 1 / np.sqrt(wide.var(1) + EPSILON)
    for stash, kind in (({}, np.float32), ({"stash_type": 16}, ml_dtypes.bfloat16)):
        answers = [y.astype(ml_dtypes.bfloat16), *(a[:, None].astype(kind) for a in (mean, inverse))]
        yield case("LayerNormalization", 17, x, scale, outputs=3, attributes=stash, expected=answers, tolerance=0.02)


def _others() -> Iterator[Case]:
    for size in (1, 3, 5, 31):
        yield from each("LRN", (1, 13), draw(2, 7, 4, 3), size=size, alpha=0.3, beta=0.6, bias=1.5)
    yield from each("LRN", (1, 13), draw(1, 7, 4, 3), size=5)
    x = draw(1, 6, 2).astype(np.float64)
    for size in (2, 4):  # one more neighbour behind than in front; onnxruntime refuses even sizes
        around = [slice(max(0, c - (size - 1) // 2), c + size // 2 + 1) for c in range(6)]
        total = np.stack([(x[:, channels] ** 2).sum(1) for channels in around], axis=1)
        answer = x / (1 + 0.5 / size * total) ** 0.75
        yield case("LRN", 13, x.astype(np.float32), size=size, alpha=0.5, expected=answer.astype(np.float32))
    zeros = draw(3, 4)
    zeros[1], zeros[:, 2] = 0, 0
    for since in (1, 22):
        for p in (1, 2):
            yield case("LpNormalization", since, X, p=p, axis=1,
                       expected=X / np.linalg.norm(X, p, axis=1, keepdims=True))  # fmt: skip
            yield from (case("LpNormalization", since, zeros, p=p, axis=axis) for axis in (0, -1))
        yield case("LpNormalization", since, X, expected=X / np.linalg.norm(X, 2, axis=-1, keepdims=True))
    for axes, how in (((0, 2, 3), {}), ((1,), {"axes": [1]}), ((1, 3), {"axes": [1, -1]})):
        x = draw(2, 3, 4, 5)
        answer = normal(x, axes, 0).astype(np.float32)
        yield from each("MeanVarianceNormalization", (9, 13), x, expected=answer, tolerance=1e-4, attributes=how)
