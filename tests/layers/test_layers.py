"""Where layers and graphs of layers must refuse; equality; formats.  What holds for every kind: `test_contract`."""

from __future__ import annotations

import numpy as np
import pytest

from hwflow.layers import (
    KINDS,
    Add,
    Concat,
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

INT8 = IntFormat(8, True)


def graph_of(layer, frame: Frame, x: IntFormat, y: IntFormat, zero_point: int) -> LayerGraph:
    made = layer.output_frame(frame)
    tensors = {"x": Tensor("x", frame, x, 0.5, zero_point), "y": Tensor("y", made, y, 0.25, 0)}
    graph = LayerGraph("test", tensors, (layer,), ("x",), ("y",))
    graph.check()
    return graph


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


def joined(layer, a: Tensor, b: Tensor, y: Tensor) -> LayerGraph:
    return LayerGraph("g", {t.name: t for t in (a, b, y)}, (layer,), ("a", "b"), ("y",))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shift": 63}, r"layer 'sum': the shift must be from 0 to 62, not 63"),
        ({"multipliers": (1, 2**32 + 1)}, r"layer 'sum': multipliers must have at most 32 significant bits, not 33"),
        ({"multipliers": (1 << 60, 1)}, r"layer 'sum': the exact result must fit 63 bits"),
        ({"low": 3, "high": 2}, r"layer 'sum': low must not be above high, not 3 and 2"),
        ({"high": 128}, r"layer 'sum': low and high must be inside int8 \(-128 to 127\), not -128 to 128"),
    ],
)
def test_sums_that_cannot_be_exact_are_refused(change: dict, message: str) -> None:
    good = {"multipliers": (1, 2), "shift": 0, "zero_point": 0, "low": -128, "high": 127}
    a, b, y = (Tensor(name, Frame(2, 2, 3), INT8, 1.0, 0) for name in "aby")
    joined(Add("sum", ("a", "b"), "y", **good), a, b, y).check()
    with pytest.raises(ValueError, match=message):
        joined(Add("sum", ("a", "b"), "y", **{**good, **change}), a, b, y).check()


def test_sums_beyond_float64_are_exact() -> None:
    """One unit above the tie between 0 and 1, with 2**56 units to one."""
    a, b, y = (Tensor(name, Frame(1, 1, 1), IntFormat(4, True), 1.0, 0) for name in "aby")
    one = np.ones((1, 1, 1, 1), np.int64)
    add = Add("sum", ("a", "b"), "y", (1 << 55, 1), 56, 0, -8, 7)
    graph = joined(add, a, b, y)
    graph.check()
    assert [add.evaluate(graph, one, k * one).item() for k in (-1, 0, 1)] == [0, 0, 1]


def test_operands_that_do_not_fit_are_refused() -> None:
    add = Add("sum", ("a", "b"), "y", (1, 1), 0, 0, -128, 127)
    for other in (Frame(4, 5, 1), Frame(1, 5, 3), Frame(1, 1, 2), Frame(4, 5, 4)):
        with pytest.raises(ValueError, match=r"layer 'sum': the inputs must have equal frames, or one of them 1x1x1"):
            add.output_frame(Frame(4, 5, 3), other)
    a, b = (Tensor(name, Frame(2, 2, 3), INT8, 1.0, 0) for name in "ab")
    cat = Concat("cat", ("a", "b"), "y")
    joined(cat, a, b, Tensor("y", Frame(2, 2, 6), INT8, 1.0, 0)).check()
    with pytest.raises(ValueError, match=r"layer 'cat': input 'a' must have the output's format, scale and zero point"):
        joined(cat, a, b, Tensor("y", Frame(2, 2, 6), INT8, 0.5, 0)).check()
    with pytest.raises(ValueError, match=r"layer 'cat': the inputs must have one height and width, not 2x2x3, 1x2x3"):
        cat.output_frame(Frame(2, 2, 3), Frame(1, 2, 3))


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (Tensor("t", Frame(0, 1, 1), INT8, 1.0, 0), "a frame must have at least one element, not 0x1x1"),
        (Tensor("t", Frame(1, 1, 1), IntFormat(0, False), 1.0, 0), "elements must have 1 to 32 bits, not 0"),
        (Tensor("t", Frame(1, 1, 1), IntFormat(33, True), 1.0, 0), "elements must have 1 to 32 bits, not 33"),
        (Tensor("t", Frame(1, 1, 1), INT8, 0.0, 0), "the scale must be finite and above 0, not 0.0"),
        (Tensor("t", Frame(1, 1, 1), INT8, float("nan"), 0), "the scale must be finite and above 0, not nan"),
        (Tensor("t", Frame(1, 1, 1), INT8, 1.0, 1 << 32), "the zero point must fit 32 bits, not 4294967296"),
    ],
)
def test_tensors_that_cannot_be_are_refused(tensor: Tensor, message: str) -> None:
    good = graph_of(dense(), Frame(1, 1, 4), INT8, INT8, 0)
    with pytest.raises(ValueError, match=f"tensor 't': {message}"):
        LayerGraph("g", {**good.tensors, "t": tensor}, good.layers, ("x",), ("y",)).check()


def test_formats_that_contradict_the_tensors_are_refused() -> None:
    good = graph_of(dense(), Frame(1, 1, 4), INT8, INT8, 0)
    wrong = {**good.tensors, "x": Tensor("x", Frame(1, 1, 4), IntFormat(4, True), 1.0, 0)}
    with pytest.raises(ValueError, match=r"layer 'fc1': input_format must be int4 as 'x', not int8"):
        LayerGraph("g", wrong, good.layers, ("x",), ("y",)).check()
    with pytest.raises(ValueError, match=r"layer 'fc1': weights must be inside int4"):
        graph_of(dense(weights=8), Frame(1, 1, 4), INT8, INT8, 0)
    with pytest.raises(ValueError, match=r"kernel, strides and dilations must be positive and pads not negative"):
        graph_of(MaxPool("m", ("x",), "y", INT8, (2, 2), (0, 1)), Frame(4, 4, 1), INT8, INT8, 0)
