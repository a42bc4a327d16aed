"""Chains of many convolutions: stages that are alike share what the solver computes, and the solver does not wait."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hwflow_base.errors import AnswerIsNo
from hwflow_rtl.vendor import ECP5

from hwflow.hls.plan.choices import Choices, choices_of
from hwflow.hls.plan.graph_stages import stages_of
from hwflow.layers import Conv, Frame, IntFormat, LayerGraph, Requantize, Tensor
from hwflow.options import HardwareOptions
from hwflow.pipeline.planning import plan_for
from hwflow.stages.partition import Execution
from hwflow.synth import load_board

INT8 = IntFormat(8, True)
#: Processor seconds in which 60 stages are planned or refused: some times what they take on a desktop machine.
PLANNED, REFUSED = 6, 25
#: Bits of a word of the memory outside.
WORD = 16


def chain(sizes: list[int], side: int, seed: int = 3) -> LayerGraph:
    """Convolutions of 3 x 3 from sizes[0] to sizes[1] channels and so on, each with constants of its own."""
    rng = np.random.default_rng(seed)
    frames = [Frame(side, side, channels) for channels in sizes]
    tensors = {f"t{k}": Tensor(f"t{k}", frame, INT8, 1.0, 0) for k, frame in enumerate(frames)}
    layers = []
    for k, (cin, cout) in enumerate(pairwise(sizes)):
        rescale = Requantize(bias=rng.integers(-9999, 9999, cout), multiplier=rng.integers(1 << 15, 1 << 18, cout),
                             shift=rng.integers(20, 28, cout), zero_point=0, low=-128, high=127)
        weights = rng.integers(-127, 128, (cout, 3, 3, cin))
        layers.append(Conv(f"conv{k}", (f"t{k}",), f"t{k + 1}", weights, INT8, INT8, rescale, pads=(1, 1, 1, 1)))
    return LayerGraph("chain", tensors, tuple(layers), ("t0",), (f"t{len(layers)}",))


def alone(graph: LayerGraph, position: int) -> LayerGraph:
    """The layer at `position` as a graph of its own, in new objects."""
    layer = replace(graph.layers[position])
    return LayerGraph("one", graph.tensors, (layer,), layer.inputs, (layer.output,))


@pytest.mark.parametrize("word", [None, WORD])
def test_stages_share_the_foldings_of_their_like(word: int | None) -> None:
    graph = chain([8, 8, 8, 12, 8, 8], 6)
    stages = stages_of(graph)
    shared = choices_of(stages, ECP5(), word=word)
    assert [shared.index(each) for each in shared] == [0, 0, 2, 3, 0]
    for position, found in enumerate(shared):
        own = Choices(*stages_of(alone(graph, position)), ECP5(), word=word)
        assert [(choice, own.styles(choice)) for choice in own.choices] == [
            (choice, found.styles(choice)) for choice in found.choices]


def test_costs_that_stages_share_are_those_of_a_stage_alone() -> None:
    """Also in another order, on a technology that knows none yet, and with weights outside."""
    graph, technology = chain([8, 8, 8, 12, 8], 6), ECP5()
    for word in (None, WORD):
        for position, stage in reversed(list(enumerate(stages_of(graph)))):
            for choice in Choices(stage, technology, word=word).choices[::7]:
                (single,), folding = stages_of(alone(graph, position)), choice.folding
                found, own = stage.cost(folding, technology), single.cost(folding, ECP5())
                assert (found, found.memories) == (own, own.memories)


def test_sixty_stages_are_planned_soon() -> None:
    start = time.process_time()
    graph = chain([16] * 61, 32)
    assert len(plan_for(graph, graph, load_board("ulx3s_85f")).stages) == 60
    assert time.process_time() - start < PLANNED


@pytest.mark.slow
def test_sixty_stages_that_do_not_fit_are_refused_soon() -> None:
    graph, start = chain([32] * 61, 32), time.process_time()
    with pytest.raises(AnswerIsNo, match="'chain' does not fit ulx3s_85f, not even with its smallest folding: "):
        plan_for(graph, graph, load_board("ulx3s_85f"), HardwareOptions(execution=Execution.DATAFLOW))
    assert time.process_time() - start < REFUSED
