"""Thresholds as a multiplication: the same elements of every sum, or none."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np
import pytest

from hwflow.layers import IntFormat, Requantize
from hwflow.layers.rescale import Thresholds
from hwflow.layers.threshold_fit import as_requantize


def thresholds_of(rescale: Requantize) -> Thresholds:
    """The sums from which on a multiplication that rounds half to even gives each level, in exact fractions."""
    values = np.zeros((len(rescale.bias), rescale.high - rescale.low), np.int64)
    for channel, (bias, factor, shift) in enumerate(zip(
            rescale.bias.tolist(), rescale.multiplier.tolist(), rescale.shift.tolist(), strict=True)):
        for k in range(values.shape[1]):
            level = rescale.low + k + 1 - rescale.zero_point  # from level - 1/2 on, which is a tie
            exact = ((level - Fraction(1, 2)) * (1 << shift) / factor - bias) / (1 << rescale.fraction)
            values[channel, k] = ceil(exact) + (exact.denominator == 1 and level % 2 == 1)
    return Thresholds(values, rescale.low)


def counted(thresholds: Thresholds, sums: np.ndarray) -> np.ndarray:
    """[sums, channels]: how many thresholds a sum has reached."""
    return thresholds.low + (thresholds.values <= sums[:, None, None]).sum(axis=2)


def require_same(found: Requantize, thresholds: Thresholds, sums: IntFormat) -> None:
    every = np.arange(sums.low, sums.high + 1)
    channels = len(thresholds.values)
    np.testing.assert_array_equal(found.apply(np.tile(every[:, None], channels)), counted(thresholds, every))


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_thresholds_of_a_multiplication(bits: int) -> None:
    """Multipliers of 10 bits: sums of 13 bits tell no more of them."""
    rng, sums, channels = np.random.default_rng(bits), IntFormat(13, signed=True), 40
    low = int(rng.integers(-100, 100))
    made = Requantize(
        bias=rng.integers(-3000, 3000, channels), multiplier=rng.integers(1 << 9, 1 << 10, channels),
        shift=rng.integers(20 - bits, 24 - bits, channels), zero_point=low, low=low, high=low + (1 << bits) - 1)
    thresholds = thresholds_of(made)
    require_same(made, thresholds, sums)
    found = as_requantize(thresholds, sums)
    assert found is not None
    require_same(found, thresholds, sums)


@pytest.mark.parametrize("zero_point", [0, 1, 4, 7, -3])
def test_ties_go_to_levels_an_even_number_of_steps_from_the_zero_point(zero_point: int) -> None:
    """A shift by one bit: every other sum is a tie."""
    sums = IntFormat(7, signed=True)
    made = Requantize(*np.array([[-14, 3], [1, 1], [1, 1]]), zero_point, 0, 7)
    thresholds = thresholds_of(made)
    require_same(made, thresholds, sums)
    found = as_requantize(thresholds, sums)
    assert found is not None
    require_same(found, thresholds, sums)


def test_levels_that_are_never_or_always_reached() -> None:
    sums, never = IntFormat(9, signed=True), 1 << 40
    thresholds = Thresholds(np.array([
        [never] * 3, [-never] * 3, [-never, 7, never], [-5, never, never], [3, 3, 3], [-never, -never, 256]]), -1)
    found = as_requantize(thresholds, sums)
    assert found is not None
    require_same(found, thresholds, sums)


@pytest.mark.parametrize("values", [[0, 1, 100], [0, 50, 51, 200], [-200, 10, 20, 30]])
def test_levels_that_are_not_evenly_spaced(values: list[int]) -> None:
    assert as_requantize(Thresholds(np.array([values]), 0), IntFormat(9, signed=True)) is None


def test_one_channel_that_is_none_refuses_all() -> None:
    even, uneven = [0, 10, 20, 30], [0, 10, 90, 91]
    sums = IntFormat(9, signed=True)
    assert as_requantize(Thresholds(np.array([even, even]), 0), sums) is not None
    assert as_requantize(Thresholds(np.array([even, uneven]), 0), sums) is None
