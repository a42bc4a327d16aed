"""Each measure against its definition, written out as a loop."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwflow.accuracy.metrics import (
    area_under_curve,
    chance_of_area,
    chance_of_share,
    deviation,
    ranks,
    signal_to_noise,
    squared_errors,
)
from hwflow.data.dataset import classes


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 1)), min_size=1, max_size=30))
def test_area_under_curve_counts_pairs(rows: list[tuple[int, int]]) -> None:
    scores, labels = (np.array(column) for column in zip(*rows, strict=True))
    ones, zeros = scores[labels == 1], scores[labels == 0]
    found = area_under_curve(scores, labels)
    if not len(ones) or not len(zeros):
        assert found is None
        return
    pairs = [1.0 if one > zero else 0.5 if one == zero else 0.0 for one in ones for zero in zeros]
    assert found == pytest.approx(sum(pairs) / len(pairs), abs=1e-12)


def test_chance_of_a_share_is_that_of_the_rows_that_differ() -> None:
    right, other = np.ones(20, bool), np.arange(20) >= 4
    assert chance_of_share(right, other) == math.sqrt(4) / 20
    assert chance_of_share(right, right) == 0


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(0, 1)), min_size=1, max_size=20))
def test_chance_of_an_area_is_that_of_the_placements(rows: list[tuple[int, int, int]]) -> None:
    first, second, labels = (np.array(column) for column in zip(*rows, strict=True))
    found = chance_of_area(first, second, labels)
    if len(set(labels)) < 2:
        assert found is None
        return

    def placed(scores: np.ndarray, row: int) -> float:
        others = scores[labels != labels[row]]
        return float(np.mean([0.5 if o == scores[row] else float(o < scores[row]) for o in others]))

    variance = 0.0
    for label in (0, 1):
        where = np.flatnonzero(labels == label)
        variance += sum((placed(first, k) - placed(second, k)) ** 2 for k in where) / len(where) ** 2
    assert found == pytest.approx(math.sqrt(variance), abs=1e-12)


def test_area_under_curve_at_its_ends() -> None:
    labels = np.array([0, 0, 1, 1])
    assert area_under_curve(np.array([1.0, 2, 3, 4]), labels) == 1
    assert area_under_curve(np.array([4.0, 3, 2, 1]), labels) == 0
    assert area_under_curve(np.zeros(4), labels) == 0.5


@given(st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1, max_size=8), st.data())
def test_ranks_sort_as_classes_do(rows: list[list[int]], data: st.DataObject) -> None:
    """A stable sort, best first, has the label at its rank; rank 0 is the class that the scores name."""
    labels = np.array([data.draw(st.integers(0, 3)) for _ in rows])
    scores = np.array(rows)
    found = ranks(scores[:, None], labels)
    for row, label, rank in zip(rows, labels, found, strict=True):
        assert sorted(range(4), key=lambda k, row=row: -row[k])[rank] == label
    np.testing.assert_array_equal(found == 0, classes(scores) == labels)


def test_ranks_of_unsigned_labels() -> None:
    assert ranks(np.array([[3, 1, 2]]), np.array([2], np.uint8)).tolist() == [1]


def test_deviation() -> None:
    found = deviation(np.array([[1.0, 2], [3, 2]]), np.array([[[1.0, 2]], [[2, 4]]]))
    assert found.mse == (0 + 0 + 1 + 4) / 4
    assert found.largest == 2
    assert found.r2 == 1 - 5 / 2  # only the first column varies, by 1 around 2
    assert found.rows.tolist() == [0, 5 / 2]


def test_deviation_where_nothing_varies() -> None:
    assert deviation(np.ones((3, 1)), np.zeros((3, 1))).r2 is None


def test_squared_errors() -> None:
    images = np.array([[[0, 255]], [[3, 4]]], np.uint8)
    assert squared_errors(images, np.zeros((2, 1, 2))).tolist() == [255**2 / 2, 12.5]


def test_signal_to_noise() -> None:
    reference = {"a": np.array([3.0, 4.0]), "b": np.array([0, 0])}
    assert signal_to_noise(reference, reference) is None
    apart = {"a": np.array([3.0, 4.3]), "b": np.array([0, 0.4])}
    assert signal_to_noise(reference, apart) == pytest.approx(10 * math.log10(25 / 0.25))
    assert signal_to_noise({"a": np.zeros(2)}, {"a": np.ones(2)}) is None
    assert signal_to_noise({"a": np.array([np.inf])}, {"a": np.ones(1)}) is None
