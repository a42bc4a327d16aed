"""From sums to elements: against exact fractions, in every way of rounding; the quick ways against the plain one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwflow.layers import IntFormat, Requantize
from hwflow.layers.formats import BIPOLAR
from hwflow.layers.rescale import MAX_SHIFT, Rounding, Thresholds
from hwflow.layers.rescale_planes import PlanesRescaler
from tests.layers import reference

INT8, WIDE = IntFormat(8, True), IntFormat(32, True)
TYPES = ["int16", "int32", "int64", "float32", "float64"]


def one(value: int) -> np.ndarray:
    return np.array([value], np.int64)


def both_ways(rescale, sums: np.ndarray, accumulator: IntFormat, output: IntFormat, dtype: str) -> np.ndarray:
    """`apply` of sums [p, channels], checked to be what the planes give."""
    rescale.check(sums.shape[1], accumulator, output)
    plain = rescale.apply(sums)
    planes = PlanesRescaler(rescale, accumulator, dtype, output)(np.ascontiguousarray(sums.T).astype(dtype))
    np.testing.assert_array_equal(planes.T, plain)
    return plain


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize(("multiplier", "shift", "fraction"), [(1, 0, 0), (1, 1, 0), (1, 2, 1), (3, 3, 0), (5, 2, 3)])
def test_every_small_sum(rounding: Rounding, multiplier: int, shift: int, fraction: int, dtype: str) -> None:
    """All sums near zero, negative ones and ties among them."""
    for bias in (-3, 0, 1):
        q = Requantize(one(bias), one(multiplier), one(shift), 2, -60, 70, fraction, rounding)
        sums = np.arange(-99, 100)[:, None]
        made = both_ways(q, sums, INT8, INT8, dtype)
        assert made.ravel().tolist() == [reference.rescale(q, a, 0) for a in sums.ravel().tolist()]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("multiplier", "shift"), [(9, 6), (15, 5), (8, 8), (13, 4), (11, 3)])
def test_sums_that_move_outward_are_rounded_twice(multiplier: int, shift: int, dtype: str) -> None:
    """To sixteenths of the product first, halves up, and these to the result, halves away from zero, where it is
    coarser."""
    q = Requantize(one(0), one(multiplier), one(shift), -3, -60, 70, 0, Rounding.HALF_UP, 8)
    sums = np.arange(-128, 128)[:, None]
    expected = []
    for a in sums.ravel().tolist():
        if shift > 4:
            first = (a * multiplier + 8) >> 4
            away = (2 * abs(first) + (1 << (shift - 4))) >> (shift - 3)
            made = away if first >= 0 else -away
        else:
            made = (2 * a * multiplier + (1 << shift)) >> (shift + 1)
        expected.append(min(max(made - 3, -60), 70))
        assert reference.rescale(q, a, 0) == expected[-1]
    assert both_ways(q, sums, INT8, INT8, dtype).ravel().tolist() == expected


@pytest.mark.parametrize(
    ("rounding", "halves"),
    [
        (Rounding.HALF_EVEN, [-2, -2, 0, 0, 2, 2]),
        (Rounding.HALF_UP, [-2, -1, 0, 1, 2, 3]),
        (Rounding.HALF_DOWN, [-3, -2, -1, 0, 1, 2]),
        (Rounding.FLOOR, [-3, -2, -1, 0, 1, 2]),
        (Rounding.CEIL, [-2, -1, 0, 1, 2, 3]),
    ],
)
def test_ties(rounding: Rounding, halves: list[int]) -> None:
    """Of -2.5, -1.5, -0.5, 0.5, 1.5, 2.5."""
    q = Requantize(one(0), one(1), one(1), 0, -9, 9, 0, rounding)
    assert both_ways(q, np.array([[-5], [-3], [-1], [1], [3], [5]]), INT8, INT8, "float32").ravel().tolist() == halves


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_requantization_is_the_fraction(data: st.DataObject) -> None:
    """Up to the largest sums, multipliers and shifts that `check` lets through."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    bits = data.draw(st.integers(2, 40))
    accumulator, channels = IntFormat(bits, True), 3
    fraction = data.draw(st.integers(0, min(6, 42 - bits)))
    width = min(data.draw(st.sampled_from([18, 22, 26, 32])), 60 - bits - fraction)
    q = Requantize(
        bias=rng.integers(accumulator.low, accumulator.high + 1, channels),
        multiplier=rng.integers(0, 2**width, channels) >> rng.integers(0, width, channels),
        shift=rng.integers(0, MAX_SHIFT + 1, channels) if rng.integers(2) else rng.integers(0, bits + width, channels),
        zero_point=int(rng.integers(-128, 128)),
        low=int(rng.integers(-128, 0)),
        high=int(rng.integers(0, 128)),
        fraction=fraction,
        rounding=data.draw(st.sampled_from(Rounding)),
    )
    sums = rng.integers(accumulator.low, accumulator.high + 1, (40, channels))
    half = np.int64(1) << np.minimum(np.maximum(q.shift - 1, 0), bits - 2)
    ties = half * rng.integers(-3, 4, (20, channels)) - q.bias + rng.integers(-1, 2, (20, channels))
    sums = np.concatenate([sums, np.clip(ties, accumulator.low, accumulator.high)])
    made = both_ways(q, sums, accumulator, INT8, "float32" if bits <= 25 else "float64")
    expected = [[reference.rescale(q, int(a), c) for c, a in enumerate(row)] for row in sums]
    assert made.tolist() == expected


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_thresholds_are_counted(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    levels, spread = data.draw(st.integers(0, 255)), data.draw(st.sampled_from([3, 1000, 2**24 - 1, 2**30]))
    values = np.sort(rng.integers(-spread, spread, (3, levels)), axis=1)
    values[1:, : levels // 9], values[:2, levels - levels // 9 :] = -(2**60), 2**60  # beyond every sum
    low = int(rng.integers(-128, 128 - levels)) if levels < 256 else -128
    t = Thresholds(values, low)
    bits = spread.bit_length() + 1
    sums = np.concatenate([rng.integers(-spread, spread + 1, (30, 3)), np.clip(values.T, -spread, spread)[:30]])
    dtype = data.draw(st.sampled_from(["int32", "int64", "float64"] + ["float32"] * (bits <= 25)))
    made = both_ways(t, sums, IntFormat(bits, True), INT8, dtype)
    assert made.tolist() == [[reference.rescale(t, int(a), c) for c, a in enumerate(row)] for row in sums]


def test_sums_at_the_ends_of_float32_keep_their_thresholds() -> None:
    accumulator = IntFormat(25, True)
    t = Thresholds(np.array([[-(2**24), 0, 2**24 - 1, 2**24, 2**24 + 1]]), 0)
    sums = np.array([[-(2**24)], [-(2**24) + 1], [2**24 - 2], [2**24 - 1]])
    assert both_ways(t, sums, accumulator, INT8, "float32").ravel().tolist() == [1, 1, 2, 3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bias": np.zeros(2, np.int64)}, r"bias must be int64 \[1\], not int64 \[2\]"),
        ({"multiplier": one(1 << 32)}, r"multipliers must be from 0 to 4294967295, not 4294967296 to 4294967296"),
        ({"multiplier": one(-1)}, r"multipliers must be from 0 to 4294967295, not -1 to -1"),
        ({"shift": one(63)}, r"shifts must be from 0 to 62, not 63 to 63"),
        ({"fraction": -1}, r"the fraction must be from 0 to 62, not -1 to -1"),
        ({"low": 5, "high": 4}, r"the output must be inside int8 \(-128 to 127\), not 5 to 4"),
        ({"high": 128}, r"the output must be inside int8 \(-128 to 127\), not -128 to 128"),
        ({"multiplier": one((1 << 18) - 1), "fraction": 40}, r"products of int8 .* must stay below 2\*\*62"),
    ],
)
def test_requantizations_that_contradict_themselves(change: dict, message: str) -> None:
    good = {"bias": one(0), "multiplier": one(1), "shift": one(0), "zero_point": 0, "low": -128, "high": 127}
    Requantize(**good).check(1, INT8, INT8)
    with pytest.raises(ValueError, match=message):
        Requantize(**{**good, **change}).check(1, INT8, INT8)


@pytest.mark.parametrize(
    ("values", "low", "output", "message"),
    [
        ([[1], [2]], 0, INT8, r"thresholds must be int64 \[1, levels\], not int64 \[2, 1\]"),
        ([[2, 1]], 0, INT8, r"thresholds must ascend along the levels"),
        ([[1, 2]], 126, INT8, r"the output must be inside int8 \(-128 to 127\), not 126 to 128"),
        ([[1, 2]], -1, BIPOLAR, r"a bipolar output must have two equal thresholds for each channel"),
        ([[1]], -1, BIPOLAR, r"a bipolar output must have two equal thresholds for each channel"),
    ],
)
def test_thresholds_that_contradict_themselves(values: list, low: int, output: IntFormat, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Thresholds(np.array(values), low).check(1, INT8, output)


def test_bipolar_outputs() -> None:
    t = Thresholds(np.array([[4, 4]]), -1)
    assert both_ways(t, np.array([[3], [4]]), INT8, BIPOLAR, "float32").ravel().tolist() == [-1, 1]
    with pytest.raises(ValueError, match="a bipolar output must be made by thresholds"):
        Requantize(one(0), one(1), one(0), 0, -1, 1).check(1, INT8, BIPOLAR)


@pytest.mark.parametrize("rounding", Rounding)
def test_next_to_ties(rounding: Rounding) -> None:
    """One unit beside a tie is none, with 2**30 units to one."""
    q = Requantize(one(0), one(1), one(30), 0, -9, 9, 0, rounding)
    sums = [sign * k * 2**29 + d for k in range(6) for d in (-1, 0, 1) for sign in (-1, 1)]
    made = both_ways(q, np.array(sums)[:, None], IntFormat(33, True), INT8, "float64")
    assert made.ravel().tolist() == [reference.rescale(q, a, 0) for a in sums]


def test_products_beyond_float64_are_exact() -> None:
    """(2**37 + 1) * (2**17 + 1) has 55 bits; with the bias 2**17 + 1 is left, one unit above the tie."""
    q = Requantize(one(-(2**37)), one(2**17 + 1), one(18), 0, -9, 9)
    assert both_ways(q, np.array([[2**37 + 1]]), IntFormat(39, True), INT8, "float64").item() == 1
