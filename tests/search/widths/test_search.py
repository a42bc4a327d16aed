"""The search against exhaustive search, on evaluators whose answers are known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hwflow_rtl.vendor import Resources
from hypothesis import given
from hypothesis import strategies as st

from hwflow.search.widths.points import Point, frontier
from hwflow.search.widths.search import search
from tests.search.widths.synthetic import Synthetic, knobs

#: How much more than the optimum the search may find, on problems of this size and with so few evaluations.
FACTOR = 1.10

#: Random problems, and of how many the optimum itself must be found; of 219 others it was found in 218.
PROBLEMS, SOLVED = 40, 38


def test_nearly_always_the_optimum_with_a_tenth_of_the_evaluations():
    source, solved = np.random.default_rng(1), 0
    for _ in range(PROBLEMS):
        widths = [tuple(range(8, int(least) - 1, -1)) for least in source.integers(3, 7, 4)]
        limit = float(source.choice([0.0, 0.5, 2.0, 10.0]))
        evaluator = Synthetic.random(int(source.integers(10_000)), widths)
        optimum = evaluator.optimum(limit)
        found = search(evaluator.knobs, evaluator, limit=limit, evaluations=80).best()
        assert (found is None) == (optimum is None)
        assert found is None or (found.reaches(limit) and found.price >= optimum.price)
        solved += found is None or found.price == optimum.price
    assert solved >= SOLVED


def test_small_problems_are_searched_exhaustively():
    evaluator = Synthetic.random(3, [(8, 4, 2)] * 4)
    state = search(evaluator.knobs, evaluator, limit=1.0, evaluations=81)
    assert set(state.points) == set(itertools.product((8, 4, 2), repeat=4))
    assert state.best() == evaluator.optimum(1.0)


@pytest.mark.parametrize("widest", [9, 12, 16])
def test_from_more_than_eight_bits(widest):
    evaluator = Synthetic.random(7, [tuple(range(widest, 5, -2))] * 3)
    found = search(evaluator.knobs, evaluator, limit=1.0, evaluations=60).best()
    assert found is not None
    assert found.price <= FACTOR * evaluator.optimum(1.0).price


@pytest.mark.parametrize("evaluations", [1, 2, 10, 37, 200])
def test_never_more_evaluations_than_allowed(evaluations):
    evaluator = Synthetic.random(5, [range(8, 0, -1)] * 9)
    told = []
    state = search(
        evaluator.knobs,
        evaluator,
        limit=1.0,
        evaluations=evaluations,
        progress=lambda done, total: told.append((done, total)),
    )
    base_probe = 1  # the widest design is measured, and probed to compare with
    assert evaluator.asked["probe"] + evaluator.asked["measure"] <= evaluations + base_probe
    assert told == [(k, evaluations) for k in range(1, state.used + 1)]
    assert state.used <= evaluations


def test_more_evaluations_never_find_worse():
    evaluator = Synthetic.random(11, [range(8, 0, -1)] * 10)
    prices = [search(evaluator.knobs, evaluator, limit=1.0, evaluations=n).best().price for n in (3, 30, 300)]
    assert prices == sorted(prices, reverse=True)
    assert prices[-1] < prices[0]


def test_the_same_question_has_the_same_answer():
    runs = [
        search(e.knobs, e, limit=1.0, evaluations=100)
        for e in (Synthetic.random(7, [range(8, 0, -1)] * 7) for _ in range(2))
    ]
    assert list(runs[0].points.values()) == list(runs[1].points.values())


def test_the_widest_design_is_measured_first_and_kept_where_nothing_may_be_lost():
    evaluator = Synthetic.random(1, [range(8, 0, -1)] * 6)
    evaluator.gain = np.full(6, 1e6)  # every bit counts
    state = search(evaluator.knobs, evaluator, limit=0.0, evaluations=60)
    assert next(iter(state.points)) == (8,) * 6
    assert state.best() is None


def test_a_width_that_nothing_depends_on_becomes_narrow():
    evaluator = Synthetic.random(2, [range(8, 0, -1)] * 6)
    evaluator.gain = np.array([10, 10, 0.0, 10, 10, 10])
    best = search(evaluator.knobs, evaluator, limit=1.0, evaluations=120).best()
    assert best is not None
    assert best.bits[2] == 1


def point(price: float, drop: float, bits: int = 8, *, tuned: bool = False) -> Point:
    return Point((bits,), tuned, Resources(), price, 0.0, 100 - drop, drop)


def test_the_frontier_has_what_no_other_beats():
    points = [point(3, 0), point(2, 1), point(2, 2), point(1, 5), point(2.5, 1), point(4, 0)]
    assert frontier(points) == (point(3, 0), point(2, 1), point(1, 5))


def test_of_equals_the_untuned_and_wider_stands_on_the_frontier():
    points = [point(1, 0, 4), point(1, 0, 6, tuned=True), point(1, 0, 5)]
    assert frontier(points) == (point(1, 0, 5),)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30))
def test_the_frontier_falls_monotonously_and_beats_everything(pairs):
    points = [point(price, drop) for price, drop in pairs]
    found = frontier(points)
    assert [p.price for p in found] == sorted({p.price for p in found}, reverse=True)
    assert [p.drop for p in found] == sorted({p.drop for p in found})
    assert all(any(f.price <= p.price and f.drop <= p.drop for f in found) for p in points)


def test_knobs_of_one_width_are_never_turned():
    evaluator = Synthetic(knobs([(8,), (8, 4), (3,)]), np.ones(2), np.ones(3))
    state = search(evaluator.knobs, evaluator, limit=50, evaluations=2)
    assert set(state.points) == {(8, 8, 3), (8, 4, 3)}
