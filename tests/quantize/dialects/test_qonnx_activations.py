"""QONNX quantizers of activations: the same bits before and after, and in onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwflow.onnx.ops.custom.qonnx import DOMAINS
from tests.quantize.dialects.cases import QONNX, Maker, agree, ops, standard

MODES = ["ROUND", "HALF_EVEN", "FLOOR", "CEIL", "ROUND_TO_ZERO", "UP", "DOWN", "HALF_UP", "HALF_DOWN", "round", "Floor"]


def ramp(step: float) -> np.ndarray:
    """Every quarter of a step, beyond both ends of 8 bits: ties too."""
    return (np.arange(-1400, 1400, dtype=np.float32) * np.float32(step) / 4).reshape(1, -1)


@settings(deadline=None, max_examples=40)
@given(
    bits=st.integers(1, 8),
    signed=st.booleans(),
    narrow=st.booleans(),
    exponent=st.integers(-8, 3),
    zero=st.integers(-128, 255),
    mode=st.sampled_from(MODES),
)
def test_every_quantizer_keeps_its_integers(bits, signed, narrow, exponent, zero, mode) -> None:
    """Steps are powers of two, so that ties are exact, with every zero point that the type holds."""
    if bits == 1 and not signed:
        narrow = False
    if bits == 1 and signed:
        zero = 0
    zero = min(max(zero, -128 if signed else 0), 127 if signed else 255)
    step = 2.0**exponent
    m = Maker((1, 2800))
    y = m.quant(m.x, step, zero, bits, signed=int(signed), narrow=int(narrow), rounding_mode=mode)
    agree(m.model(y), {"x": ramp(step)})


@settings(deadline=None, max_examples=20)
@given(step=st.floats(1e-3, 10), bits=st.integers(2, 8), mode=st.sampled_from(MODES))
def test_any_scale_without_zero_point(step, bits, mode) -> None:
    m = Maker((1, 2800))
    y = m.quant(m.x, step, 0, bits, rounding_mode=mode)
    x = np.random.default_rng(bits).normal(0, 60 * step, (1, 2800)).astype(np.float32)
    agree(m.model(y), {"x": x}, {"x": ramp(step)})


@pytest.mark.parametrize(
    ("bits", "signed", "narrow", "expected"),
    [
        (8, 1, 0, ["QuantizeLinear", "DequantizeLinear"]),
        (8, 0, 0, ["QuantizeLinear", "DequantizeLinear"]),
        (8, 1, 1, ["QuantizeLinear", "Clip", "DequantizeLinear"]),
        (4, 0, 0, ["QuantizeLinear", "Clip", "DequantizeLinear"]),
        (1, 0, 0, ["QuantizeLinear", "Clip", "DequantizeLinear"]),
        (1, 1, 0, ["GreaterOrEqual", "Where", "DequantizeLinear"]),
    ],
)
def test_form(bits, signed, narrow, expected) -> None:
    m = Maker((1, 4))
    made = standard(m.model(m.quant(m.x, 0.5, 0, bits, signed=signed, narrow=narrow)))
    assert ops(made) == expected
    types = {v.dtype.name for k, v in made.graph.initializers.items() if "zero_point" in k}
    assert types == {"int8" if signed else "uint8"}


def test_form_of_other_roundings() -> None:
    m = Maker((1, 4))
    made = standard(m.model(m.quant(m.x, 0.5, 0, 4, rounding_mode="FLOOR")))
    assert ops(made) == ["Div", "Floor", "QuantizeLinear", "Clip", "DequantizeLinear"]


def test_an_odd_zero_point_is_added_before_rounding() -> None:
    """0.5 + 1 rounds to 2, 0.5 alone to 0: QuantizeLinear would give another integer."""
    m = Maker((1, 1))
    model = m.model(m.quant(m.x, 1.0, 1, 8, signed=0))
    assert "Round" in ops(agree(model, {"x": np.float32([[0.5]])}, {"x": np.float32([[1.5]])}))


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("imported", [True, False])
@pytest.mark.parametrize("op", ["Quant", "IntQuant"])
def test_domains(domain, imported, op) -> None:
    m = Maker((1, 2800))
    y = m.node(op, m.x, 0.25, 0.0, 3.0, domain=domain, signed=0)
    agree(m.model(y, opset=9, domains={domain: 1} if imported else {}), {"x": ramp(0.25)})


@pytest.mark.parametrize("scale", [1.0, 0.37])
def test_bipolar(scale) -> None:
    m = Maker((1, 6))
    y = m.node("BipolarQuant", m.x, scale, domain=QONNX)
    agree(m.model(y), {"x": np.float32([[-2, -1e-9, -0.0, 0, 1e-9, 5]])})


@pytest.mark.parametrize("narrow", [0, 1])
def test_many_readers(narrow) -> None:
    """A quantizer whose tensor two others and an output read; float layers around."""
    m = Maker((1, 40))
    h = m.node("Relu", m.x)
    q = m.quant(h, 0.5, 0, 4, narrow=narrow)
    left, right = m.quant(q, 1.0, 0, 3), m.node("BipolarQuant", q, 1.0, domain=QONNX)
    made = agree(m.model(q, left, right, m.node("Sigmoid", h)), {"x": ramp(0.5)[:, 1380:1420]})
    assert ops(made).count("DequantizeLinear") == 3


def test_sixteen_bits_need_a_later_operator_set() -> None:
    m = Maker((1, 2800))
    made = agree(m.model(m.quant(m.x, 2.0**-9, 0, 16)), {"x": ramp(0.25)})
    assert made.opsets[""] == 21
    assert made.ir_version >= 10


def test_sixteen_bits_behind_an_operator_that_changed_its_form() -> None:
    m = Maker((1, 3))
    mean = m.node("ReduceMean", m.x, axes=[1], name="mean")
    made = agree(m.model(m.quant(mean, 2.0**-9, 0, 16)), {"x": np.float32([[1, 2.5, -0.25]])})
    assert made.opsets[""] == 21


def test_parameters_that_nodes_compute() -> None:
    """The bit width as Brevitas computes it, and a scale that is a product."""
    m = Maker((1, 2800))
    bits = m.node("Add", np.float32(2), np.float32(1))
    step = m.node("Mul", np.float32(0.5), m.node("Constant", value=np.array(0.5, np.float32)))
    y = m.node("Quant", m.x, step, np.float32([0]), bits, domain=QONNX)
    agree(m.model(y), {"x": ramp(0.25)})


@pytest.mark.parametrize("opset", [1, 2])
@pytest.mark.parametrize("signed", [0, 1])
@pytest.mark.parametrize("mode", ["FLOOR", "ROUND", "CEIL"])
def test_trunc_behind_a_pool(opset, signed, mode) -> None:
    """Average pooling of Brevitas: the sum of a window of 4 bits has 6, of which 4 stay."""
    m = Maker((1, 3, 4, 4))
    q = m.quant(m.x, 0.5, 0, 4, signed=signed)
    mean = m.node("AveragePool", q, kernel_shape=[2, 2], strides=[2, 2])
    total = m.node("Mul", mean, np.float32(4))
    if opset == 1:
        parameters, attributes = (0.5, 0.0, 6.0, 4.0), {"rounding_mode": mode}
    else:
        parameters = (0.5, 0.0, 6.0, 2.0, 4.0)
        attributes = {"rounding_mode": mode, "signed": signed}
    y = m.node("Trunc", total, *parameters, domain=QONNX, **attributes)
    rng = np.random.default_rng(0)
    feeds = [{"x": rng.normal(0, 3, (1, 3, 4, 4)).astype(np.float32)} for _ in range(20)]
    made = agree(m.model(y, domains={QONNX: opset}), *feeds)
    assert ops(made)[-3:] == ["QuantizeLinear", "Clip", "DequantizeLinear"]


@pytest.mark.parametrize(
    ("layout", "shape", "channels"),
    [("NCHW", (1, 3, 5, 5), 3), ("NHWC", (1, 5, 5, 3), 3), ("NCHW", (1, 6), 6), ("NCHW", (1, 6), 1)],
)
@pytest.mark.parametrize(("scale", "bias"), [(1.0, 0.0), (0.25, -0.5), (1.0, -8.0)])
def test_multi_threshold(layout, shape, channels, scale, bias) -> None:
    rng = np.random.default_rng(channels)
    thresholds = np.sort(rng.normal(0, 1, (channels, 15)), axis=1)
    m = Maker(shape)
    attributes = {"data_layout": layout, "out_scale": scale, "out_bias": bias, "out_dtype": "INT5"}
    y = m.node("MultiThreshold", m.x, thresholds, domain=QONNX, **attributes)
    agree(m.model(y), {"x": rng.normal(0, 1, shape).astype(np.float32)})


def test_multi_threshold_that_is_a_sign() -> None:
    m = Maker((1, 3))
    attributes = {"out_scale": 2.0, "out_bias": -1.0, "out_dtype": "BIPOLAR"}
    y = m.node("MultiThreshold", m.x, np.zeros((1, 1)), domain=QONNX, **attributes)
    made = agree(m.model(y), {"x": np.float32([[-1, 0, 1]])})
    assert ops(made) == ["GreaterOrEqual", "Where", "DequantizeLinear"]
