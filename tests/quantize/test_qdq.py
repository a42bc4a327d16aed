"""QDQ models as they come from different tools: the same integers as onnxruntime."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hwflow.layers import Conv, Dense, IntFormat, MaxPool
from hwflow.layers.formats import BIPOLAR
from hwflow.quantize import quantize
from tests.quantize.models import Chain, Qdq, assert_agrees, kinds


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("relu", [False, True])
def test_conv(dtype: type, per_channel: bool, relu: bool) -> None:
    zero = 10 if dtype is np.int8 else 140
    m = Qdq((1, 3, 6, 5)).qdq(0.0313, zero, dtype).conv((4, 3, 3, 3), per_channel, pads=(1, 1, 1, 1))
    if relu:
        m.node("Relu")
    q = assert_agrees(m.qdq(0.1043, zero, dtype).model(), 0.1043)
    (layer,) = q.graph.layers
    assert isinstance(layer, Conv)
    assert (layer.requantize.low == zero) is relu
    assert layer.weight_format == IntFormat(8, True)


def qdq(*shape: int, scale: float = 0.0313, zero: int = 0, dtype: type = np.int8) -> Qdq:
    return Qdq(shape).qdq(scale, zero, dtype)


def narrow(m: Qdq, scale: float, zero_point: int, low: int, high: int, dtype: type = np.int8) -> Qdq:
    """QuantizeLinear, Clip of the integers, DequantizeLinear."""
    return m.quantize(scale, zero_point, dtype).op("Clip", dtype(low), dtype(high)).dequantize(scale, zero_point, dtype)


def weights_with_a_zero_point(m: Qdq) -> str:
    w = m.constant("w", m.rng.integers(0, 256, (12, 9), dtype=np.uint8))
    return m.b.node("DequantizeLinear", w, m.constant("s", np.float32(0.01)), m.constant("z", np.uint8(100)), name="dq")


def column(m: Qdq, *shape: int) -> np.ndarray:
    return m.rng.standard_normal(shape).astype(np.float32)


def biases_as_columns_and_rows(m: Qdq) -> Qdq:
    m.node("Conv", m.weights((5, 3, 3, 3))[0]).op("Add", column(m, 5, 1, 1)).qdq(0.1043, 0).node("Flatten")
    return m.node("MatMul", m.weights((80, 20))[0]).op("Add", column(m, 1, 20))


def pool(m: Qdq, kernel: int = 2, stride: int = 2, **attributes: Any) -> Qdq:
    return m.node("MaxPool", kernel_shape=(kernel, kernel), strides=(stride, stride), **attributes)


def first_last(m: Qdq) -> Qdq:
    return m.node("Transpose", perm=(0, 3, 1, 2))


def last(m: Qdq) -> Qdq:
    return m.node("Transpose", perm=(0, 2, 3, 1))


def flattened(*between: str) -> Qdq:
    m = qdq(1, 2, 6, 5, scale=0.0517, zero=9).conv((4, 2, 3, 3)).qdq(0.1043, 0)
    for op in between:
        m = last(m) if op == "Transpose" else m.op(op, *([np.array([1, -1])] if op == "Reshape" else []))
        m.qdq(0.1043, 0)
    return m.matmul(48, 9).qdq(0.3071, 0)


GEOMETRY: list[dict[str, Any]] = [
    {"strides": (2, 1)}, {"strides": (2, 3), "pads": (0, 1, 2, 1)}, {"dilations": (2, 1), "pads": (1, 0, 1, 2)},
    {"auto_pad": "SAME_UPPER"}, {"auto_pad": "SAME_LOWER", "strides": (2, 2)}, {"auto_pad": "VALID"}, {"group": 2}]
AVERAGES: list[tuple[str, dict[str, Any]]] = [
    ("AveragePool", {"kernel_shape": (2, 3), "strides": (2, 1)}),
    ("AveragePool", {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "count_include_pad": 1}), ("GlobalAveragePool", {}),
    ("ReduceMean", {"axes": (2, 3)}), ("ReduceMean", {"axes": (-1, -2), "keepdims": 0})]
FUNCTIONS: list[tuple[str, dict[str, Any]]] = [
    ("Relu", {}), ("LeakyRelu", {"alpha": 0.1043}), ("Sigmoid", {}), ("Tanh", {}), ("HardSigmoid", {}), ("Elu", {})]
CHAINS = {
    **{f"conv {attributes}": Chain(lambda attributes=attributes: qdq(1, 4, 8, 7, zero=-7).conv(
        (6, 4 // attributes.get("group", 1), 3, 2), **attributes).qdq(0.1043, 3), "conv", count=30)
       for attributes in GEOMETRY},
    "depthwise": Chain(lambda: qdq(1, 6, 8, 8, zero=1).conv((6, 1, 3, 3), group=6, pads=(1, 1, 1, 1)).qdq(0.0517, 0),
                       "conv", count=30),
    **{f"clip {low} {high}": Chain(lambda low=low, high=high: qdq(1, 3, 6, 6).conv((4, 3, 3, 3)).op(
        "Clip", *("" if end is None else end for end in (low, high))).qdq(0.09, 5), "conv")
       for low, high in ((0.0, 6.0), (-1.0, 1.0), (None, 2.0), (-0.3071, None))},
    "a transpose in front": Chain(
        lambda: first_last(qdq(1, 6, 5, 3, scale=0.0517, zero=9)).conv((4, 3, 3, 3)).qdq(0.1043, 0), "conv"),
    **{f"flattened by {between}": Chain(lambda between=between: flattened(*between), "conv dense")
       for between in (("Flatten",), ("Reshape",), ("Transpose", "Reshape"))},
    "max pool keeps its scale, and the same quantizer vanishes": Chain(
        lambda: pool(qdq(1, 3, 9, 9).conv((4, 3, 2, 2)).node("Relu").qdq(0.0617, -128), 3, pads=(1, 1, 1, 1)).qdq(
            0.0617, -128).conv((4, 4, 2, 2)).qdq(0.1043, 0), "conv max_pool conv"),
    "max pool with another quantizer": Chain(
        lambda: pool(qdq(1, 3, 8, 8)).qdq(0.0517, 5, np.uint8), "max_pool lookup"),
    "max pool in front of the quantizer": Chain(
        lambda: pool(qdq(1, 3, 8, 8).conv((4, 3, 3, 3))).node("Relu").qdq(0.0517, -128), "conv max_pool"),
    **{f"{op} {attributes}": Chain(lambda op=op, attributes=attributes: qdq(1, 12, 8, 6, zero=11).node(
        op, **attributes).qdq(0.01127, -4), "average_pool") for op, attributes in AVERAGES},
    "a mean of channels last": Chain(
        lambda: last(qdq(1, 3, 8, 6, zero=11).conv((5, 3, 3, 3)).qdq(0.1043, 0)).node(
            "ReduceMean", axes=(1, 2), keepdims=0).qdq(0.02, 0).matmul(5, 30).qdq(0.02, 0), "conv average_pool dense"),
    **{f"{op} of {np.dtype(dtype)}": Chain(lambda op=op, attributes=attributes, dtype=dtype, zero=zero: qdq(
        1, 4, 8, 8, zero=zero, dtype=dtype).node(op, **attributes).qdq(0.01127, zero, dtype), "lookup")
       for op, attributes in FUNCTIONS for dtype, zero in ((np.int8, 0), (np.uint8, 128))},
    "functions in a row": Chain(
        lambda: qdq(1, 4, 8, 8).node("Relu").op("Mul", 0.7).node("Tanh").qdq(0.008, 0), "lookup"),
    # Half a step of the accumulator is some thousandth of a step of the output: so many elements may differ.
    "a float bias": Chain(
        lambda: (m := qdq(1, 30, zero=4)).node("MatMul", m.weights((30, 20))[0]).op("Add", column(m, 20)).qdq(
            0.1043, 0), "dense", 0.998),
    # What differs behind the first layer spreads.
    "biases as columns and rows": Chain(
        lambda: biases_as_columns_and_rows(qdq(1, 3, 6, 6, zero=4)).qdq(0.3071, 0), "conv dense", 0.97),
    "max pool repeats a narrow quantizer": Chain(
        lambda: narrow(narrow(qdq(1, 3, 8, 8, zero=4).conv((4, 3, 3, 3)), 0.9043, 0, -8, 7).node(
            "MaxPool", kernel_shape=(2, 2)), 0.9043, 0, -8, 7).conv((5, 4, 2, 2)).qdq(0.2043, 0),
        "conv max_pool conv"),
    **{f"16 bits, zero point {zero}": Chain(
        lambda zero=zero: qdq(1, 12, scale=0.0013, zero=zero, dtype=np.int16).matmul(12, 9).qdq(0.03, 0), "dense",
        opset=21) for zero in (-5, 0)},
}  # fmt: skip


@pytest.mark.quick(15)
@pytest.mark.parametrize("name", CHAINS)
def test_chains(name: str) -> None:
    CHAINS[name].check()


def test_conv_over_one_axis_has_height_1() -> None:
    m = Qdq((1, 5, 40)).qdq(0.0313, 4).conv((6, 5, 7), pads=(3, 3), strides=(2,)).qdq(0.08, -3)
    q = assert_agrees(m.model(), 0.08)
    assert [str(t.frame) for t in q.graph.tensors.values()] == ["1x40x5", "1x20x6"]


def test_weights_with_a_zero_point() -> None:
    m = qdq(1, 12, zero=2)
    q = assert_agrees(m.node("MatMul", weights_with_a_zero_point(m)).qdq(0.0517, 0).model(), 0.0517)
    (layer,) = q.graph.layers
    assert isinstance(layer, Dense)
    assert layer.weight_format == IntFormat(9, True)


def test_tensorflow_style_int8_in_and_out() -> None:
    m = Qdq((1, 20), np.int8).dequantize(0.0517, 89).matmul(20, 16).node("Relu").qdq(0.1043, -128).matmul(16, 7)
    q = assert_agrees(m.quantize(0.2, 20).model(), 1)
    assert kinds(q) == ["dense", "dense"]
    assert [n.op_type for n in q.prologue.graph.nodes] == ["Reshape"]


def test_channels_last_models_transpose_on_the_host() -> None:
    m = Qdq((1, 6, 5, 3), np.int8).node("Transpose", perm=(0, 3, 1, 2)).dequantize(0.0517, 9)
    m.conv((4, 3, 3, 3)).qdq(0.1043, 0).node("Transpose", perm=(0, 2, 3, 1)).node("Transpose", perm=(0, 3, 1, 2))
    m.conv((5, 4, 2, 2)).quantize(0.3071, 0).node("Transpose", perm=(0, 2, 3, 1))
    q = assert_agrees(m.model(), 1)
    assert kinds(q) == ["conv", "conv"]
    assert [str(t.frame) for t in q.graph.tensors.values()] == ["6x5x3", "4x3x4", "3x2x5"]


def test_max_pool_with_ceil_mode() -> None:
    m = (
        Qdq((1, 3, 8, 7))
        .qdq(0.0313, 0)
        .node("MaxPool", kernel_shape=(3, 3), strides=(2, 2), ceil_mode=1)
        .qdq(0.0313, 0)
    )
    q = assert_agrees(m.model(), 0.0313)
    (layer,) = q.graph.layers
    assert isinstance(layer, MaxPool)
    assert layer.pads == (0, 0, 1, 0)


def test_softmax_and_argmax_run_on_the_host() -> None:
    m = Qdq((1, 12)).qdq(0.0313, 0).matmul(12, 30).qdq(0.0517, 0).node("Softmax", axis=-1).node("ArgMax", axis=-1)
    q = assert_agrees(m.model(), 1e9, count=400)
    assert q.notes[-1].endswith("QuantizeLinear, DequantizeLinear, Softmax, ArgMax")


def test_an_output_without_quantizer_is_the_exact_accumulator() -> None:
    m = (
        Qdq((1, 3, 6, 6))
        .qdq(0.0313, 4)
        .conv((5, 3, 3, 3))
        .node("Relu")
        .qdq(0.0517, -128)
        .conv((6, 5, 2, 2))
        .node("Relu")
    )
    model = m.model()
    q = assert_agrees(model, 0.01)
    last = q.graph.tensors[q.graph.outputs[0]]
    assert last.format.bits > 8
    assert (last.scale, last.zero_point) == (1.0, 0)


def test_integers_and_scales_are_taken_as_they_are() -> None:
    m = Qdq((1, 6)).qdq(0.0313, 4).matmul(6, 5).qdq(0.1043, -2)
    model = m.model()
    (layer,) = quantize(model).graph.layers
    assert isinstance(layer, Dense)
    weights = next(v for v in model.graph.initializers.values() if v.ndim == 2).astype(np.int64)
    np.testing.assert_array_equal(layer.weights, weights.T)
    bias = next(v for v in model.graph.initializers.values() if v.dtype == np.int32)
    np.testing.assert_array_equal(layer.requantize.bias, bias - 4 * weights.sum(axis=0))
    tensors = list(quantize(model).graph.tensors.values())
    assert [(t.scale, t.zero_point) for t in tensors] == [
        (float(np.float32(0.0313)), 4),
        (float(np.float32(0.1043)), -2),
    ]


@pytest.mark.parametrize(
    ("dtype", "zero_point", "low", "high", "format"),
    [
        (np.int8, 0, -8, 7, "int4"),
        (np.int8, 0, -7, 7, "int4"),
        (np.uint8, 0, 0, 15, "uint4"),
        (np.uint8, 3, 0, 7, "uint3"),
        (np.int8, -2, 0, 7, "int4"),
        (np.int8, 0, -2, 1, "int2"),
        (np.int8, 0, -128, 127, "int8"),
    ],
)
def test_a_clip_of_integers_makes_a_narrow_tensor(
    dtype: type, zero_point: int, low: int, high: int, format: str
) -> None:
    m = Qdq((1, 3, 6, 6)).qdq(0.0313, 4).conv((4, 3, 3, 3), pads=(1, 1, 1, 1))
    narrow(m, 0.9043, zero_point, low, high, dtype).conv((5, 4, 3, 3), pads=(1, 1, 1, 1)).qdq(0.2043, 0)
    q = assert_agrees(m.model(), 0.2043)
    assert kinds(q) == ["conv", "conv"]
    first = q.graph.tensors[q.graph.layers[0].output]
    assert (str(first.format), first.zero_point) == (format, zero_point)
    assert (q.graph.layers[0].requantize.low, q.graph.layers[0].requantize.high) == (low, high)


def test_a_narrow_input_is_clipped_on_the_host() -> None:
    m = narrow(Qdq((1, 3, 6, 6)), 0.313, 1, -4, 7).conv((4, 3, 3, 3)).qdq(0.1043, 0)
    q = assert_agrees(m.model(), 0.1043)
    assert str(q.graph.tensors[q.graph.inputs[0]].format) == "int4"
    assert "Clip" in [node.op_type for node in q.prologue.graph.nodes]


def test_a_clip_behind_max_pool_moves_to_its_quantizer() -> None:
    m = Qdq((1, 3, 8, 8)).qdq(0.0313, 4).conv((4, 3, 3, 3)).quantize(0.9043, 0)
    m.node("MaxPool", kernel_shape=(2, 2)).node("Clip", m.constant("low", np.int8(-8)), m.constant("high", np.int8(7)))
    q = assert_agrees(m.dequantize(0.9043, 0).conv((5, 4, 2, 2)).qdq(0.2043, 0).model(opset=13), 0.2043)
    assert kinds(q) == ["conv", "max_pool", "conv"]
    assert {str(q.graph.tensors[layer.output].format) for layer in q.graph.layers[:2]} == {"int4"}


def test_a_clip_of_a_tensor_that_others_read_whole() -> None:
    m = Qdq((1, 3, 6, 6)).qdq(0.0313, 4).conv((4, 3, 3, 3)).quantize(0.1043, 0)
    whole = m.b.node("DequantizeLinear", m.x, m.constant("s", np.float32(0.1043)), name="whole")
    m.node("Clip", m.constant("low", np.int8(-20)), m.constant("high", np.int8(20))).dequantize(0.1043, 0)
    m.x = m.b.node("Add", whole, m.x, name="join")
    assert kinds(assert_agrees(m.qdq(0.2, 0).model(), 0.2)) == ["conv", "conv", "add"]


@pytest.mark.parametrize("fold", [False, True])
def test_weights_behind_a_clip(fold: bool) -> None:
    m = Qdq((1, 12)).qdq(0.0313, 2)
    q = m.rng.integers(-127, 128, (12, 9), dtype=np.int8)
    w = m.constant("w", np.clip(q, -8, 7) if fold else q)
    if not fold:
        w = m.b.node("Clip", w, m.constant("low", np.int8(-8)), m.constant("high", np.int8(7)), name="clip")
    w = m.b.node("DequantizeLinear", w, m.constant("s", np.float32(0.1)), name="dq")
    (layer,) = assert_agrees(m.node("MatMul", w).qdq(0.0517, 0).model(), 0.0517).graph.layers
    assert isinstance(layer, Dense)
    assert layer.weight_format == IntFormat(4, True)


@pytest.mark.parametrize("values", [(-1, 1), (-1, 0, 1), (0,), (-3, 2), (1, 2), (-128, 127)], ids=str)
def test_the_format_of_weights_is_the_narrowest_that_holds_them(values: tuple[int, ...]) -> None:
    m = Qdq((1, 12)).qdq(0.0313, 2)
    w = m.constant("w", np.resize(np.array(values, np.int8), (12, 5)))
    w = m.b.node("DequantizeLinear", w, m.constant("s", np.float32(0.1)), name="dq")
    m.node("MatMul", w).node("Add", m.constant("b", np.arange(5, dtype=np.float32))).qdq(0.0517, 0)
    (layer,) = quantize(m.model()).graph.layers
    assert isinstance(layer, Dense)
    expected = {
        (-1, 1): BIPOLAR, (-1, 0, 1): IntFormat(2, True), (0,): IntFormat(1, True), (-3, 2): IntFormat(3, True),
        (1, 2): IntFormat(3, True), (-128, 127): IntFormat(8, True),
    }  # fmt: skip
    assert layer.weight_format == expected[values]


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "uint2"])
def test_element_types_of_few_bits(name: str) -> None:
    """onnxruntime has kernels for 4 bits alone, so the values are compared with the same integers as int8."""
    dtype = np.dtype(getattr(ml_dtypes, name))
    info = ml_dtypes.iinfo(dtype)
    low, high = int(info.min), int(info.max)

    def model(stored: np.dtype) -> object:
        m = Qdq((1, 12)).qdq(0.0313, 2)
        q = m.rng.integers(low, high + 1, (12, 9)).astype(np.int8)
        zero = np.array(1).astype(stored)
        parameters = m.constant("s", np.float32(0.3)), m.constant("z", zero)
        m.node("MatMul", m.b.node("DequantizeLinear", m.constant("w", q.astype(stored)), *parameters, name="dq_w"))
        parameters = m.constant("s", np.float32(0.9)), m.constant("z", zero)
        m.node("QuantizeLinear", *parameters)
        if stored != dtype:
            m.node(
                "Clip",
                m.constant("low", np.array(low).astype(stored)),
                m.constant("high", np.array(high).astype(stored)),
            )
        return m.node("DequantizeLinear", *parameters).matmul(9, 20).qdq(0.05, 0).model(opset=25)

    wide = np.dtype(np.int8 if low < 0 else np.uint8)
    made, expected = quantize(model(dtype)).graph, quantize(model(wide)).graph
    assert [str(t.format) for t in made.tensors.values()] == ["int8", name, "int8"]
    for layer, other in zip(made.layers, expected.layers, strict=True):
        assert isinstance(layer, Dense)
        assert isinstance(other, Dense)
        np.testing.assert_array_equal(layer.weights, other.weights)
        assert layer.requantize == other.requantize


@pytest.mark.parametrize("axis", [0, 1])
def test_weights_per_channel_with_zero_points(axis: int) -> None:
    m = Qdq((1, 12)).qdq(0.0313, 2)
    shape = (9, 12) if axis == 0 else (12, 9)
    w = m.constant("w", m.rng.integers(0, 256, shape, dtype=np.uint8))
    scales = m.constant("s", m.rng.uniform(0.01, 0.03, 9).astype(np.float32))
    zeros = m.constant("z", m.rng.integers(90, 160, 9).astype(np.uint8))
    w = m.b.node("DequantizeLinear", w, scales, zeros, axis=axis, name="dq")
    bias = m.constant("b", np.zeros(9, np.float32))
    assert_agrees(m.node("Gemm", w, bias, transB=1 - axis).qdq(0.0917, 0).model(), 0.0917)
