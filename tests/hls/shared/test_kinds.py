"""Every kind of layer as a program of a shared stage, against its meaning in plain loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow.hls.shared.compile import shared_problems
from hwflow.layers import (
    KINDS,
    Add,
    AveragePool,
    Concat,
    Conv,
    Dense,
    Embedding,
    Frame,
    Interpolate,
    IntFormat,
    Layer,
    LayerGraph,
    Lookup,
    MatMul,
    MaxPool,
    Multiply,
    Normalize,
    Rearrange,
    Recurrent,
    Requantize,
    RunningSum,
    Segments,
    Softmax,
    Tensor,
    TopK,
    Trees,
    WriteRow,
)
from tests.hls.shared.machine import program_for, require_equal
from tests.layers.cases import CASES, Case, integers

#: The kinds that a shared stage computes, and how many random layers of each are compared; fewer among quick tests.
COMPUTED = (Conv, Dense, MaxPool, AveragePool, Add, Multiply, Lookup, Concat, Rearrange, Interpolate)
#: The others, and what a shared stage lacks for them.
REFUSED = {
    MatMul: "a shared stage has no matmul",
    Embedding: "a shared stage has no embedding",
    RunningSum: "a shared stage gives elements of 8 bits, and sums of the channels so far have more",
    Segments: "a shared stage has tables for elements of up to 8 bits, and no straight segments",
    Softmax: "a shared stage has no softmax",
    Normalize: "a shared stage has no normalize",
    Recurrent: "a shared stage has no product in a loop",
    Trees: "a shared stage multiplies, and trees compare",
    WriteRow: "a shared stage has no write_row",
    TopK: "a shared stage compares elements of one channel, not channels with each other"}
LAYERS = 25


def possible(kind: type[Layer], rng: np.random.Generator) -> Case:
    """A random layer that a shared stage can compute."""
    while True:
        case = CASES[kind](rng)
        if not shared_problems(case.graph, case.graph.layers):
            return case


@pytest.mark.parametrize("columns, layers", [
    (4, 8), *(pytest.param(columns, LAYERS, marks=pytest.mark.slow) for columns in (2, 4, 8))])
@pytest.mark.parametrize("kind", COMPUTED, ids=lambda kind: kind.kind)
def test_random_layers(kind: type[Layer], columns: int, layers: int) -> None:
    rng = np.random.default_rng([columns, KINDS.index(kind)])
    for _ in range(layers):
        case = possible(kind, rng)
        graph = case.graph
        values = {}
        for name in graph.inputs:
            x = graph.tensors[name]
            values[name] = integers(rng, x.format, (x.frame.height, x.frame.width, x.frame.channels))
        values["y"] = case.meaning(*(values[name] for name in graph.inputs))
        require_equal(program_for(graph, columns=columns), values)


@pytest.mark.parametrize("columns", [4, 8])
def test_inputs_of_few_channels(columns: int) -> None:
    """Windows that begin anywhere in a word, in rows of any length."""
    rng, x = np.random.default_rng(columns), IntFormat(8, signed=False)
    for _ in range(LAYERS):
        source = Tensor("x", Frame(*(int(n) for n in rng.integers((4, 7, 1), (8, 20, 4)))), x, 0.5, 3)
        kernel, strides = (tuple(int(n) for n in rng.integers(1, most, 2)) for most in (5, 4))
        dilations, pads = (int(n) for n in rng.integers(1, 3, 2)), tuple(int(n) for n in rng.integers(0, 3, 4))
        dilations = tuple(d if d * (k - 1) < 4 else 1 for d, k in zip(dilations, kernel, strict=True))
        weights = rng.integers(-128, 128, (int(rng.integers(1, 10)), *kernel, source.frame.channels))
        q = Requantize(rng.integers(-999, 999, len(weights)), np.full(len(weights), 5), np.full(len(weights), 14), 0,
                       -128, 127)
        layer = Conv("conv", ("x",), "y", weights, IntFormat(8, signed=True), x, q, strides, dilations, pads)
        y = Tensor("y", layer.output_frame(source.frame), IntFormat(8, signed=True), 0.5, 0)
        frame = integers(rng, x, (source.frame.height, source.frame.width, source.frame.channels))
        graph = LayerGraph("thin", {"x": source, "y": y}, (layer,), ("x",), ("y",))
        expected = Case(graph).meaning(frame)
        require_equal(program_for(graph, columns=columns), {"x": frame, "y": expected})


@pytest.mark.quick(1)
@pytest.mark.parametrize("buffer", [1, 3, *(pytest.param(each, marks=pytest.mark.slow) for each in (2, 7))])
def test_weights_in_parts(buffer: int) -> None:
    """A dense layer needs no more of the buffer than one word."""
    rng = np.random.default_rng(buffer)
    for _ in range(LAYERS):
        case = possible(Dense, rng)
        x = case.graph.tensors["x"]
        frame = integers(rng, x.format, (x.frame.height, x.frame.width, x.frame.channels))
        made = program_for(case.graph, buffer=buffer)
        require_equal(made, {"x": frame, "y": case.meaning(frame)})


def test_weights_that_do_not_fit_the_buffer() -> None:
    rng = np.random.default_rng(5)
    while True:
        case = possible(Conv, rng)
        y = case.graph.tensors["y"].frame
        if case.layer.weights.shape[1:3] == (3, 3) and y.height * y.width > 1:
            break
    with pytest.raises(HwflowError, match=r"layer 'conv': the weights of a window must fit the 8 words of the shared "
                                          r"stage's buffer, not be \d+ words of 4 x 4 \(3 x 3 pixels of \d+ words\); "
                                          "use a smaller kernel or fewer input channels"):
        program_for(case.graph, buffer=8)


@pytest.mark.parametrize("columns", [2, 4])
def test_sums_of_two_bytes(columns: int) -> None:
    """As a network's last layer gives them; not where a limit cuts them off, or a layer reads them."""
    rng, x = np.random.default_rng(columns), IntFormat(4, signed=True)
    for bits in (9, 13, 16):
        y = IntFormat(bits, signed=True)
        most = (y.high // 8) // 20 + 1
        weights = rng.integers(-most, most, (7, 1, 1, 5)).clip(-128, 127)
        q = Requantize(rng.integers(-9, 9, 7), np.full(7, 1), np.full(7, 0), -7, y.low, y.high)
        frame = integers(rng, x, (3, 2, 5))
        tensors = {"x": Tensor("x", Frame(3, 2, 5), x, 0.5, 0), "y": Tensor("y", Frame(3, 2, 7), y, 0.5, -7)}
        layer = Conv("conv", ("x",), "y", weights, IntFormat(8, signed=True), x, q)
        graph = LayerGraph("wide", tensors, (layer,), ("x",), ("y",))
        expected = Case(graph).meaning(frame)
        assert bits == 9 or np.abs(expected).max() > 128
        require_equal(program_for(graph, columns=columns), {"x": frame, "y": expected})
        cut = replace(layer, requantize=replace(q, high=0))
        assert shared_problems(graph, (layer,)) == ()
        (problem,) = shared_problems(graph, (cut,))
        assert problem.why == ("elements of a shared stage must have at most 8 bits, or be sums that no limit cuts "
                               f"off, and 'y' is int{bits}")


def test_every_kind_is_computed_or_refused() -> None:
    assert {*COMPUTED, *REFUSED} == set(KINDS)


@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: kind.kind)
def test_what_a_shared_stage_cannot_compute(kind: type[Layer]) -> None:
    case = CASES[kind](np.random.default_rng(0))
    with pytest.raises(HwflowError) as error:
        program_for(case.graph)
    assert str(error.value) == (f"a shared stage must have a way to compute each of its layers:\n  layer "
                                f"'{case.layer.name}' ({kind.kind}): {REFUSED[kind]}")


