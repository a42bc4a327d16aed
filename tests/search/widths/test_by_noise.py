"""The search for little noise against exhaustive search, on evaluators whose answers are known."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from hwflow.search.widths.by_noise import search_noise
from hwflow.search.widths.points import Point
from tests.search.widths.synthetic import Synthetic

#: How much more than the optimum the search may find.
FACTOR = 1.15


class Noisy(Synthetic):
    """The drop is the noise in per cent of the size; tuning leaves a tenth of the noise of weights."""

    @staticmethod
    def random(seed, widths):
        return Noisy(**vars(Synthetic.random(seed, widths)))

    def noise_of(self, bits, tuned):
        shares = [0.1 if tuned and k % 2 == 0 else 1.0 for k in range(len(bits))]
        return float(sum(s * gain * 4.0**-b for s, gain, b in zip(shares, self.gain, bits, strict=True)))

    def noise(self, bits):
        return self.noise_of(bits, tuned=False)

    def measure(self, bits, *, tuned=False):
        design, noise = self.design(bits), self.noise_of(bits, tuned)
        self.asked["measure"] += 1
        return Point(bits, tuned, design.resources, design.price, noise, -10 * float(np.log10(noise)),
                     100 * float(noise) ** 0.5)


@pytest.mark.parametrize("seed", range(12))
def test_the_cheapest_design_with_so_little_noise(seed):
    widths = [(8, 6, 4, 2), (16, 12, 8, 6, 4)] * 2
    evaluator = Noisy.random(seed, widths)
    limit = float(np.random.default_rng(seed).choice([3.16, 1.0, 0.5]))
    every = [evaluator.measure(bits, tuned=True) for bits in itertools.product(*widths)]
    best = min((p for p in every if p.reaches(limit)), key=lambda p: p.price, default=None)
    state = search_noise(evaluator.knobs, evaluator, limit=limit, evaluations=120)
    found = state.best()
    assert (found is None) == (best is None)
    assert found is None or (found.drop <= limit and found.price <= FACTOR * best.price)
    assert state.tuned


def test_what_the_widest_design_does_not_reach_is_not_searched_for():
    evaluator = Noisy.random(1, [(8, 4), (16, 8)] * 3)
    state = search_noise(evaluator.knobs, evaluator, limit=1e-6, evaluations=120)
    assert state.best() is None
    assert list(state.points) == [(8, 16) * 3]
    assert evaluator.asked["probe"] == 0


@pytest.mark.parametrize("evaluations", [1, 20, 200])
def test_never_more_evaluations_than_allowed(evaluations):
    evaluator = Noisy.random(4, [range(8, 1, -1), range(16, 3, -1)] * 5)
    state = search_noise(evaluator.knobs, evaluator, limit=3.0, evaluations=evaluations)
    assert evaluator.asked["probe"] <= max(evaluations // 2, 1) + 1
    assert len(state.points) <= max(evaluations // 16, 6)
    again = search_noise(evaluator.knobs, replace(evaluator), limit=3.0, evaluations=evaluations)
    assert list(again.points) == list(state.points), "the same question has the same answer"
