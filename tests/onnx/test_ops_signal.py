"""Signal operators and optimizers against onnxruntime and against their formulas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.onnx.neural import Case, agree, case, draw, error_of, evaluated
from tests.onnx.oracle import ChildOracle


@pytest.fixture(scope="module")
def oracle() -> Iterator[ChildOracle]:
    with ChildOracle() as child:
        yield child


def number(value: int) -> np.ndarray:
    return np.array(value, np.int64)


@pytest.mark.parametrize("op", ["HannWindow", "HammingWindow", "BlackmanWindow"])
@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("size", [2, 5, 16])
def test_windows(oracle, op, periodic, size) -> None:
    agree(case(op, 17, number(size), periodic=periodic), oracle)
    agree(case(op, 17, number(size), periodic=periodic, output_datatype=11), oracle)


@pytest.mark.parametrize("shape", [(2, 7, 1), (2, 7, 2), (3, 8, 5, 2)])
@pytest.mark.parametrize("length", [None, 4, 9])
@pytest.mark.parametrize("inverse", [0, 1])
def test_dft(shape, length, inverse) -> None:
    x, given = draw(*shape), None if length is None else number(length)
    signal = x[..., 0] + (1j * x[..., 1] if shape[-1] == 2 else 0)
    expected = (np.fft.ifft if inverse else np.fft.fft)(signal.astype(np.complex128), length, axis=1)
    expected = np.stack((expected.real, expected.imag), -1)
    for opset, inputs, attributes in (
        (17, (x, given), {"axis": 1}),
        (20, (x, given, number(1)), {}),
        (20, (x, given, number(1 - len(shape))), {}),
    ):
        found = evaluated(case("DFT", opset, *inputs, inverse=inverse, attributes=attributes))[0]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("length", [None, 5, 8])
def test_one_sided_dft(oracle, length) -> None:
    x, given = draw(2, 8, 1), None if length is None else number(length)
    wanted = case("DFT", 20, x, given, onesided=1)
    agree(wanted, oracle)
    half = evaluated(wanted)[0]
    found = evaluated(case("DFT", 20, half, given or number(8), onesided=1, inverse=1))[0]
    size = length or 8
    np.testing.assert_allclose(found, np.pad(x, [(0, 0), (0, max(0, size - 8)), (0, 0)])[:, :size], atol=1e-5)


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("windowed", [False, True])
def test_stft(oracle, onesided, windowed) -> None:
    window = draw(6) if windowed else None
    agree(case("STFT", 17, draw(2, 20, 1), number(4), window, number(6), onesided=onesided), oracle)


def test_stft_of_complex_numbers_without_a_length() -> None:
    x, window = draw(2, 20, 2), draw(6)
    found = evaluated(case("STFT", 17, x, number(5), window, onesided=0))[0]
    signal = x[..., 0] + 1j * x[..., 1]
    expected = np.stack([np.fft.fft(signal[:, at : at + 6] * window) for at in (0, 5, 10)], 1)
    np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("bins", "length", "rate", "low", "high"),
    [(8, 16, 8192, 0.0, 4096.0), (40, 512, 16000, 20.0, 7600.0), (5, 4, 100, 1.0, 9.0)],
)
def test_mel_weights(oracle, bins, length, rate, low, high) -> None:
    inputs = (number(bins), number(length), number(rate), np.array(low, np.float32), np.array(high, np.float32))
    agree(case("MelWeightMatrix", 17, *inputs), oracle)


def optimizer(op: str, *inputs: Any, **others: Any) -> Case:
    return case(op, 1, *inputs, domain="ai.onnx.preview.training", **others)


RATE, TWO = np.array(0.1, np.float32), (draw(3), draw(2, 2))


@pytest.mark.parametrize("count", [0, 4])
def test_adagrad(count) -> None:
    g, h = draw(3, seed=1), draw(3, low=0.0)
    wanted = optimizer(
        "Adagrad", RATE, number(count), TWO[0], g, h, outputs=2, norm_coefficient=0.01, decay_factor=0.1, epsilon=1e-5
    )
    slope = 0.01 * TWO[0] + g
    squares = h + slope**2
    expected = TWO[0] - 0.1 / (1 + count * 0.1) * slope / (np.sqrt(squares) + 1e-5)
    for found, a in zip(evaluated(wanted), (expected, squares), strict=True):
        np.testing.assert_allclose(found, a, rtol=1e-5)


@pytest.mark.parametrize("count", [0, 4])
def test_adam_of_two_tensors(count) -> None:
    gradients, means = [draw(*x.shape, seed=1) for x in TWO], [draw(*x.shape, seed=2) for x in TWO]
    squares = [draw(*x.shape, low=0.0) for x in TWO]
    settings = {"alpha": 0.8, "beta": 0.95, "epsilon": 1e-4, "norm_coefficient": 0.02, "norm_coefficient_post": 0.1}
    found = evaluated(
        optimizer("Adam", RATE, number(count), *TWO, *gradients, *means, *squares, outputs=6, attributes=settings)
    )
    for i, x in enumerate(TWO):
        slope = 0.02 * x + gradients[i]
        mean, square = 0.8 * means[i] + 0.2 * slope, 0.95 * squares[i] + 0.05 * slope**2
        rate = 0.1 * np.sqrt(1 - 0.95**count) / (1 - 0.8**count) if count else 0.1
        new = 0.9 * (x - rate * mean / (np.sqrt(square) + 1e-4))
        for a, b in zip(found[i::2], (new, mean, square), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("mode", ["standard", "nesterov"])
@pytest.mark.parametrize("count", [0, 4])
def test_momentum(mode, count) -> None:
    g, v = draw(3, seed=1), draw(3, seed=2)
    settings = {"alpha": 0.9, "beta": 0.5, "norm_coefficient": 0.01, "mode": mode}
    found = evaluated(optimizer("Momentum", RATE, number(count), TWO[0], g, v, outputs=2, attributes=settings))
    slope = 0.01 * TWO[0] + g
    speed = 0.9 * v + (0.5 if count else 1) * slope
    new = TWO[0] - 0.1 * (speed if mode == "standard" else slope + 0.9 * speed)
    for a, b in zip(found, (new, speed), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (case("HannWindow", 17, number(0)),
         "the size of the window must be 1 or more, not 0; export the model again"),
        (case("DFT", 20, draw(2, 7, 1), None, number(2)),
         "the axis must not be the last, that of complex numbers, not 2; export the model again"),
        (case("DFT", 20, draw(2, 7, 2), onesided=1),
         "the input of a one-sided transform must be real, not have the shape [2, 7, 2]"),
        (case("DFT", 20, draw(2, 7, 3)),
         "the last axis of the input must be 1 (real) or 2 (complex), not of [2, 7, 3]"),
        (case("STFT", 17, draw(2, 7, 1), number(0), draw(4)),
         "the step of frames must be 1 or more, not 0; export the model again"),
        (case("STFT", 17, draw(2, 7, 1), number(1), draw(8)),
         "the length of frames must be 1 to the signal's 7, not 8"),
        (optimizer("Adam", RATE, number(0), draw(3), draw(3), draw(3), draw(2), outputs=3),
         "the tensors must be 4 equal parts of the same shapes, not [3], [3], [3], [2]"),
    ],
    ids=lambda value: value.label if isinstance(value, Case) else "",
)  # fmt: skip
def test_message(wanted, message) -> None:
    assert error_of(wanted) == message


@pytest.mark.parametrize(
    "wanted",
    [case("HannWindow", 17, number(2**40)), case("DFT", 20, draw(1, 4, 1), number(2**40))],
    ids=["window", "dft"],
)
def test_hostile_sizes(wanted) -> None:
    assert "(tensor_bytes)" in error_of(wanted)
