"""Random tests are searches without an end: `make test` and `make test-all` run some seeds, `make fuzz` any others.

`@seeds(quick, slow)` gives a test its seeds; those of `slow` are slow tests.  `--seeds=FIRST:COUNT` replaces both by
COUNT seeds from FIRST on, in every test that has the mark `seeds`.  The id of a test that fails has its seed:
`pytest --seeds=SEED:1 TEST` runs it again.

A test of several parameters runs some combinations of a product: `covering`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, product
from typing import Any

import pytest


def seeds(quick: Iterable[int] = (), slow: Iterable[int] = (), *, name: str = "seed") -> pytest.MarkDecorator:
    """Runs a test for each seed, which it takes as its argument `name`: a seed, or the number of a block of seeds."""
    return pytest.mark.seeds(name, tuple(quick), tuple(slow))


def covering(*choices: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Combinations of one value of each, so that every pair of values of two of them is in one; as few as are found
    by taking, again and again, the combination with most new pairs.

    The values themselves count: a defect that three of them must meet for needs the whole product.
    """
    def pairs(place: tuple[int, ...]) -> set[tuple[int, ...]]:
        return {(a, place[a], b, place[b]) for a, b in combinations(range(len(place)), 2)} or {place}

    places = {place: pairs(place) for place in product(*(range(len(each)) for each in choices))}
    missing, chosen = set().union(*places.values()), []
    while missing:
        best = max(places, key=lambda place: len(places[place] & missing))
        missing -= places.pop(best)
        chosen.append(best)
    return [tuple(each[k] for each, k in zip(choices, place, strict=True)) for place in sorted(chosen)]


def asked(text: str) -> range:
    """The seeds of `FIRST:COUNT`."""
    first, _, count = text.partition(":")
    found = range(int(first), int(first) + int(count)) if first.isdecimal() and count.isdecimal() else range(0)
    if not found:
        raise pytest.UsageError(f"--seeds must be FIRST:COUNT, whole numbers, at least one seed, not '{text}'")
    return found


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seeds", metavar="FIRST:COUNT", help="run the tests with random cases with these seeds alone")


def pytest_configure(config: pytest.Config) -> None:
    if (given := config.getoption("--seeds")) is not None:
        asked(given)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    given = metafunc.config.getoption("--seeds")
    for name, quick, slow in (mark.args for mark in metafunc.definition.iter_markers("seeds")):
        usual = [*quick, *(pytest.param(seed, marks=pytest.mark.slow) for seed in slow)]
        metafunc.parametrize(name, usual if given is None else asked(given))
