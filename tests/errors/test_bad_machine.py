"""What is wrong around hwflow: no compiler, no synthesis tools, no place to write, a full disk, a closed pipe."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hwflow_base.errors import ToolFailed
from hwflow_base.files.full_disk import FullDisk
from hwflow_sim.tools import run_tool

from hwflow.cli.entry import explain
from hwflow.synth import toolchain
from tests.e2e.command import Cli, environment, process

NO_COMPILER = (
    "to simulate, install a C++ compiler (Debian and Ubuntu: apt install g++; Fedora: dnf install gcc-c++; macOS: "
    "xcode-select --install) and the program 'ar' (Debian and Ubuntu: apt install binutils)")


def test_no_compiler(cli: Cli, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    assert cli.refuses("sim", model) == NO_COMPILER
    assert cli("build", model).code == 0, "only the simulation needs a compiler"


def test_cxx_that_names_no_compiler(cli: Cli, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nowhere/g++")
    assert cli.refuses("sim", model) == (
        "the environment variable CXX must name a C++ compiler, not '/nowhere/g++'")


def test_a_compiler_that_fails(cli: Cli, model: Path) -> None:
    Path("broken").write_text("#!/bin/sh\necho 'internal compiler error: sorry' >&2\nexit 7\n")
    Path("broken").chmod(0o755)
    done = process(["sim", model], env=environment(CXX=str(Path("broken").resolve())))
    assert done.code == 1
    first, *rest = done.message.splitlines()
    log = Path("build/small/ulx3s_85f/sim/compile.log").resolve()
    assert first == f"the C++ compiler ended with exit code 7; the whole output is in '{log}', its end:"
    assert rest[-1] == "internal compiler error: sorry"
    assert "internal compiler error: sorry" in log.read_text()
    assert "Traceback" not in done.err
    assert "UnusedElaboratable" not in done.err


def test_no_synthesis_tools(cli: Cli, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "locate", lambda name: None)
    assert cli.refuses("synth", model, "--board", "icebreaker") == (
        "synthesis for ice40 needs yosys, nextpnr-ice40, icepack, and yosys, nextpnr-ice40, icepack must be installed: "
        "pip install 'hwflow[synth]'")


def test_doctor_says_what_is_missing_and_how_to_get_it(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(toolchain, "locate", lambda name: None)
    done = cli("doctor")
    assert done.code == 1
    assert "  C++ compiler: apt install g++ " in done.out
    assert "gowin_pack: pip install 'hwflow[synth]'" in done.out
    result = cli("doctor", "--json")
    assert result.code == result.json["exit_code"] == 1
    missing = {tool["name"] for tool in result.json["tools"] if not tool["found"]}
    assert {"C++ compiler", "ar", "yosys", "gowin_pack"} <= missing


@pytest.mark.parametrize("command", ["quantize", "build", "sim", "synth"])
@pytest.mark.parametrize("build, reason", [("file", "Not a directory"), ("file/below", "Not a directory"),
                                           ("/proc/nothing", "No such file or directory")])
def test_a_build_folder_that_cannot_be_made(cli: Cli, model: Path, command: str, build: str, reason: str) -> None:
    Path("file").write_text("not a folder")
    assert cli.refuses(command, model, "--build", build) == (
        f"the build folder '{build}/small' must be writable: {reason}; choose another one with --build")


@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root may write anywhere")
def test_a_build_folder_that_is_not_writable(cli: Cli, model: Path) -> None:
    folder = Path("locked")
    folder.mkdir()
    folder.chmod(0o555)
    words = [sys.executable, "-m", "hwflow.cli", "build", model.resolve(), "--build", folder.resolve()]
    if os.geteuid() == 0:  # without the right to write where nobody may
        words = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", *words]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.endswith("error: the build folder '" + str(folder.resolve() / "small") + "' must be writable: "
                                "Permission denied; choose another one with --build\n")


@pytest.mark.quick(3)
@pytest.mark.parametrize("inside", ["quantized", "ulx3s_85f/plan.yaml", "ulx3s_85f/rtl", "ulx3s_85f/sim", "golden"])
def test_things_in_the_way_inside_the_build_folder(cli: Cli, model: Path, data: Path, inside: str) -> None:
    """A file where a folder must be is replaced, or refused by name; never a traceback."""
    place = Path("build/small") / inside
    if place.name == "plan.yaml":
        place.mkdir(parents=True)
    else:
        place.parent.mkdir(parents=True)
        place.write_text("in the way")
    done = cli("sim" if place.name == "sim" else "build", model, "--data", data)
    assert "Traceback" not in done.err
    if place.name in ("sim", "plan.yaml"):
        assert done.code == 2
        assert f"build/small/{inside}" in done.message
    else:
        assert done.code == 0


@pytest.mark.quick(1)
@pytest.mark.parametrize("size", [0, pytest.param(400, marks=pytest.mark.slow), 20000])
def test_a_disk_that_fills_up(cli: Cli, model: Path, size: int) -> None:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that writing fails as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    # Python itself would leave cut-off bytecode behind, and trip over it in every later process.
    done = process(["build", model], preexec_fn=limit, env=environment(PYTHONDONTWRITEBYTECODE="1"))
    assert done.code in (1, 2), done
    assert "File too large" in done.message
    assert "Traceback" not in done.err
    assert cli("build", model).code == 0, "nothing half-written is taken for a result"


@pytest.fixture
def small_files() -> Iterator[None]:
    """Files of at most 4 MiB: writing more fails as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


AR = "ar: unable to copy file 'runtime.a'; reason: Success"


