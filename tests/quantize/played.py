"""Quantized models as hardware in Amaranth's simulator: with random stalls, every boundary equals the golden model."""

from __future__ import annotations

import numpy as np

from hwflow import hls
from hwflow.layers import LayerGraph
from hwflow.stages.kinds import hardware_problems
from hwflow.synth import load_board
from tests.networks.playing import Stalls, play_plan
from tests.strategies.layer_graphs import any_foldings, frames_for

#: Cycles of a frame of each stage at most.
SLOWEST = 400


def check_played(graph: LayerGraph, seed: int = 0, board: str = "ulx3s_85f") -> None:
    """Any foldings of `seed`; frames without a gap, and with stalls at both ends."""
    assert not hardware_problems(graph)
    technology = load_board(board).technology()
    foldings = any_foldings(graph, technology, np.random.default_rng(seed), slowest=SLOWEST)
    plan = hls.make_plan(graph, foldings, technology)
    frames = frames_for(graph, 3, seed)
    for stalls in (Stalls(), Stalls(0.5, 0.5, seed)):
        played = play_plan(graph, plan, frames, stalls)
        assert not played.wrong, played.wrong
