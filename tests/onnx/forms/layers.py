"""Forms of layers: windows, normalization, recurrence, quantization, attention, losses, transforms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from hwflow.onnx.schemas import versions_of
from tests.onnx.neural import Case, case, draw
from tests.onnx.test_ops_normalization import EPSILON, batch, column
from tests.onnx.test_ops_pooling import POOLS, TRANSPOSED
from tests.onnx.test_ops_recurrent import EVERYTHING, layer

X = draw(2, 3, 4)


def cases() -> Iterator[Case]:
    yield from _windows()
    yield from _pools()
    yield from _batch_normalization()
    yield from _normalizations()
    yield from _recurrent()
    yield from _quantized()
    yield from _others()


def _windows() -> Iterator[Case]:
    for since in (1, 11, 22):
        for how in ({}, {"pads": [1, 0, 2, 1], "strides": [2, 1]}, {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
                    {"group": 2}):  # fmt: skip
            w = draw(4, 4 // how.get("group", 1), 3, 2)
            yield replace(case("Conv", since, draw(1, 4, 6, 5), w, draw(4), attributes=how), constants=(1, 2))
        yield case("Conv", since, draw(1, 2, 7), draw(3, 2, 3))
        yield case("Conv", since, draw(1, 2, 4, 4, 4), draw(3, 2, 2, 2, 2))
        for how in TRANSPOSED[::2]:
            yield case("ConvTranspose", since, draw(1, 4, 5, 6), draw(4, 3, 3, 3), attributes=how)
    for since in (19, 22):
        x, w = draw(1, 1, 4, 4), draw(1, 1, 2, 2)
        plain = np.array([[[[(x[0, 0, i : i + 2, j : j + 2] * w[0, 0]).sum() for j in range(3)] for i in range(3)]]])
        yield case("DeformConv", since, x, w, np.zeros((1, 8, 3, 3), np.float32), expected=plain)


def _pools() -> Iterator[Case]:
    x = draw(1, 2, 7, 8)
    for schema in versions_of("", "MaxPool"):
        since = schema.since
        for how in POOLS:
            yield case("MaxPool", since, x, attributes=how)
        yield case("MaxPool", since, draw(1, 2, 7), kernel_shape=[3])
        if since >= 8:
            yield case("MaxPool", since, x, kernel_shape=[2, 2], strides=[2, 2], storage_order=1, outputs=2)
        if since >= 10:
            yield case("MaxPool", since, x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
            yield case("MaxPool", since, x, kernel_shape=[2, 2], dilations=[2, 3])
        if since >= 12:
            whole = np.arange(-8, 8, dtype=np.int8).reshape(1, 1, 4, 4)
            yield case(
                "MaxPool",
                since,
                whole,
                kernel_shape=[2, 2],
                strides=[2, 2],
                expected=np.array([[[[-3, -1], [5, 7]]]], np.int8),
            )
    for schema in versions_of("", "AveragePool"):
        since = schema.since
        for how in POOLS:
            yield case("AveragePool", since, x, attributes=how, like=7 if since == 1 else 0)
            if since >= 7:
                yield case("AveragePool", since, x, count_include_pad=1, attributes=how)
        if since >= 10:
            for kernel, pads in ((3, [1, 1, 1, 1]), (2, [0, 0, 0, 0])):
                for include in (0, 1):
                    yield case(
                        "AveragePool",
                        since,
                        x,
                        kernel_shape=[kernel] * 2,
                        strides=[2, 2],
                        pads=pads,
                        ceil_mode=1,
                        count_include_pad=include,
                        like=19,
                    )
        if since >= 19:
            yield case("AveragePool", since, x, kernel_shape=[2, 2], dilations=[2, 2])
    yield from _power_pools(x)
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        for since in (1, 22):
            for shape in ((2, 3, 4), (1, 2, 3, 4), (1, 2, 2, 2, 3)):
                function = np.max if op == "GlobalMaxPool" else np.mean
                axes = tuple(range(2, len(shape)))
                yield case(op, since, draw(*shape), expected=function(draw(*shape), axis=axes, keepdims=True))


def _power_pools(x: np.ndarray) -> Iterator[Case]:
    for schema in versions_of("", "LpPool"):
        since = schema.since
        for p in (1, 2, 3):
            power: Any = float(p) if since == 1 else p
            windows = np.lib.stride_tricks.sliding_window_view(np.abs(x.astype(np.float64)) ** p, (3, 2), (2, 3))
            wanted = (windows.sum((4, 5)) ** (1 / p)).astype(np.float32)
            yield case("LpPool", since, x, p=power, kernel_shape=[3, 2], expected=wanted)
        yield case(
            "LpPool",
            since,
            x,
            kernel_shape=[2, 2],
            strides=[2, 2],
            pads=[0, 0, 1, 0],
            attributes={} if since > 1 else {"p": 2.0},
            like=2 if since == 1 else 0,
        )
        if since >= 18:
            yield case("LpPool", since, x, kernel_shape=[2, 2], dilations=[2, 1])
    for since in (1, 2, 22):
        for p in (None, 1, 3):
            power = 2 if p is None else p
            wanted = (np.abs(x.astype(np.float64)) ** power).sum((2, 3), keepdims=True) ** (1 / power)
            how = {} if p is None else {"p": float(p) if since == 1 else p}
            yield case("GlobalLpPool", since, x, attributes=how, expected=wanted.astype(np.float32))


def _batch_normalization() -> Iterator[Case]:
    """Inference and training of every version, and statistics for each element (spatial 0)."""
    for schema in versions_of("", "BatchNormalization"):
        since = schema.since
        legacy: dict[str, Any] = {"consumed_inputs": [0, 0, 0, 1, 1]} if since == 1 else {}
        test = {"is_test": 1} if since < 7 else {}
        for shape in ((4, 3, 5, 6), (2, 3, 7), (4, 3)):
            if len(shape) < 4 and since < 7:
                continue
            x, scale, bias, mean, variance = given = batch(*shape)
            r = len(shape)
            rank = max(r, 2)
            wanted = (x - column(mean, rank)) / np.sqrt(column(variance, rank) + 1e-3) * column(scale, rank)
            wanted = (wanted + column(bias, rank)).astype(np.float32)
            made = case(
                "BatchNormalization", since, *given, epsilon=1e-3, attributes={**legacy, **test}, expected=wanted
            )
            yield made
            yield replace(made, constants=(1, 2, 3, 4))
        yield from _batch_in_training(since, legacy, test)


def _batch_in_training(since: int, legacy: dict[str, Any], test: dict[str, Any]) -> Iterator[Case]:
    axes = (0, 2, 3)
    x, scale, bias, mean, variance = given = batch(4, 3, 5, 6)
    now, spread = x.astype(np.float64).mean(axes), x.astype(np.float64).var(axes)
    normal = (x - column(now, 4)) / np.sqrt(column(spread, 4) + EPSILON) * column(scale, 4) + column(bias, 4)
    for momentum in (0.9, 0.7):
        outputs = [normal, mean * momentum + now * (1 - momentum), variance * momentum + spread * (1 - momentum)]
        extra = [now, spread] if since < 14 else []
        expected = [a.astype(np.float32) for a in (*outputs, *extra)]
        mode = {"training_mode": 1} if since >= 14 else {}
        yield case(
            "BatchNormalization",
            since,
            *given,
            momentum=momentum,
            outputs=len(expected),
            expected=expected,
            attributes={**legacy, **mode},
        )
        yield case(
            "BatchNormalization",
            since,
            *given,
            momentum=momentum,
            outputs=(True, True, True),
            expected=expected[:3],
            attributes={**legacy, **mode},
        )
    if since < 7 or since >= 14:
        yield case("BatchNormalization", since, *given, expected=expected[:1], attributes={**legacy, **mode})
    if since < 9:
        x, scale, bias, mean, variance = given = batch(6, 3, 4, parameters=(3, 4))
        wanted = (x - mean) / np.sqrt(variance + EPSILON) * scale + bias
        yield case("BatchNormalization", since, *given, spatial=0, expected=wanted, attributes={**legacy, **test})
        wanted = (x - x.mean(0)) / np.sqrt(x.var(0) + EPSILON) * scale + bias
        results = [wanted, mean * 0.9 + x.mean(0) * 0.1, variance * 0.9 + x.var(0) * 0.1, x.mean(0), x.var(0)]
        yield case(
            "BatchNormalization",
            since,
            *given,
            spatial=0,
            outputs=5,
            attributes=legacy,
            expected=[a.astype(np.float32) for a in results],
        )


def _normalizations() -> Iterator[Case]:
    for since in (1, 6, 22):
        x, scale, bias = draw(2, 3, 7), draw(3), draw(3, seed=1)
        normal = (x - x.mean(2, keepdims=True)) / np.sqrt(x.var(2, keepdims=True) + 1e-3)
        legacy = {"consumed_inputs": [0, 0, 0]} if since == 1 else {}
        yield case(
            "InstanceNormalization",
            since,
            x,
            scale,
            bias,
            epsilon=1e-3,
            attributes=legacy,
            tolerance=1e-4,
            expected=normal * scale[:, None] + bias[:, None],
        )
    for since in (1, 13):
        yield case("LRN", since, draw(1, 7, 4, 3), size=3, alpha=0.3, beta=0.6, bias=1.5)
        yield case("LRN", since, draw(1, 7, 4, 3), size=5)
    for since in (1, 22):
        for p in (1, 2):
            wanted = X / np.linalg.norm(X, p, axis=1, keepdims=True)
            yield case("LpNormalization", since, X, p=p, axis=1, expected=wanted)
        yield case("LpNormalization", since, X, expected=X / np.linalg.norm(X, 2, axis=-1, keepdims=True))
    for since in (9, 13):
        x = draw(2, 3, 4, 5)
        wanted = (x - x.mean((0, 2, 3), keepdims=True)) / x.std((0, 2, 3), keepdims=True)
        yield case("MeanVarianceNormalization", since, x, expected=wanted, tolerance=1e-4)
        wanted = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
        yield case("MeanVarianceNormalization", since, x, axes=[1], expected=wanted, tolerance=1e-4)
    x = draw(2, 3, 4)
    for axis, biased, outputs in ((-1, True, 1), (1, True, 3), (0, False, 1), (2, False, 2)):
        given = (draw(*x.shape[axis:]), *([draw(*x.shape[axis:], seed=1)] if biased else []))
        yield case("LayerNormalization", 17, x, *given, axis=axis, outputs=outputs, epsilon=1e-4)
    x, scale, bias = draw(2, 6, 3, 4), draw(6), draw(6, seed=1)
    parts = x.astype(np.float64).reshape(2, 3, -1)
    normal = ((parts - parts.mean(2, keepdims=True)) / np.sqrt(parts.var(2, keepdims=True) + EPSILON)).reshape(2, 6, -1)
    wanted = (normal * scale[:, None] + bias[:, None]).reshape(x.shape).astype(np.float32)
    yield case("GroupNormalization", 21, x, scale, bias, num_groups=3, expected=wanted)
    for axis in (0, 1, -1):
        axes = tuple(range(axis % 3, 3))
        mean = (X.astype(np.float64) ** 2).mean(axes, keepdims=True)
        wanted = (X / np.sqrt(mean + EPSILON) * draw(*X.shape[axis:])).astype(np.float32)
        yield case("RMSNormalization", 23, X, draw(*X.shape[axis:]), axis=axis, expected=wanted)


def _recurrent() -> Iterator[Case]:
    for op in ("RNN", "GRU", "LSTM"):
        for schema in versions_of("", op):
            since = schema.since
            for given, direction in ((EVERYTHING, "bidirectional"), ((), "reverse"), (("B",), "forward")):
                made = layer(op, since, given, direction=direction)
                yield replace(made, like=7) if since < 7 else made
            if op == "GRU":
                after = layer(op, since, ("B",), linear_before_reset=1)
                if since >= 3:
                    yield replace(after, like=7) if since < 7 else after
            if since < 7:
                yield replace(layer(op, since, ("B",), output_sequence=1), like=7)
            if since >= 14:
                yield layer(op, since, ("B",), clip=0.5)


def _quantized() -> Iterator[Case]:
    x = draw(3, 4) * 40
    scale, many = np.array(0.5, np.float32), np.array([0.5, 0.25, 1, 2], np.float32)
    for schema in versions_of("", "QuantizeLinear"):
        since = schema.since
        for kind in (np.uint8, np.int8):
            zero, low = np.array(3, kind), np.iinfo(kind)
            wanted = np.clip(np.rint(x / scale) + 3, low.min, low.max).astype(kind)
            for constants in ((1, 2), ()):
                made = case("QuantizeLinear", since, x, scale, zero, expected=wanted)
                yield replace(made, constants=constants)
        wanted = np.clip(np.rint(x / scale), 0, 255).astype(np.uint8)
        yield case("QuantizeLinear", since, x, scale, expected=wanted)
        whole = np.array([-7, 300, 12], np.int32)
        if since not in (19, 21):  # their scale has the type of the input
            yield case(
                "QuantizeLinear", since, whole, scale, np.array(0, np.int8), expected=np.array([-14, 127, 24], np.int8)
            )
        if since >= 13:
            zeros = np.array([0, 1, 2, 3], np.int8)
            wanted = np.clip(np.rint(x / many) + zeros, -128, 127).astype(np.int8)
            yield replace(case("QuantizeLinear", since, x, many, zeros, expected=wanted), constants=(1, 2))
            one = np.array([0.5], np.float32), np.array([3], np.int8)
            wanted = np.clip(np.rint(x[:, :1] / scale) + 3, -128, 127).astype(np.int8)
            yield replace(case("QuantizeLinear", since, x[:, :1], *one, expected=wanted), constants=(1, 2))
            wanted = np.clip(np.rint(x / many[:3, None]), 0, 255).astype(np.uint8)
            yield case("QuantizeLinear", since, x, many[:3], axis=0, expected=wanted)
        if since >= 21:
            wanted = np.clip(np.rint(x / scale), -32768, 32767).astype(np.int16)
            yield case("QuantizeLinear", since, x, scale, output_dtype=5, expected=wanted)
            blocks = np.array([[0.5, 1], [2, 4], [1, 1]], np.float32)
            wanted = np.clip(np.rint(x / blocks.repeat(2, 1)), -128, 127).astype(np.int8)
            yield case(
                "QuantizeLinear", since, x, blocks, np.zeros((3, 2), np.int8), axis=1, block_size=2, expected=wanted
            )
    yield from _dequantized(scale, many)


def _dequantized(scale: np.ndarray, many: np.ndarray) -> Iterator[Case]:
    for schema in versions_of("", "DequantizeLinear"):
        since = schema.since
        for kind in (np.uint8, np.int8):
            given, zero = np.arange(12).reshape(3, 4).astype(kind), np.array(3, kind)
            wanted = (given.astype(np.float32) - 3) * scale
            yield replace(case("DequantizeLinear", since, given, scale, zero, expected=wanted), constants=(1, 2))
        sums = np.array([5, -7], np.int32)
        yield case("DequantizeLinear", since, sums, scale, expected=sums.astype(np.float32) * scale)
        if since >= 13:
            yield case("DequantizeLinear", since, given, many, expected=given.astype(np.float32) * many)
            yield case("DequantizeLinear", since, given, many[:3], axis=0, expected=given * many[:3, None])
        if since >= 21:
            four = np.array([-8, 7], ml_dtypes.int4)
            yield case("DequantizeLinear", since, four, scale, expected=np.float32([-4, 3.5]))
            blocks = np.array([[0.5, 1], [2, 4], [1, 1]], np.float32)
            yield case(
                "DequantizeLinear", since, given, blocks, axis=1, block_size=2, expected=given * blocks.repeat(2, 1)
            )
    a, b = np.arange(6, dtype=np.uint8).reshape(2, 3), np.arange(12, dtype=np.uint8).reshape(3, 4)
    for since in (10, 21):
        zero = np.array(1, np.uint8)
        sums = (a.astype(int) - 1) @ (b.astype(int) - 1)
        wanted = np.clip(np.rint(sums * 0.5 * 0.5 / 2) + 1, 0, 255).astype(np.uint8)
        yield case(
            "QLinearMatMul", since, a, scale, zero, b, scale, zero, np.array(2, np.float32), zero, expected=wanted
        )


def _others() -> Iterator[Case]:
    q, k, v = draw(1, 2, 3, 4), draw(1, 2, 5, 4), draw(1, 2, 5, 4, seed=1)
    weights = np.exp(q @ k.swapaxes(2, 3) / 2)
    wanted = (weights / weights.sum(-1, keepdims=True)) @ v
    for since in (23, 24, 25):
        yield case("Attention", since, q, k, v, expected=wanted)
    for since in (12, 13, 22):
        scores, labels = np.log(draw(2, 3, 4, low=0.1)), np.array([[0, 1, 2, 0], [2, 2, 1, 0]])
        picked = -np.take_along_axis(scores, labels[:, None], 1)[:, 0]
        yield case("NegativeLogLikelihoodLoss", since, scores, labels, reduction="none", expected=picked)
        yield case("NegativeLogLikelihoodLoss", since, scores, labels, expected=np.asarray(picked.mean(), np.float32))
        kept = picked[labels != 1]
        yield case(
            "NegativeLogLikelihoodLoss",
            since,
            scores,
            labels,
            ignore_index=1,
            reduction="sum",
            expected=np.asarray(kept.sum(), np.float32),
        )
    for since in (12, 13):
        scores, labels = draw(4, 3), np.array([0, 2, 1, 1])
        logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
        loss = -logs[np.arange(4), labels]
        yield case("SoftmaxCrossEntropyLoss", since, scores, labels, expected=np.asarray(loss.mean(), np.float32))
        yield case("SoftmaxCrossEntropyLoss", since, scores, labels, reduction="none", outputs=2, expected=[loss, logs])
    signal = draw(1, 8, 3, 1)
    for axis, inverse in ((1, 0), (2, 0), (1, 1)):
        turned = (np.fft.ifft if inverse else np.fft.fft)(signal[..., 0], axis=axis)
        wanted = np.stack([turned.real, turned.imag], -1).astype(np.float32)
        yield case("DFT", 17, signal, axis=axis, inverse=inverse, expected=wanted)
        yield case("DFT", 20, signal, None, np.array(axis), inverse=inverse, expected=wanted)
    half = np.fft.rfft(signal[..., 0], axis=1)
    wanted = np.stack([half.real, half.imag], -1).astype(np.float32)
    yield case("DFT", 17, signal, onesided=1, expected=wanted)
    yield case("DFT", 20, signal, None, np.array(1), onesided=1, expected=wanted)
    turned = np.fft.fft(signal[..., 0], axis=2)  # the default axis became the last but one
    yield case("DFT", 20, signal, expected=np.stack([turned.real, turned.imag], -1).astype(np.float32))