def test_a_tool_that_does_not_know_that_the_disk_is_full(tmp_path: Path, small_files: None) -> None:
    with pytest.raises(FullDisk) as caught:
        run_tool(["sh", "-c", f'echo "{AR}"; exit 1'], what="the archiver", cwd=tmp_path, log=tmp_path / "log")
    assert str(caught.value) == (
        f"the disk with the folder '{tmp_path}' is full, so that the archiver could not write its results; make room, "
        f"or choose another folder with --build (the whole output is in '{tmp_path / 'log'}')")
    assert caught.value.exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


@pytest.mark.parametrize("said, error", [("x.o: No space left on device", FullDisk), (AR, ToolFailed)])
def test_a_tool_that_fails_where_there_is_room(tmp_path: Path, said: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        run_tool(["sh", "-c", f'echo "{said}"; exit 1'], what="the compiler", cwd=tmp_path, log=tmp_path / "log")


def test_a_disk_that_is_full_while_the_simulation_compiles(cli: Cli, model: Path, small_files: None,
                                                           monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Path("full").resolve()
    compiler.write_text("#!/bin/sh\necho cannot write; exit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    done = cli("sim", model)
    assert done.code == 2
    folder = Path("build/small/ulx3s_85f/sim").resolve()
    assert done.message.startswith(f"the disk with the folder '{folder}' is full, so that the C++ compiler could not "
                                   "write its results; make room")
    assert len(done.message.splitlines()) == 1
    assert not list(Path("build/.cache/sim").glob("*/built"))


@pytest.mark.parametrize("unbuffered", ["", pytest.param("1", marks=pytest.mark.slow)])
def test_output_to_a_full_disk(cli: Cli, model: Path, unbuffered: str) -> None:
    """What stays in a buffer must not fail once more at the end of the process, whose exit code would be 120."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-m", "hwflow.cli", "info", model], stdout=full, stderr=subprocess.PIPE,
                              env=environment(PYTHONUNBUFFERED=unbuffered), text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: No space left on device; make room, or choose another folder with --build")
    assert "Traceback" not in done.stderr


def test_a_reader_that_has_seen_enough(cli: Cli, model: Path) -> None:
    """`hwflow info x | head -1` says nothing of the closed pipe."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "hwflow.cli", "info", model], env=environment(), stdout=write,
                          stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert done.returncode == 128 + signal.SIGPIPE
    assert done.stderr == ""


def test_a_mistake_in_hwflow_is_said_to_be_one() -> None:
    """Not blamed on the user, and the traceback is kept in a file for the report."""
    try:
        json.loads("{")
    except ValueError as error:
        message, code = explain(error)
    assert code == 70
    assert message.startswith("an error in hwflow (JSONDecodeError: Expecting property name")
    report = Path(message.split("'")[-2])
    assert "Traceback" in report.read_text()
    report.unlink()


def test_a_package_that_is_not_installed() -> None:
    """After an update, for example, that needs one more."""
    message, code = explain(ModuleNotFoundError("No module named 'serial'", name="serial"))
    assert (message, code) == ("the Python package of 'serial' must be installed with hwflow, but is missing: run `pip "
                               "install hwflow` again (in a checkout: `make doctor`)", 2)


USAGE = {
    ("sim",): "Missing argument 'MODEL'; see `hwflow sim --help`",
    ("frobnicate",): "No such command 'frobnicate'; see `hwflow --help`",
    ("sim", "m.onnx", "--frames", "1"): "Invalid value for '--frames': 1 is not in the range x>=2; see `hwflow sim "
                                       "--help`",
    ("sim", "m.onnx", "--stalls", "nan"): "Invalid value for '--stalls': 'nan' is not a number; see `hwflow sim "
                                         "--help`",
    ("sim", "m.onnx", "--stalls", "1.5"): "Invalid value for '--stalls': 1.5 is not in the range 0<=x<=0.98; see "
                                         "`hwflow sim --help`",
    ("run", "m.onnx", "--patience", "nan"): "Invalid value for '--patience': 'nan' must be seconds, at least 0.01; see "
                                           "`hwflow run --help`",
    ("synth", "m.onnx", "--clock", "nan"): "Invalid value for '--clock': 'nan' must be MHz from 0 to 1000, or board; "
                                           "see `hwflow synth --help`",
    ("synth", "m.onnx", "--seeds", "1000000"): "Invalid value for '--seeds': 1000000 is not in the range 1<=x<=1000; "
                                               "see `hwflow synth --help`",
    ("synth", "m.onnx", "--jobs", "-1"): "Invalid value for '--jobs': -1 is not in the range x>=1; see `hwflow synth "
                                         "--help`",
    ("check", "m.onnx", "--frames", "3"): "No such option '--frames'; see `hwflow check --help`",
    ("check", "m.onnx", "more"): "Got unexpected extra argument (more); see `hwflow check --help`",
}


@pytest.mark.parametrize("words, message", USAGE.items(), ids=[" ".join(words) for words in USAGE])
def test_wrong_usage(cli: Cli, words: tuple[str, ...], message: str) -> None:
    assert cli.refuses(*words) == message


def test_help(cli: Cli) -> None:
    for words in (["--help"], ["-h"], ["sim", "--help"]):
        done = cli(*words)
        assert done.code == 0
        assert done.out.startswith("Usage: hwflow ")
        assert done.err == ""
    for command in ("check", "info", "quantize", "golden", "build", "sim", "synth", "boards", "doctor"):
        assert f"\n  {command} " in cli("--help").out
    assert cli("--version").code == 0
    assert cli().code == 2, "a command must be given; the help says which there are"