@pytest.mark.parametrize("columns", [4, 8])
def test_windows_that_slide(columns: int) -> None:
    """Depthwise windows of any size, stride and padding, in frames that they may be larger than."""
    rng, x, slid = np.random.default_rng(columns), IntFormat(8, signed=False), 0
    for _ in range(LAYERS // 2):
        source = Tensor("x", Frame(*(int(n) for n in rng.integers((4, 4, 1), (9, 12, 20)))), x, 0.5, 3)
        channels = source.frame.channels
        kernel = tuple(int(n) for n in rng.integers((1, 2), (5, 5)))
        strides, pads = (tuple(int(n) for n in rng.integers(*ends)) for ends in ((1, 3, 2), (0, 3, 4)))
        dilations = (int(rng.integers(1, 3)) if kernel[0] < 3 else 1, 1)
        weights = rng.integers(-128, 128, (channels, *kernel, 1))
        q = Requantize(rng.integers(-999, 999, channels), np.full(channels, 5), np.full(channels, 12), 0, -128, 127)
        layer = Conv("conv", ("x",), "y", weights, IntFormat(8, signed=True), x, q, strides, dilations, pads, channels)
        y = Tensor("y", layer.output_frame(source.frame), IntFormat(8, signed=True), 0.5, 0)
        frame = integers(rng, x, (source.frame.height, source.frame.width, channels))
        graph = LayerGraph("depthwise", {"x": source, "y": y}, (layer,), ("x",), ("y",))
        expected = Case(graph).meaning(frame)
        made = program_for(graph, columns=columns, sliding=True)
        slid += made.program.shape.windows.taps > 1
        require_equal(made, {"x": frame, "y": expected})
    assert slid > LAYERS // 8


def test_windows_of_different_widths_slide() -> None:
    """The array keeps words for the wider one; the narrower one begins before as many were read."""
    rng, x, tensors, layers, values = np.random.default_rng(5), IntFormat(8, signed=True), {}, [], {}
    tensors["x"] = source = Tensor("x", Frame(6, 9, 4), x, 0.5, 0)
    values["x"] = frame = integers(rng, x, (6, 9, 4))
    for name, width in (("wide", 4), ("narrow", 2)):
        weights = rng.integers(-128, 128, (4, 3, width, 1))
        q = Requantize(rng.integers(-999, 999, 4), np.full(4, 5), np.full(4, 12), 0, -128, 127)
        layer = Conv(name, (source.name,), f"of {name}", weights, x, x, q, (1, 1), (1, 1), (1, 1, 1, 0), 4)
        graph = LayerGraph(name, dict(tensors), (layer,), (source.name,), (layer.output,))
        tensors[layer.output] = source = Tensor(layer.output, layer.output_frame(source.frame), x, 0.5, 0)
        values[layer.output] = frame = Case(graph).meaning(frame)
        layers.append(layer)
    made = program_for(LayerGraph("widths", tensors, tuple(layers), ("x",), (source.name,)), sliding=True)
    assert made.program.shape.windows.taps == 4
    assert [step.weighting.slides for step, _ in made.program.computed()] == [True, True]
    require_equal(made, values)
