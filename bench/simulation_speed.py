"""How fast a stage of 64 multipliers simulates, driven by cocotb with every beat compared, against a bare C++ loop.

    python -m bench.simulation_speed [--frames N] [--rounds N]

The stage is a convolution 3 x 3, 16 x 16 x 32 to 32 channels, int8, 8 x 8 multipliers: 36 864 cycles a frame.  The bare
loop is the same Verilog of the core, compiled by the same Verilator and compiler with the same optimization, without
VPI and without a bench, fed with noise as fast as it takes it.  Both are measured in turn, `--rounds` times; the best
of each counts.  The bars: 500 000 cycles/s, and half of the bare loop.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from amaranth.lib import stream
from hwflow_rtl.core import Core, Link
from hwflow_rtl.emit import emit
from hwflow_rtl.stream.endpoint import Endpoint
from hwflow_rtl.stream.streams import payload_of
from hwflow_rtl.vendor.generic import Generic
from hwflow_sim import Boundary, ElementShape, RunResult, Simulation, compile, run, tools
from hwflow_sim.builder import FAST, STRICT, VERILOG
from hwflow_sim.packing import write_roms

from hwflow.layers.base import LayerGraph
from hwflow.layers.conv import Conv
from hwflow.layers.formats import Frame, IntFormat, Tensor
from hwflow.layers.rescale import Requantize
from hwflow.stages.folding import Folding
from hwflow.stages.kinds import stage_of

CORE, STAGE = Endpoint.core, Endpoint.stage

CYCLES_PER_SECOND, OF_BARE_LOOP = 500_000, 0.5
INT8 = IntFormat(8, True)
FRAME = Frame(16, 16, 32)
FOLDING = Folding(rows=8, cols=8, lanes=1)

BARE_LOOP = """
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include "Vcore.h"
int main(int, char** arguments) {
    VerilatedContext context;
    Vcore core{&context};
    const long cycles = std::atol(arguments[1]);
    uint64_t noise = 88172645463325252ULL;
    long beats = 0;
    core.i___05Fvalid = 1;
    core.o___05Fready = 1;
    const auto start = std::chrono::steady_clock::now();
    for (long n = 0; n < cycles; n++) {
        core.rst = n < 8;
        const bool taken = core.i___05Fready;
        core.clk = 1;
        core.eval();
        if (taken) {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            core.i___05Fpayload = noise;
        }
        core.clk = 0;
        core.eval();
        beats += core.o___05Fvalid;
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf("%ld %f", beats, seconds.count());
}
"""


def make_graph(seed: int) -> LayerGraph:
    """One convolution with random weights; its results fill the range of int8."""
    channels = FRAME.channels
    noise = np.random.default_rng(seed)
    weights = noise.integers(-128, 128, (channels, 3, 3, channels))
    bias, multiplier = noise.integers(-3000, 3000, channels), noise.integers(1 << 17, 1 << 18, channels)
    requantize = Requantize(bias, multiplier, 29 + np.arange(channels) % 2, 0, INT8.low, INT8.high)
    layer = Conv(name="conv", inputs=("x",), output="y", weights=weights, weight_format=INT8, input_format=INT8,
                 requantize=requantize, pads=(1, 1, 1, 1))
    tensors = {name: Tensor(name, FRAME, INT8, 1.0, 0) for name in ("x", "y")}
    return LayerGraph(name="one", tensors=tensors, layers=(layer,), inputs=("x",), outputs=("y",))


def make_core(graph: LayerGraph, technology: Generic) -> Core:
    stage = stage_of(graph, graph.layers[0]).unit(FOLDING, technology)
    inputs = [stream.Signature(payload_of(stage.i))]
    return Core(stages=[("conv", stage)], inputs=inputs, links=[Link(CORE(0), STAGE(0)), Link(STAGE(0), CORE(0))])


def build_bare_loop(folder: Path, graph: LayerGraph, say: Callable[[str], None]) -> Path:
    """Verilator's own way: a top without a bench, its makefile, one C++ loop."""
    technology = Generic(hex_roms=True)
    (folder / "core.v").write_text(emit(make_core(graph, technology), name="core"))
    (folder / "loop.cpp").write_text(BARE_LOOP)
    write_roms(technology.roms, folder)
    found = tools.find_tools()
    rom = next(path for path in VERILOG if path.name == "hwflow_rom.sv")
    command = [found.verilator, "--cc", "--exe", "--no-timing", *STRICT, "--prefix", "Vcore", "--top-module", "core",
               "--Mdir", "obj", "-O3", "-CFLAGS", FAST, "core.v", rom, "loop.cpp", "-o", "loop"]
    env = {**os.environ, "VERILATOR_ROOT": str(found.verilator_root)}
    subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True)
    began = time.monotonic()
    make = ["make", "-C", "obj", "-f", "Vcore.mk", f"CXX={found.compiler}", f"LINK={found.compiler}", "AR=ar",
            f"PYTHON3={sys.executable}", "CFG_CXXFLAGS_PCH_I=-include", f"OPT_FAST={FAST}"]
    subprocess.run(make, cwd=folder, env=env, check=True, capture_output=True)
    say(f"bare loop: compiled by make in {time.monotonic() - began:.1f} s")
    return folder / "obj" / "loop"


