"""Weights in a memory outside: the solver moves them there, and the simulation with controller and chip is exact."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import signed
from hwflow_base.errors import AnswerIsNo, HwflowError
from hwflow_rtl.memory import WeightStream
from hwflow_rtl.vendor import Resources, Technology
from hwflow_sim import StallPattern

from hwflow import hls, onnx
from hwflow.facts.plan import clock_of
from hwflow.hls.plan.choices import Choices
from hwflow.hls.plan.graph_stages import stages_of
from hwflow.hls.plan.outside_memory import paced
from hwflow.layers.base import LayerGraph
from hwflow.pipeline.planning import interval_for
from hwflow.pipeline.simulation import compile_plan, run_plan
from hwflow.pipeline.stimuli import noise
from hwflow.pipeline.verilog import write_axi_stream
from hwflow.quantize import quantize
from hwflow.stages.folding import Folding
from hwflow.synth import load_board
from hwflow.synth.expected_clock import outside_of
from tests.quantize.net import Net, data

PLENTY = Resources(lut=10**6, ff=10**6, dsp=10**4, ram=10**4)


def network() -> onnx.Model:
    """A residual block, a grouped convolution, a stride, and a dense layer."""
    n = Net((3, 12, 12))
    x = n.relu(n.conv(n.x, 16, (3, 3)))
    y = n.conv(n.relu(n.conv(x, 24, (3, 3), 2)), 24, (3, 3), group=2)
    x = n.relu(n.node("Add", y, n.conv(x, 24, (1, 1), 2)))
    return n.model(n.gemm(n.flatten(n.node("GlobalAveragePool", x)), 10))


@pytest.fixture(scope="module")
def graph() -> LayerGraph:
    model = onnx.infer(network())
    return quantize(model, data(model, 4)).graph


@pytest.fixture(scope="module")
def technology() -> Technology:
    return load_board("tangnano20k").technology()


@pytest.fixture(scope="module")
def outside() -> hls.OutsideMemory:
    found = outside_of(load_board("tangnano20k"))
    assert found is not None
    return found


def budget(**limits: int) -> hls.Budget:
    return hls.Budget("test", dataclasses.replace(PLENTY, **limits), Resources(), usable_logic=1.0)


def everything_outside(graph: LayerGraph, technology: Technology, outside: hls.OutsideMemory) -> hls.Plan:
    """A plan of moderate speed with the weights of every layer outside that can have them there."""
    plan = hls.solve(graph, hls.Target(technology, budget()), interval=20_000)
    for stage, name in [(each, each.name) for each in stages_of(graph)]:
        folding = next(planned.folding for planned in plan.stages if planned.name == name)
        rows = stage.weight_rows(folding)
        if rows:
            plan = dataclasses.replace(plan, outside=outside).with_folding(name, weight_rows=rows[0])
    return plan


@pytest.mark.slow
def test_every_boundary_is_exact(graph: LayerGraph, technology: Technology, outside: hls.OutsideMemory, cache: Path,
                                 tmp_path: Path) -> None:
    plan = everything_outside(graph, technology, outside)
    assert len(plan.streams) == 5  # all convolutions and the dense layer
    frames = {name: noise(graph.tensors[name], 4, np.random.default_rng(1)) for name in graph.inputs}
    simulation = compile_plan(graph, plan, tmp_path, cache)
    result = run_plan(simulation, graph, frames)
    assert result.equal, result.failures()
    assert result.interval == plan.interval
    assert result.first_output_cycle is not None
    assert result.first_output_cycle <= plan.latency[0]
    stalled = run_plan(simulation, graph, frames, stalls=StallPattern(0.4, 0.4, 3))
    assert stalled.equal, stalled.failures()


@pytest.mark.slow
def test_weights_in_a_flash(cache: Path, tmp_path: Path) -> None:
    """The bus gives half a byte in a clock, so dense layers take the clocks of their weights and few more."""
    board = load_board("icebreaker")
    n = Net((64, 1, 1))
    model = onnx.infer(n.model(n.gemm(n.relu(n.gemm(n.flatten(n.x), 48)), 10)))
    graph, memory = quantize(model, data(model, 2)).graph, outside_of(board)
    assert memory is not None
    plan = everything_outside(graph, board.technology(), memory)
    assert len(plan.streams) == 2
    frames = {name: noise(graph.tensors[name], 4, np.random.default_rng(1)) for name in graph.inputs}
    simulation = compile_plan(graph, plan, tmp_path, cache)
    for stalls in (StallPattern(0, 0, 0), StallPattern(0.3, 0.3, 5)):
        result = run_plan(simulation, graph, frames, stalls=stalls)
        assert result.equal, result.failures()
        assert stalls.source or result.interval <= plan.interval
    clocks = 2 * sum(stream.bytes for stream in plan.streams) * memory.slowdown
    assert clocks < plan.interval < 1.15 * float(clocks)


def test_a_memory_slower_than_every_folding(tmp_path: Path) -> None:
    """Weights may take longer than the products of a single multiplier; the plan then has the pace of the memory."""
    board = load_board("icebreaker")
    memory = outside_of(board)
    assert memory is not None
    assert memory.slowdown == 1  # a core beside a flash has its clock
    n = Net((128,))
    model = onnx.infer(n.model(n.gemm(n.relu(n.gemm(n.x, 96)), 10)))
    graph = quantize(model, data(model, 2)).graph
    plan = hls.solve(graph, hls.Target(board.technology(), budget(ram=20, dsp=8), outside=memory))
    assert [each.stage for each in plan.streams] == [plan.stages[0].name]
    clocks = 2 * 128 * 96
    choices = [Choices(stage, board.technology()) for stage in stages_of(graph)]
    assert max(int(each.stage_intervals.max()) for each in choices) < clocks
    assert clocks <= plan.interval < 1.01 * clocks
    assert plan.bandwidth_used > 0.99
    clock = clock_of(plan, graph, board, tmp_path)
    assert 20 < clock.mhz <= memory.part.clock_mhz == 48, "what place and route gives, at most the flash's clock"
    assert interval_for(20, board, memory.core_mhz) == 1_387_500


def test_the_solver_moves_weights_only_where_blocks_run_out(technology: Technology,
                                                            outside: hls.OutsideMemory) -> None:
    n = Net((8, 8, 8))
    model = onnx.infer(n.model(n.conv(n.relu(n.conv(n.relu(n.conv(n.x, 64, (3, 3))), 64, (3, 3))), 32, (1, 1))))
    graph, interval = quantize(model, data(model, 2)).graph, 600_000
    inside = hls.solve(graph, hls.Target(technology, budget(), outside=outside), interval=interval)
    assert not inside.streams
    few = budget(ram=inside.resources.ram * 3 // 4)
    with pytest.raises(AnswerIsNo, match=(
            rf"26 block RAMs needed, {few.limit('ram')} usable \(.*\)\. With the weights of 1_conv\d+ in a memory "
            r"outside of the FPGA the RAM blocks suffice: 36,864 bytes a frame, \d\.\d+ MB/s at 100 MHz\. Fewer")):
        hls.solve(graph, hls.Target(technology, few), interval=interval)
    plan = hls.solve(graph, hls.Target(technology, few, outside=outside), interval=interval)
    assert plan.resources.ram <= few.limit("ram")
    assert plan.interval <= interval
    assert [each.stage for each in plan.streams] == [plan.stages[1].name]  # it has most of the weights
    assert plan.streams[0].bytes == 9 * 64 * 64
    assert 0 < plan.bandwidth_used <= 1
    fast = 4 * outside.core_mhz / plan.bandwidth_used  # so fast that the memory limits the design
    assert plan.interval_at(outside.core_mhz) == plan.interval < plan.interval_at(fast)
    assert fast / plan.interval_at(fast) == pytest.approx(fast / 4 / plan.interval_at(fast / 4), rel=1e-3)


def test_a_plan_comes_back_from_its_file(graph: LayerGraph, technology: Technology,
                                         outside: hls.OutsideMemory) -> None:
    plan = everything_outside(graph, technology, outside)
    text = hls.plan_to_yaml(plan)
    assert hls.plan_from_yaml(text, graph, technology, source="plan.yaml", outside=outside) == plan
    inside = re.sub(r"weight_rows: \d+\n", "weight_rows: 0\n", text)
    assert not hls.plan_from_yaml(inside, graph, technology, source="plan.yaml").streams
    with pytest.raises(HwflowError, match=r"plan plan\.yaml: stage '0_.*' has weight_rows \d+, so its weights come "
                                          "from a memory outside of the FPGA, but the board has none"):
        hls.plan_from_yaml(text, graph, technology, source="plan.yaml")


def test_what_cannot_be_outside_is_refused(graph: LayerGraph, technology: Technology,
                                           outside: hls.OutsideMemory) -> None:
    plan = hls.solve(graph, hls.Target(technology, budget(), outside=outside), interval=20_000)
    add = next(stage.name for stage in plan.stages if stage.kind == "add")
    with pytest.raises(HwflowError, match=f"stage '{add}': weight_rows must be 0 .*not 1"):
        plan.with_folding(add, weight_rows=1)
    conv = plan.stages[0]
    with pytest.raises(HwflowError, match=r"weight_rows must be one of 0, 1.* not 999"):
        plan.with_folding(conv.name, weight_rows=999)
    small: Any = SimpleNamespace(name="tiny", words=16, width=16)
    with pytest.raises(HwflowError, match="weights of 432 bytes do not fit the 32 bytes of the memory tiny"):
        dataclasses.replace(plan, outside=hls.OutsideMemory(small, 100.0)).with_folding(conv.name, weight_rows=1)


def test_gaps_between_bursts_take_their_place() -> None:
    """Of a flash of 64 KiB less its seal: 157 rounds of bursts of 64 and of 8 words, at multiples of 128 words."""
    streams = [WeightStream(signed(8), 1, beats) for beats in (40_000, 1000)]
    stages: Any = [SimpleNamespace(name=f"s{k}", weight_stream=lambda _, each=each: each)
                   for k, each in enumerate(streams)]
    flash = load_board("icebreaker").memories[0].part
    part: Any = dataclasses.replace(flash, bytes=1 << 17, offset=1 << 16)
    message = ("weights of 41000 bytes, which with the gaps between bursts of 2 stages take 79936, do not fit the 65508"
               " bytes of the memory W25Q128JV-DTR")
    with pytest.raises(HwflowError, match=f"^{re.escape(message)}$"):
        paced(stages, [Folding(1, 1, 1)] * 2, hls.OutsideMemory(part, 24.0))


def test_ports_of_axi_streams_have_no_memory_of_weights(graph: LayerGraph, technology: Technology,
                                                        outside: hls.OutsideMemory, tmp_path: Path) -> None:
    plan = everything_outside(graph, technology, outside)
    with pytest.raises(HwflowError, match=r"must have its weights inside, not those of 0_conv\d+ in a memory outside; "
                                          "set weight_rows to 0"):
        write_axi_stream(graph, plan, tmp_path)
    assert not list(tmp_path.iterdir())
