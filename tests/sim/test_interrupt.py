"""Ctrl-C and kill -9 in the middle of a simulation: nothing goes on running, and the next run works."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hwflow_sim import run

from tests.sim.toy import BIAS, Fault, golden, noise_frames, roms

PATIENCE = 60
SCRIPT = """
import pickle, sys
from hwflow_sim import run
from tests.sim.toy import BIAS, golden, noise_frames, roms
frames = noise_frames(2)
simulation = pickle.loads(bytes.fromhex(sys.argv[1]))
run(simulation, frames=frames, expected=golden(frames, roms()[BIAS]), timeout_cycles=10**15)
"""

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")


def wait_until(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def simulating(folder: Path) -> bool:
    """Whether a process works in `folder`."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == folder:
                return True
        except OSError:  # not ours, or gone
            continue
    return False


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left(toy, how):
    simulation = toy(Fault.HANG)
    folder = simulation.folder.resolve()
    log = folder / "simulation.log"
    paths = {"PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])}
    caller = subprocess.Popen([sys.executable, "-c", SCRIPT, pickle.dumps(simulation).hex()], env=os.environ | paths,
                              stderr=subprocess.PIPE)
    wait_until(lambda: log.is_file() and b"running hwflow_sim.driver" in log.read_bytes())
    assert simulating(folder)
    caller.send_signal(how)
    _, errors = caller.communicate(timeout=PATIENCE)
    assert caller.returncode in (-how, 130)
    assert (b"KeyboardInterrupt" in errors) == (how is signal.SIGINT)
    wait_until(lambda: not simulating(folder))

    frames = noise_frames(1)
    result = run(toy(), frames=frames, expected=golden(frames, roms()[BIAS]))
    assert result.equal
    assert not list(folder.glob("run-*"))
