"""The command on Dask: as many workers as one likes, workers and runs that are killed, a cluster of one's own."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from hwflow.cli.explore import ExploreRequest, widths_of
from hwflow.options import Project
from hwflow.search.exploration.point import Widths
from tests.e2e.command import Cli, environment
from tests.project.tree import ROOT

MODEL, DATA = ROOT / "models" / "digits_cnn.onnx", ROOT / "models" / "digits_cnn.npz"
SPACE = ("explore", MODEL, "--data", DATA, "--boards", "icebreaker,ulx3s_12f,ulx3s_45f,tangnano9k", "--bits", "8",
         "--bits", "4", "--intervals", "4")
TABLE, CSV = Path("build/digits_cnn/exploration/points.sqlite"), Path("build/digits_cnn/exploration/points.csv")
#: Seconds that a run may take on a busy machine, and after which what it started must be gone once it is killed.
LONG, GONE = 900, 200


def started(folder: Path, *more: str) -> subprocess.Popen[bytes]:
    """The command in a folder of its own, as a process."""
    folder.mkdir(exist_ok=True)
    return subprocess.Popen([sys.executable, "-m", "hwflow.cli", *map(str, SPACE), *more], cwd=folder,
                            env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def ended(process: subprocess.Popen[bytes]) -> None:
    """Wait for its end, which must be a good one."""
    _, error = process.communicate(timeout=LONG)
    assert process.returncode == 0, error.decode()


def tasks(folder: Path) -> dict[str, str]:
    """The tasks that are finished, with the times when they were."""
    if not (folder / TABLE).exists():
        return {}
    with closing(sqlite3.connect(folder / TABLE)) as table:
        try:
            return dict(table.execute("SELECT key, made FROM tasks"))
        except sqlite3.OperationalError:  # the tables are not there yet
            return {}


def until(true: Callable[[], object], seconds: float) -> None:
    last = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < last
        time.sleep(0.05)


def workers(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The processes that compute, of all that the command started."""
    return [each for each in psutil.Process(process.pid).children(recursive=True) if "spawn_main" in
            " ".join(each.cmdline())]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The points that one worker finds."""
    folder = tmp_path_factory.mktemp("alone")
    ended(started(folder, "--workers", "1"))
    return (folder / CSV).read_text()


@pytest.mark.slow
def test_four_workers_of_which_three_are_killed_find_the_same(tmp_path: Path, alone: str) -> None:
    process = started(tmp_path, "--workers", "4")
    until(lambda: tasks(tmp_path), LONG)
    for worker in workers(process)[:3]:
        worker.kill()
    ended(process)
    assert (tmp_path / CSV).read_text() == alone


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on(tmp_path: Path, alone: str) -> None:
    """What was finished stays as it is, no process is left behind, and the points are those of one run."""
    process = started(tmp_path, "--workers", "4")
    until(lambda: tasks(tmp_path), LONG)
    of_it = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = tasks(tmp_path)
    until(lambda: not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in of_it), GONE)
    ended(started(tmp_path, "--workers", "2"))
    assert before.items() <= tasks(tmp_path).items()
    assert (tmp_path / CSV).read_text() == alone


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The address of a scheduler with one worker, each a process as a user starts it."""
    place = tmp_path / "scheduler.json"
    words = [[sys.executable, "-m", "dask", "scheduler", "--port", "0", "--no-dashboard", "--scheduler-file",
              str(place)],
             [sys.executable, "-m", "dask", "worker", "--scheduler-file", str(place), "--nthreads", "1",
              "--no-dashboard", "--local-directory", str(tmp_path)]]
    processes = []
    try:
        for each in words:
            processes.append(subprocess.Popen(each, env=environment(), stderr=subprocess.DEVNULL))
            until(place.exists, LONG)
        yield str(json.loads(place.read_text())["address"])
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(LONG)


@pytest.mark.slow
def test_a_cluster_that_is_given_finds_the_same(tmp_path: Path, cluster: str, alone: str) -> None:
    ended(started(tmp_path, "--scheduler", cluster))
    assert (tmp_path / CSV).read_text() == alone


def test_a_folder_of_settings_is_as_many_widths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / "2.yaml", tmp_path / "1.yaml"]
    for file in files:
        file.write_text("")
    request = ExploreRequest(Project(MODEL), bits=((4, 8),), settings=(tmp_path, files[1]))
    assert widths_of(request) == (Widths(bits=(4, 8)), Widths(settings=files[1]), Widths(settings=files[0]))
    (tmp_path / "none").mkdir()
    said = Cli(capsys).refuses("explore", MODEL, "--build", tmp_path, "--settings", tmp_path / "none")
    assert said == (f"{tmp_path / 'none'}: the folder of --settings must have files of settings (*.yaml); `hwflow "
                    "quantize --accuracy-drop` writes those of its frontier")


@pytest.mark.parametrize("words, message", [
    (["--scheduler", "nowhere"], "--scheduler must be the address of a Dask scheduler that answers, like "
                                 "tcp://192.168.1.2:8786, not 'nowhere'"),
    (["--boards", "icebraker"], "did you mean icebreaker?"),
    (["--accuracy-drop", "1"], "--accuracy-drop must be given together with --frames; see `hwflow explore --help`"),
    (["--accuracy-drop", "1", "--frames", "5"], "--accuracy-drop must have data to measure the accuracy on; give an "
                                                "NPZ file with --data (docs/data-files.md)"),
    (["--workers", "1", "--scheduler", "tcp://a:1"], "--workers must not be given together with --scheduler: leave "
                                                     "one of them out; see `hwflow explore --help`"),
    (["--runs", "2"], "--runs must be given together with --route; see `hwflow explore --help`"),
])
def test_what_cannot_be_is_said(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("hwflow.search.exploration.engine.PATIENCE", 1)
    assert message in Cli(capsys).refuses("explore", MODEL, "--build", tmp_path, *words)
