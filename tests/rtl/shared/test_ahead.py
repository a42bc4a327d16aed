"""The queue for the stream of weights: order, how many it holds, and when beats leave it."""

from __future__ import annotations

import numpy as np
import pytest
from hwflow_rtl.shared.weights import LATENCY, PERIOD, BeatsAhead
from hwflow_rtl.vendor.generic import Generic

from tests.rtl.harness import simulate

DEPTH, LANES = 16, 2


def run(beats: int, stall_in: float, stall_out: float, seed: int = 0):
    queue = BeatsAhead(lanes=LANES, depth=DEPTH, technology=Generic())
    sent = np.random.default_rng(seed).integers(0, 256, (beats, LANES))
    traces = simulate(queue, sends={"i": sent}, receives={"o": beats}, stall_in=stall_in, stall_out=stall_out,
                      seed=seed)
    assert np.array_equal(traces["o"].beats, sent)
    return traces


@pytest.mark.parametrize("stalls", [(0.0, 0.0), (0.9, 0.0), (0.0, 0.9), (0.6, 0.6)])
def test_order_and_depth(stalls: tuple[float, float]) -> None:
    traces = run(20 * DEPTH, *stalls)
    came, left = traces["i"].cycles, traces["o"].cycles
    inside = np.array([(came <= cycle).sum() - (left <= cycle).sum() for cycle in range(int(left[-1]) + 1)])
    assert inside.min() >= 0
    assert inside.max() <= DEPTH + 2
    if stalls[1] > stalls[0]:
        assert inside.max() >= DEPTH


def test_a_beat_in_every_second_cycle() -> None:
    traces = run(200, 0.0, 0.0)
    assert (np.diff(traces["o"].cycles) == PERIOD).all()
    assert (traces["o"].cycles - traces["i"].cycles).max() < LATENCY
