"""pyproject.toml names every dependency, and the wheel works away from the checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from tests.project.tree import PACKAGES, ROOT, imports, project_files, python_files

PYPROJECT = (ROOT / "pyproject.toml").read_text()
SETTINGS = tomllib.loads(PYPROJECT)
#: Distributions whose import name differs from theirs.
IMPORT_NAMES = {"pillow": "PIL", "luna-usb": "luna usb_protocol",
                "protobuf": "google", "google-re2": "re2", "pyyaml": "yaml", "cocotb": "cocotb cocotb_tools",
                "pyserial": "serial"}
#: Folders and files whose code needs an extra.
EXTRAS = {"hwflow/serve": "serve", "hwflow/host/ports/spi.py": "spi",
          "hwflow/data/sources/pictures.py": "data", "hwflow/data/sources/sounds.py": "data",
          "rtl/hwflow_rtl/io/usb": "usb"}


def test_every_dependency_gives_its_reason():
    extras = SETTINGS["project"]["optional-dependencies"].values()
    wanted = [*SETTINGS["project"]["dependencies"], *(name for extra in extras for name in extra)]
    lines = {name: re.search(rf'^  "{re.escape(name)}",\s+# \w', PYPROJECT, re.MULTILINE) for name in wanted}
    assert [name for name, line in lines.items() if line is None] == []


def import_names(dependencies: list[str]) -> set[str]:
    """What their packages are called in imports."""
    names = {re.split(r"[\[><=]", line)[0] for line in dependencies}
    return {name for dist in names for name in IMPORT_NAMES.get(dist, dist.replace("-", "_")).split()}


def test_every_import_is_a_dependency():
    """Those of an extra are imported in the folder that is for it alone."""
    allowed = import_names(SETTINGS["project"]["dependencies"]) | set(sys.stdlib_module_names) | set(PACKAGES)
    packages = [PACKAGES[name] for name in ("hwflow_base", "hwflow", "hwflow_rtl", "hwflow_sim", "hwflow_boards")]
    wrong = []
    for file in python_files(*packages):
        place = file.relative_to(ROOT)
        extra = EXTRAS.get(str(place)) or EXTRAS.get(str(place.parent))
        more = import_names(SETTINGS["project"]["optional-dependencies"][extra]) if extra else set()
        wrong += [f"{file}: {name}" for _, name in imports(file) if name.split(".")[0] not in allowed | more]
    assert wrong == []


WITHOUT_EXTRAS = """
import importlib, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"no {{name}}", name=name)

sys.meta_path.insert(0, Missing())
for name in {modules!r}:
    importlib.import_module(name)
"""


def test_extras_are_needed_only_where_they_are_used():
    """What every command imports does without them: `pip install .` has none."""
    extras = import_names([name for extra in SETTINGS["project"]["optional-dependencies"].values() for name in extra])
    missing = extras - import_names(SETTINGS["project"]["dependencies"])
    modules = ["hwflow", "hwflow.cli.commands", "hwflow.pipeline.pipeline", "hwflow.hls", "hwflow.synth.transports",
               "hwflow.export", "hwflow.host", "hwflow.search", "hwflow.data", "hwflow_rtl.io", "hwflow_sim"]
    done = subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS.format(missing=missing, modules=modules)], cwd=ROOT,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built from a copy of the project's files, so that nothing is left in the checkout."""
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for file in project_files():
        copy = source / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("hwflow-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The `bin` folder of an environment with the wheel in it and, on its path, the dependencies of this one.

    A folder named in a .pth file is searched, but its own .pth files are not read: an editable hwflow in this
    environment stays invisible.
    """
    place = tmp_path_factory.mktemp("environment")
    venv.create(place, with_pip=False, symlinks=True)
    python = place / "bin" / "python"
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(place), "platbase": str(place)}))
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps",
               "--no-index", "--ignore-installed", str(wheel)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return place / "bin"


def run(installed: Path, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run an installed program in `folder`, with nothing in its environment that leads to the checkout.

    Programs that the dependencies bring (ccache) are found on PATH, where pip would have put them beside hwflow's own.
    """
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    kept["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    return subprocess.run([installed / command[0], *command[1:]], cwd=folder, env=kept, capture_output=True, text=True)


def test_wheel_holds_every_file_of_the_packages(wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    for package, folder in PACKAGES.items():
        files = [file for file in project_files() if file.is_relative_to(folder)]
        assert [str(f) for f in files if f"{package}/{f.relative_to(folder).as_posix()}" not in held] == []


def test_wheel_does_not_lead_back_to_the_checkout(installed, tmp_path):
    code = "import hwflow, hwflow_rtl, hwflow_sim, hwflow_boards; print(hwflow.__file__, hwflow_sim.__file__)"
    done = run(installed, tmp_path, "python", "-c", code)
    assert done.returncode == 0, done.stderr
    assert str(ROOT) not in done.stdout


@pytest.mark.parametrize("command", ["boards", *(
    pytest.param(command, marks=pytest.mark.slow) for command in ("--help", "--version", "doctor"))])
def test_installed_command_line(installed, tmp_path, command):
    done = run(installed, tmp_path, "hwflow", command)
    assert done.returncode == 0, done.stderr
    if command == "boards":
        assert {"ulx3s_85f", "icebreaker", "tangnano9k"} <= set(done.stdout.split())


@pytest.mark.slow
def test_installed_example_checks_and_builds(installed, tmp_path):
    done = run(installed, tmp_path, "python", "-c", "import hwflow_models; print(hwflow_models.DEFAULT)")
    model = Path(done.stdout.strip())
    for command in ("check", "build"):
        data = ["--data", str(model.with_suffix(".npz"))] if command == "build" else []
        done = run(installed, tmp_path, "hwflow", command, str(model), *data)
        assert done.returncode == 0, done.stderr
    assert list((tmp_path / "build").glob("*/*/rtl/*.v")), "Verilog must be written below the current folder"


@pytest.mark.slow
def test_installed_simulation(installed, tmp_path):
    model = PACKAGES["hwflow_models"] / "digits_mlp.onnx"
    done = run(installed, tmp_path, "hwflow", "sim", str(model), "--data", str(model.with_suffix(".npz")))
    assert done.returncode == 0, done.stderr
