"""Streams behind one another along the channels."""

from __future__ import annotations

import re

import numpy as np
import pytest
from amaranth.hdl import signed
from hwflow_rtl.core import Core, Link
from hwflow_rtl.join.concat import ConcatShape, ConcatStage
from hwflow_rtl.stream.endpoint import Endpoint
from hwflow_rtl.stream.streams import stream_of
from hwflow_rtl.vendor import Generic

from tests.rtl.harness import simulate
from tests.rtl.units import ask, play

CORE, STAGE = Endpoint.core, Endpoint.stage

#: Beats of a pixel of each input, and lanes.
SHAPES = {
    "two": ((2, 3), 2), "ones": ((1, 1, 1), 1), "long": ((1, 7, 2), 3), "alone": ((3,), 1),
    "five": ((2, 1, 4, 1, 1), 1)}


def make(name: str) -> ConcatStage:
    words, lanes = SHAPES[name]
    return ConcatStage(shape=shape_of(words, lanes))


def shape_of(words: tuple[int, ...], lanes: int = 1) -> ConcatShape:
    return ConcatShape(element=signed(8), lanes=lanes, words=words, pixels=1)


def beats_of(name: str, pixels: int) -> list[np.ndarray]:
    words, lanes = SHAPES[name]
    source = np.random.default_rng(len(name))
    return [source.integers(-128, 128, (pixels * count, lanes)) for count in words]


def expected_of(name: str, beats: list[np.ndarray], pixels: int) -> np.ndarray:
    return np.concatenate([each.reshape(pixels, -1) for each in beats], axis=1).reshape(-1, SHAPES[name][1])


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_every_shape(name: str, seed: int) -> None:
    """All that a unit is asked, of frames of one pixel."""
    beats, shape = beats_of(name, 20), shape_of(*SHAPES[name])
    ask(shape, Generic(), [each.reshape(20, -1) for each in beats], expected_of(name, beats, 20),
        seed=seed + list(SHAPES).index(name))


def test_nothing_is_taken_before_its_turn() -> None:
    beats = beats_of("two", 3)
    taken = play(make("two"), beats, [np.arange(6) + 50, np.arange(9)], 15).taken
    assert taken[1][0] == taken[0][1] + 1
    assert taken[0][2] == taken[1][2] + 1


@pytest.mark.parametrize("stall_in, stall_out", [(0, 0), (0.6, 0.6)])
def test_a_stream_with_itself(stall_in: float, stall_out: float) -> None:
    """The queue of the second port holds what the first has taken."""
    stage = ConcatStage(shape=shape_of((3, 3)))
    core = Core(stages=[("twice", stage)], inputs=[stream_of(signed(8), 1)],
                links=[Link(CORE(0), STAGE(0), 0, 3), Link(CORE(0), STAGE(0), 1, 3), Link(STAGE(0), CORE(0))])
    pixels = np.random.default_rng(0).integers(-128, 128, (10, 3))
    traces = simulate(core, sends={"i": pixels.reshape(-1, 1)}, receives={"o": 60}, stall_in=stall_in,
                      stall_out=stall_out)
    assert np.array_equal(traces["o"].beats.reshape(10, 6), np.concatenate([pixels, pixels], axis=1))


def test_refuses_inputs_without_a_beat() -> None:
    with pytest.raises(ValueError, match=re.escape("words of a Concat must be one or more for each input, not [2, 0]")):
        shape_of((2, 0))
