"""`hwflow build --axi-stream`: what it writes, played by the AXI4-Stream sources and sinks of cocotbext-axi."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from hwflow import hls, onnx
from hwflow.onnx.model import Model
from hwflow.pipeline.stimuli import noise
from hwflow.pipeline.verilog import AXI_STREAM
from hwflow.quantize import load_quantized
from hwflow.synth import load_board
from tests.e2e.command import process
from tests.e2e.networks import small_network, two_by_two, write_data
from tests.sim.axi_design import compile_axi
from tests.sim.open_bench import OpenSimulation

pytestmark = pytest.mark.slow  # Verilator and a compiler

FRAMES = 20
NETWORKS = {"small": small_network, "two_by_two": two_by_two}
TESTS = ("frames_are_golden", "pace_is_that_of_the_plan", "a_wrong_tlast_stops_the_frame", "a_reset_in_the_middle")


def built(model: Model, place: Path, *words: str) -> OpenSimulation:
    onnx.save(model, place / "m.onnx")
    write_data(place / "m.npz", model, rows=FRAMES)
    done = process(["build", "m.onnx", "--data", "m.npz", "--axi-stream", *words], cwd=place)
    assert done.code == 0, done
    assert f"with AXI4-Stream ports: build/m/ulx3s_85f/rtl/{AXI_STREAM}.v\n" in done.out
    quantized = load_quantized(place / "build" / "m" / "quantized")
    graph = quantized.graph
    plan = hls.plan_from_yaml((place / "build" / "m" / "ulx3s_85f" / "plan.yaml").read_text(), graph,
                              load_board("ulx3s_85f").technology(), source="plan.yaml")
    random = np.random.default_rng(1)
    frames = {name: noise(graph.tensors[name], FRAMES, random) for name in graph.inputs}
    folder = place / "sim"
    shutil.copytree(place / "build" / "m" / "ulx3s_85f" / "rtl", folder)
    return compile_axi(graph, plan, frames, folder)


@pytest.fixture(scope="module", params=[(name, words) for name in NETWORKS for words in ((), ("--bits", "4,5"))],
                ids=lambda param: "_".join([param[0], *param[1]]).replace("--", ""))
def design(request, tmp_path_factory: pytest.TempPathFactory) -> OpenSimulation:
    name, words = request.param
    return built(NETWORKS[name](), tmp_path_factory.mktemp(name), *words)


@pytest.mark.parametrize("test", TESTS)
def test_ports(design: OpenSimulation, test: str) -> None:
    design.run(test)
