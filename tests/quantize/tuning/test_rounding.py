"""Adaptive rounding: never worse than the nearest integers on its own objective, and next to the real weights."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from hwflow.quantize.calibrate import rounding
from hwflow.quantize.calibrate.streams import Moments


def problem(bits, per_channel=True, outputs=6, size=10, seed=0, groups=2):
    """Inputs that go together, as those of neighbouring pixels do."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(groups, 1, size, 200)) + 2 * rng.normal(size=(groups, 1, 1, 200))
    weights = rng.normal(size=(groups, 1, outputs, size))
    seen = x + 0.05 * rng.normal(size=x.shape)  # what integers make of x
    xx, yx = seen @ seen.swapaxes(2, 3) / 200, weights @ x @ seen.swapaxes(2, 3) / 200
    means = np.zeros((groups, outputs)), np.zeros((groups, size))
    return rounding.objective(weights, Moments(*means, xx, yx), bits, per_channel)


def covering(p):
    return np.abs(p.weights).max(axis=3, keepdims=True) / p.limit


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_adaptive_is_better_and_next_to_the_real_weights(bits):
    p = problem(bits)
    scales = 0.8 * covering(p)
    near, found = rounding.nearest(p, scales), rounding.adaptive(p, scales)
    assert (found.error <= near.error).all()
    assert found.error.sum() < near.error.sum()
    steps = np.clip(p.weights / scales, -p.limit, p.limit)
    assert (np.abs(found.integers - steps) < 1).all()
    assert np.array_equal(found.integers, np.rint(found.integers))
    assert np.abs(found.integers).max() <= p.limit
    np.testing.assert_allclose(found.error, p.error(found.integers * scales), rtol=1e-9)


def test_the_error_is_that_of_the_outputs():
    """The objective without its ridge differs from the measured squared error by a constant of each output."""
    rng = np.random.default_rng(1)
    x, weights = rng.normal(size=(5, 300)), rng.normal(size=(4, 5))
    xx = x @ x.T / 300
    moments = Moments(np.zeros((1, 4)), np.zeros((1, 5)), xx[None, None], (weights @ xx)[None, None])
    p = rounding.objective(weights[None, None], moments, 3, per_channel=True)
    found = rounding.nearest(p, covering(p))
    values = (found.integers * found.scales)[0, 0]
    measured = np.square((values - weights) @ x).mean(axis=1)
    ridge = 0.03 * np.trace(xx) / 5 * np.square(values - weights).sum(axis=1)
    np.testing.assert_allclose(found.error.ravel(), measured + ridge, rtol=1e-9)


def test_small_problems_come_close_to_the_optimum():
    p = problem(3, outputs=1, size=8, groups=1)
    scales = covering(p)
    low = np.floor(p.weights / scales)
    best = min(
        p.error((low + np.array(up).reshape(1, 1, 1, 8)) * scales).item() for up in itertools.product((0, 1), repeat=8)
    )
    assert best <= rounding.adaptive(p, scales).error.item() <= 1.1 * best


@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("bits", [1, 2, 4])
def test_searched_scales_beat_the_covering_one(bits, per_channel):
    p = problem(bits, per_channel)
    sizes = np.abs(p.weights)
    start = sizes.mean(axis=3, keepdims=True) if bits == 1 else covering(p)
    if not per_channel:
        start = np.full_like(start, sizes.mean() if bits == 1 else start.max())
    found = rounding.searched(p, is_adaptive=True)
    assert (found.error <= rounding.searched(p, is_adaptive=False).error + 1e-12).all()
    assert found.error.sum() < rounding.adaptive(p, start).error.sum()
    assert (np.abs(found.integers) == 1).all() if bits == 1 else np.abs(found.integers).max() <= p.limit
    assert per_channel or len(np.unique(found.scales)) == 1


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_inputs_and_weights_of_zeros(bits):
    p = problem(bits)
    zeros = Moments(np.zeros((2, 6)), np.zeros((2, 10)), np.zeros_like(p.gram), np.zeros_like(p.weights))
    still = rounding.searched(rounding.objective(p.weights, zeros, bits, True), is_adaptive=True)
    assert np.isfinite(still.scales).all()
    assert (still.scales > 0).all()
    np.testing.assert_allclose((still.integers * still.scales * p.weights).sum(axis=3) > 0, True)
    nothing = rounding.searched(rounding.objective(0 * p.weights, zeros, bits, True), is_adaptive=True)
    assert (nothing.scales > 0).all()
    assert np.abs(nothing.integers * nothing.scales).max() < 1e-30
