"""Which execution a board gets: dataflow where it fits, else one shared stage; and what is said where neither does."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from hwflow_base.errors import AnswerIsNo

import hwflow
from hwflow import hls, onnx
from hwflow.hls.shared.stage import COLUMNS
from hwflow.layers import TopK
from hwflow.layers.base import LayerGraph
from hwflow.onnx.build import Builder
from hwflow.options import HardwareOptions
from hwflow.pipeline.planning import budget_of, plan_for
from hwflow.quantize import Quantized, quantize
from hwflow.stages.names import layer_names
from hwflow.stages.partition import Execution
from hwflow.synth import Board, load_board
from hwflow.synth.expected_clock import outside_of
from tests.e2e.networks import residual, rows_for
from tests.hls.test_solver import PLENTY, budget
from tests.layers.cases import CASES


def convolutions(count: int, channels: int, size: int) -> hwflow.Model:
    """A chain of 3 x 3 convolutions, too many for an iCE40 in dataflow."""
    rng, b = np.random.default_rng(count), Builder("chain")
    x = b.input("x", np.float32, (1, 3, size, size))
    for k in range(count):
        weights = rng.standard_normal((channels, channels if k else 3, 3, 3)) / (3 * channels**0.5)
        x = b.node("Relu", b.node("Conv", x, b.constant(f"w{k}", weights.astype(np.float32)), name=f"conv{k}",
                                  pads=(1, 1, 1, 1)), name=f"relu{k}")
    x = b.node("Flatten", b.node("GlobalAveragePool", x, name="mean"), name="flat")
    weights = rng.standard_normal((10, channels)) / channels**0.5
    b.output(b.node("Gemm", x, b.constant("fc", weights.astype(np.float32)), name="dense", output="y", transB=1))
    return onnx.infer(b.model(opset=20))


@pytest.fixture(scope="module")
def deep() -> Quantized:
    return quantize(model := convolutions(7, 12, 10), rows_for(model, 2))


@pytest.fixture(scope="module")
def small() -> LayerGraph:
    return quantize(model := residual(), rows_for(model, 4)).graph


def board(name: str) -> Board:
    return load_board(name)


@pytest.mark.slow
def test_a_network_too_deep_for_dataflow_becomes_one_shared_stage(deep: Quantized) -> None:
    up5k = board("icebreaker")
    plan = plan_for(deep.graph, deep.graph, up5k)
    assert plan.execution == "shared"
    assert re.fullmatch(r"a stage for each layer takes [\d,]+ .* of [\d,]+", plan.why)
    (stage,) = plan.stages
    assert stage.folding.cols == 4, "the largest array for which there are multipliers"
    assert budget_of(up5k, deep.graph).fits(plan.resources)
    assert [step.name for step in stage.steps] == ["load", *layer_names(deep.graph), "store"]
    assert sum(step.cycles for step in stage.steps) == plan.interval
    assert sum(step.multiplications for step in stage.steps) == plan.multiplications
    assert plan.multiplications / (16 * plan.interval) > 0.5
    hls.require_current(plan, deep.graph, up5k.technology())
    with pytest.raises(AnswerIsNo, match="'chain' does not fit icebreaker"):
        plan_for(deep.graph, deep.graph, up5k, HardwareOptions(execution=Execution.DATAFLOW))


def test_what_fits_is_dataflow(small: LayerGraph) -> None:
    ecp5 = board("ulx3s_25f")
    plan = plan_for(small, small, ecp5)
    assert (plan.execution, plan.why) == ("dataflow", "that fits the board")
    same = plan_for(small, small, ecp5, HardwareOptions(execution=Execution.DATAFLOW))
    assert (same, same.why) == (plan, "that was asked for")
    shared = plan_for(small, small, ecp5, HardwareOptions(execution=Execution.SHARED))
    assert (shared.execution, shared.why) == ("shared", "that was asked for")
    assert shared.interval > plan.interval


def test_a_device_without_multipliers(small: LayerGraph) -> None:
    hx8k = board("ice40hx8k")
    with pytest.raises(AnswerIsNo, match="cannot be one shared stage on ice40hx8k, which has no multipliers"):
        plan_for(small, small, hx8k, HardwareOptions(execution=Execution.SHARED))


def test_frames_that_no_memory_can_hold() -> None:
    """Refused at once, with the layers, their bytes, and what helps."""
    graph = quantize(model := convolutions(3, 32, 64), rows_for(model, 1)).graph
    with pytest.raises(AnswerIsNo, match=re.escape(
            "'chain' as one shared stage does not fit icebreaker: what a layer reads and writes must be in the frame "
            "memory together, for which icebreaker has 131,072 bytes at most: layer 'conv2' reads 131,072 and writes "
            "131,072 bytes; layer 'conv1' reads 131,072 and writes 131,072 bytes; layer 'conv0' reads 12,288 and "
            "writes 131,072 bytes; and 1 more; use a smaller input, fewer channels, or a board with more memory")):
        plan_for(graph, graph, board("icebreaker"), HardwareOptions(execution=Execution.SHARED))


def test_more_multipliers_give_a_larger_array(deep: Quantized) -> None:
    technology, graph, found = board("ulx3s_85f").technology(), deep.graph, {}
    for dsp in (8, 30, 90, 10**4):
        limits = budget(dsp=dsp)
        plan = hls.solve_shared(graph, hls.Target(technology, limits))
        assert plan.resources.dsp <= dsp
        found[plan.stages[0].folding.cols] = plan.interval
    assert tuple(found) == COLUMNS
    assert sorted(found.values(), reverse=True) == list(found.values())


def test_an_array_of_fewer_rows_uses_more_multipliers(deep: Quantized) -> None:
    gowin, graph = board("tangnano9k").technology(), deep.graph
    limits = budget(dsp=40)
    plan = hls.solve_shared(graph, hls.Target(gowin, limits))
    (stage,) = plan.stages
    # two multipliers that rescale have a macro each
    assert (stage.folding.rows, stage.folding.cols, plan.resources.dsp) == (4, 8, 40)
    hls.require_current(plan, graph, gowin)
    square = plan.with_folding("shared0", rows=8)
    assert square.resources.dsp == 72
    assert square.interval < plan.interval < 2 * square.interval
    assert plan.interval < hls.solve_shared(graph, hls.Target(gowin, dataclasses.replace(
        limits, available=dataclasses.replace(PLENTY, dsp=31)))).interval
    with pytest.raises(hwflow.HwflowError, match=r"cols of a shared stage must be one of 2, 4, 8, 16, and rows divide"):
        plan.with_folding("shared0", rows=3)


def test_an_interval_gets_the_cheapest_stage(deep: Quantized) -> None:
    technology = board("ulx3s_85f").technology()
    limits = budget()
    fastest = hls.solve_shared(deep.graph, hls.Target(technology, limits))
    slower = hls.solve_shared(deep.graph, hls.Target(technology, limits), interval=8 * fastest.interval)
    assert slower.interval <= 8 * fastest.interval
    assert limits.price(slower.resources) < limits.price(fastest.resources)
    with pytest.raises(AnswerIsNo, match=re.escape("'chain' as one shared stage takes at least ")):
        hls.solve_shared(deep.graph, hls.Target(technology, limits), interval=fastest.interval // 4)


def test_weights_are_outside_where_blocks_are_short(deep: Quantized) -> None:
    up5k = board("icebreaker")
    technology, limits, outside = up5k.technology(), budget_of(up5k, deep.graph), outside_of(up5k)
    plan = hls.solve_shared(deep.graph, hls.Target(technology, limits, outside=outside))
    assert [each.stage for each in plan.streams] == ["shared0"]
    assert plan.stages[0].folding.weight_rows
    rich = dataclasses.replace(limits, available=dataclasses.replace(limits.available, ram=200))
    assert not hls.solve_shared(deep.graph, hls.Target(technology, rich, outside=outside)).streams
    poor = dataclasses.replace(limits, available=dataclasses.replace(limits.available, ram=12))
    with pytest.raises(AnswerIsNo, match=r"'chain' as one shared stage does not fit icebreaker: with an array of "
                                         r"\d+ x \d+, [\d,]+ block RAMs needed, [\d,]+ usable"):
        hls.solve_shared(deep.graph, hls.Target(technology, poor))


def test_frames_too_large_for_blocks_are_in_spram() -> None:
    graph = quantize(model := convolutions(2, 8, 48), rows_for(model, 2)).graph
    up5k = board("icebreaker")
    plan = hls.solve_shared(graph, hls.Target(up5k.technology(), budget_of(up5k, graph), outside=outside_of(up5k)))
    assert plan.partition.shared[0].single_port
    assert plan.resources.spram == 2 * plan.partition.shared[0].banks, "two of 16 bits for a word of 32"
    assert plan.stages[0].frames[0].words * 4 == 48 * 48 * 4, "a word for each pixel"


def test_why_a_graph_cannot_be_shared() -> None:
    chosen = CASES[TopK](np.random.default_rng(0)).graph
    technology, limits = board("ulx3s_85f").technology(), budget()
    with pytest.raises(AnswerIsNo, match=re.escape(
            f"'{chosen.name}' cannot be one shared stage: layer '{chosen.layers[0].name}' (top_k): a shared stage "
            "compares elements of one channel")):
        hls.solve_shared(chosen, hls.Target(technology, limits))


@pytest.mark.slow
def test_a_board_that_is_too_small_for_both(deep: Quantized) -> None:
    tiny = load_board("icebreaker")
    tiny = dataclasses.replace(tiny, resources=dataclasses.replace(tiny.resources, lut=2500))
    with pytest.raises(AnswerIsNo, match=r"'chain' does not fit icebreaker, .* 'chain' as one shared stage does not "
                                         r"fit icebreaker: with an array of 2 x 2, [\d,]+ logic cells needed"):
        plan_for(deep.graph, deep.graph, tiny)


def test_a_plan_in_python() -> None:
    quantized = hwflow.quantize_model(model := residual(), rows_for(model, 4))
    plan = hwflow.make_plan(quantized, "icebreaker", execution="shared")
    assert plan.execution == "shared"
    changed = plan.with_folding("shared0", rows=2, cols=2, lanes=1)
    assert changed.interval > plan.interval
    assert changed.why == plan.why
    with pytest.raises(hwflow.HwflowError, match="execution must be one of auto, dataflow, shared, not a str 'both'"):
        hwflow.make_plan(quantized, "icebreaker", execution="both")
