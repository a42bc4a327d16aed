"""Which rows are the worst, against the definition row by row."""

from __future__ import annotations

import numpy as np
import pytest

from hwflow.accuracy import compare, question
from hwflow.accuracy.worst import MOST_WORST, WorstRow
from tests.accuracy.support import dataset, passing


def scores(*rows: list[float]) -> dict[str, np.ndarray]:
    return {"y": np.array(rows, np.float32)[:, None]}


def test_what_only_the_integers_get_wrong_is_first() -> None:
    data = dataset([0, 1, 2, 2, 0])
    real = scores([3, 0, 0], [0, 3, 0], [0, 3, 0], [3, 0, 1], [3, 0, 0])
    integer = scores([3, 0.5, 0], [3, 2, 0], [0, 3, 0], [0, 0, 3], [3, 0, 0])
    found = compare(question(passing((1, 1), (1, 3)), data), data, real, integer).worst
    apart = np.sqrt(np.square(integer["y"] - real["y"]).mean(axis=(1, 2))) / np.sqrt(np.square(real["y"]).mean())
    assert [(worst.row, worst.expected, worst.real, worst.integer) for worst in found] == [
        (1, 1, 1, 0), (3, 2, 0, 2), (2, 2, 1, 1), (0, 0, 0, 0)]
    assert [worst.error for worst in found] == pytest.approx([apart[row] for row in (1, 3, 2, 0)])


def test_values_by_their_distance() -> None:
    """As numpy sorts the distances, on more rows than are named; what is not finite comes first."""
    random = np.random.default_rng(3)
    want, made = random.normal(size=(40, 1, 1)), random.normal(size=(40, 1, 1))
    made[7] = np.nan
    data = dataset(np.arange(40.0))
    found = compare(question(passing((1, 1)), data), data, {"y": want}, {"y": made}).worst
    order = np.argsort(-np.nan_to_num(np.abs(made - want).ravel(), nan=np.inf))
    assert [worst.row for worst in found] == order[:MOST_WORST].tolist()
    assert found[0] == WorstRow(7, None, 7.0, want[7].item(), None)
    assert found[1].error == pytest.approx(np.abs(made - want).ravel()[order[1]] / np.sqrt(np.square(want).mean()))


def test_rows_without_an_answer() -> None:
    data = dataset(None, np.zeros((3, 1, 2)))
    asked = question(passing((1, 2)), data)
    real = {"y": np.array([[[3.0, 4.0]], [[1.0, 1.0]], [[0.0, 0.0]]])}
    assert compare(asked, data, real, real).worst == ()
    other = {"y": real["y"] + np.array([0.0, 0.0, 1.0])[:, None, None]}
    assert [(worst.row, worst.expected, worst.integer) for worst in compare(asked, data, real, other).worst] == [
        (2, None, None)]


def test_indices_differ_or_do_not() -> None:
    data = dataset([7, -2])
    found = compare(question(passing((1, 1), (1, 1), np.int64), data), data, {"y": np.array([[7], [-2]])},
                    {"y": np.array([[7], [300]])}).worst
    assert found == (WorstRow(1, 1.0, -2, -2, 300),)
