"""The frontier against the definition, point by point."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from hwflow.cli.explore import OBJECTIVES
from hwflow.search.exploration.point import Objective, Point, frontier_of

ASKED = Point("board", "8,8", "auto", False, False, None)


def random_point(rng: random.Random) -> Point:
    """Small numbers, so that many are equal; some do not fit, of some the accuracy is not known."""
    if rng.random() < 0.1:
        return replace(ASKED, refused="does not fit", lut=0)
    return replace(
        ASKED, interval=rng.randint(1, 5), latency=rng.randint(1, 5), mhz=rng.choice([50.0, 100.0]),
        lut=rng.randint(1, 6), ff=rng.randint(1, 3), dsp=rng.randint(0, 3), ram=rng.randint(0, 3),
        filled=rng.choice([0.25, 0.5]), accuracy=rng.choice([None, 90.0, 91.5]))


def numbers(point: Point) -> dict[Objective, float]:
    """What is compared, the more the better."""
    return {
        Objective.FRAMES: point.mhz / point.interval, Objective.LATENCY: -point.latency / point.mhz,
        Objective.ACCURACY: float("-inf") if point.accuracy is None else point.accuracy, Objective.LUT: -point.lut,
        Objective.FF: -point.ff, Objective.DSP: -point.dsp, Objective.RAM: -point.ram, Objective.FILLED: -point.filled}


def beats(one: Point, other: Point, objectives: list[Objective]) -> bool:
    mine, its = numbers(one), numbers(other)
    return all(mine[each] >= its[each] for each in objectives) and any(mine[each] > its[each] for each in objectives)


@pytest.mark.parametrize("seed", range(12))
def test_frontier_is_what_nothing_beats(seed: int) -> None:
    rng = random.Random(seed)
    points = [random_point(rng) for _ in range(60)]
    objectives = rng.sample(list(Objective), rng.randint(1, len(Objective)))
    expected = [point.fits and not any(beats(other, point, objectives) for other in points if other.fits)
                for point in points]
    assert frontier_of(points, objectives) == expected


def test_nothing_fits() -> None:
    assert frontier_of([replace(ASKED, refused="too large")], [Objective.FRAMES]) == [False]
    assert frontier_of([], [Objective.FRAMES]) == []


def test_the_command_line_has_every_objective() -> None:
    assert tuple(each.value for each in Objective) == OBJECTIVES
