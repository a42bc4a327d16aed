"""Play frames through a compiled simulation: a process with cocotb inside, which compares and writes what it saw."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import ToolFailed
from hwflow_base.files.target import create_folder

from .builder import run_arguments
from .compile import Simulation
from .exchange import RESULT, Settings, load_result, save_run
from .results import Boundary, RunResult, StallPattern
from .tools import end_of, libpython, run_tool

Frames = npt.NDArray[np.int64]

LOG = "simulation.log"


def run(simulation: Simulation, *, frames: Frames | Sequence[Frames], expected: Sequence[Frames],
        stalls: StallPattern | None = None, waves: Path | None = None, timeout_cycles: int | None = None,
        stop_cycle: int | None = None) -> RunResult:
    """Play `frames` back to back and compare the output of every stage, and every output of the core.

    `frames` has for each input int64[n, elements], the raster of each frame in the core's input format; the array alone
    for a core with one input.  `expected` has for each boundary int64[n, elements_per_frame]; an output must be equal
    to the stage or input it comes from.

    `stalls` are random stalls, independent of each other, at every input and output, and of every stream of weights
    from outside, as likely as at an input; none if None.  `waves` is a file
    for the waves of all signals, in FST format; it needs a simulation compiled with `waves=True`.

    The run ends as a deadlock when no due beat moved anywhere for `timeout_cycles`; None for those of
    the simulation.  It ends in
    `stop_cycle`, wherever it is, if that is not None: `RunResult.links` then says how full every link is.

    A difference, a deadlock or a broken stream rule is part of the result, not an exception.  Raises ToolFailed with
    the path of the log if the simulation itself breaks down.
    """
    arrays = [frames] if isinstance(frames, np.ndarray) else list(frames)
    check_frames(simulation, arrays, expected)
    if waves is not None and not simulation.waves:
        raise ValueError("waves need a simulation that was compiled with waves=True")
    remove_leftovers(simulation.folder)
    streams = simulation.streams
    settings = Settings(
        inputs=tuple(Boundary(stream.tensor, stream.name, stream.lanes, stream.shape, array.shape[1])
                     for stream, array in zip(streams.inputs, arrays, strict=True)),
        boundaries=streams.boundaries, outputs=streams.outputs, edges=streams.edges, weights=streams.weights,
        stalls=stalls or StallPattern(0.0, 0.0, 0), idle_limit=timeout_cycles or simulation.idle_limit,
        stop_cycle=stop_cycle)
    with tempfile.TemporaryDirectory(prefix=f"run-{os.getpid()}-", dir=simulation.folder) as name:
        place = Path(name)
        save_run(place, settings, arrays, expected)
        execute(simulation, place, waves, settings.stalls.seed)
        return load_result(place, waves)


def execute(simulation: Simulation, place: Path, waves: Path | None, seed: int) -> None:
    """Run the executable on what is in `place`; it leaves its result there."""
    log = simulation.folder / LOG
    log.unlink(missing_ok=True)
    with whole_file(waves) as growing:
        run_tool([simulation.executable, *run_arguments(seed)], what="the simulation", cwd=simulation.folder, log=log,
                 env=environment(place, growing))
    if not (place / RESULT).is_file():
        raise ToolFailed(f"the simulation ended without a result; {end_of(log)}")


def check_frames(simulation: Simulation, frames: Sequence[Frames], expected: Sequence[Frames]) -> None:
    """Wrong shapes or values here are mistakes of the calling code: ValueError."""
    inputs = simulation.streams.inputs
    if len(frames) != len(inputs):
        raise ValueError(f"frames must be one array for each of the core's {len(inputs)} inputs, not {len(frames)}")
    for stream, array in zip(inputs, frames, strict=True):
        what = "frames" if len(inputs) == 1 else f"frames of {stream.name}"
        if array.ndim != 2 or len(array) == 0 or array.shape[1] % stream.lanes:
            raise ValueError(f"{what} must be [n, elements] with a whole number of beats of {stream.lanes} lanes, not "
                             f"{array.shape}")
        if len(array) != len(frames[0]):
            raise ValueError(f"{what} must be {len(frames[0])} as those of {inputs[0].name}, not {len(array)}")
        low = -(1 << (stream.shape.width - 1)) if stream.shape.signed else 0
        high = low + (1 << stream.shape.width) - 1
        if array.min() < low or array.max() > high:
            raise ValueError(f"{what} must lie in {low} to {high}, not {array.min()} to {array.max()}")
    shapes = [(len(frames[0]), boundary.elements_per_frame) for boundary in simulation.boundaries]
    if [array.shape for array in expected] != shapes:
        raise ValueError(f"expected must have the shapes {shapes}, not {[array.shape for array in expected]}")


@contextlib.contextmanager
def whole_file(path: Path | None) -> Iterator[Path | None]:
    """A name beside `path` to write to; `path` appears when it is complete."""
    if path is None:
        yield None
        return
    create_folder(path.parent)
    growing = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield growing
        growing.replace(path)
    finally:
        growing.unlink(missing_ok=True)


def environment(place: Path, waves: Path | None) -> dict[str, str]:
    """The variables that cocotb wants to know; settings of the user's own cocotb projects stay out."""
    from cocotb_tools import config

    env = {name: value for name, value in os.environ.items() if not name.startswith(("COCOTB_", "GPI_", "PYGPI_"))}
    return env | {
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYGPI_PYTHON_BIN": sys.executable,
        "GPI_USERS": f"{libpython()};{config.pygpi_entry_point()}",
        "TOPLEVEL_LANG": "verilog",
        "COCOTB_TOPLEVEL": "bench",
        "COCOTB_TEST_MODULES": "hwflow_sim.driver",
        "COCOTB_RESULTS_FILE": str(place / "results.xml"),
        "COCOTB_REWRITE_ASSERTION_FILES": "",
        "COCOTB_TRUST_INERTIAL_WRITES": "1",
        "COCOTB_ANSI_OUTPUT": "0",
        "HWFLOW_RUN": str(place),
        "HWFLOW_WAVES": "" if waves is None else str(waves.resolve()),
    }


def remove_leftovers(folder: Path) -> None:
    """Folders of runs that were killed: their process is gone."""
    for place in folder.glob("run-*-*"):
        process = place.name.split("-")[1]
        if process.isdigit() and not alive(int(process)):
            shutil.rmtree(place, ignore_errors=True)


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
