"""Pad nodes of quantized models: padding of windows, layers of their own, or the host's; rewrites.txt has the pass."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hwflow import HwflowError, onnx
from hwflow.quantize import quantize
from tests.quantize.models import Qdq, assert_agrees, kinds
from tests.quantize.net import Net

AROUND = (0, 0, 1, 1, 0, 0, 1, 1)


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_other_padding_in_front_is_the_hosts(mode: str) -> None:
    n = Net((3, 8, 8), opset=19)
    x = n.node("Pad", n.x, n.constant(AROUND, np.int64), mode=mode)
    q = quantize(onnx.infer(n.model(n.conv(x, 4, (3, 3), pad=0))))
    assert "on the host: Pad, " in q.notes[-1]


@pytest.mark.parametrize("attributes", [{"mode": "reflect"}, {"mode": "edge"}, {"value": 1.0}], ids=str)
def test_other_padding_between_layers_is_a_layer(attributes: dict[str, object]) -> None:
    n = Net((3, 8, 8))
    inputs = [n.constant(AROUND, np.int64)]
    if "value" in attributes:
        inputs.append(n.constant(attributes.pop("value")))
    x = n.b.node("Pad", n.unit(n.x, 3), *inputs, name="pad", **attributes)
    n.channels[x] = 3
    q = quantize(onnx.infer(n.model(n.conv(x, 4, (3, 3), pad=0))))
    assert kinds(q) == ["conv", "rearrange", "conv"]
    assert quantize(onnx.loads(onnx.dumps(q.qdq))).graph == q.graph


def start(zero_point: int = -128) -> Qdq:
    m = Qdq((1, 3, 6, 5)).qdq(0.0313, 4).conv((4, 3, 3, 3), pads=(1, 1, 1, 1))
    return m.qdq(0.0617, zero_point)


def pad(m: Qdq, value: str = "") -> Qdq:
    return m.node("Pad", m.constant("pads", np.array(AROUND)), *([value] if value else []))


def real_zero(m: Qdq) -> str:
    """As onnxruntime's quantizer writes the value: behind a DequantizeLinear."""
    parts = m.constant("q", np.int8(5)), m.constant("s", np.float32(0.5)), m.constant("z", np.int8(5))
    return m.b.node("DequantizeLinear", *parts)


@pytest.mark.parametrize("quantized", [False, True], ids=["constant", "dequantized"])
def test_between_quantizers(quantized: bool) -> None:
    m = start(7)
    pad(m, real_zero(m) if quantized else "").qdq(0.0617, 7).conv((4, 4, 3, 3))
    assert kinds(assert_agrees(m.qdq(0.3, 0).model(), 0.3, share=0.995)) == ["conv", "conv"]


def test_of_integers() -> None:
    m = Qdq((1, 3, 6, 5)).qdq(0.0313, 4).conv((4, 3, 3, 3), pads=(1, 1, 1, 1)).quantize(0.0617, 7)
    pad(m, m.constant("zero", np.int8(7))).dequantize(0.0617, 7).conv((4, 4, 3, 3))
    assert kinds(assert_agrees(m.qdq(0.3, 0).model(), 0.3, share=0.995)) == ["conv", "conv"]


def test_in_front_of_a_maximum_of_integers() -> None:
    m = start()
    pad(m).node("MaxPool", kernel_shape=(3, 3), strides=(2, 2)).conv((4, 4, 2, 2))
    assert kinds(assert_agrees(m.qdq(0.3, 0).model(), 0.3, share=0.995)) == ["conv", "max_pool", "conv"]


def test_without_a_window_it_is_a_layer() -> None:
    m = start(7)
    pad(m).node("GlobalAveragePool").qdq(0.05, 0)
    assert kinds(assert_agrees(m.model(), 0.05, share=0.99)) == ["conv", "rearrange", "average_pool"]


def functions_behind(m: Qdq, name: str) -> Qdq:
    """What a quantized model computes between a Pad and its quantizer."""
    if name == "constants":
        return (
            m.node("Div", m.constant("c", np.float32(0.83))).node("Floor").node("Add", m.constant("d", np.float32(1)))
        )
    if name == "channels":
        return m.node("Mul", m.constant("c", np.float32([[[0.5]], [[1.5]], [[1]], [[2]]]))).node("Relu")
    if name == "norm":  # which gives 0 for 0
        scale, bias = np.array([0.5, 1, 2, 4]), np.array([-1, -0.5, 0.25, 1])
        values = (scale, bias, bias / scale, np.ones(4))
        return m.node("BatchNormalization", *(m.constant("k", v.astype(np.float32)) for v in values), epsilon=0.0)
    x = m.x
    m.node("HardSigmoid")
    return m.node("Add", x)


