"""What stands between a layer's sums and its QuantizeLinear, and functions of one tensor: the same as onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow import golden
from hwflow.layers import Conv, Lookup, Requantize
from hwflow.layers.rescale import Rounding, Thresholds
from hwflow.quantize import quantize
from tests.quantize.models import Qdq, assert_agrees, kinds, rows, runtime
from tests.quantize.test_refusals import refusal


def conv(shape: tuple[int, ...] = (1, 3, 6, 6), channels: int = 4) -> Qdq:
    return Qdq(shape).qdq(0.0313, 3).conv((channels, shape[1], 3, 3))


def spread(m: Qdq, wish: str, low: float, high: float, count: int = 4, rank: int = 3) -> str:
    """A constant per channel, between `low` and `high`."""
    values = m.rng.uniform(low, high, count).astype(np.float32)
    return m.constant(wish, values.reshape(-1, *[1] * (rank - 1)))


def normalise(m: Qdq, low: float = 0.2, high: float = 3.0, count: int = 4) -> Qdq:
    names = [
        spread(m, wish, a, b, count, 1)
        for wish, a, b in (("scale", low, high), ("b", -2, 2), ("mean", -1, 1), ("variance", 0.3, 4))
    ]
    return m.node("BatchNormalization", *names)


def requantize(layer: object) -> Requantize:
    assert isinstance(layer, Conv)
    assert isinstance(layer.requantize, Requantize)
    return layer.requantize


def test_batch_normalization_is_part_of_the_layer() -> None:
    q = assert_agrees(normalise(conv()).node("Relu").qdq(0.1043, -128).model(), 0.1043)
    assert kinds(q) == ["conv"]
    assert requantize(q.graph.layers[0]).low == -128


def test_batch_normalization_of_a_dense_layer() -> None:
    m = Qdq((1, 12)).qdq(0.0313, 2).matmul(12, 9)
    assert kinds(assert_agrees(normalise(m, count=9).qdq(0.07, 3).model(), 0.07, count=300)) == ["dense"]


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


@pytest.mark.parametrize(
    "functions",
    [
        ("Sub", "Mul"),
        ("Div", "Add"),
        ("Relu", "Mul", "Add"),
        ("Mul", "Relu", "Add"),
        ("Neg", "Add", "Relu"),
        ("Add", "Neg", "Relu", "Neg"),
    ],
    ids="-".join,
)
def test_affine_functions_in_any_order(functions: tuple[str, ...]) -> None:
    m = conv()
    for op in functions:
        m.node(op, *(() if op in ("Relu", "Neg") else (spread(m, op.lower(), 0.3, 2),)))
    q = assert_agrees(m.qdq(0.2043, 5).model(), 0.2043)
    assert kinds(q) == ["conv"]


def test_a_constant_minus_the_result() -> None:
    m = conv()
    m.x = m.b.node("Sub", spread(m, "c", 0.5, 2), m.x, name="minus")
    assert kinds(assert_agrees(m.node("Relu").qdq(0.2043, -128).model(), 0.2043)) == ["conv"]


def test_a_clamp_before_an_affine_function_moves_through_it() -> None:
    m = conv()
    m.node("Clip", m.constant("low", np.float32(-1)), m.constant("high", np.float32(2)))
    m.node("Mul", m.constant("f", np.float32(-2))).node("Add", m.constant("o", np.float32(0.5)))
    q = assert_agrees(m.qdq(0.05, 3).model(), 0.05)
    assert requantize(q.graph.layers[0]).low == 3 + round(-3.5 / 0.05)
    assert requantize(q.graph.layers[0]).high == 3 + round(2.5 / 0.05)


@pytest.mark.parametrize("op", ["GlobalAveragePool", "AveragePool"])
def test_affine_functions_behind_an_average(op: str) -> None:
    m = Qdq((1, 6, 8, 8)).qdq(0.0313, 11).node(op, **({"kernel_shape": (2, 2)} if op == "AveragePool" else {}))
    m.node("Mul", spread(m, "f", 0.5, 2, 6)).node("Add", spread(m, "o", -1, 1, 6))
    assert kinds(assert_agrees(m.qdq(0.01127, -4).model(), 0.01127)) == ["average_pool"]


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


MONOTONOUS = [
    ("Sigmoid", {}),
    ("Tanh", {}),
    ("HardSigmoid", {}),
    ("LeakyRelu", {"alpha": 0.1043}),
    ("Elu", {}),
    ("Softplus", {}),
]


@pytest.mark.parametrize(("op", "attributes"), MONOTONOUS, ids=lambda v: v if isinstance(v, str) else "")
@pytest.mark.parametrize("negative", [False, True])
def test_monotonous_functions_are_thresholds(op: str, attributes: dict, negative: bool) -> None:
    m = conv()
    if negative:
        m.node("Mul", m.constant("f", np.float32(-0.7)))
    q = assert_agrees(m.node(op, **attributes).qdq(0.0413, 0).model(), 0.0413, share=0.9999)
    (layer,) = q.graph.layers
    assert isinstance(layer, Conv)
    assert isinstance(layer.requantize, Thresholds)


def test_rounding_in_the_middle_of_a_function_is_thresholds() -> None:
    m = conv().node("Mul", "factor").node("Floor")
    m.b.constant("factor", np.float32(0.25))
    q = assert_agrees(m.quantize(0.5, 0).dequantize(0.5, 0).model(), 0.5)
    (layer,) = q.graph.layers
    assert isinstance(layer, Conv)
    assert isinstance(layer.requantize, Thresholds)


def test_thresholds_of_a_function_behind_an_average() -> None:
    m = Qdq((1, 6, 8, 8)).qdq(0.0313, 11).node("GlobalAveragePool").node("Sigmoid")
    q = assert_agrees(m.qdq(0.004, -128).model(), 0.004)
    assert kinds(q) == ["average_pool"]


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


def test_a_tensor_times_its_function_is_one_table() -> None:
    q = assert_agrees(gate(Qdq((1, 4, 8, 8)).qdq(0.0313, 0), "Sigmoid").qdq(0.02, -20).model(), 0.02)
    assert kinds(q) == ["lookup"]


def test_hard_swish_written_out() -> None:
    m = Qdq((1, 4, 8, 8)).qdq(0.0613, 0)
    x = m.x
    m.node("Add", m.constant("three", np.float32(3)))
    m.node("Clip", m.constant("low", np.float32(0)), m.constant("high", np.float32(6)))
    m.x = m.b.node("Mul", m.x, x, name="gate")
    m.node("Div", m.constant("six", np.float32(6)))
    assert kinds(assert_agrees(m.qdq(0.03, -100).model(), 0.03)) == ["lookup"]


def test_gelu_written_out() -> None:
    m = Qdq((1, 4, 8, 8)).qdq(0.0313, 0)
    x = m.x
    m.node("Div", m.constant("root", np.float32(np.sqrt(2)))).node("Erf").node("Add", m.constant("one", np.float32(1)))
    m.x = m.b.node("Mul", x, m.x, name="gate")
    m.node("Mul", m.constant("half", np.float32(0.5)))
    assert kinds(assert_agrees(m.qdq(0.02, -100).model(), 0.02)) == ["lookup"]


def test_functions_with_a_constant_per_channel_become_a_depthwise_layer() -> None:
    m = Qdq((1, 4, 8, 8)).qdq(0.0313, 0)
    q = assert_agrees(normalise(m).node("Relu").qdq(0.03, -128).model(), 0.03)
    assert kinds(q) == ["conv"]


def test_a_slope_per_channel() -> None:
    m = Qdq((1, 4, 8, 8)).qdq(0.0313, 0)
    q = assert_agrees(m.node("PRelu", spread(m, "slope", 0.05, 0.6)).qdq(0.03, -40).model(), 0.03)
    (layer,) = q.graph.layers
    assert isinstance(layer, Conv)
    assert isinstance(layer.requantize, Thresholds)


def test_wide_tensors_change_their_scale_in_a_layer() -> None:
    m = conv().qdq(0.003, 5, np.int16).qdq(0.05, 3)
    assert kinds(assert_agrees(m.model(opset=21), 0.05, share=0.99)) == ["conv", "conv"]


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


def test_functions_of_sixteen_bits_are_thresholds_or_refused() -> None:
    """No table is that deep: what only rises or only falls becomes thresholds behind a product with 1."""
    for function in ("Sigmoid", "Relu", "Neg", "Tanh"):
        m = Qdq((1, 3, 4, 4)).qdq(0.001, 0, np.int16).node(function).qdq(0.01, 0)
        assert kinds(quantize(m.model(opset=21))) == ["conv"]
    up_and_down = Qdq((1, 3, 4, 4)).qdq(0.001, 0, np.int16).node("Abs").qdq(0.01, 0).model(opset=21)
    behind = r"has 16 bits, and tables are for at most 8: a function after a layer must "
    with pytest.raises(HwflowError, match=behind + r"only rise or only fall .*\n +quantize that input with 8 bits"):
        quantize(up_and_down)
    wide = Qdq((1, 3, 4, 4)).qdq(0.001, 0, np.int16).node("Sigmoid").qdq(0.00002, 0, np.int16).model(opset=21)
    with pytest.raises(HwflowError, match=behind + r"have at most 256 levels"):
        quantize(wide)
