"""`--resume=FILE`: a run of the tests that was ended continues where it ended.

Every test that passes is written to FILE at once, with the seconds it took.  The next run with the same FILE leaves
these tests out.  Tests that failed, or were skipped, run again.  FILE begins with a digest of the project's files: when
one of them changed, the run starts anew.  FILE is removed when all tests passed.

With xdist the controller alone reads and writes FILE.  It hands the ids to the workers, so that all of them, also one
that replaces another later, collect the same tests.

The option has its `=`: before pytest has read tests/conftest.py, it takes a separate FILE for the folder of the tests.
"""

from __future__ import annotations

import hashlib
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.project.tree import project_files


def digest_of(root: Path) -> str:
    """Of the version of Python, and of the names and contents of all files that belong to the project at `root`."""
    digest = hashlib.sha256(sys.version.encode())
    for file in project_files(root):
        digest.update(f"\0{file.relative_to(root)}\0{hashlib.sha256(file.read_bytes()).hexdigest()}".encode())
    return digest.hexdigest()


def read(path: Path, digest: str) -> dict[str, float]:
    """The seconds of each test that `path` names; nothing where the file is not there or has another digest.

    A line without its end is left out: the run was killed while it wrote it.
    """
    if not path.exists():
        return {}
    first, *lines = path.read_text().split("\n")[:-1] or [""]
    if first != digest:
        return {}
    return {name: float(seconds) for seconds, name in (line.split(" ", 1) for line in lines)}


class LeaveOut:
    """Deselects the tests that passed before, in the process that collects."""

    def __init__(self, passed: frozenset[str]) -> None:
        self.passed = passed

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        done = [item for item in items if item.nodeid in self.passed]
        if done:
            config.hook.pytest_deselected(items=done)
            items[:] = [item for item in items if item.nodeid not in self.passed]


class Recorder:
    """Writes the file, in the process that receives the reports of all tests."""

    def __init__(self, path: Path, digest: str) -> None:
        self.path = path
        self.anew = path.exists()
        self.before = read(path, digest)
        self.anew &= not self.before
        self.now: dict[str, float] = {}
        self.reports: dict[str, list[pytest.TestReport]] = defaultdict(list)
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [digest, *(f"{seconds:.3f} {name}" for name, seconds in self.before.items())]
        path.write_text("".join(line + "\n" for line in lines))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["passed"] = list(self.before)

    def pytest_report_header(self) -> str:
        if self.anew:
            return f"resume: {self.path} is of other sources or empty; all tests run"
        return f"resume: {len(self.before)} tests passed before and are left out; {self.path} names them"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.reports[report.nodeid].append(report)
        if report.when != "teardown":
            return
        reports = self.reports.pop(report.nodeid)
        if all(each.passed for each in reports):
            self.now[report.nodeid] = sum(each.duration for each in reports)
            with self.path.open("a") as file:
                file.write(f"{self.now[report.nodeid]:.3f} {report.nodeid}\n")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self.before:
            session.exitstatus = exitstatus = pytest.ExitCode.OK
        if exitstatus == pytest.ExitCode.OK and runs_all(session.config):
            self.path.unlink()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        passed = {**self.before, **self.now}
        line = f"{len(self.before)} tests passed before, {len(self.now)} now; they took {sum(passed.values()):.0f} s"
        next_run = f"the next run with {self.path} leaves them out" if self.path.exists() else "all tests passed"
        terminalreporter.write_line(f"resume: {line}; {next_run}")


def runs_all(config: pytest.Config) -> bool:
    """False where the command line selects tests: then a run without a failure says nothing of the other ones."""
    selections = ("keyword", "markexpr", "deselect", "ignore", "ignore_glob", "lf")
    named = config.args_source is pytest.Config.ArgsSource.ARGS
    return not named and not any(config.getoption(name, None) for name in selections)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--resume",
        metavar="FILE",
        type=Path,
        help="leave out the tests that passed in earlier runs with FILE and the same sources; add those that pass",
    )


def pytest_configure(config: pytest.Config) -> None:
    workerinput = getattr(config, "workerinput", None)
    if workerinput is not None:
        config.pluginmanager.register(LeaveOut(frozenset(workerinput.get("passed", ()))))
    elif path := config.getoption("--resume"):
        path, digest = config.invocation_params.dir / path, digest_of(config.rootpath)
        config.pluginmanager.register(LeaveOut(frozenset(read(path, digest))))
        if not config.getoption("collectonly"):
            config.pluginmanager.register(Recorder(path, digest))
