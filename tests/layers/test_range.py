"""Accumulators at their ends: the inputs that reach them are built from the signs of the weights, at every width."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwflow import golden
from hwflow.layers import Add, AveragePool, Conv, Dense, Frame, IntFormat, LayerGraph, Multiply, Requantize, Tensor
from hwflow.layers.formats import BIPOLAR
from hwflow.layers.matrix import exact_type
from hwflow.layers.rescale import Thresholds
from tests.layers.cases import FORMATS, integers

WIDE = IntFormat(32, True)


def raw(bias: np.ndarray) -> Requantize:
    """The accumulator, bias included, as it is."""
    ones = np.ones(len(bias), np.int64)
    return Requantize(bias, ones, ones * 0, 0, WIDE.low, WIDE.high)


def graph_of(layer, *inputs: Tensor) -> LayerGraph:
    made = layer.output_frame(*(x.frame for x in inputs))
    tensors = {**{x.name: x for x in inputs}, "y": Tensor("y", made, WIDE, 1.0, 0)}
    graph = LayerGraph("range", tensors, (layer,), tuple(tensors)[:-1], ("y",))
    graph.check()
    return graph


def extremes(weights: np.ndarray, x: IntFormat) -> np.ndarray:
    """For each row of weights [cout, k] the inputs [2 * cout, k] of the lowest sum, then those of the highest."""
    lowest = np.where(weights > 0, x.low, x.high)
    highest = np.where(weights > 0, x.high, x.low)
    return np.concatenate([lowest, highest])


def ends(weights: np.ndarray, bias: np.ndarray, x: IntFormat) -> tuple[int, int]:
    """The lowest and highest sum with the bias, in Python integers."""
    sums = []
    for row, b in zip(weights.tolist(), bias.tolist(), strict=True):
        products = [(w * x.low, w * x.high) for w in row]
        sums += [sum(map(min, products)) + b, sum(map(max, products)) + b]
    return min(sums), max(sums)


def tight(format: IntFormat, low: int, high: int) -> bool:
    """True where `format` holds both and no narrower one does."""
    narrower = IntFormat(format.bits - 1, format.signed)
    inside = format.low <= low and high <= format.high
    return inside and (format.bits == 1 or low < narrower.low or high > narrower.high)


PAIRS = list(itertools.product(FORMATS, FORMATS))


@pytest.mark.parametrize("signs", [1, -1, 0], ids=["positive", "negative", "mixed"])
def test_matrix_layers_reach_the_ends_of_their_accumulators(signs: int) -> None:
    rng = np.random.default_rng(0)
    for x, w in PAIRS if signs == 0 else itertools.product(FORMATS[::5], FORMATS[::3]):
        cout, kernel, depth = 3, (2, 2), 2
        k = 2 * 2 * depth
        weights = integers(rng, w, (cout, k))
        weights[0, 0], weights[-1, -1] = w.low, w.high
        if signs:
            weights = np.abs(weights) * signs if w.signed else weights
            weights = np.clip(weights, w.low, w.high)
        bias = rng.integers(-50, 50, cout)
        low, high = ends(weights, bias, x)
        source = Tensor("x", Frame(*kernel, depth), x, 1.0, 0)
        frames = extremes(weights, x).reshape(-1, *kernel, depth)
        layers = (
            Dense("fc", ("x",), "y", weights, w, x, raw(bias)),
            Conv("conv", ("x",), "y", weights.reshape(cout, *kernel, depth), w, x, raw(bias)),
        )
        for layer in layers:
            made = golden.run(graph_of(layer, source), frames)["y"]
            assert (int(made.min()), int(made.max())) == (low, high), f"{x} times {w}"
            assert tight(layer.accumulator, *parts(weights, bias, x)), f"{x} times {w}: {layer.accumulator}"


def parts(weights: np.ndarray, bias: np.ndarray, x: IntFormat) -> tuple[int, int]:
    """The ends of all partial sums, with or without the bias."""
    low = high = 0
    for row, b in zip(weights.tolist(), bias.tolist(), strict=True):
        low = min(low, sum(min(w * x.low, w * x.high, 0) for w in row) + min(b, 0))
        high = max(high, sum(max(w * x.low, w * x.high, 0) for w in row) + max(b, 0))
    return low, high


def test_wide_products_are_exact_at_their_ends() -> None:
    """Beyond 2**24 float32 would lose bits."""
    x = w = IntFormat(8, True)
    weights = np.full((2, 2000), w.low)
    weights[1] = w.high
    weights[:, -1] = 1
    layer = Dense("fc", ("x",), "y", weights, w, x, raw(np.array([1, -1])))
    assert exact_type(layer.accumulator) == np.float64
    graph = graph_of(layer, Tensor("x", Frame(1, 1, 2000), x, 1.0, 0))
    frames = extremes(weights, x).reshape(-1, 1, 1, 2000)
    made = golden.run(graph, frames)["y"]
    assert (int(made.min()), int(made.max())) == ends(weights, np.array([1, -1]), x)
    small = Dense("fc", ("x",), "y", weights[:, :900], w, x, raw(np.array([1, -1])))
    assert exact_type(small.accumulator) == np.float32


def test_sums_that_floats_cannot_hold_are_refused() -> None:
    x = IntFormat(32, True)
    layer = Dense("fc", ("x",), "y", np.full((1, 4), 2**21), IntFormat(24, True), x, raw(np.array([0])))
    with pytest.raises(ValueError, match=r"layer 'fc': sums of products with int32 must stay below 2\*\*53"):
        graph_of(layer, Tensor("x", Frame(1, 1, 4), x, 1.0, 0))


@pytest.mark.parametrize("x", FORMATS, ids=str)
def test_average_pools_reach_the_ends_of_their_accumulators(x: IntFormat) -> None:
    for bias in (-70, 0, 70):
        layer = AveragePool("mean", ("x",), "y", x, raw(np.array([bias])), (3, 5))
        graph = graph_of(layer, Tensor("x", Frame(3, 5, 1), x, 1.0, 0))
        made = golden.run(graph, np.stack([np.full((3, 5, 1), x.low), np.full((3, 5, 1), x.high)]))["y"]
        assert made.ravel().tolist() == [15 * x.low + bias, 15 * x.high + bias]
        assert tight(layer.accumulator, min(15 * x.low, 0) + min(bias, 0), max(15 * x.high, 0) + max(bias, 0))


def test_sums_and_products_of_tensors_reach_their_ends() -> None:
    for (a, b), signs in itertools.product(PAIRS, [(1, 1), (-1, 1), (1, -1)]):
        zeros = [0 if f.bipolar else f.low for f in (a, b)]
        tensors = [Tensor(n, Frame(1, 1, 4), f, 1.0, z) for n, f, z in zip("ab", (a, b), zeros, strict=True)]
        corners = np.array([*itertools.product((a.low, a.high), (b.low, b.high))]).T.reshape(2, 1, 1, 1, 4)
        frames = dict(zip("ab", corners, strict=True))
        m = (5 * signs[0], 7 * signs[1])
        p, q = (corner.ravel() - z for corner, z in zip(corners, zeros, strict=True))
        for layer, expected, partial in (
            (Add("add", ("a", "b"), "y", m, 0, 0, WIDE.low, WIDE.high), m[0] * p + m[1] * q, [*m[0] * p, *m[1] * q]),
            (Multiply("gate", ("a", "b"), "y", m[0], 0, 0, WIDE.low, WIDE.high), m[0] * p * q, []),
        ):
            graph = graph_of(layer, *tensors)
            made = golden.run(graph, frames)["y"].ravel()
            np.testing.assert_array_equal(made, expected)
            ends = [0, *made, *partial]
            assert tight(layer.exact_format(graph), int(min(ends)), int(max(ends)))


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_no_partial_sum_leaves_the_accumulator(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    x, w = data.draw(st.sampled_from(FORMATS)), data.draw(st.sampled_from(FORMATS))
    weights, bias = integers(rng, w, (3, 40)), rng.integers(-300, 300, 3)
    fraction = data.draw(st.integers(0, 4))
    q = Requantize(bias, np.ones(3, np.int64), np.zeros(3, np.int64), 0, 0, 1, fraction)
    accumulator = Dense("fc", ("x",), "y", weights, w, x, q).accumulator
    counted = Dense("fc", ("x",), "y", weights, w, x, Thresholds(np.zeros((3, 1), np.int64), 0)).accumulator
    for _ in range(20):
        values = rng.choice([x.low, x.high], 40) if rng.integers(2) else integers(rng, x, (40,))
        order = rng.permutation(40)[: rng.integers(1, 41)]
        sums = np.cumsum((weights * values)[:, order], axis=1)
        assert counted.contains(sums)
        assert accumulator.contains(sums)
        assert accumulator.contains(sums + (bias >> fraction)[:, None])
        assert accumulator.contains(sums - (-bias >> fraction)[:, None])


def test_padding_needs_a_zero_inside_the_format() -> None:
    q = raw(np.zeros(2, np.int64))
    weights = integers(np.random.default_rng(0), BIPOLAR, (2, 3, 3, 1))
    layer = Conv("c", ("x",), "y", weights, BIPOLAR, BIPOLAR, q, pads=(1, 1, 1, 1))
    with pytest.raises(ValueError, match=r"layer 'c': input 'x' is bipolar, whose integers are -1 and \+1: there is no "
                                         r"zero \(0\) to pad with; use a layer without padding"):  # fmt: skip
        graph_of(layer, Tensor("x", Frame(4, 4, 1), BIPOLAR, 1.0, 0))
    uint2 = IntFormat(2, False)
    mean = AveragePool("m", ("x",), "y", uint2, raw(np.zeros(1, np.int64)), (2, 2), pads=(0, 0, 1, 1))
    with pytest.raises(ValueError, match=r"layer 'm': input 'x' is uint2, 0 to 3: there is no zero \(-1\) to pad with"):
        graph_of(mean, Tensor("x", Frame(4, 4, 1), uint2, 1.0, -1))
