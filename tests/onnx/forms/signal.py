"""Forms of signal operators and optimizers, against onnxruntime and against their formulas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.onnx.forms.form import Case, case, draw, number


def whole(value: int) -> np.ndarray:
    return np.array(value, np.int64)


def optimizer(op: str, *inputs: Any, **others: Any) -> Case:
    return case(op, 1, *inputs, domain="ai.onnx.preview.training", **others)


def pairs(numbers: np.ndarray) -> np.ndarray:
    """Complex numbers as an axis of two."""
    return np.stack((numbers.real, numbers.imag), -1).astype(np.float32)


def cases() -> Iterator[Case]:
    yield from _windows()
    yield from _transforms()
    yield from _short_transforms()
    yield from _optimizers(draw(3), draw(2, 2))


def _windows() -> Iterator[Case]:
    for op in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        for size in (2, 5, 16):
            for how in ({"periodic": 0}, {"periodic": 1}, {"periodic": 1, "output_datatype": 11}):
                yield case(op, 17, whole(size), attributes=how)
    for bins, length, rate, low, high in ((8, 16, 8192, 0.0, 4096.0), (40, 512, 16000, 20.0, 7600.0),
                                         (5, 4, 100, 1, 9)):  # fmt: skip
        yield case("MelWeightMatrix", 17, whole(bins), whole(length), whole(rate), number(low), number(high))


def _transforms() -> Iterator[Case]:
    for shape in ((2, 7, 1), (2, 7, 2), (3, 8, 5, 2)):
        x = draw(*shape)
        signal = (x[..., 0] + (1j * x[..., 1] if shape[-1] == 2 else 0)).astype(np.complex128)
        for length in (None, 4, 9):
            given = None if length is None else whole(length)
            for inverse, function in ((0, np.fft.fft), (1, np.fft.ifft)):
                how = {"inverse": inverse, "expected": pairs(function(signal, length, axis=1))}
                yield case("DFT", 17, x, given, axis=1, **how)
                yield from (case("DFT", 20, x, given, whole(axis), **how) for axis in (1, 1 - len(shape)))
    x = draw(2, 8, 1)
    for length in (None, 5, 8):
        given, size = None if length is None else whole(length), length or 8
        half = pairs(np.fft.rfft(x[..., 0], size, axis=1))
        yield case("DFT", 17, x, given, onesided=1, expected=half)
        yield from (case("DFT", 20, x, given, *axis, onesided=1, expected=half) for axis in ((), (whole(1),)))
        back = np.fft.irfft(np.fft.rfft(x[..., 0], size, axis=1), size, axis=1)[..., None].astype(np.float32)
        yield case("DFT", 20, half, given or whole(8), onesided=1, inverse=1, expected=back)
    x = draw(1, 8, 3, 1)  # the default axis became the last but one
    yield case("DFT", 17, x, expected=pairs(np.fft.fft(x[..., 0], axis=1)))
    yield case("DFT", 20, x, expected=pairs(np.fft.fft(x[..., 0], axis=2)))


def _short_transforms() -> Iterator[Case]:
    for window in (None, draw(6)):
        for onesided in (0, 1):
            yield case("STFT", 17, draw(2, 20, 1), whole(4), window, whole(6), onesided=onesided)
    x, window = draw(2, 20, 2), draw(6)  # of complex numbers, without a length
    signal = x[..., 0] + 1j * x[..., 1]
    answer = np.stack([np.fft.fft(signal[:, at : at + 6] * window) for at in (0, 5, 10)], 1)
    yield case("STFT", 17, x, whole(5), window, onesided=0, expected=pairs(answer))


def _optimizers(x: np.ndarray, second: np.ndarray) -> Iterator[Case]:
    rate, g, v, h = number(0.1), draw(3, seed=1), draw(3, seed=2), draw(3, low=0.0)
    slope = 0.01 * x + g
    for count in (0, 4):
        squares = h + slope**2
        new = x - 0.1 / (1 + count * 0.1) * slope / (np.sqrt(squares) + 1e-5)
        yield optimizer("Adagrad", rate, whole(count), x, g, h, outputs=2, norm_coefficient=0.01, decay_factor=0.1,
                        epsilon=1e-5, expected=[a.astype(np.float32) for a in (new, squares)])  # fmt: skip
        speed = 0.9 * v + (0.5 if count else 1) * slope
        for mode, change in (("standard", speed), ("nesterov", slope + 0.9 * speed)):
            yield optimizer("Momentum", rate, whole(count), x, g, v, outputs=2, alpha=0.9, beta=0.5, mode=mode,
                            norm_coefficient=0.01, expected=[x - np.float32(0.1) * change, speed])  # fmt: skip
        yield _adam(rate, count, (x, second))


def _adam(rate: np.ndarray, count: int, tensors: tuple[np.ndarray, ...]) -> Case:
    gradients, means = [draw(*x.shape, seed=1) for x in tensors], [draw(*x.shape, seed=2) for x in tensors]
    squares = [draw(*x.shape, low=0.0) for x in tensors]
    answers = []
    for x, g, m, s in zip(tensors, gradients, means, squares, strict=True):
        slope = 0.02 * x + g
        mean, square = 0.8 * m + 0.2 * slope, 0.95 * s + 0.05 * slope**2
        step = 0.1 * np.sqrt(1 - 0.95**count) / (1 - 0.8**count) if count else 0.1
        answers.append((0.9 * (x - step * mean / (np.sqrt(square) + 1e-4)), mean, square))
    expected = [a.astype(np.float32) for column in zip(*answers, strict=True) for a in column]
    return optimizer("Adam", rate, whole(count), *tensors, *gradients, *means, *squares, outputs=6, alpha=0.8,
                     beta=0.95, epsilon=1e-4, norm_coefficient=0.02, norm_coefficient_post=0.1,
                     tolerance=1e-4, expected=expected)  # fmt: skip


