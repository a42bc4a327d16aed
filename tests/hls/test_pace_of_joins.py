"""A stage that has no cycle to spare keeps its pace where a join takes its results in bursts."""

from __future__ import annotations

import numpy as np
import pytest

from hwflow import hls
from hwflow.layers import Frame, IntFormat, LayerGraph, MatMul, Requantize
from hwflow.stages.folding import Folding
from hwflow.synth import load_board
from tests.hls.test_timeline import BYTE, Branches
from tests.networks.playing import play_plan
from tests.strategies.layer_graphs import frames_for
from tests.strategies.layers import Elements, Taste

FRAMES = 4


def beside(channels: int, kernel: int) -> LayerGraph:
    """A tensor, and behind its channels those of a convolution of it."""
    grown = Branches(np.random.default_rng(1), Taste(), "beside")
    x = grown.input(Frame(2, 2, channels), Elements(IntFormat(8, True), 3))
    grown.concat(x, grown.conv_of(x, kernel))
    return grown.finished()


@pytest.mark.parametrize(("channels", "kernel", "cols"), [(24, 1, 2), (12, 1, 1), (8, 1, 1)])
def test_results_that_wait_for_the_channels_before_them(channels: int, kernel: int, cols: int) -> None:
    """Results come evenly spread, but between those of two pixels the join lets all channels of the other tensor by."""
    graph = beside(channels, kernel)
    plan = hls.make_plan(graph, [Folding(1, cols, 1), Folding(1, 1, 1)], load_board("ulx3s_85f").technology())
    played = play_plan(graph, plan, frames_for(graph, FRAMES, 1))
    assert not played.wrong
    per_frame = len(played.cycles[0]) // FRAMES
    assert played.cycles[0][-1] - played.cycles[0][-1 - per_frame] == plan.interval
    assert tuple(played.offered) == plan.latency


def product(depth: int, *, late: int) -> LayerGraph:
    """The products of three rows with three columns, [3, depth], of one tensor; a layer delays operand `late`."""
    grown = Branches(np.random.default_rng(2), Taste(), "product")
    x = grown.input(Frame(1, 1, 3 * depth), BYTE)
    operands = [x, x]
    operands[late] = grown.conv_of(x, 1)
    one = np.ones(1, np.int64)
    grown.put(MatMul, tuple(operands), BYTE, heads=3, rows=1, depth=depth, columns=1, interleaved=True, order="hkn",
              frame=Frame(1, 3, 1), requantize=Requantize(0 * one, one, 8 * one, 3, -128, 127))
    return grown.finished()


@pytest.mark.parametrize(("depth", "cols", "late"), [(1, 1, 0), (1, 1, 1), (2, 2, 0), (2, 2, 1)])
def test_operands_that_a_product_holds_for_some_frames(depth: int, cols: int, late: int) -> None:
    """The buffers take the first frames of the early operand; what comes behind them waits in the queue."""
    graph = product(depth, late=late)
    foldings = [Folding(3 * depth, 3 * depth, 1), Folding(1, cols, 1)]
    plan = hls.make_plan(graph, foldings, load_board("ulx3s_85f").technology())
    count = FRAMES + 2 * max(plan.latency) // plan.interval
    played = play_plan(graph, plan, frames_for(graph, count, 1))
    assert not played.wrong
    ends = played.cycles[0][len(played.cycles[0]) // count - 1 :: len(played.cycles[0]) // count]
    assert set(np.diff(ends)) == {plan.interval}
    assert tuple(played.offered) == plan.latency
