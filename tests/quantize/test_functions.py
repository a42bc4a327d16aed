"""What stands between a layer's sums and its QuantizeLinear, and functions of one tensor: the same as onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hwflow import golden
from hwflow.layers import Conv, Lookup, Requantize
from hwflow.layers.rescale import Rounding, Thresholds
from hwflow.quantize import quantize
from tests.quantize.models import Chain, Qdq, assert_agrees, kinds, rows, runtime
from tests.quantize.test_refusals import refusal


def conv(shape: tuple[int, ...] = (1, 3, 6, 6), channels: int = 4) -> Qdq:
    return Qdq(shape).qdq(0.0313, 3).conv((channels, shape[1], 3, 3))


def normalise(m: Qdq, low: float = 0.2, high: float = 3.0, count: int = 4) -> Qdq:
    ends = ((low, high), (-2, 2), (-1, 1), (0.3, 4))
    return m.node("BatchNormalization", *(m.spread(a, b, count, 1) for a, b in ends))


def requantize(layer: object) -> Requantize:
    assert isinstance(layer, Conv)
    assert isinstance(layer.requantize, Requantize)
    return layer.requantize


def affine(*functions: str) -> Qdq:
    m = conv()
    for op in functions:
        m.node(op, *(() if op in ("Relu", "Neg") else (m.spread(0.3, 2),)))
    return m.qdq(0.2043, 5)


def minus(m: Qdq) -> Qdq:
    """A constant less the result."""
    m.x = m.b.node("Sub", m.spread(0.5, 2), m.x, name="minus")
    return m


def averaged(op: str, **attributes: Any) -> Qdq:
    return Qdq((1, 6, 8, 8)).qdq(0.0313, 11).node(op, **attributes)


def same(m: Qdq) -> Qdq:
    return m


CHAINS = {
    "batch normalization": Chain(
        lambda: normalise(conv()).node("Relu").qdq(0.1043, -128), "conv", stage=Requantize, limits=(-128, 127)),
    "batch normalization of a dense layer": Chain(
        lambda: normalise(Qdq((1, 12)).qdq(0.0313, 2).matmul(12, 9), count=9).qdq(0.07, 3), "dense", count=300),
    "batch normalization alone is a depthwise layer": Chain(
        lambda: normalise(Qdq((1, 4, 8, 8)).qdq(0.0313, 0)).node("Relu").qdq(0.03, -128), "conv"),
    **{f"affine {' '.join(ops)}": Chain(lambda ops=ops: affine(*ops), "conv") for ops in (
        ("Sub", "Mul"), ("Div", "Add"), ("Relu", "Mul", "Add"), ("Mul", "Relu", "Add"), ("Neg", "Add", "Relu"),
        ("Add", "Neg", "Relu", "Neg"))},
    "a constant minus the result": Chain(lambda: minus(conv()).node("Relu").qdq(0.2043, -128), "conv"),
    "a clamp moves through an affine function": Chain(
        lambda: conv().op("Clip", -1.0, 2.0).op("Mul", -2.0).op("Add", 0.5).qdq(0.05, 3), "conv", stage=Requantize,
        limits=(3 + round(-3.5 / 0.05), 3 + round(2.5 / 0.05))),
    **{f"affine behind {op}": Chain(lambda op=op, more=more: (m := averaged(op, **more)).node(
        "Mul", m.spread(0.5, 2, 6)).node("Add", m.spread(-1, 1, 6)).qdq(0.01127, -4), "average_pool")
       for op, more in (("GlobalAveragePool", {}), ("AveragePool", {"kernel_shape": (2, 2)}))},
    **{f"{op} {'of the negated ' if negated else ''}sum": Chain(
        lambda op=op, more=more, negated=negated: (conv().op("Mul", -0.7) if negated else conv()).node(op, **more).qdq(
            0.0413, 0), "conv", 0.9999, stage=Thresholds)
       for op, more in (("Sigmoid", {}), ("Tanh", {}), ("HardSigmoid", {}), ("LeakyRelu", {"alpha": 0.1043}),
                        ("Elu", {}), ("Softplus", {})) for negated in (False, True)},
    "rounding in the middle of a function": Chain(
        lambda: conv().op("Mul", 0.25).node("Floor").quantize(0.5, 0).dequantize(0.5, 0), "conv", stage=Thresholds),
    "a function behind an average": Chain(
        lambda: averaged("GlobalAveragePool").node("Sigmoid").qdq(0.004, -128), "average_pool", stage=Thresholds),
    "a tensor times its function": Chain(
        lambda: Qdq((1, 4, 8, 8)).qdq(0.0313, 0).joined("Mul", same, lambda m: m.node("Sigmoid")).qdq(0.02, -20),
        "lookup"),
    "hard swish written out": Chain(
        lambda: Qdq((1, 4, 8, 8)).qdq(0.0613, 0).joined(
            "Mul", lambda m: m.op("Add", 3.0).op("Clip", 0.0, 6.0), same).op("Div", 6.0).qdq(0.03, -100), "lookup"),
    "gelu written out": Chain(
        lambda: Qdq((1, 4, 8, 8)).qdq(0.0313, 0).joined(
            "Mul", same, lambda m: m.op("Div", float(np.sqrt(2))).node("Erf").op("Add", 1.0)).op("Mul", 0.5).qdq(
                0.02, -100), "lookup"),
    "a slope per channel": Chain(
        lambda: (m := Qdq((1, 4, 8, 8)).qdq(0.0313, 0)).node("PRelu", m.spread(0.05, 0.6)).qdq(0.03, -40), "conv",
        stage=Thresholds),
    "wide tensors change their scale in a layer": Chain(
        lambda: conv().qdq(0.003, 5, np.int16).qdq(0.05, 3), "conv conv", 0.99, opset=21),
}  # fmt: skip


@pytest.mark.quick(16)
@pytest.mark.parametrize("name", CHAINS)
def test_chains(name: str) -> None:
    CHAINS[name].check()


def test_negative_factors_turn_the_weights() -> None:
    m = conv()
    m.node("Mul", m.constant("f", np.array([1, -1, 0.5, -2], np.float32).reshape(-1, 1, 1)))
    q = assert_agrees(m.qdq(0.1043, 0).model(), 0.1043)
    (layer,), (plain,) = q.graph.layers, quantize(conv().qdq(0.1043, 0).model()).graph.layers
    assert isinstance(layer, Conv)
    assert isinstance(plain, Conv)
    sign = np.array([1, -1, 1, -1]).reshape(-1, 1, 1, 1)
    np.testing.assert_array_equal(layer.weights, plain.weights * sign)


def test_a_factor_of_0_is_a_constant_channel() -> None:
    m = conv()
    m.node("Mul", m.constant("f", np.array([1, 0, -0.5, 0], np.float32).reshape(-1, 1, 1)))
    m.node("Add", m.constant("o", np.array([0, 1.3, 0.2, 1e30], np.float32).reshape(-1, 1, 1)))
    q = assert_agrees(m.qdq(0.1043, 0).model(), 0.1043)
    (layer,) = q.graph.layers
    assert isinstance(layer, Conv)
    assert not layer.weights[1].any()


def test_a_bias_between_the_products_has_bits_behind_the_point() -> None:
    """Few and large products: a bias of 0.3 of one must not be rounded away."""
    m = Qdq((1, 3, 6, 6)).qdq(0.5, 0)
    w = m.constant("w", m.rng.integers(-2, 3, (4, 3, 1, 1), dtype=np.int8))
    w = m.b.node("DequantizeLinear", w, m.constant("s", np.float32(0.5)), name="dq")
    bias = m.constant("b", np.array([0.07, -0.11, 0.2, 0.013], np.float32))
    q = assert_agrees(m.node("Conv", w, bias).qdq(0.0217, 3).model(), 0.0217)
    assert requantize(q.graph.layers[0]).fraction > 0


def test_a_quantized_bias_has_none() -> None:
    q = quantize(conv().qdq(0.1, 0).model())
    assert requantize(q.graph.layers[0]).fraction == 0


@pytest.mark.parametrize("op", ["Floor", "Ceil", "Round"])
@pytest.mark.parametrize("half", [0.0, 0.5, -0.5])
def test_rounding_of_steps_by_a_node(op: str, half: float) -> None:
    m = conv().node("Div", "scale")
    m.b.constant("scale", np.float32(0.25))
    if half:
        m.node("Add", m.constant("half", np.float32(half)))
    q = assert_agrees(m.node(op).quantize(1, 0).dequantize(0.25, 0).model(), 0.25)
    expected = {
        ("Floor", 0.5): Rounding.HALF_UP,
        ("Ceil", -0.5): Rounding.HALF_DOWN,
    }.get((op, half), {"Floor": Rounding.FLOOR, "Ceil": Rounding.CEIL, "Round": Rounding.HALF_EVEN}[op])
    assert requantize(q.graph.layers[0]).rounding is expected
    assert q.graph.tensors[q.graph.outputs[0]].scale == 0.25


def test_a_sign_of_three_values() -> None:
    q = quantize(conv().node("Sign").qdq(1, 0).model())
    assert requantizes_to(q.graph.layers[0]) == (-1, 1)
    feeds = rows(q.qdq)
    np.testing.assert_array_equal(next(iter(golden.predict(q, feeds).values())), runtime(q.qdq, feeds))


def requantizes_to(layer: object) -> tuple[int, int]:
    assert isinstance(layer, Conv)
    assert isinstance(layer.requantize, Thresholds)
    return layer.requantize.low, layer.requantize.high


def test_a_sign_of_two_values() -> None:
    """Bipolar activations in standard operators: x >= 0 selects 1 or -1."""
    m = conv().node("GreaterOrEqual", "zero").node("Where", "one", "minus")
    m.b.constant("zero", np.float32(0))
    m.b.constant("one", np.int8(1))
    m.b.constant("minus", np.int8(-1))
    m.dequantize(0.5, 0).conv((5, 4, 2, 2)).qdq(0.3, 0)
    q = quantize(m.model())
    first = q.graph.layers[0]
    assert isinstance(first, Conv)
    assert isinstance(first.requantize, Thresholds)
    assert str(q.graph.tensors[first.output].format) == "bipolar"
    made, expected = next(iter(golden.predict(q, rows(q.qdq)).values())), runtime(q.qdq, rows(q.qdq))
    np.testing.assert_array_equal(made, expected)


def gate(m: Qdq, *functions: str) -> Qdq:
    """x * f(x), with x used twice."""
    x = m.x
    for op in functions:
        m.node(op)
    m.x = m.b.node("Mul", x, m.x, name=m.name("gate"))
    return m


def test_a_small_table_is_a_lookup() -> None:
    q = quantize(Qdq((1, 4)).qdq(0.1, 0).node("Tanh").qdq(0.01, 0).model())
    assert isinstance(q.graph.layers[0], Lookup)


def test_functions_that_turn_are_refused_behind_a_layer() -> None:
    m = gate(conv(), "Sigmoid").qdq(0.02, 0)
    assert "a function after a layer must only rise or only fall over its sums" in refusal(m.model())[1]


def test_too_many_levels() -> None:
    m = conv().node("Tanh").qdq(0.00005, 0, np.int16)
    assert "a function after a layer must have at most 256 levels, not" in refusal(m.model(opset=21))[1]


def test_a_function_behind_two_pools_of_integers_is_a_table() -> None:
    """Relu stays behind pools that read integers, so that it joins what follows it up to the QuantizeLinear."""
    m = Qdq((1, 3, 8, 8)).qdq(0.1, 0).node("MaxPool", kernel_shape=(2, 2), strides=(2, 2))
    m.node("MaxPool", kernel_shape=(2, 2)).node("Relu").node("Add", m.constant("more", np.float32(0.3))).node("Floor")
    quantized = quantize(m.qdq(1.0, 0).conv((4, 3, 1, 1)).qdq(0.1, 0).model())
    assert kinds(quantized) == ["max_pool", "max_pool", "lookup", "conv"]


def test_functions_of_sixteen_bits_are_thresholds_or_segments() -> None:
    """No table is that deep: few levels that only rise or only fall become thresholds behind a product with 1."""
    for function in ("Sigmoid", "Relu", "Neg", "Tanh"):
        m = Qdq((1, 3, 4, 4)).qdq(0.001, 0, np.int16).node(function).qdq(0.01, 0)
        assert kinds(quantize(m.model(opset=21))) == ["conv"]
    for function, scale, dtype in (("Abs", 0.01, np.int8), ("Sigmoid", 0.00002, np.int16)):
        m = Qdq((1, 3, 4, 4)).qdq(0.001, 0, np.int16).node(function).qdq(scale, 0, dtype)
        assert kinds(quantize(m.model(opset=21))) == ["segments"]
