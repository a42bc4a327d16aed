"""The make targets and the bootstrap of the virtual environment."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import namedtuple
from pathlib import Path
from types import ModuleType

import pytest

from tests.project.tree import ROOT

MAKE = shutil.which("make") or "make"


def make(*arguments: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Call make as a user would; `path` replaces the folders where programs are looked for.

    A make that runs these tests hands its variables down in the environment: none of it gets through.
    """
    clean = {name: os.environ[name] for name in ("HOME", "LANG", "PATH", "TMPDIR") if name in os.environ}
    clean |= {"PATH": str(path)} if path else {}
    return subprocess.run([MAKE, *arguments], cwd=ROOT, env=clean, capture_output=True, text=True)


@pytest.fixture
def bootstrap() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bootstrap", ROOT / "tools" / "bootstrap.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def calls(bootstrap, monkeypatch) -> list[list[str]]:
    """Records the programs that bootstrap would start; making an environment makes its files, all succeed."""
    made: list[list[str]] = []

    def call(command, **options):
        made.append(command)
        if "venv" in command:
            folder = Path(command[-1])
            shutil.rmtree(folder, ignore_errors=True)
            (folder / "bin").mkdir(parents=True)
            (folder / "pyvenv.cfg").touch()
            (folder / "bin" / "activate").write_text(f"VIRTUAL_ENV={folder}")
            (folder / "bin" / "python").symlink_to(sys.executable)
        return 0

    monkeypatch.setattr(bootstrap.subprocess, "call", call)
    return made


def started(calls: list[list[str]]) -> list[str]:
    """`venv` and `install` among the calls, in order."""
    return [word for command in calls for word in ("venv", "install") if word in command]


def test_help_is_the_default_and_lists_every_target():
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert phony is not None
    done = make()
    assert done.stdout == make("help").stdout
    assert set(re.findall(r"^  make ([a-z-]+)", done.stdout, re.MULTILINE)) == set(phony.group(1).split())


def test_without_a_model_the_example_and_its_data_are_used():
    line = make("-n", "sim").stdout.splitlines()[-1]
    assert line.split()[1:] == ["sim", "'models/digits_cnn.onnx'", "--data", "'models/digits_cnn.npz'"]


def test_a_model_of_the_users_own_never_meets_the_example_data():
    line = make("-n", "sim", "MODEL=my model.onnx", "WAVES=1", "BOARD=icebreaker", "FRAMES=12").stdout.splitlines()[-1]
    assert "'my model.onnx'" in line
    assert "--data" not in line
    assert "--board 'icebreaker'" in line
    assert "--frames '12'" in line
    assert line.rstrip().endswith("--waves")


@pytest.mark.parametrize("target", ["quantize", "golden", "build", "sim", "synth"])
def test_every_command_that_makes_integers_takes_widths_and_settings(target):
    line = make("-n", target, "MODEL=m.onnx", "BITS=4,8", "SETTINGS=my settings.yaml").stdout.splitlines()[-1]
    assert "--settings 'my settings.yaml'" in line
    assert "--bits '4,8'" in line
    assert not {"--settings", "--bits"} & set(make("-n", target).stdout.splitlines()[-1].split())


def test_exit_code_of_the_command_ends_make(tmp_path):
    (tmp_path / "python3").symlink_to(sys.executable)
    done = make("sim", path=tmp_path)
    assert done.returncode != 0
    assert "error: programs must be on PATH and are not: g++ (compiles the simulation)" in done.stderr
    assert "apt-get install g++" in done.stderr


def test_no_python_is_said_in_one_line(tmp_path):
    done = make("sim", "PYTHON=python3.99")
    assert done.returncode != 0
    assert "error: python3.99 must be on PATH; install Python 3.11 or newer" in done.stderr


def test_old_python_is_refused(bootstrap, monkeypatch, capsys):
    version = namedtuple("version", "major minor micro releaselevel serial")(3, 9, 2, "final", 0)
    monkeypatch.setattr(bootstrap.sys, "version_info", version)
    with pytest.raises(SystemExit) as stopped:
        bootstrap.check_machine(compiler=False)
    assert stopped.value.code == 2
    assert "error: python3 must be 3.11 or newer, not 3.9" in capsys.readouterr().err


def test_second_call_installs_nothing(bootstrap, calls, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["bootstrap.py", "--venv", str(tmp_path / "env")])
    bootstrap.main()
    assert started(calls) == ["venv", "install"]
    bootstrap.main()
    assert started(calls) == ["venv", "install"]