@pytest.mark.parametrize("value", [0.0, 0.37])
@pytest.mark.parametrize("name", ["constants", "channels", "norm", "two of one"])
def test_functions_between_a_pad_and_its_quantizer(name: str, value: float) -> None:
    """The padding of a layer's result goes through the functions and the quantizer; the same for all channels."""
    m = Qdq((1, 3, 5, 5)).qdq(0.1, 0).conv((4, 3, 3, 3))
    m.node("Pad", m.constant("pads", np.array([0, 0, 1, 0, 0, 0, 2, 1])), m.constant("fill", np.float32(value)))
    model = functions_behind(m, name).qdq(0.0313, -7).conv((2, 4, 2, 2)).qdq(0.1, 0).model()
    if value and name in ("channels", "norm"):  # of each channel another padding
        with pytest.raises(HwflowError, match=r"pads 'conv.* with 0\.37.*, which none of its integers means"):
            quantize(model)
        return
    assert kinds(assert_agrees(model, 0.1, share=0.95))[0] == "conv"


def signs() -> Qdq:
    """A quantizer of one bit, -1 and +1, in steps of a half."""
    m = Qdq((1, 4, 6, 6)).qdq(0.05, 3).node("GreaterOrEqual", "zero")
    m.b.constant("zero", np.float32(0))
    m.x = m.b.node("Where", m.x, m.constant("plus", np.int8(1)), m.constant("minus", np.int8(-1)), name="signs")
    m.scale = 0.5
    return m.node("DequantizeLinear", m.constant("half", np.float32(m.scale)))


def padded(m: Qdq, value: float = 0.0) -> Qdq:
    pads = m.constant("pads", np.array([0, 1, 1, 1, 0, 0, 0, 1]))
    return m.node("Pad", pads, m.constant("fill", np.float32(value))).conv((5, 5, 2, 2)).qdq(0.1, 0)


#: What pads a tensor of one bit, and the formats of its integers.
SIGNS: dict[str, tuple[Callable[[Qdq], Qdq], list[str]]] = {
    "conv": (lambda m: m.conv((5, 4, 3, 3), pads=(1, 1, 1, 1)).qdq(0.1, 0), ["bipolar", "int2"]),
    "transposed": (lambda m: m.node("ConvTranspose", m.weights((4, 3, 3, 3), 1)[0], strides=(2, 2)).qdq(0.1, 0),
                   ["bipolar", "int2"]),
    "mean": (lambda m: m.node("AveragePool", kernel_shape=(2, 2), pads=(1, 0, 1, 0)).qdq(0.02, 3), ["bipolar", "int2"]),
    "mean with zeros": (
        lambda m: m.node("AveragePool", kernel_shape=(2, 2), pads=(1, 0, 1, 0), count_include_pad=1).qdq(0.02, 3),
        ["bipolar", "int2"],
    ),
    "pad": (padded, ["bipolar", "int2", "int2"]),
    "pad with more": (lambda m: padded(m, 1.5), ["bipolar", "int3", "int3"]),
    "pad with the same": (lambda m: padded(m, -0.5), ["bipolar", "bipolar"]),
    "maximum": (lambda m: m.node("MaxPool", kernel_shape=(2, 2), pads=(1, 0, 1, 0)).conv((5, 4, 2, 2)).qdq(0.1, 0),
                ["bipolar", "bipolar"]),
}  # fmt: skip


@pytest.mark.parametrize("name", SIGNS)
def test_padding_of_what_has_no_zero(name: str) -> None:
    """A table gives -1 and +1 a format that has the padding, too."""
    pad, formats = SIGNS[name]
    graph = assert_agrees((m := pad(signs())).model(), m.scale, share=0.99).graph
    made = [str(graph.tensors[name].format) for name in graph.computed]
    assert made[1 : 1 + len(formats)] == formats
    assert "bipolar" not in made[1 + len(formats) :]


def test_padding_beyond_what_integers_hold() -> None:
    """4 bits, in steps of 0.05, padded with 40 steps."""
    m = Qdq((1, 4, 6, 6)).quantize(0.05, 0).node("Clip", "low", "high")
    m.b.constant("low", np.int8(-8))
    m.b.constant("high", np.int8(7))
    q = assert_agrees(padded(m.dequantize(0.05, 0), 2.0).model(), 0.1, share=0.99)
    assert kinds(q)[:2] == ["lookup", "rearrange"]


def test_padding_that_no_table_can_hold_is_refused() -> None:
    m = Qdq((1, 4, 6, 6)).qdq(0.05, 0)
    with pytest.raises(
        HwflowError, match=r"pads 'quant.*' \(int8, scale 0.05.*\) with 5000.0, which none of its integers"
    ):
        quantize(padded(m, 5000.0).model())
