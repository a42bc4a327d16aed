"""Choices of a seed are numpy's, and hypothesis finds a small case where a large one fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hwflow import onnx
from tests.strategies.drawing import Again, Drawing, search
from tests.strategies.layer_graphs import any_network, seed_of
from tests.strategies.styles import qdq_model


def test_the_case_of_a_seed_is_numpys() -> None:
    for seed in range(5):
        drawing = Drawing(seed_of(seed))
        assert any_network(drawing) == any_network(np.random.default_rng(seed_of(seed)))
        assert drawing.choices
        one, two = (onnx.dumps(qdq_model(make([2, seed]))) for make in (Drawing, np.random.default_rng))
        assert one == two


def numbers(rng: Any) -> list[int]:
    return [int(rng.integers(0, 100)) for _ in range(int(rng.integers(0, 20)))]


def test_a_case_that_fails_becomes_small() -> None:
    def check(values: list[int]) -> None:
        assert sum(value >= 50 for value in values) < 2

    with pytest.raises(AssertionError) as failed:
        search(numbers, check, range(30))
    assert "[50, 50]" in "\n".join(failed.value.__notes__)


def test_the_error_of_the_seed_stays_where_nothing_fails_again() -> None:
    told: list[object] = []

    def check(values: list[int]) -> None:
        told.append(values)
        assert len(told) > 1, "once"

    with pytest.raises(AssertionError, match="once") as failed:
        search(numbers, check, [7])
    assert failed.value.__notes__[0].startswith("seed 7: [")


def test_two_walks_make_the_same_choices() -> None:
    rng = Again(Drawing(3))
    assert numbers(rng) == numbers(rng.again())
