"""Reductions over any axes: QDQ against onnxruntime, norms against whole numbers, floats as exporters write them."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest

from hwflow import golden
from hwflow.layers import MaxPool
from hwflow.onnx import infer
from hwflow.onnx.model import Model
from hwflow.quantize import quantize
from tests.quantize.models import Qdq, assert_agrees, kinds, runtime
from tests.quantize.net import Net, data
from tests.quantize.played import check_played
from tests.quantize.test_refusals import refusal

#: Every choice of axes of a tensor behind a layer with the frame 1x6x7 or 3x4x5, whose channels are the last axis.
SHAPES = ((1, 6, 7), (1, 3, 4, 5), (2, 3, 4))
AXES = [(shape, axes) for shape in SHAPES
        for axes in chain.from_iterable(combinations(range(len(shape)), k + 1) for k in range(len(shape)))]  # fmt: skip
OPERATORS = ("ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare")
STEP = 0.0625
#: Those of a frame's height, of its channels, of all; the others are slow.
QUICK = (((1, 6, 7), (1,)), ((1, 3, 4, 5), (1, 3)), ((2, 3, 4), (0, 1, 2)))


def behind_a_layer(shape: tuple[int, ...]) -> Qdq:
    """A product with scales that are powers of two: onnxruntime's float32 is exact, and no ties go another way."""
    m = Qdq(shape).qdq(STEP, 3)
    return m.node("MatMul", m.weights((shape[-1], shape[-1]), scale=2**-7)[0]).qdq(STEP, 3)


def step_of(op: str, count: int) -> tuple[float, int]:
    """Scale and zero point that results fill: elements are about 2."""
    if op in ("ReduceMax", "ReduceMin"):
        return STEP, 3
    if op == "ReduceMean":  # of a power of two, sums of three or five elements would be nothing but ties
        return 0.0217, 0
    reach = {"ReduceSum": 8 * count**0.5, "ReduceL1": 2.0 * count, "ReduceL2": 2 * count**0.5,
             "ReduceSumSquare": 6.0 * count}  # fmt: skip
    return 2.0 ** np.round(np.log2(reach[op] / 128)), 0 if op == "ReduceSum" else -128


def to_a_layer(m: Qdq, count: int) -> Qdq:
    """Behind it, a layer that changes nothing: else the host would compute the reduction."""
    return m.node("Reshape", m.constant("shape", np.array([1, count, 1]))).node("MaxPool", kernel_shape=(1,))


@pytest.mark.parametrize(
    ("shape", "axes"), [pytest.param(*case, marks=[] if case in QUICK else [pytest.mark.slow]) for case in AXES])
