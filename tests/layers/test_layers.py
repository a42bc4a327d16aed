"""Every kind of layer against plain loops, at the ends of its range, and where it must refuse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwflow.layers import (
    KINDS,
    AveragePool,
    Conv,
    Dense,
    Frame,
    IntFormat,
    LayerGraph,
    Lookup,
    MaxPool,
    Requantize,
    Tensor,
)
from tests.layers import reference

FORMATS = [IntFormat(8, True), IntFormat(8, False), IntFormat(4, True), IntFormat(1, False)]
INT8 = IntFormat(8, True)


def draw_requantize(rng: np.random.Generator, channels: int, y: IntFormat, magnitude: int) -> Requantize:
    """Ratios that bring sums of `magnitude` into the range of `y`, ties and zero multipliers included."""
    bits = max(magnitude.bit_length() - y.bits, 0)
    return Requantize(
        bias=rng.integers(-magnitude // 4 - 1, magnitude // 4 + 2, channels),
        multiplier=rng.choice([0, 1, 1, 3, 131071, 262143], channels),
        shift=rng.integers(bits, bits + 20, channels),
        zero_point=int(rng.integers(y.low, y.high + 1)),
        low=y.low,
        high=y.high,
    )


def graph_of(layer, frame: Frame, x: IntFormat, y: IntFormat, zero_point: int) -> LayerGraph:
    made = layer.output_frame(frame)
    tensors = {"x": Tensor("x", frame, x, 0.5, zero_point), "y": Tensor("y", made, y, 0.25, 0)}
    graph = LayerGraph("test", tensors, (layer,), ("x",), ("y",))
    graph.check()
    return graph


def inputs(rng: np.random.Generator, n: int, frame: Frame, x: IntFormat) -> np.ndarray:
    """Random frames, one of nothing but the lowest, one of nothing but the highest integer."""
    shape = (frame.height, frame.width, frame.channels)
    random = rng.integers(x.low, x.high + 1, (n, *shape))
    return np.concatenate([random, np.full((1, *shape), x.low), np.full((1, *shape), x.high)]).astype(np.int64)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_conv_is_the_plain_loop(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    small = st.integers(1, 3)
    groups, depth, per_group = data.draw(small), data.draw(small), data.draw(small)
    kernel, strides, dilations = ((data.draw(small), data.draw(small)) for _ in range(3))
    pads = tuple(data.draw(st.integers(0, 2)) for _ in range(4))
    x, y, w = (data.draw(st.sampled_from(FORMATS)) for _ in range(3))
    height, width = (
        max(d * (k - 1) + 1 - p - q, 1) + data.draw(st.integers(0, 4))
        for d, k, p, q in zip(dilations, kernel, pads[:2], pads[2:], strict=True)
    )
    frame, zero_point = Frame(height, width, groups * depth), int(rng.integers(x.low, x.high + 1))
    weights = rng.integers(w.low, w.high + 1, (groups * per_group, *kernel, depth))
    q = draw_requantize(rng, groups * per_group, y, 100 * kernel[0] * kernel[1] * depth)
    layer = Conv("conv", ("x",), "y", weights, w, x, q, strides, dilations, pads, groups)
    graph = graph_of(layer, frame, x, y, zero_point)
    frames = inputs(rng, 2, frame, x)
    expected = [reference.conv(f, weights, q, strides, dilations, pads, groups, zero_point) for f in frames]
    np.testing.assert_array_equal(layer.evaluate(graph, frames), np.stack(expected))


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_dense_is_the_plain_loop(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    frame = Frame(*(data.draw(st.integers(1, 4)) for _ in range(3)))
    x, y = (data.draw(st.sampled_from(FORMATS)) for _ in range(2))
    weights = rng.integers(-127, 128, (data.draw(st.integers(1, 6)), frame.elements))
    q = draw_requantize(rng, len(weights), y, 100 * frame.elements)
    layer = Dense("dense", ("x",), "y", weights, INT8, x, q)
    graph = graph_of(layer, frame, x, y, 0)
    frames = inputs(rng, 3, frame, x)
    columns = frames.reshape(len(frames), 1, 1, -1)
    kernel = weights.reshape(len(weights), 1, 1, -1)
    expected = [reference.conv(f, kernel, q, (1, 1), (1, 1), (0, 0, 0, 0), 1, 0) for f in columns]
    np.testing.assert_array_equal(layer.evaluate(graph, frames), np.stack(expected))


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_pools_are_the_plain_loop(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    kernel = (data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3)))
    strides, dilations = ((data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))) for _ in range(2))
    pads = tuple(data.draw(st.integers(0, k - 1)) for k in (*kernel, *kernel))
    x, y = (data.draw(st.sampled_from(FORMATS)) for _ in range(2))
    frame = Frame(data.draw(st.integers(7, 9)), data.draw(st.integers(7, 9)), data.draw(st.integers(1, 3)))
    frames, zero_point = inputs(rng, 2, frame, x), int(rng.integers(x.low, x.high + 1))

    largest = MaxPool("max", ("x",), "y", x, kernel, strides, dilations, pads)
    expected = [reference.pool(f, kernel, strides, dilations, pads, lambda v, _: max(v), None) for f in frames]
    np.testing.assert_array_equal(largest.evaluate(graph_of(largest, frame, x, x, 0), frames), np.stack(expected))

    q = draw_requantize(rng, frame.channels, y, 200 * kernel[0] * kernel[1])
    mean = AveragePool("mean", ("x",), "y", x, q, kernel, strides, pads)

    def combine(values: list[int], c: int) -> int:
        constants = (int(v[c]) for v in (q.bias, q.multiplier, q.shift))
        return reference.requantize(sum(values), *constants, q.zero_point, q.low, q.high)

    expected = [reference.pool(f, kernel, strides, (1, 1), pads, combine, zero_point) for f in frames]
    np.testing.assert_array_equal(mean.evaluate(graph_of(mean, frame, x, y, zero_point), frames), np.stack(expected))


@pytest.mark.parametrize("x", FORMATS, ids=str)
def test_lookup_reads_its_table(x: IntFormat) -> None:
    table = np.random.default_rng(0).integers(-128, 128, 1 << x.bits)
    layer = Lookup("table", ("x",), "y", x, table)
    codes = np.arange(x.low, x.high + 1)
    result = layer.evaluate(graph_of(layer, Frame(1, len(codes), 1), x, INT8, 0), codes.reshape(1, 1, -1, 1))
    assert result.ravel().tolist() == [int(table[code - x.low]) for code in codes]


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_the_accumulator_is_exactly_as_wide_as_the_worst_input_needs(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    x = data.draw(st.sampled_from(FORMATS))
    cin, cout = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 4))
    weights = rng.integers(-127, 128, (cout, cin))
    bias = rng.integers(-300, 300, cout)
    q = Requantize(bias, np.ones(cout, np.int64), np.zeros(cout, np.int64), 0, -(2**20), 2**20)
    layer = Dense("dense", ("x",), "y", weights, INT8, x, q)
    worst = []
    for row, b in zip(weights.tolist(), bias.tolist(), strict=True):
        highest = sum(max(w * x.low, w * x.high, 0) for w in row) + max(b, 0)
        lowest = sum(min(w * x.low, w * x.high, 0) for w in row) + min(b, 0)
        worst += [lowest, highest]
    format = layer.accumulator
    assert format.low <= min(worst) <= max(worst) <= format.high
    narrower = IntFormat(format.bits - 1, format.signed)
    assert format.bits == 1 or min(worst) < narrower.low or max(worst) > narrower.high


def dense(bias: int = 0, weights: int = 2) -> Dense:
    q = Requantize(np.array([bias]), np.array([1]), np.array([0]), 0, -128, 127)
    return Dense("fc1", ("x",), "y", np.full((1, 4), weights), IntFormat(4, True), INT8, q)


def test_values_outside_their_format_are_refused() -> None:
    frame = Frame(1, 1, 4)
    graph = graph_of(dense(), frame, INT8, INT8, 0)
    with pytest.raises(ValueError, match=r"layer 'fc1': input 'x' must be inside int8 \(-128 to 127\), not 0 to 128"):
        dense().evaluate(graph, np.array([0, 0, 0, 128]).reshape(1, 1, 1, 4))
    with pytest.raises(ValueError, match=r"layer 'fc1': weights must be inside int4 \(-8 to 7\), not 8 to 8"):
        dense(weights=8).evaluate(graph, np.zeros((1, 1, 1, 4), np.int64))


def test_a_sum_outside_the_declared_accumulator_is_refused() -> None:
    layer = dense()
    layer.__dict__["accumulator"] = IntFormat(8, True)  # as a faulty declaration would have it
    graph = graph_of(layer, Frame(1, 1, 4), INT8, INT8, 0)
    with pytest.raises(
        ValueError, match=r"layer 'fc1': accumulator must be inside int8 \(-128 to 127\), not 800 to 800"
    ):
        layer.evaluate(graph, np.full((1, 1, 1, 4), 100))


def test_frames_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"layer 'fc1': the input must have 4 elements, not 2x2x3 = 12"):
        dense().output_frame(Frame(2, 2, 3))
    q = Requantize(*(np.ones(4, np.int64) for _ in range(3)), 0, -128, 127)
    conv = Conv("c", ("x",), "y", np.ones((4, 3, 3, 2), np.int64), INT8, INT8, q, groups=2)
    with pytest.raises(ValueError, match=r"layer 'c': 2 groups of 2 channels must make up the input's 3"):
        conv.output_frame(Frame(8, 8, 3))
    with pytest.raises(ValueError, match=r"a window of 3 must fit into 2 padded elements of axis 0"):
        conv.output_frame(Frame(2, 8, 4))
    with pytest.raises(ValueError, match=r"layer 't': the table must have 256 entries"):
        Lookup("t", ("x",), "y", INT8, np.zeros(3, np.int64)).output_frame(Frame(1, 1, 1))


def test_a_graph_that_contradicts_itself_is_refused() -> None:
    frame, layer = Frame(1, 1, 4), dense()
    good = graph_of(layer, frame, INT8, INT8, 0)
    wrong = {**good.tensors, "y": Tensor("y", Frame(1, 1, 2), INT8, 1.0, 0)}
    with pytest.raises(ValueError, match=r"layer 'fc1': output 'y' must be 1x1x1, not 1x1x2"):
        LayerGraph("g", wrong, (layer,), ("x",), ("y",)).check()
    with pytest.raises(ValueError, match=r"layer 'fc1': input 'x' must be made by an earlier layer"):
        LayerGraph("g", good.tensors, (layer,), (), ("y",)).check()
    with pytest.raises(ValueError, match=r"layer 'fc1': output 'y' must be made once, not twice"):
        LayerGraph("g", good.tensors, (layer, layer), ("x",), ("y",)).check()
    with pytest.raises(ValueError, match=r"tensor 'z' must be described and made by a layer"):
        LayerGraph("g", good.tensors, (layer,), ("x",), ("z",)).check()


def test_layers_are_equal_by_value() -> None:
    assert dense() == dense()
    assert dense() != dense(bias=1)
    assert dense() != dense(weights=3)
    assert graph_of(dense(), Frame(1, 1, 4), INT8, INT8, 0) == graph_of(dense(), Frame(1, 1, 4), INT8, INT8, 0)
    assert dense() != MaxPool("fc1", ("x",), "y", INT8, (1, 1))


def test_kinds_have_distinct_names() -> None:
    assert len({kind.kind for kind in KINDS}) == len(KINDS)


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0, 0, "uint1"),
        (0, 255, "uint8"),
        (0, 256, "uint9"),
        (-1, 0, "int1"),
        (-128, 127, "int8"),
        (-129, 0, "int9"),
        (-1, 128, "int9"),
    ],
)
def test_the_narrowest_format_of_a_range(low: int, high: int, text: str) -> None:
    format = IntFormat.covering(low, high)
    assert str(format) == text
    assert format.contains(np.array([low, high]))
