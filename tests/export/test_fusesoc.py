"""`hwflow build --export fusesoc`: FuseSoC itself reads the core, and runs its targets.

test_pages.py runs those for Verilator and the board.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from fusesoc.capi2.coreparser import Core2Parser
from fusesoc.core import Core

from tests.export.conftest import tools
from tests.export.test_verilog import ICARUS, flipped

NAME = "hwflow:network:m:0.1.0"


def fusesoc(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = tools()
    env["PATH"] = os.pathsep.join([str(folder / "pip-tools"), env["PATH"]])
    return subprocess.run(["fusesoc", "--cores-root", ".", "run", *words], cwd=folder, env=env, capture_output=True,
                          text=True, timeout=900)


@pytest.fixture
def core(small: Path, tmp_path: Path) -> Path:
    """A copy of the core's folder."""
    folder = tmp_path / "fusesoc"
    shutil.copytree(small / "fusesoc", folder)
    return folder


def test_fusesoc_reads_the_core_and_finds_every_file(small: Path) -> None:
    folder = small / "fusesoc"
    core = Core(Core2Parser(), str(folder / "m.core"))
    assert str(core.name) == NAME


    named = set()
    for target in ("default", "sim", "sim_selftest", "synth"):
        files = [file["name"] for file in core.get_files({"target": target, "is_toplevel": True})]
        assert {"hwflow_rom.sv", "hwflow_axi_stream.v", "stage0_conv_weights0.hex"} <= set(files)
        named |= set(files)
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    extra = {"m.core", "README.md", "hwflow.json"} | {name for name in there if name.startswith("pip-tools/")}
    assert named == there - extra


@ICARUS
def test_the_test_bench_runs_and_fails_where_a_bit_is_wrong(core: Path) -> None:
    done = fusesoc(core, "--target=sim_icarus", NAME, "--seed=5", "--stall=70")
    assert done.returncode == 0, done
    assert "seed 5, stalls 70 %" in done.stdout
    path = core / "hwflow_tb_m_axis.hex"
    path.write_text(flipped(path, 3))
    done = fusesoc(core, "--target=sim_icarus", NAME)
    assert done.returncode != 0
    assert "FAIL: m_axis: beat 0 of frame 1 is" in done.stdout + done.stderr


@ICARUS
@pytest.mark.parametrize("kind", ["small", pytest.param("two", marks=pytest.mark.slow)])
def test_the_self_test_passes_and_fails(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    core = tmp_path / "fusesoc"
    shutil.copytree(request.getfixturevalue(kind) / "fusesoc", core)
    assert "PASS: 2 frames came 3 times" in fusesoc(core, "--target=sim_selftest_icarus", NAME).stdout
    path = sorted(core.glob("hwflow_selftest_m*_axis.hex"))[-1]
    path.write_text(flipped(path, len(path.read_text().splitlines()) - 1))
    done = fusesoc(core, "--target=sim_selftest_icarus", NAME)
    assert done.returncode != 0
    assert "FAIL: a beat, TLAST or frame_error was wrong" in done.stdout + done.stderr


def test_a_core_of_somebody_else_can_depend_on_it(small: Path, tmp_path: Path) -> None:
    """The weights are copied to where its tools run."""
    user = tmp_path / "user"
    user.mkdir()
    (user / "top.v").write_text("module top; endmodule\n")
    (user / "top.core").write_text(
        f"CAPI=2:\nname: ::top:1.0\nfilesets:\n"
        f"  rtl: {{files: [top.v: {{file_type: verilogSource}}], depend: ['{NAME}']}}\n"
        "targets: {default: {filesets: [rtl], toplevel: top, flow: sim, flow_options: {tool: icarus}}}\n")
    shutil.copytree(small / "fusesoc", tmp_path / "network")
    done = subprocess.run(["fusesoc", "--cores-root", ".", "run", "--target=default", "--setup", "::top:1.0"],
                          cwd=tmp_path, env=tools(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done
    assert (tmp_path / "build" / "top_1.0" / "default" / "stage0_conv_weights0.hex").is_file()


def test_a_tcl_script_that_is_more_than_commands_is_refused(core: Path) -> None:
    (core / "other.tcl").write_text("yosys read_verilog x.v\nset top y\n")
    done = subprocess.run([core / "pip-tools" / "yosys", "-l", "yosys.log", "-p", "tcl other.tcl"], cwd=core,
                          env=tools(), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("error: yosys of pip has no Tcl, and other.tcl is more than a list of yosys' commands\n")
