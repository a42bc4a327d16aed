"""Which seeds random tests get, and which combinations a covering set has."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from tests.project.tree import ROOT
from tests.random_cases import covering

pytest_plugins = ["pytester"]

SOURCE = """
    import pytest
    from tests.random_cases import seeds

    @seeds(quick=[0, 4], slow=range(5, 7))
    @pytest.mark.parametrize("kind", ["a", "b"])
    def test_some(kind, seed):
        assert (kind, seed) != ("b", 1001)

    @seeds(slow=[2], name="block")
    def test_blocks(block):
        pass

    def test_other():
        pass
"""


@pytest.fixture
def run(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeini("[pytest]\nmarkers =\n  slow\n  seeds")
    pytester.makepyfile(conftest='pytest_plugins = ["tests.random_cases"]', test_case=SOURCE)
    return lambda *arguments: pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)


def test_quick_slow_and_other_seeds(run) -> None:
    run("-m", "not slow").assert_outcomes(passed=5, deselected=5)
    run().assert_outcomes(passed=10)
    found = run("-m", "seeds", "--seeds=1000:3")
    found.assert_outcomes(passed=8, failed=1, deselected=1)
    found.stdout.fnmatch_lines(["FAILED *test_some*[[]1001-b[]]*"])
    run("--seeds=1001:1", "test_case.py::test_some").assert_outcomes(passed=1, failed=1)


@pytest.mark.parametrize("given", ["5:0", "x", "3:y", "-4:2", ""])
def test_what_names_no_seeds_is_refused(run, given: str) -> None:
    found = run(f"--seeds={given}")
    assert found.ret == pytest.ExitCode.USAGE_ERROR
    found.stderr.fnmatch_lines([f"*--seeds must be FIRST:COUNT*not '{given}'*"])


@pytest.mark.parametrize("sizes", [(3,), (2, 3), (14, 7, 5), (4, 4, 4, 3)])
def test_a_covering_set_has_every_pair(sizes: tuple[int, ...]) -> None:
    choices = [range(size) for size in sizes]
    chosen = covering(*choices)
    for a, b in combinations(range(len(sizes)), 2):
        assert {(case[a], case[b]) for case in chosen} == set(product(choices[a], choices[b]))
    assert len(chosen) <= 1.5 * max((one * two for one, two in combinations(sizes, 2)), default=sizes[0])
