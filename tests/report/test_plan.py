"""The shares and losses that a plan's table shows, and what the serial line carries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hwflow_rtl.multiply.style import MultiplierStyle

from hwflow import hls
from hwflow.facts.plan import CoreClock, board_rate, bottleneck, busy, clock_of, padding_loss, plan_facts, ring_bytes
from hwflow.hls.plan.plan import Plan, StagePlan
from hwflow.host.identity import BoardFacts, DesignFacts
from hwflow.host.rate import Limit, Rate, carried
from hwflow.layers.formats import Frame, IntFormat
from hwflow.pipeline.planning import budget_of
from hwflow.quantize import Quantized, quantize
from hwflow.synth import load_board
from hwflow.synth.expected_clock import estimated_clock
from hwflow.views.console.plan import folding_text, rate_lines, show_queues, show_remedy
from hwflow.views.console.terminal import Console
from tests.e2e.networks import residual

BOARD = load_board("ulx3s_85f")


@pytest.fixture(scope="module")
def quantized() -> Quantized:
    return quantize(residual())


@pytest.fixture(scope="module")
def plan(quantized: Quantized) -> Plan:
    return hls.solve(quantized.graph, hls.Target(BOARD.technology(), budget_of(BOARD)))


def test_shares_multiply(plan: Plan) -> None:
    """Useful work is the busy share of what padding leaves of it."""
    for stage in plan.stages:
        use, loss = stage.multiplier_use(plan.interval), padding_loss(stage)
        assert (use is None) == (loss is None) == (stage.kind == "add")
        if use is not None and loss is not None:
            assert use == pytest.approx(busy(stage, plan) * (1 - loss))


def test_padding_is_a_loss(plan: Plan) -> None:
    stage = plan.stages[0]
    wider = replace(stage, schedule=replace(stage.schedule, multipliers=2 * stage.schedule.multipliers))
    assert padding_loss(wider) == pytest.approx((1 + (padding_loss(stage) or 0)) / 2)


def test_facts(quantized: Quantized, plan: Plan) -> None:
    rings = ring_bytes(plan)
    clock = CoreClock(125.0, "of a test", routed=True)
    facts = plan_facts(plan, BOARD, clock=clock)
    assert facts["clock"] == {"mhz": 125.0, "what": "of a test", "routed": True}
    line = BOARD.transport.bytes_per_second / 32
    assert facts["rate"] == {"frames_per_second": min(line, 125e6 / plan.interval), "limit": "line", "line": line,
                             "core": 125e6 / plan.interval, "mhz": 125.0, "interval": plan.interval}
    assert facts["bottleneck"]["stage"] == bottleneck(plan).name
    assert max(stage.schedule.interval for stage in plan.stages) == bottleneck(plan).schedule.interval
    assert facts["latency"] == [{"output": quantized.graph.outputs[0], "cycles": plan.latency[0],
                                 "microseconds": plan.latency[0] / 125}]
    assert facts["queue_bytes"] == sum(link["queue_bytes"] for link in facts["links"]) > 0
    assert facts["ring_bytes"] == sum(ring or 0 for ring in rings) > 0
    assert [stage["ring_bytes"] for stage in facts["stages"]] == list(rings)


def test_what_waits_behind_a_change_of_lanes_is_a_queue(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    """Of 7 beats of the sink, in the table, in plan.yaml and in the facts; a link without a queue has no memory."""
    board = load_board("icebreaker")
    wide = replace(plan.links[0], lanes_out=1, lanes_in=3, depth=0, depth_after=7, bits=8)
    few = replace(plan, links=(wide, replace(plan.links[-1], depth=0, depth_after=0)))  # to the output
    show_queues(Console(), few, board)
    rows = [line.split()[-3:] for line in capsys.readouterr().out.splitlines() if "1 to 3" in line]
    assert rows == [["7", "21", "blocks"]]
    written = yaml.safe_load(hls.plan_to_yaml(few))["links"]
    assert [(link["queue"], link["bytes"]) for link in written] == [(7, 21), (0, 0)]
    clock = CoreClock(125.0, "of a test", routed=True)
    facts = plan_facts(few, board, clock=clock)["links"]
    assert [(link["queue"], link["queue_bytes"], link["memory"]) for link in facts] == [(7, 21, "blocks"), (0, 0, None)]


def test_sums_in_blocks_limit_the_clock_of_the_plan(quantized: Quantized, plan: Plan, tmp_path: Path) -> None:
    first = plan.stages[0]
    macs = replace(plan, stages=(replace(first, folding=replace(first.folding, style=MultiplierStyle.MACS)),
                                 *plan.stages[1:]))
    free, bound = (clock_of(each, quantized.graph, BOARD, tmp_path).mhz for each in (plan, macs))
    assert (free > 100, bound) == (True, 100.0)


def test_the_clock_is_that_of_the_routed_design_or_an_estimate(quantized: Quantized, plan: Plan, tmp_path: Path
                                                               ) -> None:
    goal, estimate = clock_of(plan, quantized.graph, BOARD, tmp_path), estimated_clock(plan, BOARD)
    assert (goal.mhz, goal.routed) == (estimate.mhz, False)
    assert str(goal) == f"{goal.mhz:.1f} MHz (estimated, off by {100 * estimate.error:.0f} % on average)"
    DesignFacts.of(quantized.graph, plan, BoardFacts(BOARD.name, BOARD.transport.facts(), 140.0)).write(tmp_path)
    routed = clock_of(plan, quantized.graph, BOARD, tmp_path)
    assert str(routed) == f"140.0 MHz (the clock of the routed design in '{tmp_path}')"
    assert routed.time(70) == "0.50 µs"
    another = replace(plan, stages=(replace(plan.stages[0], folding=replace(plan.stages[0].folding, lanes=3)),
                                    *plan.stages[1:]))
    assert clock_of(another, quantized.graph, BOARD, tmp_path) == goal
    small = load_board("icebreaker")
    other = clock_of(hls.solve(quantized.graph, hls.Target(small.technology(), budget_of(small))), quantized.graph,
                     small, tmp_path)
    assert not other.routed
    assert other.mhz <= 80  # what its multipliers bear


def test_the_serial_line_carries_every_input_and_output(quantized: Quantized) -> None:
    """32 elements of a byte go in, more than the 3 that come out."""
    graph = quantized.graph
    assert carried(3200, graph) == 100
    (made,), (given,) = graph.outputs, graph.inputs
    wide = replace(graph.tensors[made], frame=Frame(1, 1, 9), format=IntFormat(32, signed=True))
    assert carried(3600, replace(graph, tensors={**graph.tensors, made: wide})) == 100
    assert carried(6400, replace(graph, inputs=(given, given))) == 100


@pytest.mark.parametrize(("rate", "said"), [
    (Rate(100.0, 1000, 0, 4687.5), (
        "4,688 frames/s: as many as the line carries",
        "the FPGA alone: 100,000 frames/s, a frame every 1,000 cycles at its clock")),
    (Rate(100.0, 1_000_000, 0, 4687.5), (
        "100 frames/s: as many as the FPGA computes, a frame every 1,000,000 cycles at its clock",
        "the line would carry 4,688 frames/s")),
    (Rate(100.0, 1_000_000, 3_200_000, 4687.5), (
        "31.2 frames/s: as many as the memory beside the FPGA gives weights for, a frame every 3,200,000 cycles at its "
        "clock", "the line would carry 4,688 frames/s"))])
def test_the_least_of_core_memory_and_line_is_said_first(rate: Rate, said: tuple[str, ...]) -> None:
    assert tuple(rate_lines(rate, "the line", "its clock")) == said
    assert rate.frames_per_second == min(rate.core, rate.line)
    assert min(Rate(rate.mhz, rate.cycles).core, rate.line) >= rate.frames_per_second


def test_a_plan_is_as_fast_as_its_board_lets_it_be(plan: Plan) -> None:
    clock = CoreClock(125.0, "of a test", routed=True)
    rate = board_rate(plan, BOARD, clock)
    assert (rate.interval, rate.line, rate.limit) == (plan.interval, BOARD.transport.bytes_per_second / 32, Limit.LINE)
    assert board_rate(plan, BOARD, clock, 10**9).limit is Limit.CORE


def test_the_table_says_how_a_stage_multiplies(plan: Plan) -> None:
    stage = plan.stages[0]
    text = folding_text(stage)
    assert folding_text(with_style(stage, MultiplierStyle.LOGIC)) == f"{text} logic"
    assert folding_text(with_style(stage, MultiplierStyle.PAIRS)) == f"{text} pairs"


@pytest.mark.parametrize(("dsp", "lut", "style", "said"), [
    (156, 20000, MultiplierStyle.BLOCKS, True), (120, 20000, MultiplierStyle.BLOCKS, False),
    (156, 40000, MultiplierStyle.BLOCKS, False), (156, 20000, MultiplierStyle.LOGIC, False)])
def test_a_plan_short_of_blocks_names_the_remedy(plan: Plan, capfd: pytest.CaptureFixture[str], dsp: int, lut: int,
                                                 style: MultiplierStyle, said: bool) -> None:
    full = replace(plan, stages=(with_style(plan.stages[0], style),),
                   resources=replace(plan.resources, dsp=dsp, lut=lut))
    show_remedy(Console(), full, BOARD)
    assert ("--logic-multipliers" in "".join(capfd.readouterr())) == said


def with_style(stage: StagePlan, style: MultiplierStyle) -> StagePlan:
    return replace(stage, folding=replace(stage.folding, style=style))
