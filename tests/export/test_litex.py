"""`hwflow build --export litex`: frames go through serial line, bus, memory and network of the example SoC.

test_pages.py makes its bitstream.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.export.conftest import tools
from tests.export.test_verilog import flipped
from tests.project.tree import ROOT


def soc(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = tools()
    env["PATH"] = os.pathsep.join([str(folder / "pip-tools"), env["PATH"]])
    return subprocess.run([sys.executable, "soc.py", *words], cwd=folder, env=env, capture_output=True, text=True,
                          timeout=900)


def copied(exports: Path, place: Path) -> Path:
    return Path(shutil.copytree(exports / "litex", place / "litex"))


def test_its_python_keeps_the_rules_of_this_project(small: Path) -> None:
    rules = ["--config", str(ROOT / "pyproject.toml"), "--ignore", "B905,PLW1510"]  # as in tests
    done = subprocess.run([sys.executable, "-m", "ruff", "check", "--no-cache", *rules, "."], cwd=small / "litex",
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_missing_tools_are_named(small: Path) -> None:
    done = subprocess.run([sys.executable, "soc.py", "build"], cwd=small / "litex", env={**tools(), "PATH": "/nowhere"},
                          capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == ("error: yosys, nextpnr-ecp5, ecppack must be on PATH; README.md says how the tools of pip "
                           "get there\n")


@pytest.mark.slow  # Verilator and a compiler
@pytest.mark.parametrize("kind", ["small", "two"])
def test_frames_come_back_golden_and_a_wrong_bit_is_found(kind: str, request: pytest.FixtureRequest,
                                                          tmp_path: Path) -> None:
    folder = copied(request.getfixturevalue(kind), tmp_path)
    done = soc(folder, "simulate", "--frames", "3")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "PASS: 3 frames through bus and memory are equal to the golden model" in done.stdout
    path = sorted(folder.glob("hwflow_tb_m*_axis.hex"))[-1]
    path.write_text(flipped(path, 0))
    done = soc(folder, "simulate", "--frames", "1")
    assert done.returncode == 1
    assert "FAIL: m" in done.stdout
    assert "frame 0 is" in done.stdout


@pytest.mark.parametrize("bits, beats", [(8, 10), (16, 3), (24, 5), (32, 4), (40, 3), (64, 2), (8, 1)])
def test_frames_of_any_width_lie_in_memory_and_come_back(small: Path, bits: int, beats: int) -> None:
    program = Path(__file__).parent / "frames_in_memory.py"
    done = subprocess.run([sys.executable, "-W", "ignore", program, small / "litex", str(bits), str(beats)],
                          capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-3000:]
