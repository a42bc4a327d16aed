"""Graphs with nested branches whose ends meet again: sums, gates and concatenations of what a fork gave."""

from __future__ import annotations

import numpy as np
import pytest
from hwflow_rtl.vendor import ECP5

from hwflow import hls
from hwflow.layers import Add, AveragePool, Concat, Conv, Dense, Frame, IntFormat, LayerGraph, Multiply, Tensor
from hwflow.layers.base import Layer
from hwflow.layers.rescale import Requantize
from hwflow.stages.folding import Folding
from tests.networks.playing import Stalls, play_plan
from tests.networks.test_rtl import check_cycles

INT8 = IntFormat(8, True)
FRAMES = 4


def rescaled(channels: int, shift: int) -> Requantize:
    return Requantize(bias=np.arange(channels, dtype=np.int64) * 5 - 7, multiplier=np.full(channels, 181, np.int64),
                      shift=np.full(channels, shift, np.int64), zero_point=3, low=-128, high=127)


def conv(name: str, source: str, channels: tuple[int, int], kernel: int) -> Conv:
    weights = np.random.default_rng(len(name)).integers(-128, 128, (channels[1], kernel, kernel, channels[0]))
    half = kernel // 2
    return Conv(name, (source,), name, weights, INT8, INT8, rescaled(channels[1], 17), pads=(half,) * 4)


def graph_of(frames: dict[str, Frame], layers: list[Layer], outputs: tuple[str, ...]) -> LayerGraph:
    tensors = {name: Tensor(name, frame, INT8, 0.5, 3) for name, frame in frames.items()}
    for layer in layers:
        frame = layer.output_frame(*(tensors[name].frame for name in layer.inputs))
        tensors[layer.output] = Tensor(layer.output, frame, INT8, 0.5, 3)
    graph = LayerGraph("joined", tensors, tuple(layers), tuple(frames), outputs)
    graph.check()
    return graph


def nested() -> tuple[LayerGraph, list[Folding]]:
    """A residual block inside a residual block, whose input is concatenated with the gated sum."""
    dense = np.random.default_rng(0).integers(-128, 128, (4, 4))
    layers: list[Layer] = [
        conv("first", "x", (2, 4), 3),
        conv("left", "first", (4, 4), 3),
        conv("deep", "left", (4, 4), 3),
        Add("inner", ("deep", "left"), "inner", (131071, -99999), 17, 3, -128, 127),
        Add("outer", ("first", "inner"), "outer", (77777, 131072), 17, 3, 3, 127),
        AveragePool("pool", ("outer",), "pool", INT8, rescaled(4, 10), (5, 6)),
        Dense("squeeze", ("pool",), "gate", dense, INT8, INT8, rescaled(4, 16)),
        Multiply("excite", ("outer", "gate"), "excited", 3, 7, 3, -128, 127),
        Concat("both", ("excited", "x", "excited"), "both"),
        Add("twice", ("both", "both"), "twice", (1, 1), 1, 3, -128, 127),
    ]
    foldings = [Folding(2, 2), Folding(4, 2, 2), Folding(2, 4), Folding(1, 2, 2), Folding(1, 4, 4), Folding(1, 2, 1),
                Folding(1, 2), Folding(1, 2, 2), Folding(1, 2, 2), Folding(1, 5, 5)]
    return graph_of({"x": Frame(5, 6, 2)}, layers, ("twice",)), foldings


def two_inputs() -> tuple[LayerGraph, list[Folding]]:
    """A small operand that comes from outside, and a difference that is an output and goes on."""
    layers: list[Layer] = [
        Add("difference", ("x", "bias"), "difference", (1, -1), 0, 3, -128, 127),
        conv("after", "difference", (4, 2), 1),
        Multiply("scaled", ("after", "one"), "scaled", 5, 9, 3, -128, 127),
        Concat("both", ("scaled", "difference"), "both"),
    ]
    foldings = [Folding(1, 2, 2), Folding(1, 4), Folding(1, 2, 2), Folding(1, 2, 2)]
    frames = {"x": Frame(4, 3, 4), "bias": Frame(1, 1, 4), "one": Frame(1, 1, 1)}
    return graph_of(frames, layers, ("both", "difference")), foldings


@pytest.mark.parametrize("make", [two_inputs, pytest.param(nested, marks=pytest.mark.slow)])
@pytest.mark.parametrize("stalls", [
    Stalls(), Stalls(0.5, 0.5, 1), pytest.param(Stalls(0.9, 0.0, 2), marks=pytest.mark.slow),
    pytest.param(Stalls(0.0, 0.9, 3), marks=pytest.mark.slow)], ids=str)
def test_every_boundary_is_golden(make, stalls: Stalls) -> None:
    graph, foldings = make()
    plan = hls.make_plan(graph, foldings, ECP5())
    source, frames = np.random.default_rng(4), {}
    for name in graph.inputs:
        frame = graph.tensors[name].frame
        frames[name] = source.integers(-128, 128, (FRAMES, frame.height, frame.width, frame.channels))
    played = play_plan(graph, plan, frames, stalls)
    assert not played.wrong
    if stalls == Stalls():
        ends = [cycles[len(cycles) // FRAMES - 1 :: len(cycles) // FRAMES] for cycles in played.cycles]
        check_cycles(plan, ends, played.offered, str(foldings))
