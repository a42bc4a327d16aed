"""`hwflow explore --route`, with yosys and nextpnr: a command that is killed loses the run that it was at, alone."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.command import environment
from tests.project.tree import ROOT

MODEL, DATA = ROOT / "models" / "digits_mlp.onnx", ROOT / "models" / "digits_mlp.npz"
WORDS = ("explore", MODEL, "--data", DATA, "--boards", "icebreaker", "--intervals", "2", "--workers", "1",
         "--route", "2", "--runs", "1", "--json")
FOLDER = Path("build/digits_mlp/exploration")
#: Seconds for the whole command on a busy machine.
LONG = 1800


def started(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "hwflow.cli", *map(str, WORDS)], cwd=folder, env=environment(),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def runs(folder: Path) -> dict[str, str]:
    """The runs in the table, with the times when they were finished."""
    with closing(sqlite3.connect(folder / FOLDER / "points.sqlite")) as table:
        try:
            return dict(table.execute("SELECT key, made FROM facts WHERE kind = 'runs'"))
        except sqlite3.OperationalError:  # the tables are not there yet
            return {}


@pytest.mark.slow
def test_a_killed_command_goes_on_and_its_clocks_are_near_the_estimates(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir(parents=True)
    process, last = started(tmp_path), time.monotonic() + LONG
    while not (before := runs(tmp_path)):
        assert process.poll() is None
        assert time.monotonic() < last
        time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert len(before) == 1
    out, error = started(tmp_path).communicate(timeout=LONG)
    facts = json.loads(out)
    assert facts["exit_code"] == 0, error.decode()
    after = runs(tmp_path)
    assert len(after) == 2
    assert before.items() <= after.items()
    fast, small = facts["routed"]
    assert fast["frames_per_second"] > small["frames_per_second"]
    assert all(abs(each["error"]) < 0.3 for each in (fast, small)), "the largest error of the fit"
    page = (tmp_path / FOLDER / "explore.html").read_text(encoding="utf-8")
    assert page.count("hwflow synth") == 2
