"""The shares and losses that a plan's table shows, and what the serial line carries."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hwflow_rtl.products import MultiplierStyle

from hwflow import hls
from hwflow.flow import budget_of
from hwflow.hls.buffers import ring_bytes
from hwflow.hls.plan import Plan, StagePlan
from hwflow.quantize import Quantized, quantize
from hwflow.report.console import Console
from hwflow.report.plan import bottleneck, busy, folding_text, padding_loss, plan_facts, show_remedy
from hwflow.report.synthesis import line_rate
from hwflow.synth import load_board
from tests.e2e.networks import residual

BOARD = load_board("ulx3s_85f")


@pytest.fixture(scope="module")
def quantized() -> Quantized:
    return quantize(residual())


@pytest.fixture(scope="module")
def plan(quantized: Quantized) -> Plan:
    return hls.solve(quantized.graph, BOARD.technology(), budget_of(BOARD))


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
    rings = ring_bytes(quantized.graph, plan, BOARD.technology())
    facts = plan_facts(plan, BOARD, rings)
    assert facts["bottleneck"]["stage"] == bottleneck(plan).name
    assert max(stage.schedule.interval for stage in plan.stages) == bottleneck(plan).schedule.interval
    assert facts["latency"] == [{"output": quantized.graph.outputs[0], "cycles": plan.latency[0],
                                 "microseconds": plan.latency[0] / BOARD.clock_mhz}]
    assert facts["queue_bytes"] == sum(link["queue_bytes"] for link in facts["links"]) > 0
    assert facts["ring_bytes"] == sum(ring or 0 for ring in rings) > 0
    assert [stage["ring_bytes"] for stage in facts["stages"]] == list(rings)


def test_the_serial_line_carries_every_input_and_output(plan: Plan) -> None:
    """32 elements of a byte go in, more than the 3 that come out."""
    assert line_rate(plan, BOARD) == BOARD.baud / 10 / 32
    links = tuple(replace(link, bits=32, elements=9) if link.sink < 0 else link for link in plan.links)
    assert line_rate(replace(plan, links=links), BOARD) == BOARD.baud / 10 / 36
    twice = (*plan.links, replace(plan.links[0], source=~1))
    assert line_rate(replace(plan, links=twice), BOARD) == BOARD.baud / 10 / 64


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