def test_any_axes(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """Pools over pixels, sums and rankings over channels: no element moves, whatever the axes are."""
    count = int(np.prod([shape[k] for k in axes]))
    left = int(np.prod(shape)) // count
    for number, op in enumerate(OPERATORS):
        m = behind_a_layer(shape)
        if op == "ReduceSum":
            m.node(op, m.constant("axes", np.array([k - len(shape) for k in axes])), keepdims=number % 2)
        else:
            m.node(op, axes=axes, keepdims=(number + len(axes)) % 2)
        step, zero = step_of(op, count)
        made = kinds(assert_agrees(to_a_layer(m.qdq(step, zero), left).model(), step, share=0.96))
        assert "rearrange" not in made[:-2], op


def test_of_no_axes() -> None:
    """All axes where the list is empty, or none; of the norms the function of each element is left then."""
    for op, noop, expected in (("ReduceSum", 0, "conv"), ("ReduceSum", 1, "average_pool")):
        m = behind_a_layer((1, 4, 5))
        m.node(op, m.constant("axes", np.zeros(0, np.int64)), noop_with_empty_axes=noop, keepdims=1)
        model = to_a_layer(m.qdq(0.2, 0), 20 if noop else 1).model()
        assert kinds(assert_agrees(model, 0.2))[1] == expected


def test_elements_that_do_not_stand_along_the_frame() -> None:
    """Every other channel: a Rearrange makes pixels of them."""
    m = behind_a_layer((1, 4, 6))
    m.node("Reshape", m.constant("pairs", np.array([1, 4, 3, 2]))).node("ReduceMax", axes=(2,), keepdims=0)
    m.node("Flatten").matmul(8, 3).qdq(0.1, 0)
    assert kinds(assert_agrees(m.model(), 0.1, share=0.95)) == ["conv", "rearrange", "max_pool", "dense"]


@pytest.mark.parametrize("p", [1, 2])
def test_norms_of_windows(p: int) -> None:
    """onnxruntime counts padding as 0, too."""
    m = Qdq((1, 2, 5, 6)).qdq(0.05, 7).node("LpPool", kernel_shape=(2, 3), strides=(2, 1), pads=(0, 1, 1, 1), p=p)
    step = 0.0613 if p == 2 else 0.1171
    made = kinds(assert_agrees(m.qdq(step, -128).conv((2, 2, 1, 1)).qdq(0.05, 0).model(opset=18), 0.05, share=0.98))
    assert made == ["lookup", "average_pool", "conv"]
    m = Qdq((1, 2, 5, 6)).qdq(0.05, 7).conv((3, 2, 1, 1)).qdq(0.05, 0).node("GlobalLpPool", p=p).node("Flatten")
    made = kinds(assert_agrees(m.qdq(step * 4, -128).matmul(3, 2).qdq(0.05, 0).model(), 0.05, share=0.95))
    assert made == ["conv", "lookup", "average_pool", "dense"]


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin"])
def test_the_best_of_integers(op: str) -> None:
    """In front of the DequantizeLinear."""
    m = Qdq((1, 6, 5)).qdq(0.0625, 3)
    m.node("MatMul", m.weights((5, 5), scale=2**-7)[0]).quantize(0.0625, 3).node(op, axes=(1,), keepdims=0)
    m.dequantize(0.0625, 3).matmul(5, 3).qdq(0.1, 0)
    assert kinds(assert_agrees(m.model(), 0.1, share=0.98)) == ["conv", "max_pool", "dense"]


def test_other_norms_are_refused() -> None:
    m = Qdq((1, 2, 5, 6)).qdq(0.05, 7).node("LpPool", kernel_shape=(2, 2), p=3).qdq(0.05, -128)
    lines = refusal(m.conv((2, 2, 1, 1)).qdq(0.05, 0).model(opset=18))
    assert lines[1].endswith("p must be 1 or 2 in hardware, not 3")


def test_logarithms_of_sums() -> None:
    m = behind_a_layer((1, 4, 5)).node("Sigmoid").qdq(1 / 256, -128).node("ReduceLogSum", axes=(1,), keepdims=0)
    assert_agrees(m.qdq(0.01, 0).matmul(5, 3).qdq(0.02, 0).model(), 0.02, share=0.95)


def detector() -> Model:
    """The largest over time, as a wake-word model takes it, beside the norm and the sum of what is below it."""
    n = Net((3, 6, 6))
    x = n.unit(n.x, 8)
    parts = [n.node("ReduceMax", x, axes=(2, 3), keepdims=0), n.node("ReduceL2", x, axes=(2, 3), keepdims=0),
             n.node("ReduceSum", x, n.constant((2, 3), np.int64), keepdims=0),
             n.node("ReduceMin", x, axes=(-1, -2), keepdims=0)]  # fmt: skip
    return n.model(n.gemm(n.node("Concat", *parts, axis=1, channels=32), 4, cin=32))


def test_floats() -> None:
    """A maximum keeps the integers of what it reads; the others get integers of their own."""
    model = infer(detector())
    rows = data(model)
    quantized = quantize(model, rows)
    (made,), expected = golden.predict(quantized, rows).values(), runtime(model, rows)
    assert np.abs(made - expected).max() < 0.03 * np.abs(expected).max()
    best = [layer for layer in quantized.graph.layers if isinstance(layer, MaxPool)]
    assert [layer.smallest for layer in best] == [False, True]


def test_at_the_end_the_host_computes_them() -> None:
    m = behind_a_layer((1, 4, 5)).node("ReduceMax", axes=(1,), keepdims=0)
    quantized = assert_agrees(m.model(), 1.0, share=1.0)
    assert kinds(quantized) == ["conv"]
    assert "ReduceMax" in [node.op_type for node in quantized.epilogue.graph.nodes]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_as_hardware(seed: int) -> None:
    model = infer(detector())
    check_played(quantize(model, data(model)).graph, seed)


@pytest.mark.slow
@pytest.mark.parametrize("axes", [(1,), (2,), (1, 2)])
@pytest.mark.parametrize("op", ["ReduceMin", "ReduceL1", "ReduceSumSquare"])
def test_single_ones_as_hardware(op: str, axes: tuple[int, ...]) -> None:
    m = behind_a_layer((1, 4, 5)).node(op, axes=axes, keepdims=1).qdq(0.1, 0).node("Flatten")
    m.matmul(20 // int(np.prod([(1, 4, 5)[k] for k in axes])), 3)
    check_played(quantize(m.qdq(0.1, 0).model()).graph)