def test_another_extra_and_a_changed_project_install_again(bootstrap, calls, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["bootstrap.py", "--venv", str(tmp_path / "env")])
    bootstrap.main()
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--extras", "synth"])
    bootstrap.main()
    assert calls[-1][-1].endswith("[synth]")
    changed = tmp_path / "pyproject.toml"
    changed.write_text("changed")
    monkeypatch.setattr(bootstrap, "PROJECT", str(changed))
    bootstrap.main()
    assert started(calls) == ["venv", "install", "install", "install"]


def test_the_versions_are_those_of_the_constraints(bootstrap, calls, monkeypatch, tmp_path):
    """Another version installs again; --upgrade takes the newest and writes what it installed, without hwflow."""
    versions = tmp_path / "versions.txt"
    versions.write_text("numpy==2.1.0\n")
    monkeypatch.setattr(sys, "argv", ["bootstrap.py", "--venv", str(tmp_path / "env"), "--constraints", str(versions)])
    bootstrap.main()
    assert calls[-1][calls[-1].index("--constraint") + 1] == str(versions)
    versions.write_text("numpy==2.2.0\n")
    bootstrap.main()
    assert started(calls) == ["venv", "install", "install"]
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--upgrade"])
    frozen = "-e here\nnumpy==2.3.1\nfilelock==3.20.0\nhwflow @ file:///somewhere\n"
    monkeypatch.setattr(bootstrap.subprocess, "check_output", lambda command, **options: frozen)
    bootstrap.main()
    assert "--constraint" not in calls[-1]
    assert "--upgrade" in calls[-1]
    first, *lines = versions.read_text().splitlines()
    assert first.startswith("#")
    assert lines == ["filelock==3.20.0", "numpy==2.3.1"]
    assert bootstrap.installed(str(tmp_path / "env"), str(versions)) == set()


def test_the_constraints_name_every_dependency_of_the_default_run_once():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = {re.split(r"[\[><=]", line)[0] for line in [*project["dependencies"], *extras["dev"], *extras["synth"]]}
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    names = [re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines]
    assert len(names) == len(set(names))
    assert {re.sub(r"[-_.]+", "-", name).lower() for name in wanted} <= set(names)
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.+!]+", line)] == []


def test_killed_installation_starts_from_a_clean_environment(bootstrap, calls, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["bootstrap.py", "--venv", str(tmp_path / "env")])
    bootstrap.main()
    (tmp_path / "env" / bootstrap.MARK).touch()  # what a kill in the middle of pip leaves
    (tmp_path / "env" / bootstrap.NOTE).unlink()
    bootstrap.main()
    assert started(calls) == ["venv", "install", "venv", "install"]
    assert json.loads((tmp_path / "env" / bootstrap.NOTE).read_text())["extras"] == []
    assert not (tmp_path / "env" / bootstrap.MARK).exists()


def test_a_second_call_says_that_it_waits(bootstrap, monkeypatch, tmp_path, capsys):
    flags: list[int] = []

    def flock(lock, flag):
        flags.append(flag)
        if len(flags) == 1:
            raise BlockingIOError

    monkeypatch.setattr(bootstrap.fcntl, "flock", flock)
    bootstrap.wait_for(None)
    assert flags == [fcntl.LOCK_EX | fcntl.LOCK_NB, fcntl.LOCK_EX]
    assert capsys.readouterr().err == "waiting for another installation to end\n"


def test_failed_installation_is_not_noted(bootstrap, calls, monkeypatch, tmp_path, capsys):
    make_environment = bootstrap.subprocess.call
    monkeypatch.setattr(sys, "argv", ["bootstrap.py", "--venv", str(tmp_path / "env")])
    monkeypatch.setattr(bootstrap.subprocess, "call", lambda c, **o: 1 if "install" in c else make_environment(c, **o))
    with pytest.raises(SystemExit) as stopped:
        bootstrap.main()
    assert stopped.value.code == 2
    assert "error: pip could not install hwflow; see above." in capsys.readouterr().err
    assert not (tmp_path / "env" / bootstrap.NOTE).exists()


def test_a_folder_that_is_no_environment_is_never_emptied(bootstrap, calls, monkeypatch, tmp_path, capsys):
    (tmp_path / "thesis.tex").touch()
    monkeypatch.setattr(sys, "argv", ["bootstrap.py", "--venv", str(tmp_path)])
    with pytest.raises(SystemExit):
        bootstrap.main()
    assert "must be a virtual environment or empty" in capsys.readouterr().err
    assert (tmp_path / "thesis.tex").exists()
    assert started(calls) == []
