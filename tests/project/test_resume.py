"""`pytest --resume=FILE` leaves out what passed before, and only that."""

from __future__ import annotations

import re

import pytest

from tests.project.tree import ROOT

pytest_plugins = ["pytester"]

SOURCE = """
    import os
    import pytest

    @pytest.mark.parametrize("case", ["a", "b c", "d\\n"])
    def test_passes(case):
        pass

    def test_depends():
        assert "GOOD" in os.environ

    @pytest.mark.skipif("GOOD" not in os.environ, reason="it waits")
    def test_waits():
        pass

    @pytest.fixture
    def falls():
        yield
        assert "GOOD" in os.environ

    def test_falls_at_its_end(falls):
        pass
"""
PASSES = [
    "checks/test_case.py::test_passes[a]",
    "checks/test_case.py::test_passes[b c]",
    "checks/test_case.py::test_passes[d\\n]",
]


@pytest.fixture
def project(pytester, monkeypatch):
    """A project with six tests: three pass, three more do so where the environment has GOOD.

    As here, the folder of the tests has the `conftest.py` that brings the option.
    """
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makefile("", **{".gitignore": "__pycache__/\n.pytest_cache/\nbuild/\n"})
    pytester.makeini("[pytest]\ntestpaths = checks")
    pytester.makepyfile(**{"checks/conftest": 'pytest_plugins = ["tests.resume"]', "checks/test_case": SOURCE})
    return pytester


@pytest.fixture
def run(project):
    """Runs the project's tests with --resume; gives the outcomes, and the file's ids or None where it is gone."""

    def run(*arguments, workers=0):
        options = ["--resume=build/passed.txt", f"-n{workers}", *arguments]
        result = project.runpytest_subprocess(*options)
        file = project.path / "build" / "passed.txt"
        return result, sorted(line.split(" ", 1)[1] for line in lines(file)[1:]) if file.exists() else None

    return run


def lines(file):
    return file.read_text().splitlines()


def said(result):
    """What the last line of the plugin says."""
    return [line for line in result.outlines if line.startswith("resume: ")][-1]


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_second_run_leaves_out_what_passed_and_the_last_one_removes_the_file(run, monkeypatch, workers):
    result, passed = run(workers=workers)
    result.assert_outcomes(passed=4, failed=1, skipped=1, errors=1)  # one test passes and fails at its end
    assert (result.ret, passed) == (1, PASSES)

    result, passed = run(workers=workers)
    assert (result.ret, passed) == (1, PASSES)
    result.assert_outcomes(passed=1, failed=1, skipped=1, errors=1)

    monkeypatch.setenv("GOOD", "1")
    result, passed = run(workers=workers)
    assert (result.ret, passed) == (0, None)
    assert re.fullmatch(r"resume: 3 tests passed before, 3 now; they took \d+ s; all tests passed", said(result))


def test_a_change_of_the_sources_starts_anew(run, project):
    run()
    project.makepyfile(**{"checks/test_other": "def test_other(): pass"})
    result, passed = run()
    result.assert_outcomes(passed=5, failed=1, skipped=1, errors=1)
    assert passed == [*PASSES, "checks/test_other.py::test_other"]
    file = project.path / "build" / "passed.txt"
    assert f"resume: {file} is of other sources or empty; all tests run" in result.outlines


def test_a_selection_of_tests_adds_to_the_file_and_keeps_it(run):
    result, passed = run("checks/test_case.py::test_passes[a]")
    assert (result.ret, passed) == (0, PASSES[:1])
    result, passed = run("-k", "passes")
    assert (result.ret, passed) == (0, PASSES)
    result, passed = run("-k", "passes")
    assert (result.ret, passed) == (0, PASSES)  # no test remains, and that is no error


def test_a_killed_run_leaves_a_file_that_can_be_continued(run, project):
    run()
    file = project.path / "build" / "passed.txt"
    file.write_text("\n".join(lines(file)[:2]) + "\n0.001 checks/test_case.py::test_dep")
    result, passed = run()
    assert passed == PASSES
    assert said(result).startswith("resume: 1 tests passed before, 2 now;")


def test_what_remains_can_be_listed(run, project):
    run()
    before = (project.path / "build" / "passed.txt").read_text()
    result, _ = run("--collect-only", "-q")
    assert [line for line in result.outlines if "::" in line] == [
        f"checks/test_case.py::{name}" for name in ("test_depends", "test_waits", "test_falls_at_its_end")
    ]
    assert (project.path / "build" / "passed.txt").read_text() == before
