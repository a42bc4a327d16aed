"""A stage that has no cycle to spare keeps its pace where a join takes its results in bursts."""

from __future__ import annotations

import numpy as np
import pytest

from hwflow import hls
from hwflow.layers import Folding, Frame, IntFormat, LayerGraph
from hwflow.synth import load_board
from tests.hls.test_timeline import Branches
from tests.networks.generate import frames_for
from tests.networks.grow import Elements, Taste
from tests.networks.playing import play_plan

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