def bare_speed(program: Path, folder: Path, cycles: int, due: int) -> float:
    """Cycles a second; `due` is about how many beats must come out in so many cycles."""
    output = subprocess.run([program, str(cycles)], cwd=folder, check=True, capture_output=True, text=True).stdout
    beats, seconds = output.split()
    assert abs(int(beats) / due - 1) < 0.02, f"the bare loop gave {beats} beats, not about {due}"
    return cycles / float(seconds)


def timed_compile(folder: Path, graph: LayerGraph, name: str, say: Callable[[str], None]) -> Simulation:
    technology = Generic(hex_roms=True)
    core = make_core(graph, technology)
    boundary = Boundary("y", "conv", FOLDING.lanes, ElementShape(8, True), FRAME.elements)
    simulation = compile(core, boundaries=[boundary], roms=technology.roms, folder=folder / "run",
                         cache=folder / "cache")
    say(f"compile(), {name}: {simulation.seconds:.2f} s{'' if simulation.compiled else ' (from the cache)'}")
    return simulation


def measure(frames: int, rounds: int, say: Callable[[str], None]) -> dict[str, float]:
    """Cycles a second of both, and of a whole `run()` with start-up and comparison."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        graph = make_graph(1)
        os.environ["CCACHE_DIR"] = str(folder / "ccache")
        timed_compile(folder, graph, "nothing cached", say)
        timed_compile(folder, make_graph(2), "new weights", say)
        shutil.rmtree(folder / "cache")
        timed_compile(folder, graph, "only ccache warm", say)
        simulation = timed_compile(folder, graph, "the same again", say)
        (folder / "bare").mkdir()
        loop = build_bare_loop(folder / "bare", graph, say)
        shape = (frames, FRAME.height, FRAME.width, FRAME.channels)
        stimulus = np.random.default_rng(frames).integers(-128, 128, shape)
        expected = [graph.layers[0].evaluate(graph, stimulus).reshape(frames, -1)]
        stimulus = stimulus.reshape(frames, -1)
        driven, whole, bare = [], [], []
        for _ in range(rounds):
            began = time.monotonic()
            result: RunResult = run(simulation, frames=stimulus, expected=expected)
            seconds = time.monotonic() - began
            assert result.equal, result.failures()
            driven.append(result.simulated_cycles / result.seconds)
            whole.append(result.simulated_cycles / seconds)
            bare.append(bare_speed(loop, folder / "bare", result.simulated_cycles, result.boundaries["y"].beats))
        return {"driven": max(driven), "whole": max(whole), "bare": max(bare), "cycles": result.simulated_cycles}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Simulation speed of a stage with 64 multipliers.")
    parser.add_argument("--frames", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    speed = measure(options.frames, options.rounds, print)
    ratio = speed["driven"] / speed["bare"]
    print(f"{options.frames} frames, {speed['cycles']:.0f} cycles, best of {options.rounds}")
    print(f"driven by cocotb, every beat compared: {speed['driven']:>12,.0f} cycles/s")
    print(f"  with start-up and comparison:        {speed['whole']:>12,.0f} cycles/s")
    print(f"bare C++ loop:                         {speed['bare']:>12,.0f} cycles/s")
    print(f"ratio:                                 {ratio:>12.2f}")
    good = speed["driven"] >= CYCLES_PER_SECOND and ratio >= OF_BARE_LOOP
    print(f"bars: {CYCLES_PER_SECOND:,} cycles/s and {OF_BARE_LOOP} of the bare loop: {'met' if good else 'NOT met'}")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
