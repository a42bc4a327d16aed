"""The foldings of layers that multiply by constant weights: which there are, and what they promise."""

import time
from dataclasses import replace

import numpy as np
import pytest
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.vendor import ECP5

from hwflow.layers import Conv, Frame, IntFormat, LayerGraph, Requantize, Tensor
from hwflow.layers.formats import BIPOLAR
from hwflow.stages.folding import Folding, divisors
from hwflow.stages.kinds import stage_of
from hwflow.stages.rescalers import REFERENCE

INT8 = IntFormat(8, True)
SAME = {"kernel": (3, 3), "pads": (1, 1, 1, 1)}


def conv(frame: Frame, cout: int, kernel: tuple[int, int] = (1, 1), *, strides: tuple[int, int] = (1, 1),
         pads: tuple[int, int, int, int] = (0, 0, 0, 0), groups: int = 1,
         weights: IntFormat = INT8) -> tuple[Conv, LayerGraph]:
    numbers = np.full((cout, *kernel, frame.channels // groups), weights.high)
    one = np.ones(cout, dtype=np.int64)
    rescale = Requantize(bias=0 * one, multiplier=one, shift=one, zero_point=0, low=-128, high=127)
    layer = Conv("conv", ("x",), "y", numbers, weights, INT8, rescale, strides, (1, 1), pads, groups)
    tensors = {"x": Tensor("x", frame, INT8, 1.0, 0), "y": Tensor("y", layer.output_frame(frame), INT8, 1.0, 0)}
    return layer, LayerGraph("one", tensors, (layer,), ("x",), ("y",))


def foldings_of(case: tuple[Conv, LayerGraph]) -> list[Folding]:
    layer, graph = case
    return list(stage_of(graph, layer).foldings())


LAYERS = {
    "1x1": conv(Frame(25, 5, 64), 64),
    "depthwise": conv(Frame(25, 5, 64), 64, groups=64, **SAME),
    "3x3": conv(Frame(32, 32, 16), 16, **SAME),
    "many channels": conv(Frame(6, 6, 256), 256, **SAME),
    "a prime number of channels": conv(Frame(6, 6, 127), 131),
    "three channels": conv(Frame(32, 32, 3), 16, strides=(2, 2), **SAME),
    "10x4": conv(Frame(49, 10, 1), 64, (10, 4), strides=(2, 2), pads=(4, 1, 5, 1)),
    "groups": conv(Frame(9, 9, 24), 36, groups=6, **SAME),
    "padding wider than the kernel": conv(Frame(4, 4, 6), 6, (2, 2), pads=(0, 2, 0, 2)),
    "bipolar weights": conv(Frame(9, 9, 24), 36, weights=BIPOLAR, **SAME),
    "dense": conv(Frame(1, 1, 640), 128),
}


@pytest.mark.parametrize(("name", "folding", "cycles"), [
    ("depthwise", Folding(4, 1, 1), 125 * 9 * 16),
    ("depthwise", Folding(4, 3, 4), 125 * 3 * 16),
    ("depthwise", Folding(13, 1, 1), 125 * 9 * 5),
    ("1x1", Folding(7, 4, 1), 125 * 10 * 16),
    ("1x1", Folding(16, 16, 4), 125 * 4 * 4),
    ("1x1", Folding(8, 4, 1), 125 * 8 * 16),
    ("3x3", Folding(8, 3, 1), 98304),
    ("3x3", Folding(16, 16, 2), 9216),
    ("many channels", Folding(16, 39, 2), 36 * 16 * 3 * 20),
    ("10x4", Folding(8, 4, 1), 125 * 8 * 10),
    ("groups", Folding(18, 4, 2), 81 * 2 * 9),
    ("dense", Folding(16, 8, 1), 8 * 80),
])
def test_cycles(name: str, folding: Folding, cycles: int) -> None:
    layer, graph = LAYERS[name]
    assert stage_of(graph, layer).folding_problem(folding) is None
    said = stage_of(graph, layer).schedule(folding, REFERENCE)
    assert (said.work, said.multipliers) == (cycles, folding.rows * folding.cols)
    drain = folding == Folding(13, 1, 1)  # 13 results leave one after another, a block has 9 beats
    assert said.interval == (cycles // 9 * 13 if drain else cycles)


@pytest.mark.parametrize("name", LAYERS)
def test_foldings(name: str) -> None:
    """Not too many, all different, all divisors, and what they promise is what the unit does."""
    layer, graph = LAYERS[name]
    foldings = list(stage_of(graph, layer).foldings())
    assert len(foldings) == len(set(foldings))
    assert sum(folding.style is not MultiplierStyle.MACS for folding in foldings) <= 3000
    assert len({replace(folding, style=MultiplierStyle.BLOCKS) for folding in foldings}) <= 1500
    hardware = stage_of(graph, layer)
    outputs, depth = len(layer.weights) // layer.groups, layer.weights.shape[3]
    sizes = {(folding.rows, folding.cols) for folding in foldings}
    assert {(rows, cols) for rows in divisors(outputs) for cols in divisors(depth)} <= sizes
    assert {(parallel * outputs, depth) for parallel in divisors(layer.groups)} <= sizes
    for folding in foldings[::max(1, len(foldings) // 60)]:
        shape, said = hardware.matrix_shape(folding), stage_of(graph, layer).schedule(folding, REFERENCE)
        assert (shape.work, shape.cycles(), (shape.lanes_in,)) == (said.work, said.interval, said.lanes_in)
        assert shape.rows * shape.cols == said.multipliers
        assert graph.tensors["x"].frame.channels % shape.lanes_in == len(layer.weights) % folding.lanes == 0


@pytest.mark.parametrize("name", LAYERS)
def test_no_folding_is_as_fast_with_less(name: str) -> None:
    """Sizes that do not divide are there only where nothing smaller needs as few cycles."""
    layer, graph = LAYERS[name]
    outputs, depth = len(layer.weights) // layer.groups, layer.weights.shape[3]
    stage = stage_of(graph, layer)
    work = {(folding.rows, folding.cols): stage.schedule(folding, REFERENCE).work for folding in stage.foldings()}
    for (rows, cols), cycles in work.items():
        if rows <= outputs and outputs % rows:
            assert all(work[other, cols] > cycles for other, c in work if c == cols and other < rows)
        if rows <= outputs and depth % cols and cols < depth:
            assert all(work[rows, other] > cycles for r, other in work if r == rows and other < cols)


def test_bipolar_weights_have_no_empty_columns() -> None:
    columns = {folding.cols for folding in foldings_of(LAYERS["bipolar weights"])}
    assert columns == {*divisors(24), *(3 * n for n in divisors(24))}
    assert {4, 5, 7} <= {folding.rows for folding in foldings_of(conv(Frame(2, 2, 4), 20, weights=BIPOLAR))}


def test_padding_wider_than_the_kernel_has_no_patch() -> None:
    assert max(folding.cols for folding in foldings_of(LAYERS["padding wider than the kernel"])) == 6


def test_solvers_do_not_wait() -> None:
    """In processor time, with room for a slow machine: some microseconds a schedule, a millisecond a cost."""
    layer, graph = LAYERS["1x1"]
    technology, foldings = ECP5(), list(stage_of(graph, layer).foldings())
    start = time.process_time()
    for folding in foldings:
        stage_of(graph, layer).schedule(folding, REFERENCE)
    scheduled = time.process_time()
    assert (scheduled - start) / len(foldings) < 200e-6
    hardware = stage_of(graph, layer)
    asked = foldings[::20]
    for folding in asked:
        hardware.shape(folding, technology)
    start = time.process_time()
    for folding in asked:
        hardware.cost(folding, technology)
    assert (time.process_time() - start) / len(asked) < 50e-3
