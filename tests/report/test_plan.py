"""The shares and losses that a plan's table shows, and what the serial line carries."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hwflow import hls
from hwflow.flow import budget_of
from hwflow.hls.buffers import ring_bytes
from hwflow.hls.plan import Plan
from hwflow.quantize import Quantized, quantize
from hwflow.report.plan import bottleneck, busy, padding_loss, plan_facts
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
