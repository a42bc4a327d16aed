"""Plans of graphs with several inputs and outputs, from layers to the simulation's result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import HwflowError
from hwflow_base.work import Audience
from hwflow_rtl.stream.deep_queue import DeepQueue
from hwflow_rtl.stream.fork import Fork
from hwflow_sim import StallPattern

from hwflow import hls
from hwflow.layers import Conv, Frame, IntFormat, LayerGraph, Lookup, MaxPool, Requantize, Tensor
from hwflow.pipeline.simulation import compile_plan, run_plan
from hwflow.pipeline.verilog import simulation_technology
from hwflow.stages.kinds import stage_of
from hwflow.synth import ends_before_plan, ends_of, load_board

INT8, INT4 = IntFormat(8, True), IntFormat(4, True)
SMALL, LARGE = Frame(6, 6, 4), Frame(3, 3, 4)


def graph() -> LayerGraph:
    """x -> conv -> table; y -> pool; outputs: the table's, the pool's, and the convolution's, which is read inside."""
    noise = np.random.default_rng(5)
    weights = noise.integers(-128, 128, (4, 3, 3, 4))
    rescale = Requantize(noise.integers(-3000, 3000, 4), noise.integers(1 << 17, 1 << 18, 4), np.full(4, 27), 0,
                         INT8.low, INT8.high)
    layers = (
        Conv("conv", ("x",), "c", weights, INT8, INT8, rescale, pads=(1, 1, 1, 1)),
        Lookup("table", ("c",), "t", INT8, noise.integers(-8, 8, 256)),
        MaxPool("pool", ("y",), "p", INT4, (2, 2), (2, 2)))
    tensors = {name: Tensor(name, frame, format, 1.0, 0) for name, frame, format in (
        ("x", SMALL, INT8), ("y", SMALL, INT4), ("c", SMALL, INT8), ("t", SMALL, INT4), ("p", LARGE, INT4))}
    made = LayerGraph("several", tensors, layers, ("x", "y"), ("t", "p", "c"))
    made.check()
    return made


def plan_of(made: LayerGraph, board: str) -> hls.Plan:
    return hls.make_plan(made, [next(iter(stage_of(made, layer).foldings())) for layer in made.layers],
                         load_board(board).technology())


def frames_of(made: LayerGraph, count: int) -> dict[str, np.ndarray]:
    noise = np.random.default_rng(count)
    return {name: noise.integers(made.tensors[name].format.low, made.tensors[name].format.high + 1, (
        count, made.tensors[name].frame.height, made.tensors[name].frame.width, made.tensors[name].frame.channels))
        for name in made.inputs}


@pytest.mark.parametrize("board", ["ulx3s_85f", pytest.param("icebreaker", marks=pytest.mark.slow)])
def test_every_stage_and_every_output_is_compared(board: str, tmp_path: Path, cache: Path) -> None:
    made = graph()
    plan, frames = plan_of(made, board), frames_of(made, 4)
    simulation = compile_plan(made, plan, tmp_path, cache, audience=Audience())
    result = run_plan(simulation, made, frames)
    assert result.equal, result.failures()
    assert result.interval == plan.interval
    assert tuple(output.first_cycle for output in result.outputs) == plan.latency
    assert [output.name for output in result.outputs] == ["output 't'", "output 'p'", "output 'c'"]
    assert [link.name for link in result.links] == [
        "input 'x' -> 0_conv", "0_conv -> 1_table", "input 'y' -> 2_pool", "1_table -> output 't'",
        "2_pool -> output 'p'", "0_conv -> output 'c'"]
    for stalls in (StallPattern(0.5, 0.5, 1), StallPattern(0.9, 0.0, 2), StallPattern(0.0, 0.9, 3)):
        stalled = run_plan(simulation, made, frames, stalls=stalls)
        assert stalled.equal, stalled.failures()
    with pytest.raises(HwflowError, match="frames must be given for input 'y'"):
        run_plan(simulation, made, {"x": frames["x"]})


@pytest.mark.slow
def test_a_deep_queue_keeps_its_place_in_the_simulation(tmp_path: Path, cache: Path) -> None:
    """The simulation has queues in RAM where the board has them, with their latency."""
    made = graph()
    plan = plan_of(made, "ulx3s_85f")
    deep = replace(plan, links=tuple(replace(link, depth=700 if link.tensor == "t" else link.depth)
                                     for link in plan.links))
    technology = load_board("ulx3s_85f").technology()
    link = next(link for link in deep.links if link.tensor == "t")
    extra = Fork.choice(width=link.lanes_out * link.bits, depth=700, technology=technology).latency
    core = hls.lower(made, deep, technology)
    simulated = hls.lower(made, deep, simulation_technology(deep))
    assert core.capacity(3) == simulated.capacity(3) == 700
    assert extra == DeepQueue.latency_of(technology)
    simulation = compile_plan(made, deep, tmp_path, cache, audience=Audience())
    result = run_plan(simulation, made, frames_of(made, 3))
    assert result.equal, result.failures()
    assert result.outputs[0].first_cycle == plan.latency[0] + extra


def test_frames_on_the_line_are_those_of_the_graph() -> None:
    made = graph()
    ends, before = ends_of(plan_of(made, "ulx3s_85f")), ends_before_plan(made)
    assert [end.elements for end in (*ends.inputs, *ends.outputs)] == [144, 144, 144, 36, 144]
    assert [end.elements for end in (*before.inputs, *before.outputs)] == [144, 144, 144, 36, 144]
    assert [end.width for end in (*ends.inputs, *ends.outputs)] == [8, 4, 4, 4, 8]
