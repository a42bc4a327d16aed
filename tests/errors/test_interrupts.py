"""Ctrl-C and kill -9 at any moment, two runs at once, damaged results: the next run works and gives the same."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hwflow_base.files.cache import MANIFEST

from hwflow import onnx
from tests.e2e.command import Cli, Outcome, environment, process
from tests.e2e.networks import small_network, write_data

PATIENCE = 120
SIM = ("sim", "small.onnx", "--data", "small.npz", "--frames", "3")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the small model, its data, and a finished `sim` in `build`."""
    folder = tmp_path_factory.mktemp("interrupts")
    onnx.save(small_network(), folder / "small.onnx")
    write_data(folder / "small.npz", small_network())
    done = process(SIM, cwd=folder)
    assert done.code == 0, done
    return folder


@pytest.fixture
def finished(place: Path, tmp_path: Path) -> Path:
    """A copy of `place` to spoil."""
    shutil.copytree(place, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def fresh(place: Path, tmp_path: Path) -> Path:
    """As `finished`, without results but with the compiled runtime of the simulation (the slow part)."""
    shutil.copytree(place, tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "build/small")
    return tmp_path


#: Tests that run in the background of a shell inherit that Ctrl-C is ignored.
SCRIPT = """
import signal
from hwflow.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""


@contextlib.contextmanager
def started(folder: Path, command: Sequence[str] = SIM) -> Iterator[subprocess.Popen[str]]:
    """A command at work in `folder`, its progress in its standard error."""
    words = [sys.executable, "-u", "-c", SCRIPT, *command]
    run = subprocess.Popen(words, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True)
    try:
        yield run
    finally:
        run.kill()
        run.communicate()


def wait_for_line(run: subprocess.Popen[str], start: str) -> None:
    """Read the progress up to the line that starts like this."""
    assert run.stderr is not None
    for line in run.stderr:
        if line.startswith(start):
            return
    raise AssertionError(f"the run ended before it said '{start}'")


def check(done: Outcome) -> Outcome:
    assert done.code == 0, done
    assert "equal: 3 stages, 3 frames, full speed and random stalls, bit for bit" in done.out
    return done


MOMENTS = {"quantize": "calibrate", "generate": "generate Verilog ...", "compile": "compile the simulation ...",
           "simulate": "simulate 3 frames, full speed ..."}

#: Each moment with one of the ends; with the others among the slow tests.
QUICK = {("compile", signal.SIGINT), ("simulate", signal.SIGKILL)}
ENDS = [pytest.param(moment, how, marks=[] if (moment, how) in QUICK else [pytest.mark.slow])
        for moment in MOMENTS for how in (signal.SIGINT, signal.SIGKILL, signal.SIGTERM)]


@pytest.mark.parametrize("moment, how", ENDS)
def test_a_run_that_is_ended(cli: Cli, fresh: Path, moment: str, how: signal.Signals) -> None:
    with started(fresh) as run:
        wait_for_line(run, MOMENTS[moment])
        time.sleep(0.05)
        run.send_signal(how)
        out, err = run.communicate(timeout=PATIENCE)
    codes = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}
    assert run.returncode == codes[how], err
    assert out == ""
    assert "Traceback" not in err
    if how is not signal.SIGKILL:
        said = {signal.SIGINT: "interrupted", signal.SIGTERM: "ended by SIGTERM"}[how]
        assert err.endswith(
            f"error: {said}; nothing is half-written, and the next run goes on from what was finished\n")
        assert not leftovers(fresh)
    assert "waiting" not in check(cli(*SIM)).err, "a run that is gone holds no lock"
    assert not leftovers(fresh), "the next run removes what a killed one left"


def leftovers(folder: Path) -> list[Path]:
    """Working folders and files that no run may leave behind."""
    build = folder / "build"
    return [path for pattern in ("**/.*-*", "**/run-*") for path in build.glob(pattern)]


def test_what_killed_runs_left_is_removed(cli: Cli, finished: Path) -> None:
    """In a model's folder and in a board's; not in a folder of the user's that a link leads to."""
    (finished / "mine/.mine-1").mkdir(parents=True)
    model = finished / "build/small"
    (model / "linked").symlink_to(finished / "mine")
    for place in (model, model / "ulx3s_85f"):
        (place / ".rtl-1").mkdir()
        (place / ".rtl-1" / "half.v").touch()
    check(cli(*SIM))
    assert not list(model.glob(".rtl-*")) + list(model.glob("*/.rtl-*"))
    assert (finished / "mine/.mine-1").exists()


def test_two_runs_at_once_take_turns(fresh: Path) -> None:
    build = ("build", *SIM[1:4])
    with started(fresh, build) as first:
        wait_for_line(first, MOMENTS["quantize"])
        first.send_signal(signal.SIGSTOP)
        with started(fresh, build) as second:
            try:
                wait_for_line(second, "waiting for another run that uses 'build/small'")
            finally:
                first.send_signal(signal.SIGCONT)
            ends = [run.communicate(timeout=PATIENCE) for run in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], ends
    assert ends[0][0] == ends[1][0], "both print the same tables"


def test_a_run_after_another_is_not_held_by_its_lock(cli: Cli, finished: Path) -> None:
    assert (finished / "build/small/.lock").exists()
    assert "waiting" not in check(cli(*SIM)).err


def cut(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:len(content) // 2])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


DAMAGED = ("small/quantized/arrays.npz", "small/quantized/graph.yaml", "small/quantized/prologue.onnx",
           "small/quantized/step.json", "small/ulx3s_85f/plan.yaml", "small/ulx3s_85f/rtl/hwflow_core.v",
           "small/ulx3s_85f/rtl/step.json",
           "small/ulx3s_85f/rtl/stage0_conv_weights0.hex",
           "small/ulx3s_85f/sim/stage0_conv_weights0.hex", "small/golden/outputs.npz",
           "small/golden/accuracy.json", ".cache/sim/*/built/bench")


def files(folder: Path) -> dict[str, bytes]:
    """The results that must be the same in every run; without the manifest, whose key changes with hwflow's code."""
    names = ("quantized", "ulx3s_85f/plan.yaml", "ulx3s_85f/rtl", "golden")
    place = folder / "build/small"
    found = [path for name in names for path in (place / name, *place.glob(f"{name}/*")) if path.is_file()]
    return {str(path.relative_to(place)): path.read_bytes() for path in found if path.name != MANIFEST}


WAYS = (cut, flip, Path.unlink)
Damages = dict[str, Callable[[Path], None]]
#: One file of each step at once, each file in one of the ways; among the slow tests each file alone, in every way.
TOGETHER: list[Damages] = [
    {name: WAYS[(k + number) % 3] for k, name in enumerate(DAMAGED) if name in names} for number, names in enumerate((
        ("small/quantized/arrays.npz", "small/ulx3s_85f/plan.yaml", "small/ulx3s_85f/rtl/hwflow_core.v",
         "small/ulx3s_85f/sim/stage0_conv_weights0.hex", "small/golden/outputs.npz", ".cache/sim/*/built/bench"),
        ("small/quantized/graph.yaml", "small/ulx3s_85f/rtl/step.json", "small/golden/accuracy.json"),
        ("small/quantized/step.json", "small/ulx3s_85f/rtl/stage0_conv_weights0.hex")))]
ALONE = [pytest.param({name: way}, marks=pytest.mark.slow, id=f"{name}-{way.__name__}")
         for name in DAMAGED for way in WAYS]


@pytest.mark.parametrize("damages", [*TOGETHER, *ALONE])
def test_a_damaged_result_is_made_again(cli: Cli, finished: Path, damages: Damages) -> None:
    whole = files(finished)
    for name, damage in damages.items():
        path, = (finished / "build").glob(name)
        damage(path)
    check(cli(*SIM))
    assert files(finished) == whole


def test_a_build_folder_can_be_moved_and_removed(cli: Cli, finished: Path) -> None:
    (finished / "build").rename(finished / "elsewhere")
    done = cli(*SIM, "--build", "elsewhere")
    assert done.code == 0
    assert "generate Verilog" not in done.err, "results are found by content, not by path"
    shutil.rmtree(finished / "elsewhere/small")
    (finished / "elsewhere").rename(finished / "build")
    check(cli(*SIM))
