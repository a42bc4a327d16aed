"""Fixed-point ratios and the rounding of the requantization, exhaustively against exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwflow.layers.formats import IntFormat
from hwflow.layers.rescale import Requantize, shift_right
from hwflow.quantize.importer.states import Parameters
from hwflow.quantize.scale import activation_parameters, fixed_point

INT8, UINT8 = IntFormat(8, True), IntFormat(8, False)


@given(st.floats(1e-13, 2.0**17))
def test_a_ratio_is_the_nearest_of_18_bits(value: float) -> None:
    ratio = Fraction(value)
    multiplier, shift = fixed_point(ratio)
    assert 0 < multiplier < 2**18
    assert 0 <= shift <= 62
    assert multiplier % 2 == 1 or shift == 0
    assert abs(Fraction(multiplier, 2**shift) / ratio - 1) <= Fraction(1, 2**18)


@pytest.mark.parametrize("exponent", range(-62, 18))
def test_a_power_of_two_needs_no_multiplier(exponent: int) -> None:
    multiplier, shift = fixed_point(Fraction(2) ** exponent)
    assert (multiplier, shift) == ((1, -exponent) if exponent <= 0 else (2**exponent, 0))


def test_rounding_up_to_the_next_power_of_two_stays_in_18_bits() -> None:
    assert fixed_point(Fraction(2**19 - 1, 2**30)) == (1, 11)


def test_a_ratio_that_turns_everything_to_zero_is_zero() -> None:
    assert fixed_point(Fraction(3, 2**80)) == (0, 0)


@pytest.mark.parametrize(
    ("ratio", "message"),
    [
        (Fraction(0), r"a ratio of scales must be positive, not 0\.0"),
        (Fraction(-1, 2), r"a ratio of scales must be positive, not -0\.5"),
        (Fraction(2**18), r"a ratio of scales must be below 2\*\*18, not 262144\.0"),
        (Fraction(2**19 - 1, 2), r"a ratio of scales must be below 2\*\*18, not 262143\.5"),
    ],
)
def test_impossible_ratios_are_refused(ratio: Fraction, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fixed_point(ratio)


def test_requantization_is_exact_for_every_small_accumulator() -> None:
    """All 10-bit accumulators x multipliers 0 to 63 (and the widest) x shifts 0 to 12, half to even."""
    accumulators = np.arange(-512, 512)
    for multiplier in [*range(64), 2**17 + 1, 2**18 - 1]:
        for shift in range(13):
            q = Requantize(np.array([3]), np.array([multiplier]), np.array([shift]), -5, -100, 90)
            exact = [round(Fraction((int(a) + 3) * multiplier, 2**shift)) for a in accumulators]
            expected = [min(max(value - 5, -100), 90) for value in exact]
            assert q.apply(accumulators.reshape(-1, 1)).ravel().tolist() == expected


@given(st.integers(-(2**61), 2**61), st.integers(0, 62))
@settings(max_examples=500, deadline=None)
def test_rounding_is_exact_for_wide_products(value: int, shift: int) -> None:
    assert int(shift_right(np.int64(value), np.int64(shift))) == round(Fraction(value, 2**shift))


@pytest.mark.parametrize("format", [INT8, UINT8, IntFormat(4, True)], ids=str)
@pytest.mark.parametrize(("low", "high"), [(0, 6), (-1, 1), (-3, 0), (0.5, 2), (-2, -1), (-1e-6, 1e4)])
def test_activation_parameters_cover_the_range(low: float, high: float, format: IntFormat) -> None:
    scale, zero_point = activation_parameters(low, high, format)
    assert scale.dtype == np.float32
    assert format.low <= zero_point <= format.high  # so 0 is exact
    assert float(scale) * (format.low - zero_point) <= min(low, 0) + 0.51 * float(scale)
    assert float(scale) * (format.high - zero_point) >= max(high, 0) - 0.51 * float(scale)


def test_a_range_of_nothing_has_a_scale() -> None:
    assert activation_parameters(0, 0, INT8) == (1, -128)


def test_values_are_quantized_half_to_even_and_saturated() -> None:
    values = [-np.inf, -1000, -0.75, -0.25, 0, 0.25, 0.75, 1000, np.inf]
    parameters = Parameters(0.5, 1, INT8, INT8.low, INT8.high)
    assert [parameters.integer_of(value) for value in values] == [-128, -128, -1, 1, 1, 1, 3, 127, 127]
